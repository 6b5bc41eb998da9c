"""The pictures, one function for each kind, drawn from saved results alone.

Families have the colours, markers and labels of the table of rules, a palette that survives colour
blindness. The arms of one family are shades of its colour, dark to light in their order, and every
curve also has a dash pattern or a marker for grey printing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rareswitch import samples
from rareswitch.core.rules import Row
from rareswitch.drawing import style
from rareswitch.experiments.algorithms import BATCH, EVERY, RARE
from rareswitch.experiments.bounds import (
    adversary_bound,
    batches_of,
    regret_bound,
    switch_limit,
    switch_limits,
)
from rareswitch.experiments.mixture_figure import mixtures
from rareswitch.experiments.results import Results
from rareswitch.experiments.spec import Arm

DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (7, 2, 1, 2, 1, 2)),
)
Styled = tuple[int, Arm, dict[str, Any]]


def draw(runs: Results) -> Figure:
    """Return the figure of an experiment, of the kind its spec asks for."""
    with style():
        figure = KINDS[runs.experiment.figure](runs)
        figure.suptitle(runs.experiment.title, fontsize=11)
    return figure


def running(runs: Results, *, log: bool = False) -> Figure:
    """Running average against episodes, one panel for each family, with the 20–80% band."""
    panels = _panels(runs)
    figure = Figure(figsize=(4.6 * len(panels), 6.0 if log else 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    at = runs.points - 1
    for axis, (title, arms) in zip(axes, panels, strict=True):
        for i, arm, line in arms:
            curves = runs.average[i][:, at]
            label = arm.label
            if log and arm.learns:
                value, low, high = runs.slope(i)
                label += f": slope {value:.2f} [{low:.2f}, {high:.2f}]"
            axis.plot(runs.points, curves.mean(axis=0), label=label, **line)
            low_curve, high_curve = samples.run_band(curves)
            axis.fill_between(
                runs.points, low_curve, high_curve, color=line["color"], alpha=0.12, linewidth=0
            )
        axis.set(title=title, xlabel="episode k")
        if log:
            axis.set(xscale="log", yscale="log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:.1f}")
            _reference_slope(axis, runs)
        _legend_below(axis, columns=1 if log else 2)
    regret = runs.measure == "regret"
    axes[0].set_ylabel("average regret  Regret(k)/k" if regret else "average return up to k")
    return figure


def regret_log(runs: Results) -> Figure:
    """The same on logarithmic axes, with the slope over the last four fifths of the episodes."""
    return running(runs, log=True)


def final(runs: Results) -> Figure:
    """Final average of every arm, as points with the interval of the mean and the band."""
    arms = runs.experiment.arms
    figure = Figure(figsize=(7.0, 0.9 + 0.27 * len(arms)), layout="constrained")
    axis = figure.subplots()
    for y, (arm, values) in enumerate(zip(arms, runs.final, strict=True)):
        low, high = samples.run_band(values)
        ci_low, ci_high = samples.mean_interval(values, runs.weights)
        axis.plot([low, high], [y, y], color="0.75", linewidth=5, solid_capstyle="butt")
        axis.plot([ci_low, ci_high], [y, y], color="0.2", linewidth=1.6)
        family = arm.family
        axis.plot(values.mean(), y, marker=family.marker, color=family.colour, markersize=5)
    axis.set_yticks(range(len(arms)), [arm.label for arm in arms])
    axis.invert_yaxis()
    axis.set_xlabel(f"{_final(runs)} (line: 95% interval of the mean; grey: 20–80% of runs)")
    if runs.measure == "regret":
        axis.set_xlim(left=0)
    return figure


def pareto(runs: Results) -> Figure:
    """Final average against the switches actually made."""
    figure = Figure(figsize=(7.0, 4.8), layout="constrained")
    axis = figure.subplots()
    for family, rows, arms in _families(runs):
        if not arms[0].learns:
            for i in rows:
                axis.axhline(runs.final[i].mean(), color="0.5", linestyle=":", label=family.label)
            continue
        made = runs.switches[rows].mean(axis=1)
        mean, low, high = runs.means(rows)
        order = np.argsort(made)
        axis.errorbar(
            made[order],
            mean[order],
            yerr=np.abs([mean - low, high - mean])[:, order],
            marker=family.marker,
            markersize=5,
            color=family.colour,
            linewidth=1.2,
            linestyle="--" if arms[0].dated else "-",
            capsize=2,
            label=family.label,
        )
    axis.set(
        xscale="log",
        xlabel="policy switches made (mean over rounds)",
        ylabel=_final(runs),
    )
    if runs.measure == "regret":
        axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def switches(runs: Results) -> Figure:
    """Cumulative switches over episodes; dotted, where they say something, the rules' limits."""
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    axis = figure.subplots()
    at = runs.points - 1
    styled = {i: (arm, line) for _, arms in _panels(runs) for i, arm, line in arms}
    for i, (arm, line) in styled.items():
        made = runs.switched[i].cumsum(axis=-1)[:, at].mean(axis=0)
        axis.plot(runs.points, np.maximum(made, 0.5), label=arm.label, **line)
        if arm.learns and not arm.dated:
            limit = np.array(switch_limits(runs, arm, runs.points), float)
            limit[limit >= at] = np.nan  # no more than k−1 can be made by anyone
            axis.plot(runs.points, limit, color=line["color"], linestyle=":", linewidth=0.9)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="episode k",
        ylabel="switches up to episode k (dotted: bound on the rule)",
    )
    _legend_below(axis, columns=3)
    return figure


def beta(runs: Results) -> Figure:
    """Final regret and the fraction of optimistic plans against β, for each algorithm."""
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for n, (family, rows, arms) in enumerate(_families(runs)):
        x = [arm.exploration["beta"] for arm in arms]
        line = _family_line(family, n)
        mean, low, high = runs.means(rows)
        upper.plot(x, mean, **line)
        upper.fill_between(x, low, high, color=family.colour, alpha=0.15, linewidth=0)
        lower.plot(x, runs.optimistic[rows].mean(axis=1), **line)
    lower.axhline(0.95, color="0.5", linewidth=0.8, linestyle=":")
    upper.set(ylabel=f"average regret, k = {runs.experiment.episodes}", ylim=(0, None))
    lower.set(
        xscale="log", xlabel="confidence radius β", ylabel="optimistic plans", ylim=(-0.03, 1.03)
    )
    upper.legend()
    return figure


def lower_bound(runs: Results) -> Figure:
    """Regret that the adversary forces on Batch, beside both lower bounds."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axis = figure.subplots()
    arms = runs.arms_of(BATCH)
    batches = [batches_of(runs, arm) for _, arm in arms]
    measured = [runs.regret[i].sum(axis=-1).mean() for i, _ in arms]
    family = arms[0][1].family
    axis.plot(batches, measured, marker=family.marker, color=family.colour, label="measured")
    for uniform, name, dash in (
        (True, "d(H−1)T/(2B), uniform grid", "--"),
        (False, "dHT/(4B), any grid", ":"),
    ):
        bound = [adversary_bound(runs, arm, uniform=uniform) for _, arm in arms]
        axis.plot(batches, bound, color="black", linestyle=dash, label=name)
    axis.set(xscale="log", yscale="log", xlabel="batches B", ylabel="total regret")
    axis.set_xticks(batches, [str(count) for count in batches])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.legend()
    return figure


def bounds(runs: Results) -> Figure:
    """Measured total regret and switches beside the theorems' bounds, on a logarithmic scale."""
    arms = runs.experiment.arms
    figure = Figure(figsize=(9.2, 1.3 + 0.27 * len(arms)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for y, arm in enumerate(arms):
        bound, dot = regret_bound(runs, arm), {"marker": "o", "color": arm.family.colour}
        left.plot(runs.regret[y].sum(axis=-1).mean(), y, **dot)
        left.plot(bound.total, y, "|", color="black", markersize=12)
        right.plot(runs.switches[y].mean(), y, **dot)
        right.plot(switch_limit(runs, arm), y, "|", color="black", markersize=12)
    left.axvline(
        bound.trivial, color="0.5", linestyle=":", label="KH: beyond it a bound is vacuous"
    )
    right.axvline(
        runs.experiment.episodes - 1, color="0.5", linestyle=":", label="K−1: the same for switches"
    )
    left.set_yticks(range(len(arms)), [arm.label for arm in arms])
    left.invert_yaxis()
    left.set(xscale="log", xlabel="total regret: measured (dot), bound (bar)")
    right.set(xscale="log", xlabel="switches: measured (dot), bound (bar)")
    for axis in (left, right):
        _legend_below(axis, columns=1)
    return figure


def budget(runs: Results) -> Figure:
    """Final average and switches made against the guaranteed budget, one line for each rule."""
    figure = Figure(figsize=(9.2, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for n, (family, rows, arms) in enumerate(_families(runs)):
        x = [arm.schedule["switches"] for arm in arms]
        line = _family_line(family, n)
        mean, low, high = runs.means(rows)
        left.plot(x, mean, **line)
        left.fill_between(x, low, high, color=family.colour, alpha=0.15, linewidth=0)
        right.plot(x, np.maximum(runs.switches[rows].mean(axis=1), 0.5), **line)
    every = [arm.schedule["switches"] for arm in runs.experiment.arms]
    limits = [min(every), max(every)]
    right.plot(limits, limits, color="0.5", linewidth=0.8, linestyle=":", label="the budget")
    left.set(
        xscale="log", xlabel="guaranteed budget of switches", ylabel=_final(runs),
    )  # fmt: skip
    if runs.measure == "regret":
        left.set_ylim(bottom=0)
    right.set(
        xscale="log", yscale="log", xlabel="guaranteed budget of switches",
        ylabel="switches made",
    )  # fmt: skip
    for axis in (left, right):
        _legend_below(axis, columns=2)
    return figure


KINDS: dict[str, Callable[[Results], Figure]] = {
    "regret": running,
    "regret-log": regret_log,
    "return": running,
    "final": final,
    "pareto": pareto,
    "switches": switches,
    "beta": beta,
    "lower-bound": lower_bound,
    "bounds": bounds,
    "budget": budget,
    "mixtures": mixtures,
}


def _final(runs: Results) -> str:
    """Return what the final average of a run is called."""
    return f"average {runs.measure} after {runs.experiment.episodes} episodes"


def _families(runs: Results) -> list[tuple[Row, list[int], list[Arm]]]:
    """Return each family with the positions and arms of it, in the order of the spec."""
    names = dict.fromkeys(arm.family.name for arm in runs.experiment.arms)
    found = [(list(pair) for pair in zip(*runs.arms_of(name), strict=True)) for name in names]
    return [(arms[0].family, rows, arms) for rows, arms in found]


def _family_line(family: Row, n: int) -> dict[str, Any]:
    """Return how the n-th family is drawn where it has one line."""
    return {
        "color": family.colour,
        "marker": family.marker,
        "linestyle": DASHES[n % len(DASHES)],
        "markersize": 4,
        "label": family.label,
    }


def _panels(runs: Results) -> list[tuple[str, list[Styled]]]:
    """Return (title, [(position, arm, line)]) for each family, references in all."""
    references: list[Styled] = []
    panels: dict[str, list[Styled]] = {}
    titles = {BATCH: "(a) LSVI-UCB-Batch", RARE: "(b) LSVI-UCB-RareSwitch"}
    for family, rows, arms in _families(runs):
        if family.name == EVERY:
            line: dict[str, Any] = {"color": family.colour, "linewidth": 1.8}
            references[:0] = [(i, arm, line) for i, arm in zip(rows, arms, strict=True)]
        elif not arms[0].learns:
            line = {"color": "0.55", "linewidth": 1.2, "linestyle": ":"}
            references += [(i, arm, line) for i, arm in zip(rows, arms, strict=True)]
        else:
            panel = panels.setdefault(titles.get(family.name, "other rules"), [])
            shades = _shades(family.colour, len(arms))
            for n, (i, arm, shade) in enumerate(zip(rows, arms, shades, strict=True), len(panel)):
                dash = DASHES[n % len(DASHES)]
                panel.append((i, arm, {"color": shade, "linestyle": dash, "linewidth": 1.4}))
    first = sum(arm.learns for _, arm, _ in references)
    whole = [
        (title, references[:first] + panel + references[first:])
        for title, panel in sorted(panels.items())
    ]
    return whole or [("", references)]


def _shades(colour: str, count: int) -> list[tuple[float, ...]]:
    """Return shades of a colour, from dark to light; one alone is the colour itself."""
    if count == 1:
        return [to_rgb(colour)]
    base = np.array(to_rgb(colour))
    steps = np.linspace(-0.6, 0.5, count)
    return [tuple(base * (1 + t) if t < 0 else base + (1 - base) * t) for t in steps]


def _reference_slope(axis: Axes, runs: Results) -> None:
    end = runs.experiment.episodes
    x = np.array([end / 5, end])
    level = runs.final.mean(axis=1).min() * 0.85
    axis.plot(x, level * np.sqrt(end / x), color="0.3", linewidth=0.9, label="slope −1/2")


def _legend_below(axis: Axes, columns: int) -> None:
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, fontsize=8)
