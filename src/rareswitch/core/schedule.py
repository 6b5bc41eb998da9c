"""When a new policy is worth deploying: the switching rules of the paper.

Before each episode k the learner shows its schedule a `Clock` and asks whether a switch is due.
A schedule is anything with `due(clock) -> bool`; it must be a pure function of the clock. What else
it may have, all optional:

- `upcoming(episode)`: the rule's dates are fixed in advance, and this is the next one after that
  episode (None: no more). A simulation then jumps ahead instead of asking before every episode;
- `persistent = True`: once due, the rule stays due until a policy is deployed. The same;
- `triggers(clock)`: what the rule looks at and how far it is, for people who ask why and when;
- `deployment_limit(task, ridge)`: the most deployments after the first on any path of that task;
- `regret_bound(task, ridge)`: what the paper proves of its regret;
- `for_budget(task, switches=…, ridge=…)`: the rule of this kind that keeps a budget.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

from rareswitch.core import theory
from rareswitch.core.arguments import Floats, one_of, real, same_fields, settle, shown, whole
from rareswitch.core.task import Task, checked_task

# A growth of exactly η is not a growth above η (unit features with λ=1 reach ratio 2 exactly).
GROWTH_TOLERANCE = 1e-10
LARGEST_GROWTH = "largest growth of a log-determinant"
TOTAL_GROWTH = "total growth of the log-determinants"


@dataclass(frozen=True, kw_only=True, eq=False)
class Clock:
    """All that a schedule may see before an episode.

    `episode` is the paper's k, counted from 1, and `logdet` log det Λ_h^k (H,). Of the policy in
    force: `deployed` is b_k, the episode before which it was deployed, `deployments` the number of
    deployments with it (the first, on no data, included), `logdet_deployed` and `trace_deployed`
    are log det Λ_h and tr Λ_h when it was deployed, both (H,). Where stages share their steps,
    there is one Λ for each pool of steps instead; `steps` is how many an episode adds to each at
    the most.
    """

    episode: int
    logdet: Floats
    deployed: int
    deployments: int
    logdet_deployed: Floats
    trace_deployed: Floats
    steps: Floats | float = 1.0

    @property
    def growth(self) -> Floats:
        """By how much each log det Λ_h has grown since the deployment (H,)."""
        return self.logdet - self.logdet_deployed

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    def __hash__(self) -> int:
        return hash((self.episode, self.logdet.tobytes(), self.deployments))


class Trigger(NamedTuple):
    """A quantity that a rule watches, and the threshold at which a switch is due.

    A rule is due when one of its triggers is reached. `margin` tells by how much.
    """

    quantity: str
    value: float
    threshold: float
    reached: bool

    @property
    def margin(self) -> float:
        return self.value - self.threshold

    @property
    def plain(self) -> dict[str, Any]:
        """All of it as plain values, the margin too."""
        return {**self._asdict(), "margin": self.margin}

    @classmethod
    def of_date(cls, clock: Clock, date: int) -> "Trigger":
        """Return the trigger that is reached before the episode `date`."""
        return cls("episode", clock.episode, date, clock.episode >= date)

    @classmethod
    def of_growth(cls, quantity: str, growth: float, threshold: float) -> "Trigger":
        """Return the trigger that is reached when a growth exceeds a threshold."""
        return cls(quantity, growth, threshold, growth > threshold + GROWTH_TOLERANCE)


class Schedule(Protocol):
    """A switching rule."""

    def due(self, clock: Clock) -> bool:
        """Return whether a new policy should be deployed before the episode."""
        ...


def checked_schedule(schedule: Any, name: str = "schedule") -> Any:
    """Return a schedule, if it is one."""
    if isinstance(schedule, type):
        raise TypeError(
            f"{name} must be an instance, not the class {schedule.__name__} itself; "
            f"write {schedule.__name__}(…)"
        )
    if not callable(getattr(schedule, "due", None)):
        raise TypeError(f"{name} must have a method due(clock) -> bool; got {shown(schedule)}")
    return schedule


def triggers_of(schedule: Schedule, clock: Clock) -> tuple[Trigger, ...]:
    """Return what a rule watches; of a rule that does not tell, whether it is due."""
    told = getattr(schedule, "triggers", None)
    if told is not None:
        return tuple(told(clock))
    due = bool(schedule.due(clock))
    return (Trigger("due", float(due), 1.0, due),)


def declared_sizes(schedule: Any) -> dict[str, Any]:
    """Return the dim and feature_norm that a rule, or the one within it, was made for.

    >>> declared_sizes(EveryEpisode())
    {}
    """
    while (inner := getattr(schedule, "schedule", None)) is not None:
        schedule = inner
    names = ("dim", "feature_norm")
    return {name: getattr(schedule, name) for name in names if hasattr(schedule, name)}


@dataclass(frozen=True)
class EveryEpisode:
    """Switch before every episode: LSVI-UCB (Jin et al. 2020).

    >>> EveryEpisode().upcoming(7)
    8
    """

    persistent: ClassVar[bool] = True

    def due(self, clock: Clock) -> bool:
        return clock.episode > clock.deployed

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        return (Trigger.of_date(clock, clock.deployed + 1),)

    def upcoming(self, episode: int) -> int | None:
        return episode + 1

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return task.episodes - 1

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.batch_regret_bound(task, batches=task.episodes, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "EveryEpisode":
        whole("switches", switches, least=checked_task(task).episodes - 1)
        return cls()


class Dated:
    """A rule whose dates are fixed in advance: switch before each of the episodes `starts`."""

    persistent: ClassVar[bool] = True

    starts: Sequence[int]

    def due(self, clock: Clock) -> bool:
        date = self.upcoming(clock.deployed)
        return date is not None and date <= clock.episode  # Alg. 1, line 4, or as soon as asked

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        date = self.upcoming(clock.deployed)
        return () if date is None else (Trigger.of_date(clock, date),)

    def upcoming(self, episode: int) -> int | None:
        position = bisect_right(self.starts, episode)
        return self.starts[position] if position < len(self.starts) else None

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        return max(0, bisect_right(self.starts, task.episodes) - 1)


@dataclass(frozen=True, kw_only=True)
class UniformGrid(Dated):
    """Switch at the start of each of B equal batches of K episodes: LSVI-UCB-Batch (Alg. 1).

    Where B does not divide K, `spread="last"` is the grid as printed, t_i = (i−1)⌊K/B⌋ + 1, whose
    last batch takes the rest; `spread="balanced"` keeps batch lengths within one of each other.

    >>> tuple(UniformGrid(episodes=10, batches=4).starts)
    (1, 3, 5, 7)
    >>> tuple(UniformGrid(episodes=10, batches=4, spread="balanced").starts)
    (1, 3, 6, 8)
    """

    episodes: int
    batches: int
    spread: str = "last"

    def __post_init__(self) -> None:
        episodes = whole("episodes", self.episodes, least=1)
        settle(
            self,
            episodes=episodes,
            batches=whole("batches", self.batches, least=1, most=episodes),
            spread=one_of("spread", self.spread, ("last", "balanced")),
        )

    @property
    def starts(self) -> Sequence[int]:  # type: ignore[override]
        """The first episode t_i of each batch."""
        if self.spread == "last":
            length = self.episodes // self.batches
            return range(1, self.batches * length + 1, length)
        return _Balanced(self.episodes, self.batches)

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.batch_regret_bound(task, batches=self.batches, ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "UniformGrid":
        """Return the grid of B+1 batches, which deploys B times after the first."""
        switches = whole("switches", switches, least=0, most=checked_task(task).episodes - 1)
        return cls(episodes=task.episodes, batches=switches + 1)


@dataclass(frozen=True)
class _Balanced(Sequence[int]):
    """⌊iK/B⌋ + 1 for i < B, computed when asked for."""

    episodes: int
    batches: int

    def __len__(self) -> int:
        return self.batches

    def __getitem__(self, i: Any) -> Any:
        picked = range(self.batches)[i]
        if isinstance(picked, int):
            return picked * self.episodes // self.batches + 1
        return tuple(self[j] for j in picked)


@dataclass(frozen=True, kw_only=True)
class DeterminantGrowth:
    """Switch when some det Λ_h grew by a factor above η: LSVI-UCB-RareSwitch (Alg. 2).

    >>> import numpy as np
    >>> from rareswitch.core.ledger import Ledger
    >>> ledger = Ledger()
    >>> _ = ledger.deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2))
    >>> clock = ledger.clock(episode=9, logdet=np.array([0.1, 0.7]))
    >>> DeterminantGrowth(eta=2.0).due(clock), DeterminantGrowth(eta=4.0).due(clock)
    (True, False)
    """

    persistent: ClassVar[bool] = True

    eta: float

    def __post_init__(self) -> None:
        settle(self, eta=real("eta", self.eta, above=1.0))

    def due(self, clock: Clock) -> bool:
        return bool(clock.growth.max() > math.log(self.eta) + GROWTH_TOLERANCE)  # Alg. 2, line 7

    def triggers(self, clock: Clock) -> tuple[Trigger, ...]:
        largest = float(clock.growth.max())
        return (Trigger.of_growth(LARGEST_GROWTH, largest, math.log(self.eta)),)

    def deployment_limit(self, task: Task, ridge: float = 1.0) -> int:
        bound = theory.switch_bound(task, eta=self.eta, ridge=ridge)
        return min(math.floor(bound * (1 + 1e-12)), task.episodes - 1)  # 40.999… is 41

    def regret_bound(self, task: Task, ridge: float = 1.0) -> theory.RegretBound:
        return theory.rare_switch_regret_bound(task, log_eta=math.log(self.eta), ridge=ridge)

    @classmethod
    def for_budget(cls, task: Task, *, switches: int, ridge: float = 1.0) -> "DeterminantGrowth":
        """Return the rule that makes at most `switches` switches on every path (Theorem 2)."""
        return cls(eta=theory.eta_for_budget(task, switches=switches, ridge=ridge))
