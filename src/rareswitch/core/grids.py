"""Grids other than the uniform one: dates of switches fixed before learning begins."""

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from rareswitch.core.arguments import settle, shown, whole
from rareswitch.core.schedule import Dated
from rareswitch.core.task import Task, checked_task


@dataclass(frozen=True, kw_only=True)
class EpisodeGrid(Dated):
    """Switch before the given episodes, an increasing list that begins with 1.

    >>> EpisodeGrid(starts=(1, 10, 100)).upcoming(10)
    100
    """

    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        try:
            given = list(self.starts)
        except TypeError:
            raise TypeError(
                f"starts must be a list of episodes; got {shown(self.starts)}"
            ) from None
        starts = tuple(whole("starts", start, least=1) for start in given)
        if starts[:1] != (1,) or any(a >= b for a, b in pairwise(starts)):
            raise ValueError(f"starts must increase from 1; got {shown(starts)}")
        settle(self, starts=starts)


@dataclass(frozen=True, kw_only=True)
class _BatchGrid(Dated):
    """B batches of K episodes in all, whose later dates are listed as real numbers."""

    episodes: int
    batches: int

    def __post_init__(self) -> None:
        episodes = whole("episodes", self.episodes, least=1, most=10**15)
        most = min(episodes, 10**5)  # dates are listed, unlike those of a uniform grid
        batches = whole("batches", self.batches, least=1, most=most)
        settle(self, episodes=episodes, batches=batches)

    @cached_property
    def starts(self) -> tuple[int, ...]:  # type: ignore[override]
        """The first episode of each batch."""
        return _increasing(self._dates(), self.episodes)

    @abstractmethod
    def _dates(self) -> Iterable[float]: ...


@dataclass(frozen=True, kw_only=True)
class GeometricGrid(_BatchGrid):
    """Batches that grow by a constant factor: a new one begins near K^{i/B}, i < B.

    >>> GeometricGrid(episodes=1000, batches=4).starts
    (1, 6, 32, 178)
    """

    def _dates(self) -> Iterable[float]:
        return (self.episodes ** (i / self.batches) for i in range(1, self.batches))

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "GeometricGrid":
        """Return the grid of B+1 batches, which deploys B times after the first."""
        switches = whole("switches", switches, least=0, most=checked_task(task).episodes - 1)
        return cls(episodes=task.episodes, batches=switches + 1)


@dataclass(frozen=True, kw_only=True)
class MinimaxGrid(_BatchGrid):
    """The grid of batched bandits (Gao et al. 2019): a new batch begins near K^{1−2^{−i}}.

    Dates that would fall on each other are spread by one episode, so few batches are meant.

    >>> MinimaxGrid(episodes=1000, batches=4).starts
    (1, 32, 178, 422)
    """

    def _dates(self) -> Iterable[float]:
        return (self.episodes ** (1.0 - 2.0**-i) for i in range(1, self.batches))


def _increasing(dates: Iterable[float], last: int) -> tuple[int, ...]:
    """Round dates to episodes after 1 and up to last, each after the one before."""
    starts = [1]
    for date in dates:
        starts.append(max(starts[-1] + 1, round(date)))
        if starts[-1] > last:
            return tuple(starts[:-1])
    return tuple(starts)
