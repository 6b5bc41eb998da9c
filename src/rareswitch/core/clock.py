"""When to switch: the input and output of a rule, and the ledger of deployments.

Before each episode k the learner passes a `Clock` to its schedule and asks whether a switch is due.
A schedule is any object with `due(clock) -> bool`, a pure function of the clock. `Rule` is the base
of this package's rules: `due` follows from its `triggers(clock)`. A schedule may also have

- `check(task)`: raises an error if the rule cannot serve the task; a new learner calls it;
- `upcoming(task, episode)`: for dates fixed in advance, the first date after that episode, or None.
  A simulation then skips to this date instead of asking before every episode;
- `stays_due = True`: once due, the rule stays due until a deployment. A simulation can skip too;
- `deployment_limit(task, ridge)`: the most deployments after the first, on any path of the task;
- `regret_bound(task, ridge)`: the paper's bound on its regret;
- `for_budget(task, switches=…, ridge=…)`: a class method that makes the rule for a budget;
- `accepts(candidate)`: takes the fitted policy as a `core.candidate.Candidate` when a switch is
  due. A declined policy is not deployed, and the next clock has the episode as `declined_at`;
- `reasons(candidate)`: the triggers that `accepts` watches, for a record of its decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from rareswitch.core.task import Task
from rareswitch.support.arguments import Floats, same_fields, short_repr
from rareswitch.support.persistent import PersistentList

# A growth of exactly η is not a growth above η (unit features with λ=1 reach ratio 2 exactly).
GROWTH_TOLERANCE = 1e-10
# The arguments of a schedule's methods, which may be a user's.
ARGUMENTS = {
    "due": ("clock",),
    "triggers": ("clock",),
    "check": ("task",),
    "upcoming": ("task", "episode"),
    "deployment_limit": ("task", "ridge"),
    "regret_bound": ("task", "ridge"),
    "accepts": ("candidate",),
    "reasons": ("candidate",),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """The information of a schedule before an episode.

    `episode` is the paper's k, counted from 1, and `logdet` is log det Λ_h^k (H,). The policy in
    force was deployed before episode `deployed_at`, the paper's b_k, as the last of `deployments`
    (including the first, on no data); `logdet_deployed` and `trace_deployed` are log det Λ_h and tr
    Λ_h at that moment, both (H,). If stages share their steps, there is one Λ for each pool of
    steps instead. `declined_at` is the last episode before which a candidate was declined since the
    deployment, or None.
    """

    task: Task
    episode: int
    logdet: Floats
    deployed_at: int
    deployments: int
    logdet_deployed: Floats
    trace_deployed: Floats
    declined_at: int | None = None

    @property
    def growth(self) -> Floats:
        """The growth of each log det Λ_h since the deployment (H,)."""
        return self.logdet - self.logdet_deployed

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.episode, self.logdet.tobytes(), self.deployments))


class Trigger(NamedTuple):
    """A quantity that a rule watches, and the threshold at which a switch is due."""

    quantity: str
    value: float
    threshold: float
    reached: bool

    @property
    def margin(self) -> float:
        """The quantity minus the threshold."""
        return self.value - self.threshold

    def to_dict(self) -> dict[str, Any]:
        """Return all fields and the margin, for JSON."""
        values = {**self._asdict(), "margin": self.margin}
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in values.items()}

    @classmethod
    def of_date(cls, clock: Clock, date: int) -> "Trigger":
        """Return the trigger reached from the episode `date` on."""
        return cls("episode", clock.episode, date, clock.episode >= date)

    @classmethod
    def of_growth(cls, quantity: str, growth: float, threshold: float) -> "Trigger":
        """Return the trigger reached when a growth exceeds a threshold."""
        return cls(quantity, growth, threshold, growth > threshold + GROWTH_TOLERANCE)


class Schedule(Protocol):
    """A switching rule."""

    def due(self, clock: Clock) -> bool:
        """Return whether a new policy should be deployed before the episode."""
        ...


class Rule:
    """A switching rule, due when one of its triggers is reached."""

    stays_due: ClassVar[bool] = False

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        """Return the quantities that the rule watches."""
        raise TypeError(f"{type(self).__name__} must have a method triggers(clock)")

    def due(self, clock: Clock) -> bool:
        """Return whether one of the triggers is reached."""
        return any(trigger.reached for trigger in self.triggers(clock))


def checked_schedule(schedule: Any, task: Task | None = None, name: str = "schedule") -> Any:
    """Return the schedule, or raise an error if it is none or cannot serve the task."""
    if isinstance(schedule, type):
        raise TypeError(
            f"{name} must be an instance, not the class {schedule.__name__} itself; "
            f"write {schedule.__name__}(…)"
        )
    if not callable(getattr(schedule, "due", None)):
        raise TypeError(f"{name} must have a method due(clock) -> bool; got {short_repr(schedule)}")
    for method, takes in ARGUMENTS.items():
        _require_arguments(f"{name}: {type(schedule).__name__}", schedule, method, takes)
    if task is not None and (check := getattr(schedule, "check", None)) is not None:
        check(task)
    return schedule


def _require_arguments(owner: str, schedule: Any, method: str, takes: Sequence[str]) -> None:
    """Raise TypeError if a method of the schedule cannot be called with these arguments."""
    if not callable(found := getattr(schedule, method, None)):
        return
    try:
        declared = signature(found)
    except ValueError:  # a method in C without a signature
        return
    try:
        declared.bind(*takes)
    except TypeError:
        raise TypeError(
            f"{owner}.{method} must take the arguments ({', '.join(takes)}); it takes {declared}"
        ) from None


def is_due(schedule: Schedule, clock: Clock) -> bool:
    """Return the answer of a schedule, or raise TypeError if it is not a bool."""
    due = schedule.due(clock)
    if not isinstance(due, bool | np.bool):
        raise TypeError(
            f"schedule: {type(schedule).__name__}.due must return a bool; it returned "
            f"{short_repr(due)} before episode {clock.episode}"
        )
    return bool(due)


def triggers_of(schedule: Schedule, clock: Clock) -> tuple[Trigger, ...]:
    """Return the triggers of a rule, or its answer `due` as a single trigger."""
    triggers = getattr(schedule, "triggers", None)
    if triggers is not None:
        return tuple(triggers(clock))
    due = is_due(schedule, clock)
    return (Trigger("due", float(due), 1.0, due),)


class Deployment(NamedTuple):
    """A policy deployed before an episode, as version 1, 2, …; version 1 is fitted on no data.

    `logdet` and `trace` are log det Λ_h and tr Λ_h (H,) at the deployment: growth counts from
    there, so a budget holds for any deployed policy. `digest` is the policy's; it is empty in a
    simulation, which makes no bytes.
    """

    version: int
    episode: int
    logdet: Floats
    trace: Floats
    digest: str = ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deployment)
            and (self.version, self.episode, self.digest)
            == (other.version, other.episode, other.digest)
            and np.array_equal(self.logdet, other.logdet)
            and np.array_equal(self.trace, other.trace)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.version, self.episode, self.digest))


class Ledger(Sequence[Deployment]):
    """The deployments of one learner, in order; immutable.

    `declined` are the episodes before which a candidate was declined.
    """

    def __init__(self) -> None:
        self._deployments = PersistentList[Deployment]()
        self.declined: tuple[int, ...] = ()

    def deploy(self, *, episode: int, logdet: Floats, trace: Floats, digest: str = "") -> "Ledger":
        """Return the ledger with one more deployment, in force from that episode on."""
        deployment = Deployment(len(self) + 1, episode, logdet, trace, digest)
        return self._with(self._deployments.extend([deployment]), self.declined)

    def decline(self, episode: int) -> "Ledger":
        """Return the ledger after a candidate was declined before that episode."""
        return self._with(self._deployments, (*self.declined, episode))

    @staticmethod
    def _with(deployments: PersistentList[Deployment], declined: tuple[int, ...]) -> "Ledger":
        ledger = Ledger.__new__(Ledger)
        ledger._deployments, ledger.declined = deployments, declined
        return ledger

    @property
    def fits(self) -> int:
        """The number of deployed and declined policies: each fit has its own draws."""
        return len(self) + len(self.declined)

    def clock(self, task: Task, *, episode: int, logdet: Floats) -> Clock:
        """Return the clock before that episode, given the present log det Λ_h (H,)."""
        in_force = self._deployments[-1]
        last = self.declined[-1] if self.declined else 0
        return Clock(
            task=task,
            episode=episode,
            logdet=logdet,
            deployed_at=in_force.episode,
            deployments=len(self),
            logdet_deployed=in_force.logdet,
            trace_deployed=in_force.trace,
            declined_at=last if last > in_force.episode else None,
        )

    def __len__(self) -> int:
        return len(self._deployments)

    def __getitem__(self, position: Any) -> Any:
        return self._deployments[position]

    def __iter__(self) -> Iterator[Deployment]:
        return iter(self._deployments)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ledger)
            and list(self) == list(other)
            and self.declined == other.declined
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger({len(self)} deployments, before episodes {[d.episode for d in self]})"
