"""A rule that looks at candidates and deploys only those with enough change or gain."""

import math
from dataclasses import dataclass

from rareswitch.core.candidate import Candidate, reasons_of
from rareswitch.core.clock import Clock, Rule, Schedule, Trigger, checked_schedule, triggers_of
from rareswitch.core.task import Task, planned_episodes
from rareswitch.rules.budget import deployment_limit_of
from rareswitch.support.arguments import real, set_fields

# After a decline, the time in force must grow by this factor before the next fit.
WAIT = 0.25


@dataclass(frozen=True)
class Worthwhile(Rule):
    """Another rule, which deploys a policy only if it changes enough or promises enough gain.

    When a switch is due, the candidate is deployed if it changes at least the share `change` of the
    last episodes: one member of 32 that tries another action is enough, because exploration has an
    unknown value. A candidate that changes less is deployed only if its expected gain in all
    remaining episodes exceeds `price`, in rewards as learned (between 0 and 1 a step). All others
    are declined, and the next is fitted when the time in force has grown by a quarter. With
    `change=1.0` only the price decides.

    The limit of deployments of the other rule still holds, because each deployment needs its own
    date or growth.

    >>> from rareswitch import SpreadBudget
    >>> Worthwhile(SpreadBudget(switches=9), price=5.0)
    Worthwhile(schedule=SpreadBudget(switches=9), change=0.03, price=5.0)
    """

    schedule: Schedule
    change: float = 0.03
    price: float = 1.0

    def __post_init__(self) -> None:
        set_fields(
            self,
            schedule=checked_schedule(self.schedule),
            change=real("change", self.change, least=0.0, most=1.0),
            price=real("price", self.price, least=0.0),
        )

    @property
    def stays_due(self) -> bool:  # type: ignore[override]
        return bool(getattr(self.schedule, "stays_due", False))

    def check(self, task: Task) -> None:
        planned_episodes(task, "Worthwhile, which estimates the gain in the episodes left,")
        checked_schedule(self.schedule, task)

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        if clock.declined_at is None:
            return triggers_of(self.schedule, clock)
        waited = math.ceil(WAIT * (clock.declined_at - clock.deployed_at))
        return (Trigger.of_date(clock, clock.declined_at + waited),)

    def accepts(self, candidate: Candidate) -> bool:
        """Return whether change or gain suffices and the inner rule accepts the candidate too."""
        inside = getattr(self.schedule, "accepts", None)
        if inside is not None and not inside(candidate):
            return False
        return any(reason.reached for reason in self._own_reasons(candidate))

    def reasons(self, candidate: Candidate) -> tuple[Trigger, ...]:
        """Return the triggers of change and gain, and the triggers of the inner rule."""
        looks = hasattr(self.schedule, "accepts")
        inside = reasons_of(self.schedule, candidate) if looks else ()
        return (*self._own_reasons(candidate), *inside)

    def _own_reasons(self, candidate: Candidate) -> tuple[Trigger, ...]:
        left = candidate.episodes_left
        assert left is not None  # `check` requires a number of episodes
        change, gain = candidate.change, candidate.gain.mean * left
        return (
            Trigger("share of episodes that change", change, self.change, change >= self.change),
            Trigger("gain expected in the episodes left", gain, self.price, gain > self.price),
        )

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return deployment_limit_of(self.schedule, task, ridge)
