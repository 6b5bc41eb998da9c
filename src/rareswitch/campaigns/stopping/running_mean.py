"""An interval for a mean that holds at every look at once.

The empirical-Bernstein confidence sequence of Waudby-Smith and Ramdas (2023, Theorem 2): for
observations x in [0, 1] with one conditional mean, and any λ_t that is settled before x_t is seen,

    Σλx / Σλ  ±  (log(2/α) + Σ v·ψ(λ)) / Σλ,      v_t = (x_t − m_{t−1})²,   ψ(λ) = −log(1−λ) − λ,

covers the mean at all t together with probability 1 − α. Whoever looks after every observation,
and stops when he likes what he sees, is wrong no more often than that.
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


class RunningMean(NamedTuple):
    """What is kept of observations in [0, 1]: a few sums, whatever their number.

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
        """The plain mean, if there is one."""
        return self.total / self.observations if self.observations else None

    def after(self, x: float) -> "RunningMean":
        """Return what is kept after one more observation."""
        t, total, squares = self.observations + 1, self.total, self.squares
        mean = (0.5 + total) / t
        variance = (0.25 + squares) / t
        chosen = math.sqrt(2.0 * TUNED_FOR / (variance * t * math.log1p(t)))
        weight = min(chosen, LARGEST_LAMBDA)
        mean_after = (0.5 + total + x) / (t + 1)
        return RunningMean(
            t,
            total + x,
            squares + (x - mean_after) ** 2,
            self.weights + weight,
            self.weighted + weight * x,
            self.spread + (x - mean) ** 2 * (-math.log1p(-weight) - weight),
        )

    def bounds(self, confidence: float) -> Bounds:
        """Return the interval within [0, 1]."""
        if not self.observations:
            return Bounds(0.0, 1.0)
        centre = self.weighted / self.weights
        width = (math.log(2.0 / (1.0 - confidence)) + self.spread) / self.weights
        return Bounds(max(0.0, centre - width), min(1.0, centre + width))
