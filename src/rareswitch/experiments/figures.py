"""Draw figures from saved results, with one function for each kind.

Each rule has its colour and marker in every figure (`support.drawing`). Several lines of one rule
are shades of its colour, from dark to light, and every line also has a dash pattern or a marker for
grey printing.
"""

import re
from collections.abc import Callable, Iterable
from functools import partial
from itertools import takewhile
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatter, NullLocator

from rareswitch.core.task import Task
from rareswitch.experiments.algorithms import BATCH, EVERY, KINDS, RARE, Algorithm
from rareswitch.experiments.field import draw_world
from rareswitch.experiments.members import draw_members
from rareswitch.experiments.mixtures import draw_mixtures
from rareswitch.experiments.results import Results
from rareswitch.experiments.spec import Arm, Words, canonical_json
from rareswitch.experiments.worth import draw_worth
from rareswitch.rules.table import Row, row_of
from rareswitch.support import bootstrap
from rareswitch.support.drawing import LineStyle, draw_intervals, line_style, style

DASHES = ("-", (0, (5, 1.5)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2, 1, 2, 1, 2)))
MOST_INSIDE = 4  # lines whose legend fits into the axes
PANELS = {BATCH: "(a) LSVI-UCB-Batch", RARE: "(b) LSVI-UCB-RareSwitch"}
RUNS = "Lines: means over rounds. Bands: 20% to 80% quantiles of rounds."
MEANS = "Points: means over rounds."
FINAL = f"{MEANS} Lines: their 95% intervals. Grey: 20% to 80% quantiles of rounds."
BARS = f"{MEANS} Bars: their 95% intervals."
BANDS = f"{MEANS} Bands: their 95% intervals."
PAPER_BONUS = "the paper's bonus, with one member and no estimate"
Styled = tuple[int, Arm, dict[str, Any]]  # the settings of its line for matplotlib
Line = tuple[list[int], list[Arm], dict[str, Any]]  # arms joined by one line, and its settings


class Kind(NamedTuple):
    """A kind of figure: its function and caption, and its requirements of experiment and arms."""

    draw: Callable[[Results], Figure]
    caption: str = BARS
    needs_regret: bool = True
    need: str = ""
    accepts: Callable[[Arm, Algorithm, Task], bool] = lambda arm, algorithm, task: True


def draw(results: Results) -> Figure:
    """Draw the figure that the experiment's spec names."""
    kind = results.experiment.figure
    if kind not in FIGURES:
        raise ValueError(f"figure must be one of {', '.join(FIGURES)}; got {kind!r}")
    with style():
        figure = FIGURES[kind].draw(results)
        figure.suptitle(results.experiment.title, fontsize=11)
        caption = fill(FIGURES[kind].caption, int(14 * figure.get_figwidth()))
        figure.supxlabel(caption, fontsize=8, color="0.3")
    return figure


def draw_running(results: Results, *, log: bool = False) -> Figure:
    """Draw the running average against episodes, with the 20–80% band of runs.

    On logarithmic axes, labels have the slope over the last four fifths of the episodes.
    """
    panels = _arrange_panels(results)
    width = 4.6 * len(panels) if panels[0][0] else 7.0
    figure = Figure(figsize=(width, 6.0 if log else 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    at = results.points - 1
    for axis, (title, arms) in zip(axes, panels, strict=True):
        for i, arm, line in arms:
            curves = results.average[i][:, at]
            label = arm.label
            if log and arm.learns:
                value, low, high = results.slope(i)
                label += f": slope {value:.2f} [{low:.2f}, {high:.2f}]"
            axis.plot(results.points, curves.mean(axis=0), label=label, **line)
            low_curve, high_curve = bootstrap.run_band(curves)
            axis.fill_between(
                results.points, low_curve, high_curve, color=line["color"], alpha=0.12, linewidth=0
            )
        axis.set(title=title, xlabel="episode k")
        if log:
            axis.set(xscale="log", yscale="log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:.1f}")
            _draw_reference_slope(axis, results)
        _legend_below(axis, columns=1 if log else 2)
    regret = results.measure == "regret"
    axes[0].set_ylabel("average regret  Regret(k)/k" if regret else "average return up to k")
    return figure


def draw_final(results: Results) -> Figure:
    """Draw the final average of every arm, with the interval of the mean and the band of runs."""
    arms, families = results.arms, _find_families(results)
    figure = Figure(figsize=(7.0, 1.2 + 0.27 * len(arms)), layout="constrained")
    axis = figure.subplots()
    for y, (arm, values) in enumerate(zip(arms, results.final, strict=True)):
        low, high = bootstrap.run_band(values)
        ci_low, ci_high = bootstrap.mean_interval(values, results.weights)
        axis.plot([low, high], [y, y], color="0.75", linewidth=5, solid_capstyle="butt")
        axis.plot([ci_low, ci_high], [y, y], color="0.2", linewidth=1.6)
        colour, marker = families[arm.family][0]
        axis.plot(values.mean(), y, marker=marker, color=colour, markersize=5)
    axis.set_yticks(range(len(arms)), [arm.label for arm in arms])
    axis.set(xlabel=_name_final(results), ylim=(len(arms) - 0.5, -0.5))
    if results.measure == "regret":
        axis.set_xlim(left=0)
    return figure


def draw_pareto(results: Results) -> Figure:
    """Draw the final average against the switches made; a line joins arms of equal settings."""
    figure = Figure(figsize=(7.0, 4.8), layout="constrained")
    axis = figure.subplots()
    lines = _join_arms(results)
    families = [arms[0].family for _, arms, _ in lines]
    for rows, arms, settings in lines:
        if not arms[0].learns:
            for i in rows:
                level, label = results.final[i].mean(), settings["label"]
                axis.axhline(level, color="0.5", linestyle=":", label=label)
            continue
        if arms[0].family in KINDS and families.count(arms[0].family) == 1:
            settings["linestyle"] = "--" if arms[0].dated else "-"
        settings |= {"markersize": 5, "linewidth": 1.2}
        made = results.switches[rows].mean(axis=1)
        draw_intervals(axis, made, results.means(rows), **settings)
    axis.set(xscale="log", xlabel="policy switches made (mean over rounds)")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
    axis.set_ylabel(_name_final(results))
    if results.measure == "regret":
        axis.set_ylim(bottom=0)
    _legend_below(axis, columns=2) if len(lines) > MOST_INSIDE else axis.legend()
    return figure


def draw_switches(results: Results) -> Figure:
    """Draw cumulative switches over episodes; dotted: limits of rules below k−1."""
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    axis = figure.subplots()
    at = results.points - 1
    styled = {i: (arm, line) for _, arms in _arrange_panels(results) for i, arm, line in arms}
    for i, (arm, line) in styled.items():
        made = results.switched[i].cumsum(axis=-1)[:, at].mean(axis=0)
        axis.plot(results.points, np.maximum(made, 0.5), label=arm.label, **line)
        if arm.learns and not arm.dated and not arm.own_names:
            limit = np.array(results.switch_limits(arm, results.points), float)
            limit[limit >= at] = np.nan  # every rule makes at most k−1 switches
            axis.plot(results.points, limit, color=line["color"], linestyle=":", linewidth=0.9)
    axis.set(xscale="log", yscale="log", xlabel="episode k")
    axis.set_ylabel("switches up to episode k (dotted: bound on the rule)")
    _legend_below(axis, columns=3)
    return figure


def draw_beta(results: Results) -> Figure:
    """Draw the final regret and the share of optimistic plans against β."""
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for rows, arms, settings in _join_arms(
        results, lambda arm: _read_settings(arm) | arm.schedule, "beta"
    ):
        x = [arm.recipe.exploration.beta for arm in arms]
        mean, low, high = results.means(rows)
        upper.plot(x, mean, **settings)
        upper.fill_between(x, low, high, color=settings["color"], alpha=0.15, linewidth=0)
        lower.plot(x, results.optimistic[rows].mean(axis=1), **settings)
    lower.axhline(0.95, color="0.5", linewidth=0.8, linestyle=":")
    upper.set(ylabel=f"average regret, k = {results.experiment.episodes}", ylim=(0, None))
    lower.set(
        xscale="log", xlabel="confidence radius β", ylabel="optimistic plans", ylim=(-0.03, 1.03)
    )
    upper.legend()
    return figure


def draw_lower_bound(results: Results) -> Figure:
    """Draw the regret that the adversary forces on Batch, and both lower bounds."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axis = figure.subplots()
    lines = _join_arms(results)
    for rows, arms, settings in lines:
        if len(lines) == 1:
            settings |= {"linestyle": "-", "markersize": 6, "label": "measured"}
        measured = [results.regret[i].sum(axis=-1).mean() for i in rows]
        axis.plot([results.batches(arm) for arm in arms], measured, **settings)
    grids = {results.batches(arm): arm for arm in results.arms}
    batches = sorted(grids)
    for uniform, name, dash in (
        (True, "d(H−1)T/(2B), uniform grid", "--"),
        (False, "dHT/(4B), any grid", ":"),
    ):
        bound = [results.adversary_bound(grids[count], uniform=uniform) for count in batches]
        axis.plot(batches, bound, color="black", linestyle=dash, label=name)
    axis.set(xscale="log", yscale="log", xlabel="batches B", ylabel="total regret")
    axis.set_xticks(batches, [str(count) for count in batches])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.legend()
    return figure


def draw_bounds(results: Results) -> Figure:
    """Draw measured total regret and switches with the theorems' bounds, on a logarithmic scale."""
    arms, families = results.arms, _find_families(results)
    figure = Figure(figsize=(9.2, 1.5 + 0.27 * len(arms)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for y, arm in enumerate(arms):
        bound = results.regret_bound(arm)
        dot = {"marker": "o", "color": families[arm.family][0].colour}
        left.plot(results.regret[y].sum(axis=-1).mean(), y, **dot)
        left.plot(bound.total, y, "|", color="black", markersize=12)
        right.plot(results.switches[y].mean(), y, **dot)
        right.plot(results.switch_limit(arm), y, "|", color="black", markersize=12)
    left.axvline(
        bound.trivial, color="0.5", linestyle=":", label="KH: beyond it a bound is vacuous"
    )
    right.axvline(
        results.experiment.episodes - 1, color="0.5", linestyle=":",
        label="K−1: the same for switches",
    )  # fmt: skip
    left.set_yticks(range(len(arms)), [arm.label for arm in arms])
    left.invert_yaxis()
    left.set(xscale="log", xlabel="total regret: measured (dot), bound (bar)")
    right.set(xscale="log", xlabel="switches: measured (dot), bound (bar)")
    for axis in (left, right):
        _legend_below(axis, columns=1)
    return figure


def draw_budget(results: Results) -> Figure:
    """Draw the final average and the switches made against the guaranteed budget."""
    figure = Figure(figsize=(9.2, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for rows, arms, settings in _join_arms(results):
        x = [arm.schedule["switches"] for arm in arms]
        mean, low, high = results.means(rows)
        left.plot(x, mean, **settings)
        left.fill_between(x, low, high, color=settings["color"], alpha=0.15, linewidth=0)
        right.plot(x, np.maximum(results.switches[rows].mean(axis=1), 0.5), **settings)
    every = [arm.schedule["switches"] for arm in results.arms]
    limits = [min(every), max(every)]
    right.plot(limits, limits, color="0.5", linewidth=0.8, linestyle=":", label="the budget")
    words = "guaranteed budget of switches"
    left.set(xscale="log", xlabel=words, ylabel=_name_final(results))
    right.set(xscale="log", yscale="log", xlabel=words, ylabel="switches made")
    if results.measure == "regret":
        left.set_ylim(bottom=0)
    for axis in (left, right):
        _legend_below(axis, columns=2)
    return figure


FIGURES = {
    "regret": Kind(draw_running, RUNS),
    "regret-log": Kind(partial(draw_running, log=True), f"{RUNS} Slopes: 95% intervals."),
    "return": Kind(
        draw_running,
        RUNS,
        needs_regret=False,
        need="a simulated world, such as one of kind gymnasium",
        accepts=lambda arm, *_: arm.simulated,
    ),
    "final": Kind(draw_final, FINAL, needs_regret=False),
    "pareto": Kind(draw_pareto, needs_regret=False),
    "switches": Kind(draw_switches, "Lines: means over rounds.", needs_regret=False),
    "beta": Kind(
        draw_beta,
        BANDS,
        need=f"a bonus β: {PAPER_BONUS}",
        accepts=lambda arm, *_: arm.has_paper_bonus,
    ),
    "lower-bound": Kind(
        draw_lower_bound,
        MEANS,
        need="schedule kind uniform-grid on a world of kind adversary",
        accepts=lambda arm, *_: (arm.family.name, arm.world.kind) == (BATCH, "adversary"),
    ),
    "bounds": Kind(
        draw_bounds,
        MEANS,
        need=f"a bound on its regret: a rule that has one, and {PAPER_BONUS}",
        accepts=lambda arm, algorithm, task: algorithm.regret_bound(task) is not None,
    ),
    "budget": Kind(
        draw_budget,
        BANDS,
        needs_regret=False,
        need="a schedule with switches",
        accepts=lambda arm, *_: "switches" in arm.schedule,
    ),
    "field": Kind(draw_world),
    "mixtures": Kind(draw_mixtures),
    "members": Kind(
        draw_members,
        "",  # in the legend, which has the place below the axes
        need="schedule kind uniform-grid on a world of kind oblivious-adversary",
        accepts=lambda arm, *_: (arm.family.name, arm.world.kind) == (BATCH, "oblivious-adversary"),
    ),
    "worth": Kind(draw_worth, "Points: ratios of means over rounds. Bars: their 95% intervals."),
}


def _name_final(results: Results) -> str:
    """Return the name of the final average of a run."""
    return f"average {results.measure} after {results.experiment.episodes} episodes"


def _find_families(results: Results) -> dict[Row, tuple[LineStyle, list[int]]]:
    """Return the style of each family, and the positions of its arms, in the order of the spec."""
    rows: dict[Row, list[int]] = {}
    for i, arm in enumerate(results.arms):
        rows.setdefault(arm.family, []).append(i)
    own = [family for family in rows if family not in KINDS]
    return {f: (line_style(f.name, own.index(f) if f in own else 0), rows[f]) for f in rows}


def _read_settings(arm: Arm) -> Words:
    """Return the settings of an arm other than the numbers of its rule, such as batches."""
    words = {key: arm.words[key] for key in ("ridge", "ties", "initial_state")}
    for key in ("exploration", "world"):
        words |= {key if k == "kind" else k: value for k, value in arm.words[key].items()}
    others = [key for key in arm.schedule if key != "kind" and key not in arm.numbers]
    return words | {key: arm.schedule[key] for key in others}


def _join_arms(
    results: Results, settings: Callable[[Arm], Words] = _read_settings, joined: str = ""
) -> list[Line]:
    """Return the lines of a figure: each joins arms of one rule that differ only in `joined`.

    The label of a line is the label of its arms, with … for the parts that differ. Arms whose label
    is only their name have the rule's label (`_name_rule`); several lines of one rule, and lines of
    users' rules, then have the words that these names share.
    """
    lines: list[Line] = []
    for family, ((colour, marker), members) in _find_families(results).items():
        groups: dict[str, list[int]] = {}
        for i in members:
            words = settings(results.arms[i]) | {joined: None}
            groups.setdefault(canonical_json(words), []).append(i)
        own = family not in KINDS
        shades = _make_shades(colour, len(groups), own)
        for shade, rows in zip(shades, groups.values(), strict=True):
            arms = [results.arms[i] for i in rows]
            written = all(arm.label != arm.name for arm in arms)
            shared = _join_labels(arms) if written else ""
            if not shared and (own or len(groups) > 1):
                shared = _share_words(arms)
            look = {"color": shade, "marker": marker, "markersize": 4}
            look |= {
                "label": shared or _name_rule(arms[0]),
                "linestyle": _choose_dash(len(lines), own),
            }
            lines.append((rows, arms, look))
    labels = [look["label"] for _, _, look in lines]
    for label in {label for label in labels if labels.count(label) > 1}:
        alike = [(settings(arms[0]), look) for _, arms, look in lines if look["label"] == label]
        differing = [key for key in alike[0][0] if len({str(w.get(key)) for w, _ in alike}) > 1]
        for words, look in alike:
            look["label"] = ", ".join([label, *(f"{k}={words.get(k)}" for k in differing)])
    return lines


def _name_rule(arm: Arm) -> str:
    """Return the label of an arm's rule: the paper's name only if it has the paper's bonus."""
    if not arm.scheduled or arm.has_paper_bonus:
        return arm.family.label
    explores = arm.recipe.exploration
    kind = "estimates" if explores.estimate else row_of(explores).label
    return f"{arm.family.plain_label} ({'mixture' if arm.members > 1 else kind})"


def _join_labels(arms: list[Arm]) -> str:
    """Return the label of all these arms, with … for the parts that differ.

    The text is empty if the labels have different numbers of words, or no word in common.
    """
    labels = [arm.label.split() for arm in arms]
    if len({len(words) for words in labels}) > 1:
        return ""
    joined = [_join_words(dict.fromkeys(same_place)) for same_place in zip(*labels, strict=True)]
    return " ".join(joined) if any(re.search(r"\w", word) for word in joined) else ""


def _join_words(words: Iterable[str]) -> str:
    """Return a word; of different words, … with the text that they share around their numbers."""
    first, *others = words
    if not others:
        return first
    before = re.sub(r"[\w.]*$", "", _share_start([first, *others]))
    backwards = [word[: len(before) - 1 : -1] if before else word[::-1] for word in words]
    after = re.sub(r"^[\w.]*", "", _share_start(backwards)[::-1])
    return f"{before}…{after}"


def _share_start(words: Iterable[str]) -> str:
    """Return the text with which all words begin."""
    return "".join(
        letters[0]
        for letters in takewhile(lambda letters: len(set(letters)) == 1, zip(*words, strict=False))
    )


def _share_words(arms: list[Arm]) -> str:
    """Return the words that the labels of all these arms share, in order."""
    first, *others = (arm.label.split() for arm in arms)
    shared = [word for word in first if all(word in other for other in others)]
    return " ".join(shared).strip(",;: ")


def _arrange_panels(results: Results) -> list[tuple[str, list[Styled]]]:
    """Return (title, [(position, arm, line)]) for each panel.

    Each of the paper's rules has a panel, with LSVI-UCB and random in both. With any other rule,
    all arms are in one panel.
    """
    references: list[Styled] = []
    panels: dict[str, list[Styled]] = {}
    families, arms = _find_families(results), results.arms
    papers = all(arm.family.name in (EVERY, *PANELS) or not arm.learns for arm in arms)
    for family, ((colour, _), rows) in families.items():
        if family.name == EVERY:
            for n, i in enumerate(rows):
                line = {"color": colour, "linewidth": 1.8, "linestyle": DASHES[n % len(DASHES)]}
                references.insert(n, (i, arms[i], line))
        elif not arms[rows[0]].learns:
            line = {"color": "0.55", "linewidth": 1.2, "linestyle": ":"}
            references += [(i, arms[i], line) for i in rows]
        else:
            panel = panels.setdefault(PANELS[family.name] if papers else "", [])
            own = family not in KINDS
            for i, shade in zip(rows, _make_shades(colour, len(rows), own), strict=True):
                dash = _choose_dash(len(panel), own)
                line = {"color": shade, "linestyle": dash, "linewidth": 1.4}
                panel.append((i, arms[i], line))
    first = sum(arm.learns for _, arm, _ in references)
    whole = [
        (title, references[:first] + panel + references[first:])
        for title, panel in sorted(panels.items())
    ]
    return whole or [("", references)]


def _choose_dash(n: int, own: bool) -> Any:
    """Return the n-th dash pattern; users' rules are never solid, because LSVI-UCB is."""
    return DASHES[1 + n % (len(DASHES) - 1)] if own else DASHES[n % len(DASHES)]


def _make_shades(colour: str, count: int, own: bool) -> list[tuple[float, ...]]:
    """Return shades of a colour, from dark to light; a single shade is the colour itself.

    Shades of users' rules are lighter, so no shade is close to black.
    """
    if count == 1:
        return [to_rgb(colour)]
    base = np.array(to_rgb(colour))
    steps = np.linspace(-0.2 if own else -0.6, 0.5, count)
    return [tuple(base * (1 + t) if t < 0 else base + (1 - base) * t) for t in steps]


def _draw_reference_slope(axis: Axes, results: Results) -> None:
    end = results.experiment.episodes
    x = np.array([end / 5, end])
    level = results.final.mean(axis=1).min() * 0.85
    axis.plot(x, level * np.sqrt(end / x), color="0.3", linewidth=0.9, label="slope −1/2")


def _legend_below(axis: Axes, columns: int) -> None:
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, fontsize=8)
