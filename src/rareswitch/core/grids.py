"""Grids other than the uniform one: dates of switches fixed before learning begins."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from rareswitch.core.arguments import whole
from rareswitch.core.schedule import Dated


@dataclass(frozen=True, kw_only=True)
class EpisodeGrid(Dated):
    """Switch before the given episodes, an increasing list that begins with 1.

    >>> EpisodeGrid(starts=(1, 10, 100)).upcoming(10)
    100
    >>> EpisodeGrid.geometric(episodes=1000, batches=4).starts
    (1, 6, 32, 178)
    >>> EpisodeGrid.minimax(episodes=1000, batches=4).starts
    (1, 32, 178, 422)
    """

    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        starts = tuple(whole("starts", start, least=1) for start in self.starts)
        if starts[:1] != (1,) or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"starts must increase from 1; got {starts}")
        object.__setattr__(self, "starts", starts)

    @classmethod
    def geometric(cls, *, episodes: int, batches: int) -> "EpisodeGrid":
        """Batches that grow by a constant factor: a new one begins near K^{i/B}, i < B."""
        K, B = _sizes(episodes, batches)
        return cls(starts=_increasing((K ** (i / B) for i in range(1, B)), K))

    @classmethod
    def minimax(cls, *, episodes: int, batches: int) -> "EpisodeGrid":
        """The grid of batched bandits (Gao et al. 2019): a new batch begins near K^{1−2^{−i}}.

        Dates that would fall on each other are spread by one episode, so few batches are meant.
        """
        K, B = _sizes(episodes, batches)
        return cls(starts=_increasing((K ** (1.0 - 2.0**-i) for i in range(1, B)), K))


def _sizes(episodes: int, batches: int) -> tuple[int, int]:
    episodes = whole("episodes", episodes, least=1)
    return episodes, whole("batches", batches, least=1, most=episodes)


def _increasing(dates: Iterable[float], last: int) -> tuple[int, ...]:
    """Round dates to episodes after 1 and up to last, each after the one before."""
    starts = [1]
    for date in dates:
        starts.append(max(starts[-1] + 1, round(date)))
    return tuple(start for start in starts if start <= last)
