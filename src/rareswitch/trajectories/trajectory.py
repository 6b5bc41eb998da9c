"""One episode of an environment: observations, actions and rewards, step by step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rareswitch.support.arguments import (
    Bools,
    Floats,
    Ints,
    flag,
    floats,
    frozen,
    holds_truths,
    set_fields,
    short_repr,
    whole,
)  # fmt: skip
from rareswitch.support.streams import LARGEST_SEED
from rareswitch.support.words import plural
from rareswitch.trajectories.observation import (
    observation_of,
    plain,
    same_observations,
    settled_observations,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class Trajectory:
    """One episode of n ≥ 1 steps, in the layout of Minari.

    `observations` are n+1, one before each action and the last: numbers, texts, arrays, or tuples
    or dicts of them. `actions` (n,) count the rows of the feature map from 0, and `rewards` (n,)
    are the environment's own. An episode that is not `terminated` is truncated, and its last state
    has a value.

    `propensities` (n,) are the probabilities of the actions, each given the earlier steps of the
    episode: their product is the probability of all actions. `masks` (n+1, A) are true, or 1, for
    feasible actions; None means that all are feasible. `version` and `member` identify the policy,
    and `key` identifies the episode.

    >>> Trajectory(observations=[0, 1, 1], actions=[1, 0], rewards=[0.0, 5.0], terminated=True)
    Trajectory(2 steps, return 5, ended)
    """

    observations: Sequence[Any]
    actions: Ints
    rewards: Floats
    terminated: bool
    propensities: Floats | None = None
    masks: Sequence[Bools] | None = None
    version: int | None = None
    member: int | None = None
    key: str | int | None = None

    def __post_init__(self) -> None:
        actions = _actions(self.actions)
        steps = len(actions)
        observations = settled_observations(self.observations)
        if len(observations) != steps + 1:
            raise ValueError(
                f"observations must be {steps + 1} for {steps} actions, one before each action and "
                f"the last; got {len(observations)}"
            )
        terminated = flag("terminated", self.terminated)
        set_fields(
            self,
            observations=observations,
            actions=actions,
            rewards=floats("rewards", self.rewards, (steps,)),
            terminated=terminated,
        )
        if self.propensities is not None:
            set_fields(self, propensities=_propensities(self.propensities, steps))
        if self.masks is not None:
            set_fields(self, masks=_masks(self.masks, actions, terminated))
        if self.version is not None:
            set_fields(self, version=whole("version", self.version, least=1))
        if self.member is not None:
            set_fields(self, member=whole("member", self.member, least=0))
        if self.key is not None:
            set_fields(self, key=_key(self.key))

    @property
    def total(self) -> float:
        """The return: the sum of the rewards."""
        return float(self.rewards.sum())

    def until(self, steps: int) -> "Trajectory":
        """Return the trajectory truncated after `steps` steps, or unchanged if it is not longer."""
        steps = whole("steps", steps, least=1)
        if steps >= len(self):
            return self
        return replace(
            self,
            observations=self.observations[: steps + 1],
            actions=self.actions[:steps],
            rewards=self.rewards[:steps],
            terminated=False,
            propensities=None if self.propensities is None else self.propensities[:steps],
            masks=None if self.masks is None else self.masks[: steps + 1],
        )

    def __len__(self) -> int:
        return len(self.actions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return same_observations(self.observations, other.observations) and all(
            np.array_equal(getattr(self, name), getattr(other, name))
            for name in FIELDS
            if name != "observations"
        )

    def __hash__(self) -> int:
        return hash((self.actions.tobytes(), self.rewards.tobytes(), self.key))

    def __repr__(self) -> str:
        end = "ended" if self.terminated else "cut off"
        return f"Trajectory({plural(len(self), 'step')}, return {self.total:g}, {end})"

    @property
    def words(self) -> str:
        """The trajectory for errors, with its key."""
        return repr(self) if self.key is None else f"{self!r} with key {short_repr(self.key)}"


# The fields of a trajectory in the order of logs.
FIELDS = tuple(Trajectory.__dataclass_fields__)
REQUIRED = ("observations", "actions", "rewards", "terminated")


def plain_fields(trajectory: Trajectory) -> dict[str, Any]:
    """Return the fields of a trajectory as numbers, texts, lists, dicts and None."""
    values = {name: plain(getattr(trajectory, name)) for name in FIELDS}
    if isinstance(trajectory.observations, tuple):  # of one type each, along time
        values["observations"] = [plain(one) for one in trajectory.observations]
    return values


def trajectory_at(place: str, values: dict[str, Any]) -> Trajectory:
    """Return the trajectory with these fields of a log; an error names the place and the field.

    >>> trajectory_at("a.jsonl, line 3", {"observations": [0, 1], "actions": [0], "rewards": [0.5]})
    Traceback (most recent call last):
        ...
    ValueError: a.jsonl, line 3: terminated must be there; got observations, actions, rewards
    """
    if missing := [name for name in REQUIRED if values.get(name) is None]:
        raise ValueError(f"{place}: {missing[0]} must be there; got {', '.join(values)}")
    if unknown := [name for name in values if name not in FIELDS]:
        raise ValueError(
            f"{place}: {unknown[0]} is no field of an episode; the fields are {', '.join(FIELDS)}"
        )
    observations = values["observations"]
    if isinstance(observations, list):
        values = values | {"observations": [observation_of(one) for one in observations]}
    if type(values["terminated"]) is int and values["terminated"] in (0, 1):  # from databases
        values = values | {"terminated": bool(values["terminated"])}
    try:
        return Trajectory(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None


def _actions(value: Any) -> Ints:
    given: Any = np.asanyarray(value)
    if given.dtype.kind not in "iu" or given.ndim != 1 or isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            f"actions must be a list of whole numbers; got {given.dtype} of shape {given.shape}"
        )
    if not given.size:
        raise ValueError("actions must not be empty")
    if (step := _first(given < 0)) is not None:
        raise ValueError(f"actions must be 0 or more; got {given[step]} at step {step}")
    if (step := _first(given > 2**31)) is not None:
        raise ValueError(f"actions must count rows of features; got {given[step]} at step {step}")
    actions: Any = frozen(given.astype(np.int64, copy=False))
    return actions


def _propensities(value: Any, steps: int) -> Floats:
    propensities = floats("propensities", value, (steps,))
    if (step := _first((propensities <= 0.0) | (propensities > 1.0))) is not None:
        raise ValueError(
            f"propensities must be above 0 and at most 1; got {propensities[step]} at step {step}"
        )
    return propensities


def _masks(value: Any, actions: Ints, terminated: bool) -> Bools:
    given: Any
    try:
        given = np.asanyarray(value)
    except ValueError:  # of different lengths
        given = np.empty(0, object)
    if not holds_truths(given) or given.ndim != 2 or isinstance(given, np.ma.MaskedArray):
        raise TypeError(
            "masks must be True or False, or 1 or 0, for every observation and action; got "
            f"{short_repr(value)}"
        )
    given = given.astype(bool, copy=False)
    if len(given) != len(actions) + 1:
        raise ValueError(
            f"masks must be {len(actions) + 1} for {len(actions)} actions, one mask for each "
            f"observation; got {len(given)}"
        )
    if (step := _first(actions >= given.shape[1])) is not None:
        raise ValueError(
            f"masks must have an entry for every action; got {given.shape[1]} entries, and action "
            f"{actions[step]} at step {step}"
        )
    if (step := _first(~given[np.arange(len(actions)), actions])) is not None:
        raise ValueError(
            f"masks must allow the taken actions; action {actions[step]} is not feasible at step "
            f"{step}"
        )
    if not terminated and not given[-1].any():
        raise ValueError(
            "masks must allow an action after the last step unless the episode terminated"
        )
    masks: Any = frozen(given)
    return masks


def _key(value: Any) -> str | int:
    if isinstance(value, str):
        if not value:
            raise ValueError("key must name the episode; got an empty text")
        return str(value)
    return whole("key", value, least=0, most=LARGEST_SEED)


def _first(wrong: Bools) -> int | None:
    """Return the first index that is true, or None."""
    return int(wrong.argmax()) if wrong.any() else None
