"""Non-uniform grids: dates of switches fixed before learning begins."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from rareswitch.core.task import Task, checked_task, planned_episodes
from rareswitch.rules.paper import Grid
from rareswitch.support.arguments import set_fields, short_repr, whole


@dataclass(frozen=True, kw_only=True)
class EpisodeGrid(Grid):
    """Switch before the given episodes, an increasing list from 1.

    >>> EpisodeGrid(dates=(1, 10, 100)).upcoming(Task(dim=2, horizon=1), 10)
    100
    """

    dates: tuple[int, ...]

    def __post_init__(self) -> None:
        try:
            given = list(self.dates)
        except TypeError:
            raise TypeError(
                f"dates must be a list of episodes; got {short_repr(self.dates)}"
            ) from None
        dates = tuple(whole("dates", date, least=1) for date in given)
        if dates[:1] != (1,) or any(a >= b for a, b in pairwise(dates)):
            raise ValueError(f"dates must increase from 1; got {short_repr(dates)}")
        set_fields(self, dates=dates)

    def starts(self, task: Task) -> Sequence[int]:
        checked_task(task)
        return self.dates


@dataclass(frozen=True, kw_only=True)
class _PowerGrid(Grid):
    """B batches of K episodes; batch i begins near a power of K."""

    batches: int

    def __post_init__(self) -> None:
        set_fields(self, batches=whole("batches", self.batches, least=1, most=10**5))

    @staticmethod
    def exponent(i: int, B: int) -> float:
        """Return the exponent of K for batch i of B, counted from 0."""
        raise TypeError("a grid must have a method exponent(i, B)")

    def starts(self, task: Task) -> Sequence[int]:
        K = planned_episodes(task, type(self).__name__)
        whole("episodes", K, least=1, most=10**15)  # above it, powers are not exact
        return _power_dates(self.exponent, K, whole("batches", self.batches, least=1, most=K))


class GeometricGrid(_PowerGrid):
    """Batches that grow by a constant factor: batch i begins near K^{i/B}, 0 < i < B.

    >>> GeometricGrid(batches=4).starts(Task(dim=2, horizon=1, episodes=1000))
    (1, 6, 32, 178)
    """

    @staticmethod
    def exponent(i: int, B: int) -> float:
        return i / B

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "GeometricGrid":
        """Return the grid of B+1 batches, which deploys at most B times after the first."""
        most = planned_episodes(task, "a budget") - 1
        return cls(batches=whole("switches", switches, least=0, most=most) + 1)


class MinimaxGrid(_PowerGrid):
    """The grid of batched bandits (Gao et al. 2019): batch i begins near K^{1−2^{−i}}.

    Equal dates are moved apart by one episode: the grid is meant for few batches.

    >>> MinimaxGrid(batches=4).starts(Task(dim=2, horizon=1, episodes=1000))
    (1, 32, 178, 422)
    """

    @staticmethod
    def exponent(i: int, B: int) -> float:
        return 1.0 - 2.0**-i


@lru_cache
def _power_dates(exponent: Callable[[int, int], float], K: int, B: int) -> tuple[int, ...]:
    """Return K^exponent rounded to increasing episodes from 1 to K."""
    starts = [1]
    for i in range(1, B):
        starts.append(max(starts[-1] + 1, round(K ** exponent(i, B))))
        if starts[-1] > K:
            return tuple(starts[:-1])
    return tuple(starts)
