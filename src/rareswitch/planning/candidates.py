"""The rules to choose from: those of the table that keep a budget, and the user's own."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rareswitch import named
from rareswitch.core.arguments import shown, whole
from rareswitch.core.rules import RULES, row_of
from rareswitch.core.schedule import Schedule, checked_schedule
from rareswitch.core.task import Task
from rareswitch.core.theory import RegretBound
from rareswitch.planning.source import expression


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A schedule and what is certain about it.

    `deployment_limit` is the most deployments after the first on any path: what the rule promises
    (`guaranteed`), or K−1, which none exceeds. `bound` is the theorem's on the total regret, with
    c = 1; None where there is none.
    """

    name: str
    schedule: Schedule
    deployment_limit: int
    guaranteed: bool
    bound: RegretBound | None

    @property
    def code(self) -> str:
        """The schedule as Python, with rareswitch imported as rs."""
        return expression(self.schedule)

    @property
    def label(self) -> str:
        """What figures call the rule."""
        row = row_of(self.schedule)
        return row.label if self.name == row.name and row in RULES else self.name


def candidates_for(budget: int, task: Task, *, ridge: float = 1.0) -> list[Candidate]:
    """Return the rules of the table that keep a budget of deployments after the first.

    At 0 and at K−1 that is one rule: never again, and before every episode.

    >>> task = Task(dim=2, horizon=3, episodes=100)
    >>> [candidate.name for candidate in candidates_for(99, task)]
    ['every-episode']
    """
    last = task.episodes - 1
    budget = whole("switches", budget, least=0, most=last)
    found = []
    for row in RULES:
        if not hasattr(row.kind, "for_budget"):
            continue
        try:
            schedule = row.kind.for_budget(task, switches=budget, ridge=ridge)
        except ValueError:  # this kind has no rule for so few, or so many
            continue
        candidate = _judged(row.name, schedule, task, ridge)
        if candidate.deployment_limit <= budget:
            found.append(candidate)
    return found[:1] if budget in (0, last) else found


def own_candidates(
    schedules: Iterable[Schedule], task: Task, *, ridge: float = 1.0
) -> list[Candidate]:
    """Return what is certain about rules that the user brings."""
    if not isinstance(schedules, Iterable) or isinstance(schedules, np.ndarray):
        raise TypeError(f"candidates must be a list of schedules; got {shown(schedules)}")
    checked = [checked_schedule(schedule, "candidates") for schedule in schedules]
    return [_judged(_own_name(schedule), schedule, task, ridge) for schedule in checked]


def _judged(name: str, schedule: Schedule, task: Task, ridge: float) -> Candidate:
    promise = getattr(schedule, "deployment_limit", None)
    # The theorems are about stages of their own.
    bound = None if task.pools.shared else getattr(schedule, "regret_bound", None)
    limit = task.episodes - 1
    if promise is not None:
        limit = math.floor(min(limit, promise(task, ridge)))
    return Candidate(
        name=name,
        schedule=schedule,
        deployment_limit=limit,
        guaranteed=promise is not None,
        bound=bound and bound(task, ridge),
    )


def _own_name(schedule: Schedule) -> str:
    """Return the rule as it is written on the command line, or else the name of its kind."""
    try:
        return named.written(schedule)
    except ValueError:
        return row_of(schedule).name
