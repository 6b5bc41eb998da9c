"""The claims of each experiment, and the report: one HTML file that opens from disk."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.experiments import claims, members, mixtures, worth
from rareswitch.experiments.claims import Claim
from rareswitch.experiments.results import Results
from rareswitch.support.archive import write_bytes
from rareswitch.support.pages import template

CLAIMS: dict[str, tuple[Callable[[Results], Claim], ...]] = {
    "figure1": (
        claims.batch_ends_close,
        claims.rareswitch_same_order,
        claims.rareswitch_close_throughout,
        claims.less_adaptivity_costs_more,
    ),
    "figure2": (claims.slopes_near_half,),
    "figure3": (claims.graceful_under_misspecification,),
    "mixtures": (
        mixtures.nine_switches_suffice,
        mixtures.four_switches_nearly,
        mixtures.scale_within_two,
        mixtures.mixtures_elsewhere,
    ),
    "switches": (claims.switches_within_bound,),
    "pareto": (claims.matched_budget,),
    "lower-bound": (claims.lower_bound_forced,),
    "members": (
        members.mixture_beats_one_policy,
        members.nothing_below_the_least,
        members.law_in_members,
        members.more_members_pay,
    ),
    "worth": (worth.similar_regret, worth.saves_deployments, worth.never_above_the_budget),
}


def check_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Return the claims about these experiments, with their verdicts."""
    return [
        claim(results[name]) for name, own in CLAIMS.items() if name in results for claim in own
    ]


def write_report(
    results: Mapping[str, Results], checked: list[Claim], out: Path, command: str
) -> None:
    """Write report.html, with the figures that were saved in the folders of the experiments."""
    sections = [
        {
            "spec": found.experiment,
            "svg": base64.b64encode((out / name / "figure.svg").read_bytes()).decode(),
            "rows": found.compare(),
            "baseline": found.arms[found.baseline].label,
            "cpu": float(found.cpu_seconds.sum()),
        }
        for name, found in results.items()
    ]
    page = template(Path(__file__).parent / "report.html").render(
        sections=sections,
        claims=checked,
        bounds=list_bounds(results["bounds"]) if "bounds" in results else [],
        readings=list_readings(results["readings"]) if "readings" in results else [],
        radii=list_radii(results["beta"]) if "beta" in results else [],
        versions=list({str(v): v for found in results.values() for v in found.versions}.values()),
        command=command,
    )
    write_bytes(out / "report.html", page.encode())


def list_bounds(results: Results) -> list[dict[str, Any]]:
    """Return every bound with its measured quantity, vacuous bounds marked."""
    rows = []
    for i, arm in enumerate(results.arms):
        limit = results.switch_limit(arm)
        rows.append(
            {
                "label": arm.label,
                "regret": results.regret[i].sum(axis=-1).mean(),
                "bound": results.regret_bound(arm),
                "switches": int(results.switches[i].max()),
                "limit": limit,
                "limit_vacuous": limit >= results.experiment.episodes - 1,
                "growth": float(results.logdet_growth[arm.name].max()),
                "growth_bound": results.growth_bound(arm),
            }
        )
    return rows


def list_readings(results: Results) -> list[dict[str, Any]]:
    """Return the effect of each choice on the final regret, paired with the default choice.

    The default of a rule is its first arm with the same numbers, such as batches.
    """
    rows = []
    defaults: dict[str, int] = {}
    for i, arm in enumerate(results.arms):
        default = defaults.setdefault(f"{arm.family.name} {arm.numbers}", i)
        difference = None if i == default else results.difference(i, default)
        mean = results.final[i].mean()
        rows.append({"label": arm.label, "mean": mean, "difference": difference})
    return rows


def list_radii(results: Results) -> list[dict[str, Any]]:
    """Return, for each β, the share of optimistic plans and the β that was needed."""
    return [
        {
            "label": arm.label,
            "mean": results.final[i].mean(),
            "optimistic": results.optimistic[i].mean(),
            "radius": float(np.median(results.radius[i])),
            "radius_max": float(results.radius[i].max()),
        }
        for i, arm in enumerate(results.arms)
        if np.isfinite(results.radius[i]).all()
    ]
