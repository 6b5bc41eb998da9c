"""A trained policy on its own: acts in an environment, predicts, and is saved with its features."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap, features_from_bytes
from rareswitch.gym.agent_arrays import agent_arrays
from rareswitch.gym.feasible import MASK, feasible_actions
from rareswitch.support import codec
from rareswitch.support.arguments import Bools, Ints, short_repr, whole
from rareswitch.trajectories import Rewards


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent:
    """A policy, the features it sees through, and what the environment is handed for its actions.

    `begin(key)` starts an episode, and `act(observation)` is asked once a step. A mixture plays a
    whole episode with the member that the key draws.

    >>> from rareswitch.features import OneHot
    >>> policy = Policy(weights=np.array([[0.2, 0.5, 0.9, 0.1]]), one_hot=True)
    >>> agent = Agent(policy=policy, features=OneHot(states=2, actions=2))
    >>> agent.begin("ada").act(0), agent.predict([0, 1, 1])
    (1, array([1, 0, 0]))
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
                f"features must have dim = {ours[0]} and one_hot = {ours[1]}, as the policy has; "
                f"got {theirs[0]} and {theirs[1]}"
            )

    def begin(self, key: str | int = 0) -> "Acting":
        """Return what acts in one episode, from its first step on."""
        return Acting(self, self.policy.draw(key))

    def predict(self, observations: Sequence[Any], h: int = 0, key: str | int = 0) -> Ints:
        """Return the action at stage h for each of many observations (n,), as their numbers."""
        member = self.policy.draw(key)
        chosen = [_choice(member, self.features, one, h, None) for one in observations]
        return np.array(chosen, np.int64)

    def to_bytes(self) -> bytes:
        """Return policy and features in one file's bytes; features that are code have none."""
        arrays = {
            "policy": np.frombuffer(self.policy.to_bytes(), np.uint8),
            "features": np.frombuffer(_bytes_of(self.features), np.uint8),
        }
        listed = None if self.actions is None else list(map(_described, self.actions))
        meta = {"rewards": [self.rewards.low, self.rewards.high], "actions": listed}
        return codec.pack("agent", meta, arrays)

    def to_arrays(self) -> codec.Arrays:
        """Return policy and features as named arrays, for `np.savez` and for other programs.

        The policy's are `weights` (H, d) and whatever else it has; those of features are named by
        the kind of their part, such as `scaling.origin`, and counted where a kind comes twice.
        Features that are code have none.
        """
        return agent_arrays(self.policy, self.features, self.actions)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Agent":
        """Return the agent that `to_bytes` wrote; bytes that were altered are refused."""
        parts = codec.unpack("agent", data)
        parts.only(meta=("rewards", "actions"), arrays=("policy", "features"))
        with parts.reading():
            actions = parts.meta["actions"]
            return cls(
                policy=Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes()),
                features=features_from_bytes(parts.array("features", "|u1", ("n",)).tobytes()),
                rewards=Rewards(*parts.meta["rewards"]),
                actions=None if actions is None else list(map(_rebuilt, actions)),
            )


class Acting:
    """One member of an agent's policy in one episode: `act` is asked once for every step."""

    def __init__(self, agent: Agent, member: Policy) -> None:
        self._agent, self._member = agent, member
        self.stage = 0

    def act(self, observation: Any, mask: Bools | None = None) -> Any:
        """Return what the environment is handed; `mask` (A,) says which actions are feasible."""
        whole("stage", self.stage, least=0, most=self._member.horizon - 1)
        chosen = _choice(self._member, self._agent.features, observation, self.stage, mask)
        self.stage += 1
        return chosen if self._agent.actions is None else self._agent.actions[chosen]


def _choice(
    member: Policy, features: FeatureMap, observation: Any, h: int, mask: Bools | None
) -> int:
    told = {} if mask is None else {MASK: mask}
    rows, allowed = (
        features(observation, h),
        feasible_actions(features, observation, h, told, "mask"),
    )
    if allowed is None:
        return member.act(h, rows)
    return int(np.flatnonzero(allowed)[member.act(h, rows[allowed])])


def _described(action: Any) -> Any:
    """Return an action as plain values: a number or a text as it is, an array with its dtype."""
    if isinstance(action, int | float | str) and not isinstance(action, np.generic):
        return action
    array = np.asarray(action)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"actions must be numbers, texts or arrays of numbers to be saved; got "
            f"{short_repr(action)}"
        )
    return {"dtype": array.dtype.str, "values": array.tolist()}


def _rebuilt(plain: Any) -> Any:
    """Return the action that was described."""
    if isinstance(plain, int | float | str):
        return plain
    dtype = np.dtype(plain["dtype"])
    if dtype.kind not in "fiub":
        raise ValueError(f"actions must be arrays of numbers; got {dtype}")
    return np.array(plain["values"], dtype)


def _bytes_of(features: Any) -> bytes:
    if not hasattr(features, "to_bytes"):
        raise TypeError(
            f"features must be maps of this package to be saved; got {short_repr(features)}. Keep "
            "the policy's own bytes, policy.to_bytes(), and your code beside them"
        )
    data: bytes = features.to_bytes()
    return data
