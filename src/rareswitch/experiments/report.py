"""Check the claims of each experiment, and write the report, one HTML file without a server."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.experiments import (
    FEW_ROUNDS,
    FIELD,
    TOO_NARROW,
    claims,
    field,
    members,
    mixtures,
    worth,
)
from rareswitch.experiments.claims import Claim
from rareswitch.experiments.results import Results
from rareswitch.support import drawing
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
    found = [
        claim(results[name]) for name, own in CLAIMS.items() if name in results for claim in own
    ]
    if worlds := find_field(results):
        found += [claim(worlds) for claim in field.CLAIMS]
    return found


def find_field(results: Mapping[str, Results]) -> dict[str, Results]:
    """Return the experiments of the field among these."""
    return {name: own for name, own in results.items() if own.experiment.figure == FIELD}


def write_report(
    results: Mapping[str, Results], checked: list[Claim], out: Path, command: str
) -> None:
    """Write report.html with the saved figures of the experiments.

    The figure and tables of the field, over all its worlds, are in the folder `field`.
    """
    worlds = find_field(results)
    if worlds:
        write_field(worlds, out / FIELD)
    sections = [
        {
            "spec": found.experiment,
            "svg": _embed(out / name),
            "rows": field.best_rows(found) if name in worlds else found.compare(),
            "baseline": found.arms[found.baseline].label,
            "cpu": float(found.cpu_seconds.sum()),
        }
        for name, found in results.items()
    ]
    page = template(Path(__file__).parent / "report.html").render(
        sections=sections,
        claims=checked,
        field=_embed(out / FIELD) if worlds else "",
        bounds=list_bounds(results["bounds"]) if "bounds" in results else [],
        readings=list_readings(results["readings"]) if "readings" in results else [],
        radii=list_radii(results["beta"]) if "beta" in results else [],
        versions=list({str(v): v for found in results.values() for v in found.versions}.values()),
        command=command,
        few_rounds=few_rounds({name: found.experiment.rounds for name, found in results.items()}),
    )
    write_bytes(out / "report.html", page.encode())


def few_rounds(rounds: Mapping[str, int]) -> str:
    """Return a note about experiments with too few rounds, given all rounds by name, or "".

    >>> few_rounds({"figure1": 3, "beta": 3})
    'intervals of fewer than 20 rounds are too narrow; these are of 3'
    >>> few_rounds({"figure1": 50, "beta": 10, "worth": 10})
    'intervals of fewer than 20 rounds are too narrow; beta and worth have 10'
    """
    few: dict[int, list[str]] = {}
    for name, count in rounds.items():
        if count < FEW_ROUNDS:
            few.setdefault(count, []).append(name)
    if not few:
        return ""
    said = "; ".join(
        f"{' and '.join(names)} {'has' if len(names) == 1 else 'have'} {count}"
        for count, names in few.items()
    )
    if [len(names) for names in few.values()] == [len(rounds)]:
        said = f"these are of {next(iter(few))}"
    return f"{TOO_NARROW}; {said}"


def write_field(worlds: Mapping[str, Results], folder: Path) -> None:
    """Write the figure of the field, table.csv with every comparison, and table.md."""
    folder.mkdir(parents=True, exist_ok=True)
    drawing.save_figure(field.draw_field(worlds), folder)
    for name, text in zip(("table.csv", "table.md"), field.write_table(worlds), strict=True):
        write_bytes(folder / name, text.encode())


def _embed(folder: Path) -> str:
    """Return the figure of a folder for the page."""
    return base64.b64encode((folder / "figure.svg").read_bytes()).decode()


def list_bounds(results: Results) -> list[dict[str, Any]]:
    """Return every bound with its measured quantity; vacuous bounds are marked."""
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
    """Return, for each β, the share of optimistic plans and the needed β."""
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
