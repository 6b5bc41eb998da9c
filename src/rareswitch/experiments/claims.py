"""The paper's claims, each a function of the results: does it hold in our measurement?"""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from rareswitch import samples
from rareswitch.core.arguments import Floats
from rareswitch.experiments.algorithms import BATCH, EVERY, RARE
from rareswitch.experiments.bounds import adversary_bound, batches_of, switch_limit
from rareswitch.experiments.mixture_claims import (
    four_switches_nearly,
    mixtures_elsewhere,
    nine_switches_suffice,
    scale_within_two,
)
from rareswitch.experiments.results import Results
from rareswitch.experiments.verdict import Claim, Verdict, below, stated, worst


def batch_ends_close(runs: Results) -> Claim:
    near = _nearest_batches(runs, np.sqrt(runs.experiment.episodes))
    ratio, low, high = _final_ratio(runs, near)
    last = runs.experiment.episodes // 5
    arm, base = (runs.regret[i][:, -last:].mean(axis=-1) for i in (near, _baseline(runs)))
    tail, tail_low, tail_high = samples.ratio_interval(arm, base, runs.weights)
    return Claim(
        name="batch-ends-close",
        statement="With B ≈ √K batches, Batch ends close to LSVI-UCB (its average regret is at "
        "most 1.5 times as large).",
        source="Section 6",
        verdict=below(high, low, 1.5),
        evidence=f"{_label(runs, near)}: {stated(ratio, low, high)} times LSVI-UCB's average "
        f"regret at the end; {stated(tail, tail_low, tail_high)} times in the last {last} "
        "episodes.",
    )


def rareswitch_same_order(runs: Results) -> Claim:
    verdicts, parts = [], []
    for i, arm in runs.arms_of(RARE):
        ratio, low, high = _final_ratio(runs, i)
        verdicts.append(below(high, low, 2.0))
        parts.append(f"{arm.label} {stated(ratio, low, high)}")
    return Claim(
        name="rareswitch-same-order",
        statement="RareSwitch with constant η has regret of the same order as LSVI-UCB (final "
        "average regret at most twice as large for every η).",
        source="Section 6",
        verdict=worst(verdicts),
        evidence="Times LSVI-UCB's: " + ", ".join(parts) + ".",
    )


def rareswitch_close_throughout(runs: Results) -> Claim:
    batch = _nearest_batches(runs, np.sqrt(runs.experiment.episodes))
    made = runs.switches.mean(axis=1)
    rare = min((i for i, _ in runs.arms_of(RARE)), key=lambda i: abs(made[i] - made[batch]))
    K = runs.experiment.episodes
    checks = sorted({max(1, K // 25), K // 5, K // 2, K})
    verdicts, parts = [], []
    for k in checks:
        mine, theirs = (_ratio_at(runs, i, k) for i in (rare, batch))
        verdicts.append(below(mine[2], mine[1], 1.5))
        parts.append(f"k={k}: {mine[0]:.2f} against {theirs[0]:.2f}")
    early, late = _ratio_at(runs, batch, K // 5), _ratio_at(runs, batch, K)
    only_late: Verdict = "undecided"
    if early[1] > late[2]:
        only_late = "holds"
    elif early[2] < late[1]:
        only_late = "does not hold"
    return Claim(
        name="close-throughout",
        statement="With as many switches as Batch with B ≈ √K, RareSwitch is close to LSVI-UCB "
        "throughout (at most 1.5 times its average "
        "regret at 4%, 20%, 50% and 100% of the episodes), Batch only late (its ratio at 20% is "
        "above its ratio at the end).",
        source="Section 6",
        verdict=worst([*verdicts, only_late]),
        evidence=f"{_label(runs, rare)} against {_label(runs, batch)}, times LSVI-UCB's: "
        + "; ".join(parts)
        + ".",
    )


def less_adaptivity_costs_more(runs: Results) -> Claim:
    verdicts: list[Verdict] = []
    parts = []
    for family in (BATCH, RARE):
        order = [i for i, _ in runs.arms_of(family)]
        order.sort(key=lambda i: runs.deployments[i].mean(), reverse=True)
        chain = [_baseline(runs), *order]
        for more, less in pairwise(chain):
            mean, low, high = samples.difference_interval(
                runs.final[less], runs.final[more], runs.weights
            )
            verdicts.append("holds" if low > 0 else "does not hold" if high < 0 else "undecided")
            if verdicts[-1] != "holds":
                parts.append(
                    f"{_label(runs, less)} minus {_label(runs, more)}: {stated(mean, low, high)}"
                )
    return Claim(
        name="less-adaptivity-costs-more",
        statement="Less adaptivity (smaller B, larger η) costs more regret, monotonically: every "
        "step down in the number of deployments raises the final average regret.",
        source="Section 6",
        verdict=worst(verdicts),
        evidence="; ".join(parts) + "."
        if parts
        else f"All {len(verdicts)} paired differences between neighbours are positive.",
    )


def slopes_near_half(runs: Results) -> Claim:
    verdicts, parts = [], []
    for i, arm in enumerate(runs.experiment.arms):
        if not arm.learns:
            continue
        value, low, high = runs.slope(i)
        inside: Verdict = "undecided"
        if low >= -0.6 and high <= -0.4:
            inside = "holds"
        elif low > -0.4 or high < -0.6:
            inside = "does not hold"
        verdicts.append(inside)
        parts.append(f"{arm.label} {stated(value, low, high)}")
    return Claim(
        name="slopes-near-half",
        statement="On logarithmic axes every average regret curve falls with slope −1/2 (within "
        "0.1, over the last four fifths of the episodes).",
        source="Appendix A.1",
        verdict=worst(verdicts),
        evidence=", ".join(parts) + ".",
    )


def graceful_under_misspecification(runs: Results) -> Claim:
    verdicts, parts = [], []
    for family in (BATCH, RARE):
        arms = runs.arms_of(family)
        exact = next(i for i, arm in arms if not getattr(arm.world, "zeta", 0.0))
        for i, arm in arms:
            if i == exact:
                continue
            ratio, low, high = samples.ratio_interval(
                runs.final[i], runs.final[exact], runs.weights
            )
            verdicts.append(below(high, low, 2.0))
            parts.append(f"{arm.label} {stated(ratio, low, high)}")
    return Claim(
        name="graceful-under-misspecification",
        statement="Performance stays reasonable under misspecification (average regret at most "
        "twice that of the exact world, up to ζ = 0.4).",
        source="Appendix A.2",
        verdict=worst(verdicts),
        evidence="Times the regret at ζ=0: " + ", ".join(parts) + ".",
    )


def switches_within_bound(runs: Results) -> Claim:
    parts, within = [], True
    for i, arm in enumerate(runs.experiment.arms):
        most, limit = int(runs.switches[i].max()), switch_limit(runs, arm)
        within &= most <= limit
        if arm.family.name == RARE:
            parts.append(f"{arm.label}: at most {most} of {limit:.0f}")
    return Claim(
        name="switches-within-bound",
        statement="N_switch never exceeds dH·log(1 + K·L²/(λd))/log η for RareSwitch, nor B−1 for "
        "Batch, in any run.",
        source="Lemma on the switching cost, Theorem 2",
        verdict="holds" if within else "does not hold",
        evidence=", ".join(parts) + ".",
    )


def matched_budget(runs: Results) -> Claim:
    verdicts, parts = [], []
    for rare, batch in _budget_matched(runs):
        mean, low, high = samples.difference_interval(
            runs.final[rare], runs.final[batch], runs.weights
        )
        verdicts.append(below(high, low, 0.0))
        made = [f"{runs.switches[i].mean():.0f}" for i in (rare, batch)]
        parts.append(
            f"{_label(runs, rare)} ({made[0]}) minus {_label(runs, batch)} ({made[1]}): "
            f"{stated(mean, low, high)}"
        )
    return Claim(
        name="matched-budget",
        statement="At the same number of switches (within 15%) RareSwitch has less final average "
        "regret than Batch, at every such budget.",
        source="not made in the paper, which compares arms with different numbers of switches",
        verdict=worst(verdicts) if verdicts else "undecided",
        evidence="; ".join(parts) + "." if parts else "No two arms make about as many switches.",
    )


def lower_bound_forced(runs: Results) -> Claim:
    parts, forced = [], True
    for i, arm in runs.arms_of(BATCH):
        least, bound = runs.regret[i].sum(axis=-1).min(), adversary_bound(runs, arm, uniform=True)
        forced &= bool(least >= bound)
        parts.append(f"{arm.label}: {least:.0f} against {bound:.0f}")
    return Claim(
        name="lower-bound-forced",
        statement="The adversary forces at least d(H−1)T/(2B) regret on Batch with B batches.",
        source="Theorem 3",
        verdict="holds" if forced else "does not hold",
        evidence=", ".join(parts) + ".",
    )


CLAIMS: tuple[tuple[str, Callable[[Results], Claim]], ...] = (
    ("figure1", batch_ends_close),
    ("figure1", rareswitch_same_order),
    ("figure1", rareswitch_close_throughout),
    ("figure1", less_adaptivity_costs_more),
    ("figure2", slopes_near_half),
    ("figure3", graceful_under_misspecification),
    ("mixtures", nine_switches_suffice),
    ("mixtures", four_switches_nearly),
    ("mixtures", scale_within_two),
    ("mixtures", mixtures_elsewhere),
    ("switches", switches_within_bound),
    ("pareto", matched_budget),
    ("lower-bound", lower_bound_forced),
)


def check_claims(results: Mapping[str, Results]) -> list[Claim]:
    """Return the claims that these experiments speak to."""
    return [claim(results[name]) for name, claim in CLAIMS if name in results]


def _baseline(runs: Results) -> int:
    return runs.arms_of(EVERY)[0][0]


def _final_ratio(runs: Results, i: int) -> tuple[float, float, float]:
    return samples.ratio_interval(runs.final[i], runs.final[_baseline(runs)], runs.weights)


def _ratio_at(runs: Results, i: int, k: int) -> tuple[float, float, float]:
    curves: Floats = runs.average[:, :, k - 1]
    return samples.ratio_interval(curves[i], curves[_baseline(runs)], runs.weights)


def _nearest_batches(runs: Results, wanted: float) -> int:
    return min(runs.arms_of(BATCH), key=lambda arm: abs(batches_of(runs, arm[1]) - wanted))[0]


def _budget_matched(runs: Results) -> list[tuple[int, int]]:
    """Return the pairs of RareSwitch and Batch arms that make about as many switches."""
    made = runs.switches.mean(axis=1)
    rare = [i for i, _ in runs.arms_of(RARE)]
    pairs = [
        (min(rare, key=lambda i: abs(made[i] - made[batch])), batch)
        for batch, _ in runs.arms_of(BATCH)
    ]
    return [(i, batch) for i, batch in pairs if abs(made[i] - made[batch]) <= 0.15 * made[batch]]


def _label(runs: Results, i: int) -> str:
    return runs.experiment.arms[i].label
