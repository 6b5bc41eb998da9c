"""The field compares methods in many worlds: figures, table and claims.

A method is the label of its arms. Arms of one method and one budget differ in their settings; the
arm with the least average regret over all rounds, the best in hindsight, represents the method. The
budget B of a method is the number of its deployments, the first included. A method with its own
switching rule, or with a switch before every episode, has no budget. The default, a mixture with a
spread budget, has one setting.
"""

import csv
import io
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rareswitch.experiments.claims import Claim, Parts, judge_at_most, judge_parts, with_interval
from rareswitch.experiments.results import Interval, Results
from rareswitch.experiments.spec import Arm
from rareswitch.support import bootstrap
from rareswitch.support.arguments import Floats
from rareswitch.support.drawing import draw_intervals, line_style, style
from rareswitch.support.streams import Stream, generator

DEFAULT, GRID, FULL = (
    "mixture, spread budget", "mixture, uniform grid", "mixture before every episode",
)  # fmt: skip
LSVI_UCB, BATCH = "LSVI-UCB", "LSVI-UCB-Batch"
ABLATION, RANDOM = "ablation: ", "uniformly random"
BUDGETS = (5, 10, 20, 50)
USUAL = 10  # the default's budget in comparisons with methods without a budget
LEVEL = 0.05  # significance level of all comparisons together
SOURCE = "not made in the paper"
COLUMNS = (
    "world", "method", "budget", "settings", "best", "regret", "low", "high", "deployments",
    "ratio", "ratio_low", "ratio_high", "p", "p_holm",
)  # fmt: skip


class Entry(NamedTuple):
    """A method with a budget in one world: its best arm, and the number of its settings."""

    method: str
    budget: int | None
    arm: int
    settings: int


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The ratio of the default's regret to another method's, paired by rounds."""

    world: str
    entry: Entry
    ratio: Interval
    p: float
    p_holm: float

    @property
    def verdict(self) -> str:
        """Whether the default is "better", "worse" or "equal" at the level of all comparisons."""
        if self.p_holm > LEVEL:
            return "equal"
        return "better" if self.ratio[0] < 1.0 else "worse"


def find_budget(arm: Arm) -> int | None:
    """Return the budget of deployments of an arm, or None if its rule has no budget."""
    batches, switches = arm.numbers.get("batches"), arm.numbers.get("switches")
    if switches is not None:
        return int(switches) + 1
    return None if batches is None else int(batches)


def find_entries(results: Results) -> list[Entry]:
    """Return each method with each budget, in the order of the spec and of budgets."""
    groups: dict[tuple[str, int | None], list[int]] = {}
    for i, arm in enumerate(results.arms):
        groups.setdefault((arm.label, find_budget(arm)), []).append(i)
    means = results.final.mean(axis=1)
    order = {method: n for n, method in reversed([*enumerate(arm.label for arm in results.arms)])}
    entries = [
        Entry(method, budget, min(arms, key=lambda i: means[i]), len(arms))
        for (method, budget), arms in groups.items()
    ]
    return sorted(entries, key=lambda entry: (order[entry.method], entry.budget or 0))


def find_entry(results: Results, method: str, budget: int | None = None) -> Entry:
    """Return a method with a budget."""
    for entry in find_entries(results):
        if (entry.method, entry.budget) == (method, budget):
            return entry
    wanted = method if budget is None else f"{method} with {budget} deployments"
    raise ValueError(f"{results.experiment.name} must have arms of {wanted}")


def ratio_of(results: Results, method: str, budget: int, other: str) -> Interval:
    """Return the regret of a method with a budget divided by that of a method without a budget."""
    return results.ratio(find_entry(results, method, budget).arm, find_entry(results, other).arm)


def compare(field: Mapping[str, Results]) -> list[Comparison]:
    """Compare the default with every other method, at its budget or at the usual budget.

    p-values are adjusted for all these comparisons together (Holm).
    """
    found: list[tuple[str, Entry, Interval]] = []
    p_values: list[Floats] = []
    for name, results in field.items():
        entries = find_entries(results)
        defaults = {e.budget: e.arm for e in entries if e.method == DEFAULT}
        others = [e for e in entries if e.method not in (DEFAULT, RANDOM)]
        others = [e for e in others if (e.budget or USUAL) in defaults]
        ours = [defaults[e.budget or USUAL] for e in others]
        theirs = [e.arm for e in others]
        rng = generator(results.experiment.seed, Stream.BOOTSTRAP)
        p_values.append(bootstrap.sign_flip_p(results.final[ours] - results.final[theirs], rng))
        found += [(name, e, results.ratio(i, e.arm)) for i, e in zip(ours, others, strict=True)]
    together = np.concatenate(p_values)
    adjusted = bootstrap.holm(together)
    return [
        Comparison(world=world, entry=entry, ratio=ratio, p=float(p), p_holm=float(holm))
        for (world, entry, ratio), p, holm in zip(found, together, adjusted, strict=True)
    ]


def deployments_needed(results: Results, method: str, target: Floats) -> Interval:
    """Return the least budget for which the regret of a method is at most `target` (rounds,).

    It is infinite if no tested budget suffices. The interval is a bootstrap over rounds.
    """
    entries = [e for e in find_entries(results) if e.method == method and e.budget is not None]
    budgets = np.array([entry.budget for entry in entries], float)
    regret = np.stack([results.final[entry.arm] for entry in entries])  # (B, rounds)

    def least(regret: Floats, target: Floats | np.float64) -> Floats:
        enough = regret <= target
        return np.where(enough.any(axis=0), budgets[enough.argmax(axis=0)], np.inf)

    estimate = least(regret.mean(axis=1, keepdims=True), target.mean())
    again = least(regret @ results.weights.T, results.weights @ target)
    low, high = np.quantile(again, (0.025, 0.975), method="inverted_cdf")
    return float(estimate[0]), float(low), float(high)


def half_of_random(results: Results) -> Floats:
    """Return half of the regret of random play (rounds,)."""
    return results.final[find_entry(results, RANDOM).arm] / 2.0


def best_lsvi_ucb(results: Results) -> Floats:
    """Return the regret of the best LSVI-UCB (rounds,)."""
    return results.final[find_entry(results, LSVI_UCB).arm]


def has_sizes(results: Results) -> bool:
    """Return whether a world has budgets between the usual ones."""
    batches = [e.budget for e in find_entries(results) if e.method == BATCH]
    return len(batches) > len(BUDGETS)


def few_deployments_suffice(field: Mapping[str, Results]) -> Claim:
    parts: Parts = []
    for name, results in field.items():
        ratio = ratio_of(results, DEFAULT, USUAL, LSVI_UCB)
        parts.append((judge_at_most(ratio, 1.0), f"{name} {with_interval(ratio)}"))
    return Claim(
        name="few-deployments-suffice",
        statement=f"With {USUAL} deployments and without tuning, the mixture with a spread budget "
        "has at most the average regret of LSVI-UCB, which deploys before every episode and has "
        "the best of twelve settings in hindsight, in every world.",
        source=SOURCE,
        **judge_parts(parts, "Times LSVI-UCB's: "),
    )


def better_at_every_budget(field: Mapping[str, Results]) -> Claim:
    parts: Parts = []
    found = [c for c in compare(field) if c.entry.method == BATCH and c.entry.budget in BUDGETS]
    for c in found:
        if c.verdict != "better":
            said = f"{c.world} B={c.entry.budget} {with_interval(c.ratio)}"
            parts.append(("does not hold" if c.verdict == "worse" else "undecided", said))
    return Claim(
        name="better-at-every-budget",
        statement="At each of 5, 10, 20 and 50 deployments the mixture with a spread budget, "
        "without tuning, has less average regret than LSVI-UCB-Batch with the best of twelve "
        "settings in hindsight, in every world (at 5% for all comparisons of the field together).",
        source=SOURCE,
        **judge_parts(
            parts or [("holds", f"all {len(found)} ratios are below 1")], "Times LSVI-UCB-Batch's: "
        ),
    )


def full_adaptivity_adds_little(field: Mapping[str, Results]) -> Claim:
    parts: Parts = []
    for name, results in field.items():
        ratio = ratio_of(results, DEFAULT, max(BUDGETS), FULL)
        parts.append((judge_at_most(ratio, 1.25), f"{name} {with_interval(ratio)}"))
    return Claim(
        name="full-adaptivity-adds-little",
        statement="With 50 deployments the mixture with a spread budget has at most 1.25 times the "
        "average regret of the same learner with a deployment before every episode, in every "
        "world.",
        source=SOURCE,
        **judge_parts(parts, "Times that regret: "),
    )


def mixtures_need_fewer(field: Mapping[str, Results]) -> Claim:
    parts: Parts = []
    for name, results in field.items():
        if not has_sizes(results):
            continue
        target = best_lsvi_ucb(results)
        ours, theirs = (deployments_needed(results, m, target) for m in (DEFAULT, BATCH))
        verdict = judge_at_most(
            (0.0, _divide(ours[1], theirs[2]), _divide(ours[2], theirs[1])), 0.2
        )
        parts.append((verdict, f"{name} {_say(ours)} against {_say(theirs)}"))
    return Claim(
        name="mixtures-need-fewer",
        statement="To reach the regret of the best LSVI-UCB the mixture with a spread budget needs "
        "at most a fifth of the deployments of the best LSVI-UCB-Batch, at every size.",
        source=f"{SOURCE}; the theory of the lower bound has about H/log M batches for each "
        "rewarding state instead of H/2",
        **judge_parts(parts, "Deployments needed: ", "; "),
    )


CLAIMS = (
    few_deployments_suffice,
    better_at_every_budget,
    full_adaptivity_adds_little,
    mixtures_need_fewer,
)


def best_rows(results: Results) -> list[dict[str, Any]]:
    """Return the rows of `Results.compare` for the best arm of each method and budget."""
    rows, found = results.compare(), []
    for method, budget, arm, settings in find_entries(results):
        label = method if budget is None else f"{method}, B={budget}"
        if settings > 1:
            label += f" (best of {settings}: {results.arms[arm].name})"
        found.append(rows[arm] | {"label": label})
    return found


def write_table(field: Mapping[str, Results]) -> tuple[str, str]:
    """Return the whole comparison as CSV, and its main part as Markdown."""
    compared = {(c.world, c.entry): c for c in compare(field)}
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for name, results in field.items():
        for entry in find_entries(results):
            low, high = bootstrap.mean_interval(results.final[entry.arm], results.weights)
            c = compared.get((name, entry))
            rest = (*c.ratio, c.p, c.p_holm) if c else ("",) * 5
            writer.writerow(
                [
                    name, entry.method, entry.budget or "", entry.settings,
                    results.arms[entry.arm].name, results.final[entry.arm].mean(), low, high,
                    results.deployments[entry.arm].mean(), *rest,
                ]
            )  # fmt: skip
    return text.getvalue(), "\n".join(_markdown(field, compared)) + "\n"


def _markdown(
    field: Mapping[str, Results], compared: Mapping[tuple[str, Entry], Comparison]
) -> list[str]:
    """Return a table of average regret, a line for each method and budget, a column for a world.

    An asterisk marks a method that is measurably better than the default, a question mark a method
    that is not measurably worse.
    """
    marks = {"better": "", "equal": "?", "worse": "*"}
    lines: dict[tuple[str, int | None], dict[str, str]] = {}
    for name, results in field.items():
        for entry in find_entries(results):
            if entry.budget is not None and entry.budget not in BUDGETS:
                continue
            c = compared.get((name, entry))
            value = f"{results.final[entry.arm].mean():.3g}{marks[c.verdict] if c else ''}"
            lines.setdefault((entry.method, entry.budget), {})[name] = value
    names = list(field)
    rows = ["| method | B | " + " | ".join(n.partition("-")[2] for n in names) + " |"]
    rows.append("|---|---|" + "---|" * len(names))
    for (method, budget), cells in lines.items():
        bold = "**" if method == DEFAULT else ""
        values = " | ".join(f"{bold}{cells[n]}{bold}" if n in cells else "" for n in names)
        rows.append(f"| {bold}{method}{bold} | {budget or '–'} | {values} |")
    return rows


def draw_world(results: Results) -> Figure:
    """Draw average regret against deployments: a line for a method with budgets, else a point."""
    figure = Figure(figsize=(8.4, 5.0), layout="constrained")
    axis = figure.subplots()
    entries = find_entries(results)
    for place, method in enumerate(dict.fromkeys(entry.method for entry in entries)):
        rows = [entry.arm for entry in entries if entry.method == method]
        if method == RANDOM:
            axis.axhline(results.final[rows[0]].mean(), color="0.5", linestyle=":", label=method)
            continue
        look = _look(method, place, results.arms[rows[0]])
        deployed = results.deployments[rows].mean(axis=1)
        draw_intervals(axis, deployed, results.means(rows), label=method, **look)
    axis.set(xscale="log", yscale="log", xlabel="deployments (mean over rounds, with the first)")
    axis.set_ylabel(f"average regret after {results.experiment.episodes} episodes")
    figure.legend(loc="outside right upper", fontsize=7)
    return figure


def draw_field(field: Mapping[str, Results]) -> Figure:
    """Draw the deployments that methods need, and the default's ratio to LSVI-UCB by world."""
    with style():
        figure = Figure(figsize=(10.4, 4.8), layout="constrained")
        left, right = figure.subplots(1, 2, width_ratios=(5, 4))
        _draw_needed(left, {name: found for name, found in field.items() if has_sizes(found)})
        _draw_ratios(right, field)
        figure.suptitle("Few deployments: mixtures without tuning, one policy tuned in hindsight")
        figure.supxlabel("Bars: 95% intervals over rounds.", fontsize=8, color="0.3")
    return figure


def _draw_needed(axis: Axes, field: Mapping[str, Results]) -> None:
    most = max((e.budget or 0 for f in field.values() for e in find_entries(f)), default=1)
    for n, method in enumerate((DEFAULT, GRID, BATCH)):
        needed = np.array(
            [deployments_needed(found, method, half_of_random(found)) for found in field.values()]
        )
        # A method that never reaches the target is drawn above all budgets.
        parts = np.minimum(needed.reshape(-1, 3).T, 1.6 * most)
        x = np.arange(len(field)) + 0.16 * (n - 1)
        draw_intervals(axis, x, parts, label=method, **_look(method) | {"linestyle": "none"})
    axis.set(yscale="log", title="(a) deployments needed for half of random's regret")
    axis.set_ylabel("fewest that are enough")
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")
    axis.set_xticks(range(len(field)), [_short(name) for name in field], rotation=35, ha="right")
    axis.legend(fontsize=8)


def _draw_ratios(axis: Axes, field: Mapping[str, Results]) -> None:
    for n, method in enumerate((DEFAULT, BATCH)):
        ratios = [ratio_of(results, method, USUAL, LSVI_UCB) for results in field.values()]
        look, y = _look(method), np.arange(len(ratios)) + 0.2 * n
        axis.hlines(y, [r[1] for r in ratios], [r[2] for r in ratios], color=look["color"])
        axis.plot([r[0] for r in ratios], y, label=method, **look | {"linestyle": "none"})
    axis.axvline(1.0, color="black", linewidth=0.9)
    axis.set_yticks(range(len(field)), [_short(name) for name in field])
    axis.invert_yaxis()
    axis.set(xscale="log", title=f"(b) regret with {USUAL} deployments")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_xlabel("times that of LSVI-UCB, the best of twelve settings")
    axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)


def _look(method: str, place: int = 0, arm: Arm | None = None) -> dict[str, Any]:
    """Return the colour and marker of a method: the mixture's, its rule's, or its own."""
    names = {DEFAULT: "mixture", FULL: "mixture", GRID: "spread-budget", BATCH: "uniform-grid"}
    name = names.get(method, method)
    if arm is not None and (arm.has_paper_bonus or not arm.scheduled):
        name = arm.family.name
    colour, marker = line_style(name, place)
    return {"color": colour, "marker": marker, "markersize": 6, "linewidth": 1.2}


def _short(name: str) -> str:
    return name.partition("-")[2]


def _divide(one: float, other: float) -> float:
    """Return the ratio of two budgets, which is NaN if both are infinite."""
    return math.nan if math.isinf(one) and math.isinf(other) else one / other


def _say(needed: Interval) -> str:
    value, low, high = (f"{part:.0f}" if np.isfinite(part) else "∞" for part in needed)
    return f"{value} [{low}, {high}]"
