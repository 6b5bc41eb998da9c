"""The report: one HTML file that opens from disk, on a phone and in print."""

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch import samples
from rareswitch.experiments.algorithms import EVERY
from rareswitch.experiments.bounds import growth_bound, regret_bound, switch_limit
from rareswitch.experiments.results import Results
from rareswitch.experiments.verdict import Claim
from rareswitch.pages import template


def render(results: Mapping[str, Results], claims: list[Claim], out: Path, command: str) -> str:
    """Return the report on these results, with the figures that were saved beside them."""
    sections = [
        {
            "runs": runs,
            "spec": runs.experiment,
            "svg": base64.b64encode((out / name / "figure.svg").read_bytes()).decode(),
            "rows": final_rows(runs),
            "paired": len(runs.arms_of(EVERY)) == 1,
            "cpu": float(runs.cpu_seconds.sum()),
        }
        for name, runs in results.items()
    ]
    return template(Path(__file__).parent / "report.html").render(
        sections=sections,
        claims=claims,
        bounds=bound_rows(results["bounds"]) if "bounds" in results else [],
        readings=reading_rows(results["readings"]) if "readings" in results else [],
        radii=radius_rows(results["beta"]) if "beta" in results else [],
        versions=list({str(v): v for runs in results.values() for v in runs.versions}.values()),
        command=command,
    )


def final_rows(runs: Results) -> list[dict[str, Any]]:
    """Return one row for each arm: final average regret, its spread, and the switches made."""
    rows = []
    baselines = runs.arms_of(EVERY)
    for i, arm in enumerate(runs.experiment.arms):
        low, high = samples.run_band(runs.final[i])
        ci_low, ci_high = samples.mean_interval(runs.final[i], runs.weights)
        difference = None
        if len(baselines) == 1 and baselines[0][0] != i:
            base = runs.final[baselines[0][0]]
            difference = samples.difference_interval(runs.final[i], base, runs.weights)
        rows.append(
            {
                "label": arm.label,
                "name": arm.name,
                "mean": runs.final[i].mean(),
                "ci": (ci_low, ci_high),
                "band": (low, high),
                "difference": difference,
                "deployments": runs.deployments[i].mean(),
                "switches": runs.switches[i].mean(),
                "local": runs.local_switches[i].mean(),
                "cpu": runs.cpu_seconds[i],
            }
        )
    return rows


def bound_rows(runs: Results) -> list[dict[str, Any]]:
    """Return every bound beside its measured quantity, vacuous ones marked."""
    rows = []
    for i, arm in enumerate(runs.experiment.arms):
        bound = regret_bound(runs, arm)
        limit = switch_limit(runs, arm)
        rows.append(
            {
                "label": arm.label,
                "regret": runs.regret[i].sum(axis=-1).mean(),
                "bound": bound,
                "switches": int(runs.switches[i].max()),
                "limit": limit,
                "limit_vacuous": limit >= runs.experiment.episodes - 1,
                "growth": float(runs.logdet_growth[arm.name].max()),
                "growth_bound": growth_bound(runs, arm),
            }
        )
    return rows


def reading_rows(runs: Results) -> list[dict[str, Any]]:
    """Return the effect of each choice on the final regret, paired with the default choice."""
    rows = []
    for i, arm in enumerate(runs.experiment.arms):
        family = arm.label.partition(",")[0]
        default = next(
            j
            for j, other in enumerate(runs.experiment.arms)
            if other.label.partition(",")[0] == family
        )
        difference = None
        if i != default:
            difference = samples.difference_interval(
                runs.final[i], runs.final[default], runs.weights
            )
        rows.append({"label": arm.label, "mean": runs.final[i].mean(), "difference": difference})
    return rows


def radius_rows(runs: Results) -> list[dict[str, Any]]:
    """Return, for each β, how often plans were optimistic and how large β had to be."""
    return [
        {
            "label": arm.label,
            "mean": runs.final[i].mean(),
            "optimistic": runs.optimistic[i].mean(),
            "radius": float(np.median(runs.radius[i])),
            "radius_max": float(runs.radius[i].max()),
        }
        for i, arm in enumerate(runs.experiment.arms)
        if np.isfinite(runs.radius[i]).all()
    ]
