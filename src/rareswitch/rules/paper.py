"""The paper's switching rules: before every episode, on a uniform grid, or by determinants."""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

from rareswitch.core.clock import Clock, Rule, Trigger
from rareswitch.core.task import Task, planned_episodes
from rareswitch.rules import theory
from rareswitch.support.arguments import one_of, real, set_fields, whole

LARGEST_GROWTH = "largest growth of a log-determinant"
MOST_LISTED = 10**6  # dates of a grid that are listed


@dataclass(frozen=True)
class EveryEpisode(Rule):
    """Switch before every episode: LSVI-UCB (Jin et al. 2020)."""

    stays_due: ClassVar[bool] = True

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        return (Trigger.of_date(clock, clock.deployed_at + 1),)

    def upcoming(self, task: Task, episode: int) -> int | None:
        return episode + 1

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return planned_episodes(task, "a limit of deployments") - 1

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        batches = planned_episodes(task, "a regret bound")
        return theory.batch_regret_bound(task, batches=batches, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "EveryEpisode":
        """Return the rule, if the budget has a switch for every episode."""
        whole("switches", switches, least=planned_episodes(task, "a budget") - 1)
        return cls()


class Grid(Rule):
    """A rule with fixed dates: it switches before each of the episodes `starts`."""

    stays_due: ClassVar[bool] = True

    def starts(self, task: Task) -> Sequence[int]:
        """Return the first episode t_i of each batch."""
        raise TypeError(f"{type(self).__name__} must have a method starts(task)")

    def check(self, task: Task) -> None:
        self.starts(task)

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        date = self.upcoming(clock.task, clock.deployed_at)
        return () if date is None else (Trigger.of_date(clock, date),)  # Alg. 1, line 4

    def upcoming(self, task: Task, episode: int) -> int | None:
        starts = self.starts(task)
        position = bisect_right(starts, episode)
        return starts[position] if position < len(starts) else None

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        starts = self.starts(task)
        return (
            len(starts if task.episodes is None else starts[: bisect_right(starts, task.episodes)])
            - 1
        )


@dataclass(frozen=True, kw_only=True)
class UniformGrid(Grid):
    """Switch at the start of each of B equal batches of K episodes: LSVI-UCB-Batch (Alg. 1).

    If B does not divide K, `spread="last"` is the printed grid, t_i = (i−1)⌊K/B⌋ + 1, whose last
    batch takes the remainder; with `spread="balanced"` batch lengths differ by at most one.

    >>> task = Task(dim=2, horizon=1, episodes=10)
    >>> tuple(UniformGrid(batches=4).starts(task))
    (1, 3, 5, 7)
    >>> tuple(UniformGrid(batches=4, spread="balanced").starts(task))
    (1, 3, 6, 8)
    """

    batches: int
    spread: str = "last"

    def __post_init__(self) -> None:
        spread = one_of("spread", self.spread, ("last", "balanced"))
        most = MOST_LISTED if spread == "balanced" else None
        set_fields(self, batches=whole("batches", self.batches, least=1, most=most), spread=spread)

    def starts(self, task: Task) -> Sequence[int]:
        K = planned_episodes(task, "a uniform grid")
        B = whole("batches", self.batches, least=1, most=K)
        if self.spread == "balanced":
            return _balanced(K, B)
        return range(1, B * (K // B) + 1, K // B)

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.batch_regret_bound(task, batches=self.batches, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "UniformGrid":
        """Return the grid of B+1 batches, which deploys B times after the first."""
        most = planned_episodes(task, "a budget") - 1
        return cls(batches=whole("switches", switches, least=0, most=most) + 1)


@lru_cache
def _balanced(K: int, B: int) -> tuple[int, ...]:
    return tuple(i * K // B + 1 for i in range(B))


@dataclass(frozen=True, kw_only=True)
class DeterminantGrowth(Rule):
    """Switch when some det Λ_h grew by a factor above η: LSVI-UCB-RareSwitch (Alg. 2).

    >>> import numpy as np
    >>> from rareswitch.core.clock import Ledger
    >>> ledger = Ledger().deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2))
    >>> clock = ledger.clock(Task(dim=1, horizon=2), episode=9, logdet=np.array([0.1, 0.7]))
    >>> DeterminantGrowth(eta=2.0).due(clock), DeterminantGrowth(eta=4.0).due(clock)
    (True, False)
    """

    stays_due: ClassVar[bool] = True

    eta: float

    def __post_init__(self) -> None:
        set_fields(self, eta=real("eta", self.eta, above=1.0))

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        largest = float(clock.growth.max())  # Alg. 2, line 7: det Λ_h^k > η·det Λ_h for some h
        return (Trigger.of_growth(LARGEST_GROWTH, largest, math.log(self.eta)),)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        bound = theory.switch_bound(task, eta=self.eta, ridge=ridge)
        last = planned_episodes(task, "a limit of deployments") - 1
        return min(math.floor(bound * (1 + 1e-12)), last)  # 40.999… is 41

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.rare_switch_regret_bound(task, log_eta=math.log(self.eta), ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "DeterminantGrowth":
        """Return the rule that switches at most `switches` times on every path (Theorem 2)."""
        return cls(eta=theory.eta_for_budget(task, switches=switches, ridge=ridge))
