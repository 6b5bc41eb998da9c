"""Estimates with bootstrap intervals over episodes."""

from typing import NamedTuple

import numpy as np

from rareswitch.support.arguments import Floats
from rareswitch.support.bootstrap import interval, resamples

# More episodes are resampled in this number of groups, with the same variance of means.
MOST_GROUPS = 1000
# Percentile intervals of fewer episodes contain the truth far less often than 95%.
LEAST_EPISODES = 30


class Interval(NamedTuple):
    """An estimate and the ends of its 95% interval.

    >>> print(Interval(0.1234, 0.0311, 0.2))
    0.123 [0.0311, 0.2]
    """

    value: float
    low: float
    high: float

    @property
    def known(self) -> bool:
        """Whether there is enough evidence for reliable ends."""
        return True

    def __str__(self) -> str:
        ends = f"{self.low:.3g}, {self.high:.3g}" if self.known else "–"
        return f"{self.value:.3g} [{ends}]"

    def __neg__(self) -> "Interval":
        return type(self)(-self.value, -self.high, -self.low)

    def to_dict(self) -> dict[str, float | None]:
        """Return value, low and high; unknown ends are None."""
        low, high = (self.low, self.high) if self.known else (None, None)
        return {"value": self.value, "low": low, "high": high}


class UnknownInterval(Interval):
    """The interval of too little evidence: its ends are unreliable, and it prints as a dash.

    >>> print(UnknownInterval(0.1234, 0.1, 0.15))
    0.123 [–]
    """

    @property
    def known(self) -> bool:
        """False: there is too little evidence for reliable ends."""
        return False


def interval_of(
    value: float, resampled: Floats, episodes: int = LEAST_EPISODES, *, certain: bool = True
) -> Interval:
    """Return a value with the percentile interval of its resampled values.

    The interval is an `UnknownInterval` for fewer than `LEAST_EPISODES` episodes, or if the caller
    is not `certain` that resampling shows the error.
    """
    low, high = interval(resampled)
    kind = Interval if certain and episodes >= LEAST_EPISODES else UnknownInterval
    return kind(value, float(low), float(high))


class Resampling:
    """Bootstrap samples of episodes, the same for all compared values."""

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
