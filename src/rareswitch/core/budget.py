"""Rules that spend a budget of B switches and never exceed it.

The switching lemma multiplies determinants over stages, so it proves more than it says: if every
deployment needs Σ_h Δlogdet_h > log η, then N of them need more than N·log η of a total growth of
at most dH·log(1 + K·L²/(λd)). The proofs are in docs/theory.md. Budgets count deployments after the
first, whether or not they change an action.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rareswitch.core import theory
from rareswitch.core.arguments import real, settle, whole
from rareswitch.core.schedule import (
    GROWTH_TOLERANCE,
    TOTAL_GROWTH,
    Clock,
    Schedule,
    Trigger,
    checked_schedule,
    triggers_of,
)
from rareswitch.core.task import Task, checked_task


@dataclass(frozen=True, init=False)
class TotalGrowth:
    """Switch when the determinants of all stages together grew by a factor above η.

    Kept as `log_eta`, because η for a small budget may exceed every float.

    >>> from rareswitch.core.ledger import Ledger
    >>> ledger = Ledger()
    >>> _ = ledger.deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2))
    >>> clock = ledger.clock(episode=9, logdet=np.array([0.5, 0.5]))
    >>> TotalGrowth(eta=2.0).due(clock), TotalGrowth(eta=4.0).due(clock)
    (True, False)
    """

    persistent: ClassVar[bool] = True

    log_eta: float

    def __init__(self, eta: float | None = None, *, log_eta: float | None = None) -> None:
        if (eta is None) == (log_eta is None):
            raise TypeError("either eta or log_eta must be given")
        if eta is not None:
            log_eta = math.log(real("eta", eta, above=1.0))
        settle(self, log_eta=real("log_eta", log_eta, above=0.0))

    def due(self, clock: Clock) -> bool:
        return float(clock.growth.sum()) > self.log_eta + GROWTH_TOLERANCE

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        return (Trigger.of_growth(TOTAL_GROWTH, float(clock.growth.sum()), self.log_eta),)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        growth = theory.total_growth(task, ridge=ridge)
        each = self.log_eta * (1 + 1e-12) + GROWTH_TOLERANCE  # every deployment needs more
        return min(math.ceil(growth / each) - 1, task.episodes - 1)

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.rare_switch_regret_bound(task, log_eta=self.log_eta, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "TotalGrowth":
        """Return the rule that makes at most `switches` switches in K episodes, on every path."""
        budget = whole("switches", switches, least=0)
        return cls(log_eta=theory.total_growth(task, ridge=ridge) / (budget + 1))


@dataclass(frozen=True, kw_only=True)
class _Budget:
    """A budget of `switches` in `episodes` episodes, and its share of the growth still possible.

    With b switches left the share is 1/(b+1) of Σ_h [d·log((tr Λ_h + n·L²)/d) − log det Λ_h], taken
    at the deployment, with n the steps that the episodes left then may still add to Λ_h.
    """

    persistent: ClassVar[bool] = True

    switches: int
    episodes: int
    dim: int
    feature_norm: float = 1.0

    def __post_init__(self) -> None:
        settle(
            self,
            switches=whole("switches", self.switches, least=0),
            episodes=whole("episodes", self.episodes, least=1),
            dim=whole("dim", self.dim, least=1),
            feature_norm=real("feature_norm", self.feature_norm, above=0.0, most=1e100),
        )

    def due(self, clock: Clock) -> bool:
        if not self._left(clock):  # spent
            return False
        return float(clock.growth.sum()) > self.threshold(clock) + GROWTH_TOLERANCE

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if not self._left(clock):
            return ()
        growth = float(clock.growth.sum())
        return (Trigger.of_growth(TOTAL_GROWTH, growth, self.threshold(clock)),)

    def threshold(self, clock: Clock) -> float:
        """Return the growth that the policy in force must exceed to be replaced."""
        added = self._episodes_left(clock) * clock.steps * self.feature_norm**2
        most = clock.trace_deployed + added
        possible = np.maximum(self.dim * np.log(most / self.dim) - clock.logdet_deployed, 0.0)
        return float(possible.sum()) / (self._left(clock) + 1)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return min(self.switches, task.episodes - 1)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> Self:
        return cls(
            switches=switches,
            episodes=checked_task(task).episodes,
            dim=task.dim,
            feature_norm=task.feature_norm,
        )

    def _left(self, clock: Clock) -> int:
        """Return how many switches are left while the policy in force is."""
        return max(0, self.switches - (clock.deployments - 1))

    def _episodes_left(self, clock: Clock) -> int:
        """Return how many episodes were left when the policy in force was deployed."""
        return max(0, self.episodes + 1 - clock.deployed)


@dataclass(frozen=True, kw_only=True)
class AdaptiveBudget(_Budget):
    """Switch when the growth since the deployment exceeds its share of all growth still possible.

    Deploys at most `switches` times after the first in `episodes` episodes on every path with
    ‖φ‖ ≤ `feature_norm`; the threshold never increases. Where growth is slower than it could be,
    part of the budget is left over.

    >>> from rareswitch.core.ledger import Ledger
    >>> ledger = Ledger()
    >>> _ = ledger.deploy(episode=1, logdet=np.zeros(3), trace=np.full(3, 2.0))
    >>> rule = AdaptiveBudget(switches=5, episodes=100, dim=2)
    >>> start = ledger.clock(episode=1, logdet=np.zeros(3))
    >>> round(rule.threshold(start), 3), round(3 * 2 * math.log(1 + 100 / 2) / 6, 3)
    (3.932, 3.932)
    """

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        total = TotalGrowth.for_budget(task, switches=self.switches, ridge=ridge)
        return total.regret_bound(task, ridge)


@dataclass(frozen=True, kw_only=True)
class SpreadBudget(_Budget):
    """Spend the whole budget: growth decides early, a date at the latest.

    A switch is due when the growth exceeds its share, as for `AdaptiveBudget`, and at the latest on
    a date: with b switches left, those and the deployment in force share the n episodes left
    evenly. Each deployment spreads the dates anew over what is left. Asked before each of
    `episodes` episodes, the rule deploys exactly `switches` times after the first on every path, or
    before each of them where they are fewer. Asked later it goes on until the budget is spent: a
    learner with `planned_episodes` stops asking.

    >>> from rareswitch.core.ledger import Ledger
    >>> rule, ledger, dates = SpreadBudget(switches=3, episodes=100, dim=2), Ledger(), []
    >>> for k in range(1, 101):
    ...     if k == 1 or rule.due(ledger.clock(episode=k, logdet=np.zeros(1))):
    ...         _ = ledger.deploy(episode=k, logdet=np.zeros(1), trace=np.full(1, 2.0))
    >>> ledger
    Ledger(4 deployments, before episodes [1, 26, 51, 76])
    """

    def due(self, clock: Clock) -> bool:
        on_date = self._left(clock) > 0 and clock.episode >= self.date(clock)
        return on_date or super().due(clock)

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if not self._left(clock):
            return ()
        return (*super().triggers(clock), Trigger.of_date(clock, self.date(clock)))

    def date(self, clock: Clock) -> int:
        """Return the episode before which the policy in force is replaced at the latest."""
        return clock.deployed + max(1, -(-self._episodes_left(clock) // (self._left(clock) + 1)))


@dataclass(frozen=True)
class Capped:
    """Another rule, until it has switched so many times: a hard limit.

    >>> from rareswitch.core.ledger import Ledger
    >>> from rareswitch.core.schedule import EveryEpisode
    >>> rule, ledger, asked = Capped(EveryEpisode(), switches=1), Ledger(), []
    >>> for k in (1, 2, 3):
    ...     _ = ledger.deploy(episode=k, logdet=np.zeros(1), trace=np.ones(1))
    ...     asked.append(rule.due(ledger.clock(episode=k + 1, logdet=np.zeros(1))))
    >>> asked
    [True, False, False]
    """

    schedule: Schedule
    switches: int

    def __post_init__(self) -> None:
        settle(
            self,
            schedule=checked_schedule(self.schedule),
            switches=whole("switches", self.switches, least=0),
        )

    @property
    def persistent(self) -> bool:
        return bool(getattr(self.schedule, "persistent", False))

    def due(self, clock: Clock) -> bool:
        return clock.deployments <= self.switches and bool(self.schedule.due(clock))

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if clock.deployments > self.switches:
            return ()
        return triggers_of(self.schedule, clock)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        inner = getattr(self.schedule, "deployment_limit", None)
        return min(self.switches, task.episodes - 1 if inner is None else inner(task, ridge))
