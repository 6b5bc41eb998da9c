"""The figure and the claims about mixtures on the family of the lower bound.

The right actions are random, so the least expected regret of a learner with at most M policies in
each batch is known exactly (`theory.least_expected_regret`). Arms with the same horizon are
compared with each other; the mixture is `Ensemble(members=M)`.
"""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from rareswitch.core.exploration import Bonus, Ensemble
from rareswitch.experiments.claims import (
    Claim,
    Parts,
    judge_at_most,
    judge_parts,
    with_interval,
)
from rareswitch.experiments.results import Interval, Results
from rareswitch.experiments.spec import Arm
from rareswitch.experiments.worlds import ObliviousAdversary
from rareswitch.support import bootstrap
from rareswitch.support.drawing import draw_intervals, line_style

SOURCE = "not made in the paper, whose proof of Theorem 3 has one policy in each batch"
FEW, MANY = Ensemble().members, 128


def mixture_beats_one_policy(results: Results) -> Claim:
    parts: Parts = []
    for world in find_worlds(results):
        i = find_mixtures(results, world)[FEW]
        ratio = least_ratio(results, i, members=1)
        parts.append((judge_at_most(ratio, 1.0), f"H={world.horizon} {with_interval(ratio)}"))
    return Claim(
        name="mixture-beats-one-policy",
        statement=f"A mixture of {FEW} members, without tuning, has less regret than the best "
        "learner with one policy for each batch, at every horizon.",
        source=SOURCE,
        **judge_parts(parts, "Times the least expected regret with one policy: "),
    )


def nothing_below_the_least(results: Results) -> Claim:
    ratios = [
        (arm, least_ratio(results, i, members=arm.members)) for i, arm in enumerate(results.arms)
    ]
    below = [(arm, ratio) for arm, ratio in ratios if ratio[2] < 1.0]
    arm, ratio = min(ratios, key=lambda part: part[1][0])
    parts: Parts = [("does not hold", f"{a.label} {with_interval(r)}") for a, r in below]
    return Claim(
        name="nothing-below-the-least",
        statement="No arm has measurably less regret than the least expected regret with as many "
        "members (its interval is not wholly below).",
        source="proved in the documentation, Lower bound",
        **judge_parts(
            parts or [("holds", f"the lowest is {arm.label} with {with_interval(ratio)}")],
            "Times the least: ",
        ),
    )


def law_in_members(results: Results) -> Claim:
    parts: Parts = []
    for world in find_worlds(results):
        for members, i in find_mixtures(results, world).items():
            if members >= FEW:
                ratio = least_ratio(results, i, members=members)
                said = f"H={world.horizon}, M={members} {with_interval(ratio)}"
                parts.append((judge_at_most(ratio, 2.0), said))
    return Claim(
        name="law-in-members",
        statement="The mixture follows the law of the best possible one, about H²/(2·log₂ M) for "
        f"a long horizon: from {FEW} members on it has at most twice the least expected "
        "regret of a mixture of M members, at every horizon.",
        source=SOURCE,
        **judge_parts(parts, "Times the least: "),
    )


def more_members_pay(results: Results) -> Claim:
    parts: Parts = []
    for world in find_worlds(results):
        arms = find_mixtures(results, world)
        ratio = results.ratio(arms[MANY], arms[FEW])
        parts.append((judge_at_most(ratio, 1.0), f"H={world.horizon} {with_interval(ratio)}"))
    return Claim(
        name="more-members-pay",
        statement=f"With {MANY} members the mixture has less regret than with {FEW}, at every "
        "horizon.",
        source=SOURCE,
        **judge_parts(parts, f"Times the regret with {FEW}: "),
    )


def find_worlds(results: Results) -> list[ObliviousAdversary]:
    """Return the worlds in the order of the spec."""
    return list(dict.fromkeys(_world(arm) for arm in results.arms))


def find_mixtures(results: Results, world: ObliviousAdversary) -> dict[int, int]:
    """Return the positions of the mixtures on a world, by number of members, ascending."""
    found = {
        arm.members: i
        for i, arm in enumerate(results.arms)
        if arm.world == world and arm.recipe.exploration == Ensemble(members=arm.members)
    }
    return dict(sorted(found.items()))


def least_ratio(results: Results, i: int, *, members: int) -> Interval:
    """Return an arm's regret divided by the least expected regret with M members."""
    total = results.regret[i].sum(axis=-1)
    ratio = total / results.least_regret(results.arms[i], members=members)
    low, high = bootstrap.mean_interval(ratio, results.weights)
    return float(ratio.mean()), float(low), float(high)


def draw_members(results: Results) -> Figure:
    """Draw the regret in units of a batch against the members, in a panel for each horizon."""
    found = find_worlds(results)
    figure = Figure(figsize=(1.2 + 3.0 * len(found), 4.4), layout="constrained")
    axes = figure.subplots(1, len(found), squeeze=False)[0]
    for axis, world in zip(axes, found, strict=True):
        _draw_world(axis, results, world)
    axes[0].set_ylabel("regret / (d·K/B)")
    handles = {
        label: handle
        for axis in axes
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=3,
        fontsize=8,
        title="Points: means over rounds. Bars: their 95% intervals.",
        title_fontsize=8,
    )
    return figure


def _draw_world(axis: Axes, results: Results, world: ObliviousAdversary) -> None:
    """Draw the measurements on one world, and the least regret of one policy and of mixtures."""
    arms = {i: arm for i, arm in enumerate(results.arms) if arm.world == world}
    first = next(iter(arms.values()))
    unit = world.states * results.experiment.episodes / results.batches(first)  # d·K/B
    most = max(arm.members for arm in arms.values())
    members = [2**n for n in range(most.bit_length())]
    least = [results.least_regret(first, members=m) / unit for m in members]
    axis.axhline(
        least[0], color="black", linestyle="--", label="one policy for each batch, at best"
    )
    axis.plot(members, least, color="black", linewidth=1.4, label="mixture of M members, at best")
    groups: dict[str, list[int]] = {}
    for i, arm in arms.items():
        groups.setdefault(_line(arm), []).append(i)
    for name, rows in groups.items():
        label, line = LINES[name]
        colour, marker = line_style(line)
        # Means over episodes times B/d are totals in units of d·K/B.
        scale = np.array([results.batches(arms[i]) / world.states for i in rows])
        intervals = [part * scale for part in results.means(rows)]
        x = np.array([arms[i].members for i in rows])
        look = {"color": colour, "marker": marker, "markersize": 7, "linewidth": 1.4}
        draw_intervals(axis, x, intervals, label=label, **look)
    axis.set(title=f"H = {world.horizon}", xscale="log", yscale="log", xlabel="members M")
    ticks = sorted({arm.members for arm in arms.values()})
    axis.set_xticks(ticks, [str(tick) for tick in ticks])
    axis.xaxis.set_minor_locator(NullLocator())
    axis.yaxis.set_major_formatter("{x:g}")
    axis.yaxis.set_minor_formatter("{x:g}")


# The label of each line, and the name of its style.
LINES = {
    "mixture": ("mixture, no tuning", "mixture"),
    "batch": ("LSVI-UCB-Batch", "uniform-grid"),
    "ties": ("bonus, members break ties", "bonus-members"),
    "other": ("other exploration", "capped"),
}


def _line(arm: Arm) -> str:
    """Return the line of an arm in the figure."""
    explores = arm.recipe.exploration
    if explores == Ensemble(members=arm.members):
        return "mixture"
    if arm.has_paper_bonus:
        return "batch"
    return "ties" if explores == Bonus(explores.beta, members=arm.members) else "other"


def _world(arm: Arm) -> ObliviousAdversary:
    assert isinstance(arm.world, ObliviousAdversary)  # checked when the spec was read
    return arm.world
