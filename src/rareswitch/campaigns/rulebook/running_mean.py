"""The mean of observations in [0, 1], with an interval that is valid at any time.

It is the empirical-Bernstein confidence sequence of Waudby-Smith and Ramdas (2023, Theorem 2). For
observations x in [0, 1] with one conditional mean, and any λ_t that is fixed before x_t is seen,

    Σλx / Σλ  ±  (log(2/α) + Σ v·ψ(λ)) / Σλ,      v_t = (x_t − m_{t−1})²,   ψ(λ) = −log(1−λ) − λ,

covers the mean at all t together with probability at least 1 − α. Looking after every observation,
and stopping at any of them, does not reduce the coverage.
"""

import math
from typing import NamedTuple

# λ is tuned for this α; the interval is valid for any α.
TUNED_FOR = math.log(2 / 0.05)
LARGEST_LAMBDA = 0.5


class Bounds(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class Place(NamedTuple):
    """The place of an observation: its number t, and the weight that was fixed before it."""

    t: int
    mean: float  # m_{t−1}, with one observation of ½
    weight: float  # λ_t


class RunningMean(NamedTuple):
    """The sufficient sums over observations in [0, 1].

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
        each was fixed before its observation, so the interval remains valid.
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
