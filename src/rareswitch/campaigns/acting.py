"""One step of an episode: the offered rows and the action of the assigned member.

A step is checked before its episode is assigned, so no episode begins with an unusable observation.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rareswitch.campaigns.observations import Observer
from rareswitch.campaigns.recording import Assignment
from rareswitch.campaigns.report_values import numbers
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import Rows, floats, positions, whole

Earlier = Sequence[tuple[Any, str | int]]


class Act(NamedTuple):
    """The action of the assigned member, and its probability given the earlier actions."""

    episode_id: str
    version: int
    member: int
    stage: int
    action: str
    place: int
    probability: float


@dataclass(frozen=True, kw_only=True)
class Acting:
    """The rows offered at this stage and at earlier stages, and the actions taken earlier.

    `actions` are the protocol's names; without names an action is its index.
    """

    rows: tuple[Rows, ...]
    taken: tuple[int, ...]
    actions: tuple[str, ...]

    def choose(self, policy: Policy, assigned: Assignment) -> Act:
        """Return the action of the assigned member."""
        *before, now = self.rows
        stage = len(before)
        place = int(policy.player(assigned.member, assigned.key).act(stage, now))
        chances = [
            policy.chances(past, rows, taken)
            for past, (rows, taken) in enumerate(zip(before, self.taken, strict=True))
        ]
        found = policy.conditional(np.array([*chances, policy.chances(stage, now, place)]))
        if not found[:-1].all():
            raise ValueError(
                "earlier must be actions that the policy recommends; no member takes all actions "
                f"up to stage {int(np.argmin(found > 0.0))}"
            )
        name = self.actions[place] if self.actions else str(place)
        chance = float(found[-1])
        return Act(
            assigned.episode_id, assigned.version, assigned.member, stage, name, place, chance
        )


def acting_on_observation(
    observer: Observer, observation: Mapping[str, Any], earlier: Earlier
) -> Acting:
    """Return the step of a raw observation; `earlier` has the earlier observations and actions."""
    stage = _stage(earlier, observer.task.horizon)
    rows = [observer.rows(seen, past) for past, (seen, _) in enumerate(earlier)]
    rows.append(observer.rows(observation, stage))  # refused before anything is assigned
    taken = tuple(observer.place(action) for _, action in earlier)
    return Acting(rows=tuple(rows), taken=taken, actions=observer.actions)


def acting_on_features(terms: Terms, features: Any, earlier: Earlier) -> Acting:
    """Return the step of feature rows; `earlier` has the earlier rows and actions.

    Rows are nested lists as in JSON: (A, d), or the positions (A,) of one-hot rows.
    """
    task = terms.plain["task"]
    stage = _stage(earlier, terms.horizon)
    offered = [
        *((f"earlier[{past}]", rows) for past, (rows, _) in enumerate(earlier)),
        ("features", features),
    ]
    rows = tuple(_rows(name, given, task) for name, given in offered)
    if terms.actions and (most := max(map(len, rows))) > len(terms.actions):
        raise ValueError(
            f"features must have at most {len(terms.actions)} rows, the protocol's actions; got "
            f"{most}"
        )
    control = terms.control_action
    if control is not None and (least := min(map(len, rows))) <= control:
        raise ValueError(
            f"features must have at least {control + 1} rows, because the control takes action "
            f"{control}; got {least}"
        )
    taken = []
    for past, (_, action) in enumerate(earlier):
        if isinstance(action, str) and action in terms.actions:
            action = terms.actions.index(action)
        taken.append(whole(f"earlier[{past}] action", action, least=0, most=len(rows[past]) - 1))
    assert len(rows) == stage + 1
    return Acting(rows=rows, taken=tuple(taken), actions=terms.actions)


def _stage(earlier: Earlier, horizon: int) -> int:
    if (stage := len(earlier)) >= horizon:
        raise ValueError(f"earlier must have fewer stages than the horizon, {horizon}; got {stage}")
    return stage


def _rows(name: str, given: Any, task: Mapping[str, Any]) -> Rows:
    """Return the rows of all offered actions, checked against the task."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"{name} must be a list with a row for each action; got {given!r:.40}")
    if task["one_hot"]:
        whole_numbers = all(type(one) is int for one in given)
        return positions(name, given if whole_numbers else numbers(name, given), task["dim"])
    rows = floats(name, numbers(name, given), (len(given), task["dim"]))
    longest = math.sqrt(np.vecdot(rows, rows).max())
    if not longest <= task["feature_norm"] * (1.0 + 1e-9):
        raise ValueError(
            f"{name} must have rows no longer than feature_norm = {task['feature_norm']:g}; got "
            f"{longest:.6g}"
        )
    return rows
