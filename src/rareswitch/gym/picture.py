"""The picture of a training: return over episodes, its switches, and the optimum if known."""

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from rareswitch.gym.evaluate import Returns
from rareswitch.gym.exact import Known
from rareswitch.support.archive import write_bytes
from rareswitch.support.arguments import Floats
from rareswitch.support.drawing import style

if TYPE_CHECKING:
    from rareswitch.gym.training import Training

RETURN, SWITCH, BEST, RANDOM, AFTER = "#0072b2", "#d55e00", "#009e73", "0.45", "#cc79a7"
# The running mean covers this number of episodes, or 1/25 of all episodes if that is more.
LEAST_WINDOW = 20


def draw_training(
    training: "Training",
    *,
    title: str,
    known: Known | None = None,
    fresh: Returns | None = None,
    random: float | None = None,
) -> Figure:
    """Return the picture; `known` and `fresh` are returns of the recommended policy.

    `random` is the return of random play.
    """
    totals = training.totals
    if not len(totals):
        raise ValueError("training must have at least one episode to draw; got 0")
    with style():
        panels = 1 if known is None else 2
        figure = Figure(figsize=(6.4, 2.4 + 1.6 * panels), layout="constrained")
        ratios = [2, 1][:panels]
        axes = figure.subplots(panels, 1, sharex=True, squeeze=False, height_ratios=ratios)[:, 0]
        _draw_returns(axes[0], training, known, fresh, random)
        if known is not None:
            axes[1].plot(_numbers(totals), np.cumsum(known.optimum - totals), color=RETURN)
            axes[1].set_ylabel("below optimum, summed")
        axes[-1].set_xlabel("episode")
        axes[-1].set_xlim(0, len(totals) + 1)
        figure.legend(loc="outside lower center", ncols=3, fontsize=8)
        figure.suptitle(title)
    return figure


def save_picture(figure: Figure, path: Path) -> None:
    """Write a picture so that the same figure gives the same bytes."""
    data = io.BytesIO()
    with style():
        figure.savefig(data, format="png", dpi=160)
    write_bytes(path, data.getvalue())


def running_mean(totals: Floats, window: int) -> Floats:
    """Return the mean of the last `window` totals up to each episode.

    >>> running_mean(np.array([1.0, 3.0, 5.0]), 2)
    array([1., 2., 4.])
    """
    sums = np.concatenate([[0.0], np.cumsum(totals)])
    ends = np.arange(1, len(totals) + 1)
    starts = np.maximum(ends - window, 0)
    return (sums[ends] - sums[starts]) / (ends - starts)


def _draw_returns(
    axis: Any,
    training: "Training",
    known: Known | None,
    fresh: Returns | None,
    random: float | None,
) -> None:
    totals, switches = training.totals, training.switch_episodes
    window = max(LEAST_WINDOW, len(totals) // 25)
    for number in switches:
        axis.axvline(number, color=SWITCH, linewidth=0.6, alpha=0.5)
    label = f"return, mean of {min(window, len(totals))} episodes"
    axis.plot(_numbers(totals), running_mean(totals, window), color=RETURN, label=label)
    if switches:
        axis.plot([], [], color=SWITCH, linewidth=0.6, label=f"{len(switches)} switches")
    if known is not None:
        axis.axhline(known.optimum, color=BEST, linestyle="--", label="optimum")
    if random is not None:
        axis.axhline(random, color=RANDOM, linestyle=":", label="random")
    if fresh is not None:
        bars = None
        if fresh.low is not None and fresh.high is not None:
            # If all returns are equal, the interval may miss their mean by rounding.
            bars = np.maximum([[fresh.mean - fresh.low], [fresh.high - fresh.mean]], 0.0)
        axis.errorbar(
            [len(totals)],
            [fresh.mean],
            yerr=bars,
            color=AFTER,
            marker="o",
            capsize=3,
            linestyle="none",
            clip_on=False,
            zorder=3,
            label=f"recommended, {len(fresh.totals)} fresh episodes",
        )
    axis.set_ylabel("return an episode")


def _numbers(totals: Floats) -> Any:
    return np.arange(1, len(totals) + 1)
