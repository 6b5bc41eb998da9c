"""The mean of observations in [0, 1], with an interval that holds at every look at once.

It is the empirical-Bernstein confidence sequence of Waudby-Smith and Ramdas (2023, Theorem 2). For
observations x in [0, 1] with one conditional mean, and any λ_t that is settled before x_t is seen,

    Σλx / Σλ  ±  (log(2/α) + Σ v·ψ(λ)) / Σλ,      v_t = (x_t − m_{t−1})²,   ψ(λ) = −log(1−λ) − λ,

covers the mean at all t together with probability 1 − α. Looking after every observation, and
stopping at any of them, does not make the interval wrong more often.
"""

import math
from typing import NamedTuple

# λ is tuned to this α; the interval is valid for any.
TUNED_FOR = math.log(2 / 0.05)
LARGEST_LAMBDA = 0.5


class Bounds(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class Place(NamedTuple):
    """The place of an observation: it was the t-th, and its weight was settled before it came."""

    t: int
    mean: float  # m_{t−1}, with one observation of ½
    weight: float  # λ_t


class RunningMean(NamedTuple):
    """A few sums over observations in [0, 1], whatever their number.

    >>> seen = RunningMean()
    >>> for _ in range(200):
    ...     seen = seen.after(0.75)
    >>> seen.mean, [round(end, 2) for end in seen.bounds(confidence=0.95)]
    (0.75, [0.71, 0.79])
    """

    observations: int = 0
    total: float = 0.0  # Σx
    squares: float = 0.0  # Σ(x_t − m_t)², m_t the mean so far with one observation of ½
    weights: float = 0.0  # Σλ
    weighted: float = 0.0  # Σλx
    spread: float = 0.0  # Σ v·ψ(λ)

    @property
    def mean(self) -> float | None:
        return self.total / self.observations if self.observations else None

    @property
    def next_place(self) -> Place:
        t = self.observations + 1
        variance = (0.25 + self.squares) / t
        chosen = math.sqrt(2.0 * TUNED_FOR / (variance * t * math.log1p(t)))
        return Place(t, (0.5 + self.total) / t, min(chosen, LARGEST_LAMBDA))

    def after(self, x: float) -> "RunningMean":
        return self.add(self.next_place, x, 1)

    def add(self, place: Place, x: float, sign: int) -> "RunningMean":
        """Return the sums with an observation in its place, or without it (sign −1).

        A correction replaces an observation in its place. The weights of later observations stay:
        each was settled before its observation came, so the interval still holds.
        """
        t, mean, weight = place
        observations, total, squares, weights, weighted, spread = self
        mean_after = (mean * t + x) / (t + 1)
        return RunningMean(
            observations + sign,
            total + sign * x,
            squares + sign * (x - mean_after) ** 2,
            weights + sign * weight,
            weighted + sign * weight * x,
            spread + sign * (x - mean) ** 2 * (-math.log1p(-weight) - weight),
        )

    def bounds(self, confidence: float) -> Bounds:
        """Return the interval within [0, 1]."""
        if self.observations <= 0 or self.weights <= 0.0:
            return Bounds(0.0, 1.0)
        centre = self.weighted / self.weights
        width = (math.log(2.0 / (1.0 - confidence)) + self.spread) / self.weights
        return Bounds(max(0.0, centre - width), min(1.0, centre + width))
