"""The picture of a plan: regret against deployments, and against β if it was swept.

If regret is unknown, the picture shows the shortfall.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from rareswitch.planning.options import Option
from rareswitch.planning.plan import Plan
from rareswitch.planning.rounds import BetaSweep
from rareswitch.rules.table import row_of
from rareswitch.rules.waiting import inner_rule
from rareswitch.support.drawing import LINE_STYLES, line_style, style

SWEEP_COLOUR = "#0072b2"


def draw_plan(plan: Plan) -> Figure:
    """Draw the frontier of the simulated options, with a ring around the recommended option."""
    if plan.recommended.regret is None:
        raise ValueError("plan must have simulated results to draw; give plan() a simulator")
    panels = 1 if plan.sweep is None else 2
    with style():
        figure = Figure(figsize=(5.4 * panels, 5.4), layout="constrained")
        axes = figure.subplots(1, panels, squeeze=False)[0]
        _draw_options(axes[0], plan)
        figure.legend(loc="outside lower center", ncols=2 * panels, fontsize=8)
        if plan.sweep is not None:
            _draw_sweep(axes[1], plan.sweep)
        for axis in axes:
            axis.set_ylabel(f"average {plan.measure} per episode")
            axis.set_ylim(bottom=0)
        title = f"{plan.measure.capitalize()} against deployments, K = {plan.task.episodes}"
        figure.suptitle(title)
    return figure


def _draw_options(axis: Any, plan: Plan) -> None:
    by_name: dict[str, list[Option]] = {}
    for option in plan.options:
        by_name.setdefault(option.title, []).append(option)
    names = [row_of(inner_rule(options[0].candidate.schedule)).name for options in by_name.values()]
    own = [name for name in dict.fromkeys(names) if name not in LINE_STYLES]
    for name, options in zip(names, by_name.values(), strict=True):
        line = line_style(name, own.index(name) if name in own else 0)
        x, y, bars = _points(options)
        axis.errorbar(
            x,
            y,
            yerr=bars,
            marker=line.marker,
            color=line.colour,
            capsize=2,
            linewidth=1,
            linestyle="--" if options[0].mixture else ":" if options[0].untuned else "-",
            label=options[0].label,
        )
    place = _points([plan.recommended])
    axis.plot(
        *place[:2],
        marker="o",
        markersize=15,
        markerfacecolor="none",
        markeredgecolor="black",
        linestyle="none",
        label="recommended",
    )
    axis.set(xscale="log", xlabel="deployments after the first (mean over rounds)")


def _draw_sweep(axis: Any, sweep: BetaSweep) -> None:
    low, high = [e.low for e in sweep.regret], [e.high for e in sweep.regret]
    axis.plot(sweep.betas, [e.mean for e in sweep.regret], "o-", color=SWEEP_COLOUR)
    axis.fill_between(sweep.betas, low, high, color=SWEEP_COLOUR, alpha=0.15, linewidth=0)
    axis.axvline(sweep.chosen, color="0.4", linestyle=":", label=f"chosen: {sweep.chosen:g}")
    axis.set(xscale="log", xlabel="confidence radius β")
    axis.legend()


def _points(options: Sequence[Option]) -> tuple[list[float], list[float], Any]:
    estimates = [(o.deployments, o.regret) for o in options if o.deployments and o.regret]
    x = [max(deployments.mean, 0.5) for deployments, _ in estimates]  # a log axis has no 0
    y = [regret.mean for _, regret in estimates]
    bars = np.array([(r.mean - r.low, r.high - r.mean) for _, r in estimates]).T
    return x, y, np.abs(bars)
