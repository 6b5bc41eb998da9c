"""A rule that waits for enough reported episodes before a deployment."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rareswitch.core.clock import Clock, Rule, Schedule, Trigger, checked_schedule, triggers_of
from rareswitch.core.task import Task, planned_episodes
from rareswitch.rules.budget import deployment_limit_of
from rareswitch.support.arguments import set_fields, whole


@dataclass(frozen=True)
class Waiting(Rule):
    """Another rule, with at least `first` episodes before and `apart` episodes between switches.

    The first switch comes after at least `first` reported episodes, and every later switch at least
    `apart` reported episodes after the fit of the policy in force. A reported episode is an episode
    of any version that the learner has absorbed: an episode with unknown outcome does not count. If
    the other rule asks too early, the switch is due at the end of the wait.

    The limit of deployments of the other rule still holds. `SpreadBudget(switches=B)` still spends
    the whole budget on every path of K episodes if s + (B−1)·apart < K, with s the larger of
    `first` and ⌈K/(B+1)⌉; docs/theory/budgets.md has the proof. A grid deploys once for all dates
    during a wait.

    >>> from rareswitch import SpreadBudget
    >>> from rareswitch.rules.words import to_words
    >>> rule = Waiting(SpreadBudget(switches=9), first=200, apart=50)
    >>> to_words(rule)
    'spread-budget,switches=9,first=200,apart=50'
    """

    schedule: Schedule
    first: int = 0
    apart: int = 0

    def __post_init__(self) -> None:
        set_fields(
            self,
            schedule=checked_schedule(self.schedule),
            first=whole("first", self.first, least=0),
            apart=whole("apart", self.apart, least=0),
        )

    @property
    def stays_due(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.schedule, "stays_due", False))

    def check(self, task: Task) -> None:
        checked_schedule(self.schedule, task)
        if task.episodes is not None and self.first >= task.episodes:
            raise ValueError(
                f"first must be below the {task.episodes} episodes of the task; got {self.first}"
            )

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        wait = self.first if clock.deployments == 1 else self.apart
        if clock.episode < clock.deployed_at + wait:
            return (Trigger.of_date(clock, clock.deployed_at + wait),)
        return triggers_of(self.schedule, clock)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        last = planned_episodes(task, "a limit of deployments")
        # Possible dates: 1 + first, 1 + first + apart, … up to the last episode.
        room = (last - 1 - max(self.first, 1)) // max(self.apart, 1) + 1
        return max(0, min(room, deployment_limit_of(self.schedule, task, ridge)))

    @property
    def accepts(self) -> Callable[[Any], bool]:
        """The inner rule's `accepts`; missing if the inner rule has none."""
        asked: Callable[[Any], bool] = self.schedule.accepts  # type: ignore[attr-defined]
        return asked


def inner_rule(schedule: Schedule) -> Schedule:
    """Return the rule inside a `Waiting`, or the rule itself."""
    return schedule.schedule if isinstance(schedule, Waiting) else schedule
