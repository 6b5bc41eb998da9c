"""Rules that spend a budget of B switches and never exceed it.

The proof of the paper's switching lemma multiplies determinants over stages, so it proves more: if
every deployment needs Σ_h Δlogdet_h > log η, then N deployments need more than N·log η of a total
growth of at most dH·log(1 + K·L²/(λd)). The proofs are in docs/theory/budgets.md. Budgets count all
deployments after the first, even if no action changes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rareswitch.core.candidate import Candidate, reasons_of
from rareswitch.core.clock import (
    GROWTH_TOLERANCE,
    Clock,
    Rule,
    Schedule,
    Trigger,
    checked_schedule,
    triggers_of,
)
from rareswitch.core.task import Task, planned_episodes
from rareswitch.rules import theory
from rareswitch.support.arguments import real, set_fields, whole

TOTAL_GROWTH = "total growth of the log-determinants"


@dataclass(frozen=True, kw_only=True, init=False)
class TotalGrowth(Rule):
    """Switch when the product of all stages' determinants grew by a factor above η.

    The rule stores `log_eta`, because η for a small budget may exceed every float.

    >>> from rareswitch.core.clock import Ledger
    >>> ledger = Ledger().deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2))
    >>> clock = ledger.clock(Task(dim=1, horizon=2), episode=9, logdet=np.array([0.5, 0.5]))
    >>> TotalGrowth(eta=2.0).due(clock), TotalGrowth(eta=4.0).due(clock)
    (True, False)
    """

    stays_due: ClassVar[bool] = True

    log_eta: float

    def __init__(self, *, eta: float | None = None, log_eta: float | None = None) -> None:
        if (eta is None) == (log_eta is None):
            raise TypeError("either eta or log_eta must be given")
        if eta is not None:
            log_eta = math.log(real("eta", eta, above=1.0))
        set_fields(self, log_eta=real("log_eta", log_eta, above=0.0))

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        return (Trigger.of_growth(TOTAL_GROWTH, float(clock.growth.sum()), self.log_eta),)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        growth = theory.total_growth(task, ridge=ridge)
        each = self.log_eta * (1 + 1e-12) + GROWTH_TOLERANCE  # every deployment needs more
        last = planned_episodes(task, "a limit of deployments") - 1
        return min(math.ceil(growth / each) - 1, last)

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.rare_switch_regret_bound(task, log_eta=self.log_eta, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "TotalGrowth":
        """Return the rule that switches at most `switches` times in K episodes, on every path."""
        budget = whole("switches", switches, least=0)
        return cls(log_eta=theory.total_growth(task, ridge=ridge) / (budget + 1))


@dataclass(frozen=True, kw_only=True)
class _Budget(Rule):
    """A budget of `switches`, and a share of the growth still possible for each switch.

    With b switches left the share is 1/(b+1) of Σ_h [d·log((tr Λ_h + n·L²)/d) − log det Λ_h],
    computed at the deployment, with n the steps that the remaining episodes may add to Λ_h.
    """

    stays_due: ClassVar[bool] = True

    switches: int

    def __post_init__(self) -> None:
        set_fields(self, switches=whole("switches", self.switches, least=0))

    def check(self, task: Task) -> None:
        planned_episodes(task, f"{type(self).__name__}, which spreads a budget over them,")

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if not self._left(clock):  # the budget is spent
            return ()
        growth = float(clock.growth.sum())
        return (Trigger.of_growth(TOTAL_GROWTH, growth, self.threshold(clock)),)

    def threshold(self, clock: Clock) -> float:
        """Return the growth above which the policy in force is replaced."""
        task = clock.task
        added = self._episodes_left(clock) * task.pools.steps * task.feature_norm**2
        most = clock.trace_deployed + added
        possible = np.maximum(task.dim * np.log(most / task.dim) - clock.logdet_deployed, 0.0)
        return float(possible.sum()) / (self._left(clock) + 1)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return min(self.switches, planned_episodes(task, "a limit of deployments") - 1)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> Self:
        """Return the rule with that budget."""
        planned_episodes(task, "a budget")
        return cls(switches=switches)

    def _left(self, clock: Clock) -> int:
        """Return the number of switches left."""
        return max(0, self.switches - (clock.deployments - 1))

    def _episodes_left(self, clock: Clock) -> int:
        """Return the number of episodes left at the deployment of the policy in force."""
        episodes = planned_episodes(clock.task, type(self).__name__)
        return max(0, episodes + 1 - clock.deployed_at)


class AdaptiveBudget(_Budget):
    """Switch when the growth since the deployment exceeds its share of all growth still possible.

    The rule deploys at most `switches` times after the first in the K episodes of its task, on
    every path with ‖φ‖ ≤ L; the threshold never increases. If growth is slower than possible, part
    of the budget is left over.

    >>> from rareswitch.core.clock import Ledger
    >>> ledger = Ledger().deploy(episode=1, logdet=np.zeros(3), trace=np.full(3, 2.0))
    >>> task = Task(dim=2, horizon=3, episodes=100)
    >>> start = ledger.clock(task, episode=1, logdet=np.zeros(3))
    >>> round(AdaptiveBudget(switches=5).threshold(start), 3), round(6 * math.log(1 + 50) / 6, 3)
    (3.932, 3.932)
    """

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        total = TotalGrowth.for_budget(task, switches=self.switches, ridge=ridge)
        return total.regret_bound(task, ridge)


class SpreadBudget(_Budget):
    """Spend the whole budget: switch on growth, or on a date at the latest.

    A switch is due when the growth exceeds its share, as for `AdaptiveBudget`, and at the latest on
    a date: with b switches left, the date is the end of the first of b+1 equal parts of the
    episodes left at the deployment. Each deployment sets the dates again. If the rule is asked
    before each of K episodes, it deploys exactly `switches` times after the first on every path, or
    before every episode if there are fewer.

    >>> from rareswitch.core.clock import Ledger
    >>> rule, ledger = SpreadBudget(switches=3), Ledger()
    >>> task = Task(dim=2, horizon=1, episodes=100)
    >>> for k in range(1, 101):
    ...     if k == 1 or rule.due(ledger.clock(task, episode=k, logdet=np.zeros(1))):
    ...         ledger = ledger.deploy(episode=k, logdet=np.zeros(1), trace=np.full(1, 2.0))
    >>> ledger
    Ledger(4 deployments, before episodes [1, 26, 51, 76])
    """

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if not self._left(clock):
            return ()
        return (*super().triggers(clock), Trigger.of_date(clock, self.date(clock)))

    def date(self, clock: Clock) -> int:
        """Return the last episode before which the policy in force is replaced."""
        share = -(-self._episodes_left(clock) // (self._left(clock) + 1))
        return clock.deployed_at + max(1, share)


@dataclass(frozen=True)
class Capped(Rule):
    """Another rule with a hard limit of `switches`.

    >>> from rareswitch.core.clock import Ledger
    >>> from rareswitch.rules.paper import EveryEpisode
    >>> rule, ledger, asked = Capped(EveryEpisode(), switches=1), Ledger(), []
    >>> for k in (1, 2, 3):
    ...     ledger = ledger.deploy(episode=k, logdet=np.zeros(1), trace=np.ones(1))
    ...     clock = ledger.clock(Task(dim=1, horizon=1), episode=k + 1, logdet=np.zeros(1))
    ...     asked.append(rule.due(clock))
    >>> asked
    [True, False, False]
    """

    schedule: Schedule
    switches: int

    def __post_init__(self) -> None:
        set_fields(
            self,
            schedule=checked_schedule(self.schedule),
            switches=whole("switches", self.switches, least=0),
        )

    @property
    def stays_due(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.schedule, "stays_due", False))

    def check(self, task: Task) -> None:
        checked_schedule(self.schedule, task)

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if clock.deployments > self.switches:
            return ()
        return triggers_of(self.schedule, clock)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return min(self.switches, deployment_limit_of(self.schedule, task, ridge))

    @property
    def accepts(self) -> Callable[[Candidate], bool]:
        """The inner rule's `accepts`; missing if the inner rule has none."""
        asked: Callable[[Candidate], bool] = self.schedule.accepts  # type: ignore[attr-defined]
        return asked

    def reasons(self, candidate: Candidate) -> tuple[Trigger, ...]:
        return reasons_of(self.schedule, candidate)


def deployment_limit_of(schedule: Schedule, task: Task, ridge: float) -> int:
    """Return a rule's maximum of deployments after the first, or K−1 if it has no limit."""
    last = planned_episodes(task, "a limit of deployments") - 1
    promise = getattr(schedule, "deployment_limit", None)
    return last if promise is None else min(last, promise(task, ridge))
