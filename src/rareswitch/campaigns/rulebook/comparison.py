"""The difference of mean returns between learned members and the concurrent control.

The key of an episode draws its role at random. Among the episodes of learned members and the
control in one version, each is the control's with probability q, whatever happened before. So
within a version both roles have comparable participants at the same time, and a drift of outcomes
between versions does not affect δ_v, the difference of their means. The combined difference is

    δ = Σ_v n_v δ_v / Σ_v n_v,      n_v the episodes of version v that both roles played:

every episode has the same weight. The rule for the weights is fixed before the first episode.

**At the end** of a study of planned length, an interval for δ is Σ ω_v (x̄_v1 − x̄_v0) ± t·se with
ω_v = n_v/n and se² = Σ ω_v² (s₁²/n_v1 + s₀²/n_v0). Here s² is the variance of a role's returns
within versions, pooled over versions, but at least the variance of both roles together: otherwise a
control with few episodes and no success would have variance 0. Versions in which one role has no
outcome are left out.

**At any time** an interval must hold at all looks together. Let m_v in [0, 1] be fixed before the
first outcome of version v. The score of an episode with return x is

    D = (x − m_v)/(1−q) if learned members played,   D = −(x − m_v)/q if the control did,

so E[D] = δ_v, and D ≥ −c_v with c_v = max((1−m_v)/q, m_v/(1−q)). For 0 ≤ λ < 1/c and D ≥ −c,

    exp(λD − ψ(λ)D²) ≤ 1 + λD,      ψ(λ) = (−log(1−cλ) − cλ)/c²      (Fan, Grama and Liu 2015),

so exp(λ·Σ(D−δ) − Σψ(λ)D²) is a supermartingale for each λ, and so is its average E over a few λ.
E exceeds 1/α at any time with probability at most α (Ville). The lower end of the interval is the
largest δ at which E reaches 1/α; exchanging the roles gives the upper end. E at a margin is the
*evidence* that the difference is larger. This is the time-uniform empirical-Bernstein bound of
Howard, Ramdas, McAuliffe and Sekhon (2021, Theorem 4) with a discrete mixture. It assumes only that
outcomes lie in [0, 1], and holds for any number of versions and any reason to stop.

Returns are shares of the horizon here.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from statistics import NormalDist
from typing import NamedTuple

from rareswitch.campaigns.rulebook.running_mean import Bounds

# The λ of the mixture are these shares of the smallest 1/c that is possible.
RATES = tuple(2.0 ** (-step / 2.0) for step in range(1, 11))
ROUNDING = 1e-12  # smaller variances are rounding errors of equal returns
LEAST_FREEDOM = 5  # degrees of freedom; below, the interval's quantile is inaccurate
LARGEST_STEPS = 100  # of Newton's method, which needs about five


class Arm(NamedTuple):
    """The returns of one role in one version: their number, sum, and sum of squares."""

    episodes: int = 0
    total: float = 0.0
    squares: float = 0.0

    def add(self, x: float, sign: int = 1) -> "Arm":
        """Return the sums with a return, or without it (sign −1)."""
        episodes, total, squares = self
        return Arm(episodes + sign, total + sign * x, squares + sign * x * x)

    @property
    def mean(self) -> float | None:
        return self.total / self.episodes if self.episodes else None

    def around(self, centre: float) -> float:
        """Return Σ(x − centre)²."""
        return max(0.0, self.squares - 2.0 * centre * self.total + self.episodes * centre**2)


class Stratum(NamedTuple):
    """The outcomes of one version; `centre` is m_v, fixed before the first outcome."""

    centre: float
    learned: Arm = Arm()
    control: Arm = Arm()

    @property
    def episodes(self) -> int:
        return self.learned.episodes + self.control.episodes

    @property
    def compares(self) -> bool:
        """Whether both roles have outcomes."""
        return self.learned.episodes > 0 and self.control.episodes > 0

    @property
    def exchanged(self) -> "Stratum":
        return Stratum(self.centre, self.control, self.learned)


class Difference(NamedTuple):
    """An estimated difference and its interval; the ends are None if it cannot be computed.

    `error` is the standard error, and `episodes` the number of episodes used.
    """

    value: float | None
    low: float | None
    high: float | None
    error: float | None
    episodes: int


def difference_at_the_end(strata: Sequence[Stratum], confidence: float) -> Difference:
    """Return the combined difference with the interval of a study of planned length.

    >>> one = Stratum(0.5, Arm(100, 60.0, 60.0), Arm(100, 40.0, 40.0))
    >>> value, low, high, *_ = difference_at_the_end([one], 0.95)
    >>> round(value, 3), round(low, 3), round(high, 3)
    (0.2, 0.063, 0.337)
    """
    used = [one for one in strata if one.compares]
    episodes = sum(one.episodes for one in used)
    if not used:
        return Difference(None, None, None, None, 0)
    value = math.fsum(
        one.episodes / episodes * (_mean(one.learned) - _mean(one.control)) for one in used
    )
    roles = [[one.learned for one in used], [one.control for one in used]]
    spread = variances(
        [math.fsum(arm.around(_mean(arm)) for arm in arms) for arms in roles],
        [sum(arm.episodes - 1 for arm in arms) for arms in roles],
    )
    freedom = sum(arm.episodes - 1 for arms in roles for arm in arms)
    if spread is None or freedom < LEAST_FREEDOM:
        return Difference(value, None, None, None, episodes)
    variance = math.fsum(
        (one.episodes / episodes) ** 2 / arm.episodes * own
        for own, arms in zip(spread, roles, strict=True)
        for one, arm in zip(used, arms, strict=True)
    )
    error = math.sqrt(variance)
    width = student_quantile(0.5 + confidence / 2.0, freedom) * error
    return Difference(value, value - width, value + width, error, episodes)


def variances(squares: Sequence[float], degrees: Sequence[float]) -> list[float] | None:
    """Return each role's variance, at least the pooled variance; None if all returns are equal.

    >>> variances([0.0, 20.0], [10, 90])
    [0.2, 0.2222222222222222]
    """
    total = math.fsum(degrees)
    both = math.fsum(squares) / total if total > 0.0 else 0.0
    if not both > ROUNDING:
        return None
    return [
        max(own / free, both) if free > 0.0 else both
        for own, free in zip(squares, degrees, strict=True)
    ]


def bounds_at_any_time(strata: Sequence[Stratum], share: float, confidence: float) -> Bounds:
    """Return the interval of the combined difference that holds at all looks together.

    `share` is q, the control's share among the episodes of both roles.

    >>> one = Stratum(0.5, Arm(400, 280.0, 280.0), Arm(100, 40.0, 40.0))
    >>> [round(end, 2) for end in bounds_at_any_time([one], 0.2, 0.95)]
    [0.1, 0.5]
    """
    error = (1.0 - confidence) / 2.0
    return Bounds(least_difference(strata, share, error), largest_difference(strata, share, error))


def largest_difference(strata: Sequence[Stratum], share: float, error: float) -> float:
    """Return an upper bound of the combined difference; `error` holds for all looks together."""
    return -least_difference([one.exchanged for one in strata], 1.0 - share, error)


def least_difference(strata: Sequence[Stratum], share: float, error: float) -> float:
    """Return a lower bound of the combined difference; `error` holds for all looks together."""
    seen, needed = _Scores(strata, share), -math.log(error)
    if not seen.episodes:
        return -1.0
    # The bound for a single λ is below that of the mixture; Newton's method ascends from there.
    found = max(
        (seen.total - (needed - weight) / rate) / seen.episodes
        for rate, weight in zip(seen.rates, seen.weights, strict=True)
    )
    for _ in range(LARGEST_STEPS):
        excess, slope = seen.evidence(found)
        step = (excess - needed) / slope
        found += step
        if not step > 1e-15:
            break
    return min(1.0, max(-1.0, found))


def log_evidence(strata: Sequence[Stratum], share: float, margin: float) -> float:
    """Return log E: the evidence that the combined difference is above a margin.

    >>> one = Stratum(0.5, Arm(400, 280.0, 280.0), Arm(100, 40.0, 40.0))
    >>> round(math.exp(log_evidence([one], 0.2, 0.0)))
    8742
    """
    return _Scores(strata, share).evidence(margin)[0]


class _Scores:
    """The sums of the scores of some versions, and for each λ the logarithm of its weight."""

    def __init__(self, strata: Sequence[Stratum], share: float) -> None:
        self.rates = [min(share, 1.0 - share) * rate for rate in RATES]
        self.episodes, self.total = 0, 0.0
        self.weights = [-math.log(len(RATES))] * len(RATES)
        for one in strata:
            centre, learned, control = one
            self.episodes += one.episodes
            self.total += (learned.total - learned.episodes * centre) / (1.0 - share)
            self.total -= (control.total - control.episodes * centre) / share
            squares = learned.around(centre) / (1.0 - share) ** 2
            squares += control.around(centre) / share**2
            range_, penalties = _penalties(centre, share)
            for place, penalty in enumerate(penalties):
                self.weights[place] += squares * penalty / range_**2

    def evidence(self, difference: float) -> tuple[float, float]:
        """Return log E at a difference, and its rate of decrease there."""
        above = self.total - self.episodes * difference
        logs = [w + rate * above for rate, w in zip(self.rates, self.weights, strict=True)]
        largest = max(logs)
        parts = [math.exp(one - largest) for one in logs]
        total = math.fsum(parts)
        rate = math.fsum(map(math.prod, zip(parts, self.rates, strict=True))) / total
        return largest + math.log(total), self.episodes * rate


@lru_cache(maxsize=1024)
def _penalties(centre: float, share: float) -> tuple[float, list[float]]:
    """Return the range c of a version's scores, and −c²·ψ(λ) for each λ."""
    range_ = max((1.0 - centre) / share, centre / (1.0 - share))
    scaled = [range_ * (min(share, 1.0 - share) * rate) for rate in RATES]
    return range_, [math.log1p(-one) + one for one in scaled]


def student_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t distribution, by an expansion around the normal quantile.

    The error is below 0.1% for five or more degrees of freedom.

    >>> round(student_quantile(0.975, 10), 3), round(student_quantile(0.975, 1e9), 3)
    (2.228, 1.96)
    """
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4.0,
        (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / 96.0,
        (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / 384.0,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))


def _mean(arm: Arm) -> float:
    return arm.total / arm.episodes
