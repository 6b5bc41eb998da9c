"""A trained policy with its features, which acts on observations and is saved as one file.

An agent needs neither Gymnasium nor the learner that made its policy.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.core.control import Control, Player
from rareswitch.core.policy import Policy, policy_arrays
from rareswitch.features import FeatureMap, features_from_bytes
from rareswitch.features.feature_map import truths
from rareswitch.features.packed import Packed
from rareswitch.support import codec
from rareswitch.support.archive import write_bytes
from rareswitch.support.arguments import Bools, short_repr, whole
from rareswitch.trajectories import Rewards
from rareswitch.trajectories.observation import settled

MASK = "action_mask"  # the key of the mask of feasible actions in Gymnasium's `info`
# Arrays that a basis computes from its fields, for other programs.
DERIVED = {"polynomial": ("factors",)}
# Errors of a feature map for many observations instead of one.
NOT_ONE = (TypeError, ValueError, IndexError, KeyError)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Agent:
    """A policy, its features, and the actions of the environment.

    `begin(key)` starts an episode and `act(observation)` returns the action of each step.
    `predict(observation)` is one action without an episode. In a mixture, the key determines the
    member that plays the whole episode. Step t is played at stage t of the policy. After the
    horizon the agent continues at stage 0, which plans furthest ahead; see `rolling_stage`.

    >>> from rareswitch.features import OneHot
    >>> policy = Policy(weights=np.array([[0.2, 0.5, 0.9, 0.1]]), one_hot=True)
    >>> agent = Agent(policy=policy, features=OneHot(states=2, actions=2))
    >>> agent.begin("ada").act(0), agent.predict(1), agent.predict([0, 1, 1])
    (1, 0, array([1, 0, 0]))
    """

    policy: Policy
    features: FeatureMap
    rewards: Rewards = field(default_factory=Rewards)
    actions: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise TypeError(f"policy must be a Policy; got {short_repr(self.policy)}")
        ours, theirs = (self.policy.dim, self.policy.one_hot), (
            self.features.dim, self.features.one_hot,
        )  # fmt: skip
        if ours != theirs:
            raise ValueError(
                f"features must have dim = {ours[0]} and one_hot = {ours[1]}, like the policy; "
                f"got {theirs[0]} and {theirs[1]}"
            )

    def begin(self, key: str | int = 0, *, steps: int | None = None) -> "Acting":
        """Start an episode; the key determines the member of a mixture.

        Give the number of `steps` of the episode if it is known to exceed the horizon.
        """
        most = None if steps is None else whole("steps", steps, least=1)
        return Acting(self, self.policy.draw(key), most)

    def predict(self, observation: Any, h: int = 0, key: str | int = 0, *, mask: Any = None) -> Any:
        """Return the action at stage h for one observation, or an array of actions for many.

        A list has many observations, and so has an array with one axis more than an observation.
        `mask` is true for feasible actions: (A,) for one observation, (n, A) for n observations.
        """
        h, member = whole("h", h, least=0, most=self.policy.horizon - 1), self.policy.draw(key)
        if isinstance(observation, list):
            try:
                return self._predict_many(observation, h, member, mask)
            except NOT_ONE as error:
                error.add_note("a list means many observations; give a single one as an array")
                raise
        if not isinstance(observation, np.ndarray) or not observation.ndim:
            return self._choose(member, observation, h, mask)
        if mask is not None:  # its shape shows how many observations there are
            if np.ndim(mask) == 2:
                return self._predict_many(observation, h, member, mask)
            return self._choose(member, observation, h, mask)
        try:
            return self._choose(member, observation, h)
        except NOT_ONE as error:
            try:
                return self._predict_many(observation, h, member, None)
            except NOT_ONE:
                raise error from None

    def save(self, path: str | Path) -> None:
        """Write the agent to a file, atomically; `Agent.load` reads it."""
        write_bytes(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | Path) -> "Agent":
        """Return the agent that `save` wrote; the file cannot run code."""
        return cls.from_bytes(Path(path).read_bytes())

    def to_bytes(self) -> bytes:
        """Return all parts as bytes; features that are code raise an error."""
        arrays = {
            "policy": np.frombuffer(self.policy.to_bytes(), np.uint8),
            "features": np.frombuffer(_features_bytes(self.features), np.uint8),
        }
        listed = None if self.actions is None else list(map(_plain_action, self.actions))
        meta = {"rewards": [self.rewards.low, self.rewards.high], "actions": listed}
        return codec.pack("agent", meta, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Agent":
        """Return the agent that `to_bytes` wrote, or raise an error if the bytes were altered."""
        parts = codec.unpack("agent", data)
        parts.only(meta=("rewards", "actions"), arrays=("policy", "features"))
        with parts.reading():
            actions = parts.meta["actions"]
            return cls(
                policy=Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes()),
                features=features_from_bytes(parts.array("features", "|u1", ("n",)).tobytes()),
                rewards=Rewards(*parts.meta["rewards"]),
                actions=None if actions is None else list(map(_action_of, actions)),
            )

    def to_arrays(self) -> codec.Arrays:
        """Return policy and features as named arrays, for `np.savez` and for other programs.

        The policy's arrays are `weights` (H, d) and others; `table.positions` are the columns of a
        wide policy. The name of an array of the features has the kind of its part, such as
        `scaling.origin`, and a number if a kind occurs twice. Features that are code raise an
        error.

        >>> from rareswitch.features import ActionBlocks, Scaling
        >>> features = ActionBlocks(Scaling.between([0.0], [2.0]), actions=2)
        >>> sorted(Agent(policy=Policy(weights=[[0.5, 0.25]]), features=features).to_arrays())[:4]
        ['action-blocks.actions', 'clip', 'scaling.high', 'scaling.low']
        """
        features, policy = self.features, self.policy
        if not isinstance(features, Packed) or features.code is not None:
            raise TypeError(
                f"features must be maps of this package to be arrays; got {short_repr(features)}. "
                "Save the policy's own arrays, policy.weights and others, and your code"
            )
        arrays: codec.Arrays = {"clip": np.array(policy.clip)}
        for name in (*policy_arrays(policy.one_hot), "allocation"):
            if (value := getattr(policy, name)) is not None:
                arrays[name] = np.array(value)
        if policy.table is not None:
            told = policy.table.plain | {"positions": policy.table.positions}
            arrays |= {f"table.{name}": np.array(value) for name, value in told.items()}
        if policy.beta:
            arrays["beta"] = np.array(policy.beta)
        if policy.floor:
            arrays["floor"] = np.array(policy.floor)
        if policy.control is not None:
            arrays["control.share"] = np.array(policy.control.share)
            if policy.control.action is not None:
                arrays["control.action"] = np.array(policy.control.action)
            else:
                plays = Agent(policy=policy.controlling, features=features).to_arrays()
                own = {*policy_arrays(policy.one_hot), "allocation", "clip", "beta"}
                kept = {n: a for n, a in plays.items() if n in own or n.startswith("table.")}
                arrays |= {f"control.{name}": array for name, array in kept.items()}
        if self.actions is not None:
            arrays["actions"] = np.array(self.actions)
        return arrays | _named_arrays(features)

    def _choose(
        self,
        member: Policy | Player,
        observation: Any,
        h: int,
        mask: Bools | None = None,
        step: int | None = None,
    ) -> Any:
        observation = settled("observation", observation)  # as in a log
        told = {} if mask is None else {MASK: mask}
        rows = self.features(observation, h)
        allowed = feasible_actions(self.features, observation, h, told, "mask")
        offered = rows if allowed is None else rows[allowed]
        if isinstance(member, Player):
            check_mask(member.control, allowed)
            chosen = member.act(h, offered, step)
        else:
            chosen = member.act(h, offered)
        if allowed is not None:
            chosen = int(np.flatnonzero(allowed)[chosen])
        return chosen if self.actions is None else self.actions[chosen]

    def _predict_many(self, observations: Any, h: int, member: Policy | Player, mask: Any) -> Any:
        count = len(observations)
        masks: Any = [None] * count
        if mask is not None:
            masks = truths("mask", mask, (count, self.features.actions))
        chosen = [
            self._choose(member, one, h, told)
            for one, told in zip(observations, masks, strict=True)
        ]
        return np.array(chosen, None if chosen and self.actions is not None else np.int64)

    def __repr__(self) -> str:
        policy = self.policy
        members = f"mixture of {policy.members}, " if policy.members > 1 else ""
        return f"Agent({self.features.name}, {members}horizon {policy.horizon})"


class Acting:
    """One episode of an agent; call `act` once for every step."""

    def __init__(self, agent: Agent, member: Policy | Player, steps: int | None) -> None:
        self._agent, self._member, self._steps = agent, member, steps
        self.step = 0

    @property
    def role(self) -> str:
        """The role of the player: "learned", "control" or "floor"."""
        return self._member.role

    @property
    def stage(self) -> int:
        """The stage of the policy for the next step."""
        return rolling_stage(self.step, self._member.horizon, self._steps)

    def act(self, observation: Any, mask: Bools | None = None) -> Any:
        """Return the action for the environment; `mask` (A,) is true for feasible actions."""
        chosen = self._agent._choose(self._member, observation, self.stage, mask, self.step)
        self.step += 1
        return chosen


class ControlError(ValueError):
    """A control that is an action, where actions are masked."""


def check_mask(control: Control | None, mask: Bools | None) -> None:
    """Raise an error for a control that is an action if a mask would shift its position."""
    if control is not None and control.action is not None and mask is not None and not mask.all():
        raise ControlError(
            f"control must be a policy if actions are masked; got action {control.action}: give "
            "Control(policy, share=…), or --control FILE,share=…"
        )


def rolling_stage(step: int, horizon: int, steps: int | None = None) -> int:
    """Return the stage for a step: the same number, or 0 after the last stage.

    If an episode has more `steps` than the horizon, all but the last H steps are played at stage 0,
    because the last stages ignore later rewards.

    >>> [rolling_stage(step, 3) for step in range(5)]
    [0, 1, 2, 0, 0]
    >>> [rolling_stage(step, 3, steps=5) for step in range(5)]
    [0, 0, 0, 1, 2]
    """
    if steps is not None and steps > horizon:
        step = max(0, step - (steps - horizon))
    return step if step < horizon else 0


def feasible_actions(
    features: FeatureMap,
    observation: Any,
    stage: int,
    info: Mapping[str, Any],
    name: str = f"info[{MASK!r}]",
) -> Bools | None:
    """Return the feasible actions (A,), at least one; None means all.

    An action is feasible if the features and the mask in `info` allow it. `name` is the name of the
    mask in errors.
    """
    mask = features.feasible(observation, stage)
    if MASK in info:
        told = truths(name, info[MASK], (features.actions,))
        mask = told if mask is None else np.logical_and(mask, told)
    if mask is None or mask.all():
        return None
    if not mask.any():
        raise ValueError(
            f"{name} must allow an action; all are forbidden in {short_repr(observation)}"
        )
    return mask


def _named_arrays(features: Packed) -> codec.Arrays:
    """Return the arrays and numbers of a map and its parts, named by kind and field."""
    arrays: codec.Arrays = {}
    counted: dict[str, int] = {}
    for part in _parts(features):
        number = counted[part.kind] = counted.get(part.kind, 0) + 1
        name = part.kind if number == 1 else f"{part.kind}-{number}"
        derived = [(field, getattr(part, field)) for field in DERIVED.get(part.kind, ())]
        for field_name, value in (*_values(part), *derived):
            if isinstance(value, bool | int | float | np.ndarray):
                arrays[f"{name}.{field_name}"] = np.array(value)
    return arrays


def _parts(whole: Packed) -> Iterator[Packed]:
    """Yield a map, a basis or a space, then all its parts, outer parts first."""
    yield whole
    for _, value in _values(whole):
        for part in value if isinstance(value, tuple) else (value,):
            if isinstance(part, Packed):
                yield from _parts(part)


def _values(part: Any) -> list[tuple[str, Any]]:
    return [(field.name, getattr(part, field.name)) for field in fields(part) if field.init]


def _plain_action(action: Any) -> Any:
    """Return an action as plain values: a number or a text unchanged, an array with its dtype."""
    if isinstance(action, int | float | str) and not isinstance(action, np.generic):
        return action
    array = np.asarray(action)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"actions must be numbers, texts or arrays of numbers to be saved; got "
            f"{short_repr(action)}"
        )
    return {"dtype": array.dtype.str, "values": array.tolist()}


def _action_of(plain: Any) -> Any:
    """Return the action that `_plain_action` described."""
    if isinstance(plain, int | float | str):
        return plain
    dtype = np.dtype(plain["dtype"])
    if dtype.kind not in "fiub":
        raise ValueError(f"actions must be arrays of numbers; got {dtype}")
    return np.array(plain["values"], dtype)


def _features_bytes(features: Any) -> bytes:
    if not hasattr(features, "to_bytes"):
        raise TypeError(
            f"features must be maps of this package to be saved; got {short_repr(features)}. Save "
            "the policy's own bytes, policy.to_bytes(), and your code"
        )
    data: bytes = features.to_bytes()
    return data
