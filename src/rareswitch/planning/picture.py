"""The picture of a plan: regret against switches, and against β where it was swept."""

import numpy as np
from matplotlib.figure import Figure

from rareswitch.planning.plan import Option, Plan

STYLES = {
    "adaptive budget": ("o", "#0072b2"),
    "total growth": ("^", "#009e73"),
    "uniform grid": ("s", "#d55e00"),
    "geometric grid": ("v", "#cc79a7"),
    "any-stage growth (Theorem 2)": ("x", "0.5"),
    "every episode": ("D", "black"),
}


def draw_plan(plan: Plan) -> Figure:
    """Return the frontier of the simulated options, with the recommended one ringed."""
    panels = 1 if plan.sweep is None else 2
    figure = Figure(figsize=(5.4 * panels, 4.4), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    axis = axes[0]
    for name, (marker, colour) in STYLES.items():
        options = [o for o in plan.options if o.candidate.name == name and o.regret and o.switches]
        if options:
            x, y, bars = _points(options)
            axis.errorbar(
                x, y, yerr=bars, marker=marker, color=colour, capsize=2, linewidth=1, label=name
            )
    if plan.recommended.regret and plan.recommended.switches:
        axis.plot(
            max(plan.recommended.switches.mean, 0.5),
            plan.recommended.regret.mean,
            marker="o",
            markersize=15,
            markerfacecolor="none",
            markeredgecolor="black",
            linestyle="none",
            label="recommended",
        )
    axis.set(xscale="log", xlabel="switches (mean over rounds)", ylabel="average regret an episode")
    axis.set_ylim(bottom=0)
    axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2, fontsize=8)
    if plan.sweep is not None:
        betas, sweep = plan.sweep.betas, plan.sweep
        axes[1].plot(betas, [e.mean for e in sweep.regret], "o-", color="#0072b2")
        axes[1].fill_between(
            betas,
            [e.low for e in sweep.regret],
            [e.high for e in sweep.regret],
            color="#0072b2",
            alpha=0.15,
            linewidth=0,
        )
        axes[1].axvline(sweep.chosen, color="0.4", linestyle=":", label=f"chosen: {sweep.chosen:g}")
        axes[1].set(xscale="log", xlabel="confidence radius β", ylabel="average regret an episode")
        axes[1].set_ylim(bottom=0)
        axes[1].legend()
    figure.suptitle(f"Regret against switches, K = {plan.sizes.episodes}")
    return figure


def _points(options: list[Option]) -> tuple[list[float], list[float], np.ndarray]:
    estimates = [(o.switches, o.regret) for o in options if o.switches and o.regret]
    x = [max(switches.mean, 0.5) for switches, _ in estimates]  # 0 has no place on a log axis
    y = [regret.mean for _, regret in estimates]
    bars = np.array([(r.mean - r.low, r.high - r.mean) for _, r in estimates]).T
    return x, y, np.abs(bars)
