"""The paper's claims, each a function from results to a verdict.

A verdict uses a 95% bootstrap interval over rounds. A claim "holds" if the whole interval is on the
right side of the threshold, "does not hold" if it is wholly on the wrong side, and is "undecided"
otherwise. Words like "similar" have no number in the paper; the statement gives a threshold for
them.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import numpy as np

from rareswitch.experiments.algorithms import BATCH, EVERY, RARE
from rareswitch.experiments.results import Interval, Results
from rareswitch.support import bootstrap

Verdict = Literal["holds", "does not hold", "undecided"]
Parts = list[tuple[Verdict, str]]  # the verdict and the evidence for each arm


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One claim, its place in the paper, and the verdict of the measurement."""

    name: str
    statement: str
    source: str
    verdict: Verdict
    evidence: str


def judge_at_most(interval: Interval, threshold: float) -> Verdict:
    """Judge "the quantity is at most threshold" from its interval."""
    _, low, high = interval
    if high <= threshold:
        return "holds"
    return "does not hold" if low > threshold else "undecided"


def judge_parts(parts: Parts, before: str = "", between: str = ", ") -> dict[str, Any]:
    """Return the verdict and the evidence of a claim about several arms.

    It holds if it holds for all arms, and does not hold if it fails for one arm.
    """
    found = {verdict for verdict, _ in parts}
    order: tuple[Verdict, ...] = ("does not hold", "undecided", "holds")
    said = between.join(evidence for _, evidence in parts if evidence)
    return {"verdict": min(found, key=order.index), "evidence": f"{before}{said}."}


def with_interval(interval: Interval, digits: int = 2) -> str:
    """Return a number with its interval.

    >>> with_interval((1.0, 0.9, 1.0504)), with_interval((1.0, 0.9, 1.0504), 3)
    ('1.00 [0.90, 1.05]', '1.000 [0.900, 1.050]')
    """
    value, low, high = (f"{number:.{digits}f}" for number in interval)
    return f"{value} [{low}, {high}]"


def batch_ends_close(results: Results) -> Claim:
    near = _nearest_batches(results, np.sqrt(results.experiment.episodes))
    ratio = results.ratio(near, _lsvi_ucb(results))
    last = results.experiment.episodes // 5
    arm, base = (results.regret[i][:, -last:].mean(axis=-1) for i in (near, _lsvi_ucb(results)))
    tail = bootstrap.ratio_interval(arm, base, results.weights)
    return Claim(
        name="batch-ends-close",
        statement="With B ≈ √K batches, Batch ends close to LSVI-UCB (its average regret is at "
        "most 1.5 times as large).",
        source="Section 6",
        verdict=judge_at_most(ratio, 1.5),
        evidence=f"{_label(results, near)}: {with_interval(ratio)} times LSVI-UCB's average "
        f"regret at the end; {with_interval(tail)} times in the last {last} episodes.",
    )


def rareswitch_same_order(results: Results) -> Claim:
    ratios = [(arm, results.ratio(i, _lsvi_ucb(results))) for i, arm in results.arms_of(RARE)]
    parts = [(judge_at_most(r, 2.0), f"{arm.label} {with_interval(r)}") for arm, r in ratios]
    return Claim(
        name="rareswitch-same-order",
        statement="RareSwitch with constant η has regret of the same order as LSVI-UCB (final "
        "average regret at most twice as large for every η).",
        source="Section 6",
        **judge_parts(parts, "Times LSVI-UCB's: "),
    )


def rareswitch_close_throughout(results: Results) -> Claim:
    batch = _nearest_batches(results, np.sqrt(results.experiment.episodes))
    made = results.switches.mean(axis=1)
    rare = min((i for i, _ in results.arms_of(RARE)), key=lambda i: abs(made[i] - made[batch]))
    K = results.experiment.episodes
    parts: Parts = []
    for k in sorted({max(1, K // 25), K // 5, K // 2, K}):
        mine, theirs = (_ratio_at(results, i, k) for i in (rare, batch))
        said = f"k={k}: {with_interval(mine)} against {with_interval(theirs)}"
        parts.append((judge_at_most(mine, 1.5), said))
    early, late = _ratio_at(results, batch, K // 5), _ratio_at(results, batch, K)
    only_late: Verdict = "undecided"
    if early[1] > late[2]:
        only_late = "holds"
    elif early[2] < late[1]:
        only_late = "does not hold"
    pair = f"{_label(results, rare)} against {_label(results, batch)}"
    return Claim(
        name="close-throughout",
        statement="With as many switches as Batch with B ≈ √K, RareSwitch is close to LSVI-UCB "
        "throughout (at most 1.5 times its average "
        "regret at 4%, 20%, 50% and 100% of the episodes), Batch only late (its ratio at 20% is "
        "above its ratio at the end).",
        source="Section 6",
        **judge_parts([*parts, (only_late, "")], f"{pair}, times LSVI-UCB's: ", "; "),
    )


def less_adaptivity_costs_more(results: Results) -> Claim:
    parts: Parts = []
    for family in (BATCH, RARE):
        order = [i for i, _ in results.arms_of(family)]
        order.sort(key=lambda i: results.deployments[i].mean(), reverse=True)
        for more, less in pairwise([_lsvi_ucb(results), *order]):
            _, low, high = difference = results.difference(less, more)
            verdict: Verdict = "holds" if low > 0 else "does not hold" if high < 0 else "undecided"
            pair = f"{_label(results, less)} minus {_label(results, more)}"
            parts.append((verdict, f"{pair}: {with_interval(difference)}"))
    others = [part for part in parts if part[0] != "holds"]
    before = f"{len(others)} of {len(parts)} differences: " if 0 < len(others) < len(parts) else ""
    return Claim(
        name="less-adaptivity-costs-more",
        statement="Less adaptivity (smaller B, larger η) costs more regret, monotonically: every "
        "step down in the number of deployments raises the final average regret.",
        source="Section 6",
        **judge_parts(
            others
            or [("holds", f"All {len(parts)} paired differences between neighbours are positive")],
            before,
            between="; ",
        ),
    )


def slopes_near_half(results: Results) -> Claim:
    parts: Parts = []
    for i, arm in enumerate(results.arms):
        if not arm.learns:
            continue
        _, low, high = slope = results.slope(i)
        inside: Verdict = "undecided"
        if low >= -0.6 and high <= -0.4:
            inside = "holds"
        elif low > -0.4 or high < -0.6:
            inside = "does not hold"
        parts.append((inside, f"{arm.label} {with_interval(slope)}"))
    return Claim(
        name="slopes-near-half",
        statement="On logarithmic axes every average regret curve falls with slope −1/2 (within "
        "0.1, over the last four fifths of the episodes).",
        source="Appendix A.1",
        **judge_parts(parts),
    )


def graceful_under_misspecification(results: Results) -> Claim:
    parts: Parts = []
    for family in (BATCH, RARE):
        arms = results.arms_of(family)
        exact = next(i for i, arm in arms if not getattr(arm.world, "zeta", 0.0))
        for i, arm in arms:
            if i != exact:
                ratio = results.ratio(i, exact)
                parts.append((judge_at_most(ratio, 2.0), f"{arm.label} {with_interval(ratio)}"))
    return Claim(
        name="graceful-under-misspecification",
        statement="Performance stays reasonable under misspecification (average regret at most "
        "twice that of the exact world, up to ζ = 0.4).",
        source="Appendix A.2",
        **judge_parts(parts, "Times the regret at ζ=0: "),
    )


def switches_within_bound(results: Results) -> Claim:
    parts: Parts = []
    for i, arm in enumerate(results.arms):
        most, limit = int(results.switches[i].max()), results.switch_limit(arm)
        said = f"{arm.label}: at most {most} of {limit:.0f}" if arm.family.name == RARE else ""
        parts.append(("holds" if most <= limit else "does not hold", said))
    return Claim(
        name="switches-within-bound",
        statement="N_switch never exceeds dH·log(1 + K·L²/(λd))/log η for RareSwitch, nor B−1 for "
        "Batch, in any run.",
        source="Lemma on the switching cost, Theorem 2",
        **judge_parts(parts),
    )


def matched_budget(results: Results) -> Claim:
    parts: Parts = []
    for pair in _budget_matched(results):
        difference = results.difference(*pair)
        rare, batch = (f"{_label(results, i)} ({results.switches[i].mean():.0f})" for i in pair)
        said = f"{rare} minus {batch}: {with_interval(difference)}"
        parts.append((judge_at_most(difference, 0.0), said))
    return Claim(
        name="matched-budget",
        statement="At the same number of switches (within 15%) RareSwitch has less final average "
        "regret than Batch, at every such budget.",
        source="not made in the paper, which compares arms with different numbers of switches",
        **judge_parts(
            parts or [("undecided", "No two arms make about as many switches")], between="; "
        ),
    )


def lower_bound_forced(results: Results) -> Claim:
    parts: Parts = []
    for i, arm in results.arms_of(BATCH):
        least = results.regret[i].sum(axis=-1).min()
        bound = results.adversary_bound(arm, uniform=True)
        said = f"{arm.label}: {least:.0f} against {bound:.0f}"
        parts.append(("holds" if least >= bound else "does not hold", said))
    return Claim(
        name="lower-bound-forced",
        statement="The adversary forces at least d(H−1)T/(2B) regret on Batch with B batches.",
        source="Theorem 3",
        **judge_parts(parts),
    )


def _lsvi_ucb(results: Results) -> int:
    return results.arms_of(EVERY)[0][0]


def _ratio_at(results: Results, i: int, k: int) -> Interval:
    """Return the average regret up to episode k divided by that of LSVI-UCB."""
    curves = results.average[:, :, k - 1]
    return bootstrap.ratio_interval(curves[i], curves[_lsvi_ucb(results)], results.weights)


def _nearest_batches(results: Results, wanted: float) -> int:
    """Return the Batch arm whose number of batches is nearest to `wanted`."""
    return min(results.arms_of(BATCH), key=lambda arm: abs(results.batches(arm[1]) - wanted))[0]


def _budget_matched(results: Results) -> list[tuple[int, int]]:
    """Return the pairs of RareSwitch and Batch arms with about equally many switches."""
    made = results.switches.mean(axis=1)
    rare = [i for i, _ in results.arms_of(RARE)]
    pairs = [
        (min(rare, key=lambda i: abs(made[i] - made[batch])), batch)
        for batch, _ in results.arms_of(BATCH)
    ]
    return [(i, batch) for i, batch in pairs if abs(made[i] - made[batch]) <= 0.15 * made[batch]]


def _label(results: Results, i: int) -> str:
    return results.arms[i].label
