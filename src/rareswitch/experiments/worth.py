"""The figure and the claims about rules that look at the candidate.

An arm with `Worthwhile` is paired with the arm of the rule inside it, on the same world and with
the same recipe: both have the same budget and, round by round, the same world and noise.
"""

from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from rareswitch.experiments.claims import Claim, Parts, judge_at_most, judge_parts, with_interval
from rareswitch.experiments.results import Interval, Results
from rareswitch.experiments.spec import Arm
from rareswitch.rules.worth import Worthwhile
from rareswitch.support import bootstrap
from rareswitch.support.drawing import line_style

SOURCE = "not made in the paper, whose rules do not look at the candidate"
SIMILAR = 1.05  # times the regret without looking
SAVED = 0.75  # of the deployments without looking


class Pair(NamedTuple):
    """The positions of an arm that looks and of its twin, and their measurements.

    `ratio` is the ratio of regrets; `made` are the deployments after the first, without and with
    looking.
    """

    plain: int
    looks: int
    name: str
    limit: int
    ratio: Interval
    made: tuple[float, float]


def find_pairs(results: Results) -> list[Pair]:
    """Return the arms that look at candidates, each with its twin, in the order of the spec."""
    arms = {_key(arm, arm.rule): i for i, arm in enumerate(results.arms)}
    pairs = []
    for looks, arm in enumerate(results.arms):
        if not isinstance(arm.rule, Worthwhile):
            continue
        plain = arms.get(_key(arm, arm.rule.schedule))
        if plain is None:
            raise ValueError(f"arm {arm.name!r}: no other arm has its rule without looking")
        made = results.deployments[[plain, looks]] - 1
        pairs.append(
            Pair(
                plain=plain,
                looks=looks,
                name=results.arms[plain].label,
                limit=int(results.switch_limit(arm)),
                ratio=results.ratio(looks, plain),
                made=(float(made[0].mean()), float(made[1].mean())),
            )
        )
    if not pairs:
        raise ValueError("figure 'worth' needs an arm with schedule kind worthwhile; got none")
    return pairs


def _key(arm: Arm, rule: object) -> tuple[object, ...]:
    return repr(rule), arm.world, arm.recipe, arm.initial_state


def similar_regret(results: Results) -> Claim:
    parts: Parts = [
        (judge_at_most(pair.ratio, SIMILAR), f"{pair.name} {with_interval(pair.ratio, 3)}")
        for pair in find_pairs(results)
    ]
    return Claim(
        name="similar-regret",
        statement="At equal budgets a rule that looks at the candidate has at most "
        f"{SIMILAR:g} times the regret, in every world.",
        source=SOURCE,
        **judge_parts(parts, "Times the regret without looking: "),
    )


def saves_deployments(results: Results) -> Claim:
    pairs = find_pairs(results)
    made = (results.deployments - 1).astype(float)
    looks, plain = ([pair.looks for pair in pairs], [pair.plain for pair in pairs])
    saved = bootstrap.ratio_interval(made[looks].sum(0), made[plain].sum(0), results.weights)
    said = ", ".join(f"{pair.name} {pair.made[1]:.1f} of {pair.made[0]:.1f}" for pair in pairs)
    return Claim(
        name="saves-deployments",
        statement="Over all worlds and budgets, a rule that looks at the candidate makes at most "
        f"{SAVED:.0%} of the deployments.",
        source=SOURCE,
        verdict=judge_at_most(saved, SAVED),
        evidence=f"Of all deployments {with_interval(saved)} are made: {said}.",
    )


def never_above_the_budget(results: Results) -> Claim:
    parts: Parts = []
    for pair in find_pairs(results):
        most = int(results.deployments[pair.looks].max()) - 1
        if most > pair.limit:
            parts.append(("does not hold", f"{pair.name} {most} of {pair.limit}"))
    return Claim(
        name="worth-keeps-the-budget",
        statement="A rule that looks at the candidate never exceeds the budget of the rule inside.",
        source="proved in the documentation, Schedules",
        **judge_parts(parts or [("holds", "the most deployments are within every budget")]),
    )


def draw_worth(results: Results) -> Figure:
    """Draw the deployments made from each budget, and below them the ratio of regrets."""
    pairs = find_pairs(results)
    x = np.arange(len(pairs))
    figure = Figure(figsize=(1.5 + 0.62 * len(pairs), 5.6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    for side, (label, style) in enumerate(
        (("on its dates", "spread-budget"), ("if the candidate is worth it", "worthwhile"))
    ):
        colour, _ = line_style(style)
        made = [pair.made[side] for pair in pairs]
        above.bar(x + 0.4 * (side - 0.5), made, width=0.38, color=colour, label=label)
    above.set_ylabel("deployments after the first")
    above.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, fontsize=8)
    ratio, low, high = np.array([pair.ratio for pair in pairs]).T
    ends, (colour, _) = (ratio - low, high - ratio), line_style("worthwhile")
    below.errorbar(x, ratio, yerr=ends, color=colour, marker="o", linestyle="none")
    below.axhline(1.0, color="black", linewidth=0.8)
    below.axhline(SIMILAR, color="black", linewidth=0.8, linestyle=":")
    below.set(xlabel="world and budget B", ylabel="regret, times that on its dates")
    below.set_xticks(x, [pair.name for pair in pairs], rotation=35, ha="right", fontsize=8)
    return figure
