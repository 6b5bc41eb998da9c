"""The pictures, one function for each kind, drawn from saved results alone.

Colours come from a palette that survives colour blindness and grey printing: within a family they
run from dark to light in order of adaptivity, and every curve also has a dash pattern or a marker.
"""

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rareswitch.experiments import stats
from rareswitch.experiments.archive import write_bytes
from rareswitch.experiments.bounds import (
    adversary_bound,
    regret_bound,
    switch_bounds,
    switch_limit,
)
from rareswitch.experiments.results import Runs
from rareswitch.experiments.spec import (
    AnchorSpec,
    Arm,
    BudgetSpec,
    DeterminantGrowthSpec,
    EveryEpisodeSpec,
    RandomPolicySpec,
    UniformGridSpec,
)

FORMATS = ("png", "pdf", "svg")
FAMILY_MARKERS: dict[type[Any], str] = {
    EveryEpisodeSpec: "D",
    UniformGridSpec: "s",
    DeterminantGrowthSpec: "o",
}
DASHES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (7, 2, 1, 2, 1, 2)),
)
MARKERS = "osD^vP*X<>"
FAMILY_COLOURS: dict[type[Any], str] = {UniformGridSpec: "plasma", DeterminantGrowthSpec: "viridis"}
FAMILY_NAMES: dict[type[Any], str] = {
    EveryEpisodeSpec: "LSVI-UCB",
    UniformGridSpec: "LSVI-UCB-Batch",
    DeterminantGrowthSpec: "LSVI-UCB-RareSwitch",
}
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "rareswitch",
    "svg.fonttype": "path",
    "figure.dpi": 100,
}


def draw(runs: Runs) -> Figure:
    """Return the figure of an experiment, of the kind its spec asks for."""
    with mpl.rc_context(STYLE):
        figure = KINDS[runs.experiment.figure](runs)
        figure.suptitle(runs.experiment.title, fontsize=11)
    return figure


def save_figure(figure: Figure, folder: Path) -> None:
    """Write figure.png, figure.pdf and figure.svg; the same figure gives the same bytes."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is settled; do not solve it again for each format
    for kind in FORMATS:
        data = io.BytesIO()
        undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
        with mpl.rc_context(STYLE):
            figure.savefig(data, format=kind, dpi=160, metadata=undated)
        write_bytes(folder / f"figure.{kind}", data.getvalue())


def regret(runs: Runs, *, log: bool = False) -> Figure:
    """Running average regret against episodes, one panel for each family, with the 20–80% band."""
    panels = _panels(runs)
    figure = Figure(figsize=(4.6 * len(panels), 6.0 if log else 4.6), layout="constrained")
    axes = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    at = runs.points - 1
    for axis, (title, arms) in zip(axes, panels, strict=True):
        for i, arm, style in arms:
            curves = runs.average[i][:, at]
            label = arm.label
            if log and not isinstance(arm.schedule, RandomPolicySpec):
                value, low, high = runs.slope(i)
                label += f": slope {value:.2f} [{low:.2f}, {high:.2f}]"
            axis.plot(runs.points, curves.mean(axis=0), label=label, **style)
            low_curve, high_curve = stats.run_band(curves)
            axis.fill_between(
                runs.points, low_curve, high_curve, color=style["color"], alpha=0.12, linewidth=0
            )
        axis.set(title=title, xlabel="episode k")
        if log:
            axis.set(xscale="log", yscale="log")
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("{x:.1f}")
            _reference_slope(axis, runs)
        _legend_below(axis, columns=1 if log else 2)
    axes[0].set_ylabel("average regret  Regret(k)/k")
    return figure


def regret_log(runs: Runs) -> Figure:
    """The same on logarithmic axes, with the slope over the last four fifths of the episodes."""
    return regret(runs, log=True)


def final(runs: Runs) -> Figure:
    """Final average regret of every arm, as points with the interval of the mean and the band."""
    arms = runs.experiment.arms
    figure = Figure(figsize=(7.0, 0.9 + 0.27 * len(arms)), layout="constrained")
    axis = figure.subplots()
    for y, (arm, values) in enumerate(zip(arms, runs.final, strict=True)):
        low, high = stats.run_band(values)
        ci_low, ci_high = stats.mean_interval(values, runs.weights)
        axis.plot([low, high], [y, y], color="0.75", linewidth=5, solid_capstyle="butt")
        axis.plot([ci_low, ci_high], [y, y], color="0.2", linewidth=1.6)
        marker = FAMILY_MARKERS.get(type(arm.schedule), "x")
        axis.plot(values.mean(), y, marker=marker, color="#1f4e79", markersize=5)
    axis.set_yticks(range(len(arms)), [arm.label for arm in arms])
    axis.invert_yaxis()
    axis.set_xlabel(
        f"average regret after {runs.experiment.episodes} episodes "
        "(line: 95% interval of the mean; grey: 20–80% of runs)"
    )
    axis.set_xlim(left=0)
    return figure


def pareto(runs: Runs) -> Figure:
    """Final average regret against the switches actually made."""
    figure = Figure(figsize=(7.0, 4.8), layout="constrained")
    axis = figure.subplots()
    for kind, marker in (FAMILY_MARKERS | {BudgetSpec: "^", AnchorSpec: "v"}).items():
        rows = [i for i, _, _ in runs.arms_of(kind)]
        if not rows:
            continue
        switches = runs.switches[rows].mean(axis=1)
        mean = runs.final[rows].mean(axis=1)
        low, high = np.array([stats.mean_interval(runs.final[i], runs.weights) for i in rows]).T
        order = np.argsort(switches)
        colour = mpl.colormaps[FAMILY_COLOURS.get(kind, "gray")](0.35)
        axis.errorbar(
            switches[order],
            mean[order],
            yerr=np.abs([mean - low, high - mean])[:, order],
            marker=marker,
            markersize=5,
            color=colour,
            linewidth=1.2,
            linestyle="-" if kind is DeterminantGrowthSpec else "--",
            capsize=2,
            label=FAMILY_NAMES.get(kind, "other rules"),
        )
    for i, _, _ in runs.arms_of(RandomPolicySpec):
        axis.axhline(runs.final[i].mean(), color="0.5", linestyle=":", label="uniformly random")
    axis.set(
        xscale="log",
        xlabel="policy switches made (mean over rounds)",
        ylabel=f"average regret after {runs.experiment.episodes} episodes",
    )
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def switches(runs: Runs) -> Figure:
    """Cumulative switches over episodes, with the bound of the switching lemma dotted."""
    figure = Figure(figsize=(7.0, 5.4), layout="constrained")
    axis = figure.subplots()
    at = runs.points - 1
    for n, (_, arms) in enumerate(_panels(runs)):
        for i, arm, style in arms:
            if n and isinstance(arm.schedule, EveryEpisodeSpec):
                continue  # the reference stands in every panel; here there is one
            made = runs.switched[i].cumsum(axis=-1)[:, at].mean(axis=0)
            axis.plot(runs.points, np.maximum(made, 0.5), label=arm.label, **style)
            if isinstance(arm.schedule, DeterminantGrowthSpec):
                bound = switch_bounds(runs, arm, arm.schedule.eta, runs.points)
                axis.plot(runs.points, bound, color=style["color"], linestyle=":", linewidth=0.9)
    axis.set(
        xscale="log",
        yscale="log",
        xlabel="episode k",
        ylabel="switches up to episode k (dotted: bound on RareSwitch)",
    )
    _legend_below(axis, columns=3)
    return figure


def beta(runs: Runs) -> Figure:
    """Final regret and the fraction of optimistic plans against β, for each algorithm."""
    figure = Figure(figsize=(7.0, 5.6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    for n, kind in enumerate(FAMILY_NAMES):
        arms = runs.arms_of(kind)
        if not arms:
            continue
        rows = [i for i, _, _ in arms]
        x = [arm.beta for _, arm, _ in arms]
        colour = mpl.colormaps["viridis"](0.1 + 0.35 * n)
        style: dict[str, Any] = {
            "color": colour, "marker": MARKERS[n], "markersize": 4, "linestyle": DASHES[n],
        }  # fmt: skip
        low, high = np.array([stats.mean_interval(runs.final[i], runs.weights) for i in rows]).T
        upper.plot(x, runs.final[rows].mean(axis=1), label=FAMILY_NAMES[kind], **style)
        upper.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)
        lower.plot(x, runs.optimistic[rows].mean(axis=1), label=FAMILY_NAMES[kind], **style)
    lower.axhline(0.95, color="0.5", linewidth=0.8, linestyle=":")
    upper.set(ylabel=f"average regret, k = {runs.experiment.episodes}", ylim=(0, None))
    lower.set(
        xscale="log", xlabel="confidence radius β", ylabel="optimistic plans", ylim=(-0.03, 1.03)
    )
    upper.legend()
    return figure


def lower_bound(runs: Runs) -> Figure:
    """Regret that the adversary forces on Batch, beside both lower bounds."""
    figure = Figure(figsize=(7.0, 4.6), layout="constrained")
    axis = figure.subplots()
    arms = runs.arms_of(UniformGridSpec)
    batches = [schedule.batches for _, _, schedule in arms]
    measured = [runs.regret[i].sum(axis=-1).mean() for i, _, _ in arms]
    axis.plot(batches, measured, "s-", color="#1f4e79", label="measured")
    for uniform, name, dash in (
        (True, "d(H−1)T/(2B), uniform grid", "--"),
        (False, "dHT/(4B), any grid", ":"),
    ):
        bound = [adversary_bound(runs, arm, uniform=uniform) for _, arm, _ in arms]
        axis.plot(batches, bound, color="black", linestyle=dash, label=name)
    axis.set(xscale="log", yscale="log", xlabel="batches B", ylabel="total regret")
    axis.set_xticks(batches, [str(count) for count in batches])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.legend()
    return figure


def bounds(runs: Runs) -> Figure:
    """Measured total regret and switches beside the theorems' bounds, on a logarithmic scale."""
    arms = runs.experiment.arms
    figure = Figure(figsize=(9.2, 1.3 + 0.27 * len(arms)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for y, arm in enumerate(arms):
        bound = regret_bound(runs, arm)
        left.plot(runs.regret[y].sum(axis=-1).mean(), y, "o", color="#1f4e79")
        left.plot(bound.total, y, "|", color="black", markersize=12)
        right.plot(runs.switches[y].mean(), y, "o", color="#1f4e79")
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


def budget(runs: Runs) -> Figure:
    """Final regret and switches made against the guaranteed budget, one line for each rule."""
    figure = Figure(figsize=(9.2, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    arms = runs.arms_of(BudgetSpec)
    for n, rule in enumerate(dict.fromkeys(spec.rule for _, _, spec in arms)):
        rows = [(i, spec.switches) for i, _, spec in arms if spec.rule == rule]
        x = [switches for _, switches in rows]
        style: dict[str, Any] = {
            "color": mpl.colormaps["viridis"](0.2 * n), "marker": MARKERS[n],
            "linestyle": DASHES[n], "markersize": 4, "label": rule,
        }  # fmt: skip
        means = [runs.final[i].mean() for i, _ in rows]
        low, high = np.array([stats.mean_interval(runs.final[i], runs.weights) for i, _ in rows]).T
        left.plot(x, means, **style)
        left.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)
        right.plot(x, [max(runs.switches[i].mean(), 0.5) for i, _ in rows], **style)
    limits = [min(x), max(x)]
    right.plot(limits, limits, color="0.5", linewidth=0.8, linestyle=":", label="the budget")
    left.set(
        xscale="log", xlabel="guaranteed budget of switches", ylim=(0, None),
        ylabel=f"average regret after {runs.experiment.episodes} episodes",
    )  # fmt: skip
    right.set(
        xscale="log", yscale="log", xlabel="guaranteed budget of switches",
        ylabel="switches made",
    )  # fmt: skip
    for axis in (left, right):
        _legend_below(axis, columns=2)
    return figure


KINDS: dict[str, Callable[[Runs], Figure]] = {
    "regret": regret,
    "regret-log": regret_log,
    "final": final,
    "pareto": pareto,
    "switches": switches,
    "beta": beta,
    "lower-bound": lower_bound,
    "bounds": bounds,
    "budget": budget,
}


def _panels(runs: Runs) -> list[tuple[str, list[tuple[int, Arm, dict[str, Any]]]]]:
    """Return (title, [(position, arm, line style)]) for each family, references in both."""
    references: list[tuple[int, Arm, dict[str, Any]]] = []
    for i, arm, _ in runs.arms_of(EveryEpisodeSpec):
        references.append((i, arm, {"color": "black", "linewidth": 1.8}))
    for i, arm, _ in runs.arms_of(RandomPolicySpec):
        references.append((i, arm, {"color": "0.55", "linewidth": 1.2, "linestyle": ":"}))
    panels = []
    for letter, kind in zip("ab", FAMILY_COLOURS, strict=True):
        arms = runs.arms_of(kind)
        shades = np.linspace(0.0, 0.85, max(len(arms), 2))
        family = [
            (i, arm, {
                "color": mpl.colormaps[FAMILY_COLOURS[kind]](shade),
                "linestyle": DASHES[n % len(DASHES)],
                "linewidth": 1.4,
            })
            for n, ((i, arm, _), shade) in enumerate(zip(arms, shades, strict=False))
        ]  # fmt: skip
        if family:
            panels.append(
                (f"({letter}) {FAMILY_NAMES[kind]}", references[:1] + family + references[1:])
            )
    rest = runs.arms_of(BudgetSpec) + runs.arms_of(AnchorSpec)
    others = [
        (i, arm, {
            "color": mpl.colormaps["cividis"](0.85 * n / len(rest)),
            "linestyle": DASHES[n % len(DASHES)],
        })
        for n, (i, arm, _) in enumerate(rest)
    ]  # fmt: skip
    if others:
        panels.append(("other rules", references[:1] + others + references[1:]))
    return panels or [("", references)]


def _reference_slope(axis: Axes, runs: Runs) -> None:
    end = runs.experiment.episodes
    x = np.array([end / 5, end])
    level = runs.final.mean(axis=1).min() * 0.85
    axis.plot(x, level * np.sqrt(end / x), color="0.3", linewidth=0.9, label="slope −1/2")


def _legend_below(axis: Axes, columns: int) -> None:
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=columns, fontsize=8)
