"""A value with its interval, by resampling episodes."""

from typing import NamedTuple

import numpy as np

from rareswitch.support.arguments import Floats
from rareswitch.support.bootstrap import interval, resamples

# Of more episodes, as many groups of neighbours are drawn: the variance of means is the same.
MOST_GROUPS = 1000


class Interval(NamedTuple):
    """An estimate and the ends of its 95% interval.

    >>> print(Interval(0.1234, 0.0311, 0.2))
    0.123 [0.0311, 0.2]
    """

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval_of(value: float, resampled: Floats) -> Interval:
    """Return a value with the percentile bootstrap interval of its resampled values."""
    low, high = interval(resampled)
    return Interval(value, float(low), float(high))


class Resampling:
    """Bootstrap samples of episodes, the same for whatever is compared on them."""

    def __init__(self, episodes: int, rng: np.random.Generator) -> None:
        groups = min(episodes, MOST_GROUPS)
        self._starts = np.arange(groups) * episodes // groups
        self._drawn = resamples(groups, rng)

    def means(self, columns: Floats) -> Floats:
        """Return the means of columns (N, C) in every sample, (samples, C)."""
        sums = np.add.reduceat(columns, self._starts, axis=0)
        sizes = np.diff(self._starts, append=len(columns))
        means: Floats = (self._drawn @ sums) / (self._drawn @ sizes)[:, None]
        return means
