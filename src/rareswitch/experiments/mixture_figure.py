"""The picture of mixtures: few deployments, what could be tuned, and other worlds."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rareswitch import samples
from rareswitch.core.rules import Row
from rareswitch.experiments.algorithms import EVERY, family_of
from rareswitch.experiments.results import Results
from rareswitch.experiments.spec import Arm
from rareswitch.experiments.ways import (
    MIXTURE,
    RANDOM,
    arms_on,
    declared,
    elsewhere,
    home,
    name_of,
    swept,
    way_of,
)

DASHES: dict[str, Any] = {
    "bonus-members": (0, (5, 1.5)),
    "bonus-estimate": (0, (3, 1, 1, 1)),
    "uniform-grid": (0, (1, 1)),
}
HATCHES = {"every-episode": "", "uniform-grid": "////", "spread-budget": "...."}
ON_DATES = ("uniform-grid", EVERY)  # grids, from two batches to one for every episode
Swept = list[tuple[float, int]]


def mixtures(runs: Results) -> Figure:
    """Regret against deployments, sweeps of scale, members and ridge, and the other worlds."""
    figure = Figure(figsize=(9.6, 7.6), layout="constrained")
    above, below = figure.subfigures(2, 1, squeeze=False, height_ratios=(5, 3))[:, 0]
    ways, worlds = above.subplots(1, 2, width_ratios=(5, 3))
    _ways(ways, runs)
    _worlds(worlds, runs)
    sweeps = (
        ("(c) scale of the perturbations", swept(runs, "scale")),
        ("(d) members", swept(runs, "members")),
        ("(e) ridge λ, if declared", declared(runs)),
    )
    axes = below.subplots(1, len(sweeps), sharey=True)
    for axis, (title, found) in zip(axes, sweeps, strict=True):
        axis.set(title=title, xscale="log")
        if found:
            _sweep(axis, runs, found)
    axes[0].set(ylabel="average regret", ylim=(0, None))
    if sweeps[0][1]:
        _name_levels(axes[0], runs, "LSVI-UCB", right=False)
    return figure


def _ways(axis: Axes, runs: Results) -> None:
    """Draw a line for each way to deploy, and LSVI-UCB and random as levels."""
    found = {row.name: row for arm in runs.experiment.arms if (row := way_of(arm))}
    for row in sorted(found.values(), key=lambda row: row != MIXTURE):
        rows = arms_on(runs, home(runs), row.name)
        if row.name in (EVERY, RANDOM):
            continue
        kinds = {i: runs.experiment.arms[i].family.name for i in rows}
        apart = [kind for kind in kinds.values() if row == MIXTURE and kind not in ON_DATES]
        _way(axis, runs, [i for i in rows if kinds[i] not in apart], row)
        for kind in dict.fromkeys(apart):
            label, marker = f"mixture, {_words(kind)}", family_of(kind).marker
            own = row._replace(name=kind, label=label, marker=marker)
            _way(axis, runs, [i for i in rows if kinds[i] == kind], own)
    _levels(axis, runs)
    _name_levels(axis, runs, "LSVI-UCB: {:.0f} switches", right=True)
    axis.set(
        xscale="log",
        xlabel="deployments after the first",
        ylabel=f"average regret after {runs.experiment.episodes} episodes",
        ylim=(0, None),
        title=f"(a) {name_of(home(runs))}: ways to deploy",
    )
    dated = [
        i
        for i, arm in enumerate(runs.experiment.arms)
        if arm.world == home(runs) and arm.dated and (row := way_of(arm)) and row.name != EVERY
    ]
    dates = runs.deployments[dated].mean(axis=1) - 1.0
    if ticks := sorted({round(date) for date in dates if date >= 1.0}):
        axis.set_xticks(ticks, [str(tick) for tick in ticks])
        axis.xaxis.set_minor_locator(NullLocator())
    _legend(axis)


def _way(axis: Axes, runs: Results, rows: list[int], row: Row) -> None:
    if not rows:
        return
    after = runs.deployments[rows].mean(axis=1) - 1.0
    order = np.argsort(after)
    mean, low, high = runs.means(rows)
    main = row == MIXTURE
    axis.errorbar(
        np.maximum(after, 0.5)[order],
        mean[order],
        yerr=np.abs([mean - low, high - mean])[:, order],
        label=row.label,
        color=row.colour,
        marker=row.marker,
        markersize=9 if main else 6,
        markerfacecolor=row.colour if main or row.colour != MIXTURE.colour else "white",
        linewidth=2.2 if main else 1.3,
        linestyle=DASHES.get(row.name, "-"),
        capsize=2,
        zorder=3 if main else 4 if row.colour == MIXTURE.colour else 2,
    )


def _sweep(axis: Axes, runs: Results, found: Swept) -> None:
    """Draw the regret against what is swept, beside that of the mixture on the same dates."""
    x, rows = [value for value, _ in found], [i for _, i in found]
    mean, low, high = runs.means(rows)
    axis.errorbar(
        x, mean, yerr=np.abs([mean - low, high - mean]),
        color="0.25", marker="o", markersize=4, linewidth=1.3, capsize=2,
    )  # fmt: skip
    dates = runs.experiment.arms[rows[0]].schedule
    for i in arms_on(runs, home(runs), MIXTURE.name):
        if runs.experiment.arms[i].schedule != dates:
            continue
        if i in rows:
            place = x[rows.index(i)], runs.final[i].mean()
            axis.plot(*place, color=MIXTURE.colour, marker="*", markersize=12, zorder=4,
                      linestyle="none", label=MIXTURE.label)  # fmt: skip
        else:
            level = runs.final[i].mean()
            axis.axhline(level, color=MIXTURE.colour, linewidth=1.8, label="estimated")
    _levels(axis, runs)
    axis.set_xticks(x, [f"{value:g}" for value in x])
    axis.xaxis.set_minor_locator(NullLocator())
    after = runs.deployments[rows].mean() - 1.0
    axis.set_xlabel(f"with {after:.0f} deployments after the first")
    axis.legend(loc="upper right", bbox_to_anchor=(1.0, 0.9), fontsize=8)


def _worlds(axis: Axes, runs: Results) -> None:
    """Draw the regret on each other world as a share of random's."""
    bars: list[tuple[int, tuple[float, float, float], dict[str, Any]]] = []
    places, names = [], []
    for n, world in enumerate(elsewhere(runs)):
        random = arms_on(runs, world, RANDOM)
        arms = [(i, arm) for i, arm in enumerate(runs.experiment.arms) if arm.world == world]
        arms = [(i, arm) for i, arm in arms if random and arm.learns and way_of(arm)]
        for i, arm in arms:
            share = samples.ratio_interval(runs.final[i], runs.final[random[0]], runs.weights)
            bars.append((len(bars) + n, share, _bar(arm)))
        if arms:
            names.append(name_of(world))
            places.append(bars[-1][0] - (len(arms) - 1) / 2.0)
    shown: set[str] = set()
    for y, (mean, low, high), bar in bars:
        label = bar.pop("label")
        axis.barh(y, mean, label=None if label in shown else label, **bar)
        shown.add(label)
        axis.plot([low, high], [y, y], color="0.45", linewidth=1.4)
        axis.annotate(
            f"{100 * mean:.0f}%", (high, y), xytext=(4, 0), textcoords="offset points",
            va="center", fontsize=8,
        )  # fmt: skip
    axis.set(
        title="(b) other worlds",
        xlabel="share of random's average regret",
        xlim=(0, 1.15 * max([1.0, *(share[2] for _, share, _ in bars)])),
    )
    axis.set_yticks(places, names)
    axis.tick_params(axis="y", length=0)
    axis.grid(visible=False, axis="y")
    axis.set_axisbelow(True)
    axis.invert_yaxis()
    axis.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f}%")
    _legend(axis)


def _bar(arm: Arm) -> dict[str, Any]:
    """Return how the arm's bar is drawn, and what it is called."""
    row, kind = way_of(arm) or arm.family, arm.family.name
    label = f"mixture, {_words(kind)}" if row == MIXTURE else row.label
    for size, count in (("batches", 1), ("switches", 0)):
        if size in arm.schedule:
            label += f": {arm.schedule[size] - count} switches"
    return {
        "label": label,
        "color": row.colour,
        "hatch": HATCHES.get(kind, "xx"),
        "height": 0.86,
        "edgecolor": "white",
        "linewidth": 0,
    }


def _levels(axis: Axes, runs: Results) -> None:
    """Draw LSVI-UCB and random where the number of deployments is no axis."""
    for i in arms_on(runs, home(runs), EVERY):
        axis.axhline(runs.final[i].mean(), color="black", linewidth=1.2)
    for i in arms_on(runs, home(runs), RANDOM):
        axis.axhline(runs.final[i].mean(), color="0.45", linewidth=1.2, linestyle=":")


def _name_levels(axis: Axes, runs: Results, every: str, *, right: bool) -> None:
    """Write at one end what the levels are; {} in the name of LSVI-UCB is its switches."""
    place, side = (0.99, "right") if right else (0.01, "left")
    for way, words, offset in ((EVERY, every, 3), (RANDOM, "random", -11)):
        for i in arms_on(runs, home(runs), way):
            axis.annotate(
                words.format(runs.switches[i].mean()), (place, runs.final[i].mean()),
                xycoords=axis.get_yaxis_transform(), xytext=(0, offset),
                textcoords="offset points", fontsize=8, ha=side,
            )  # fmt: skip


def _words(kind: str) -> str:
    return kind.replace("-", " ")


def _legend(axis: Axes) -> None:
    if axis.get_legend_handles_labels()[1]:
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.13), ncols=2, fontsize=8)
