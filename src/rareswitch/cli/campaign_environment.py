"""A Gymnasium environment as the world of a simulated campaign."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rareswitch.campaigns.rehearsal.world import Step
from rareswitch.gym.episode import Offer, Offers, five, number, pair
from rareswitch.gym.exact import known_returns
from rareswitch.gym.rollout import LARGEST_ENVIRONMENT_SEED, action_space
from rareswitch.support.streams import KeyedStream, Seed, Stream

if TYPE_CHECKING:
    from rareswitch.campaigns.protocol import Protocol
    from rareswitch.core.policy import Policy
    from rareswitch.gym.setting import Setting
    from rareswitch.support.arguments import Rows


class EnvironmentWorld:
    """Episodes of an environment under a setting; episode k has the same seed as in `gym.play`."""

    def __init__(self, environment: Any, setting: Setting, *, seed: Seed = 0) -> None:
        self._environment, self._setting = environment, setting
        self.horizon = setting.horizon
        self._offers = Offers(setting.features)
        self._seeds = KeyedStream(seed, Stream.ENVIRONMENT)
        start = int(getattr(action_space(environment), "start", 0))
        ours = range(start, start + setting.features.actions)
        self._handed = ours if setting.actions is None else list(setting.actions)
        self._stage = 0
        self._offer: Offer

    def begin(self, number: int) -> Rows:
        seed = int(self._seeds.at(number).integers(LARGEST_ENVIRONMENT_SEED))
        observation, info = pair(self._environment.reset(seed=seed))
        self._stage = 0
        return self._offered(observation, info)

    def step(self, place: int) -> Step:
        mask = self._offer.mask
        action = place if mask is None else int(np.flatnonzero(mask)[place])
        answer = five(self._environment.step(self._handed[action]))
        observation, reward, terminated, truncated, info = answer
        earned = self._setting.rewards.scaled(number(reward))
        self._stage += 1
        if terminated:
            return Step(earned, None, True)
        return Step(earned, self._offered(observation, info), bool(truncated))

    def loss(self, policy: Policy) -> float | None:
        """Return the expected regret of scaled rewards; None if the model is unknown."""
        setting = self._setting
        known = known_returns(policy, self._environment, setting.features, setting.actions)
        if known is None:
            return None
        return max(known.optimum - known.policy, 0.0) / (setting.rewards.high - setting.rewards.low)

    def _offered(self, observation: Any, info: Mapping[str, Any]) -> Rows:
        # After the last stage, the map gets the number of the last stage.
        self._offer = self._offers.after(observation, min(self._stage, self.horizon - 1), info)
        return self._offer.rows


def check_setting(setting: Setting, protocol: Protocol) -> None:
    """Raise if the environment's task or features differ from the protocol's."""
    found, agreed = setting.task(), protocol.task
    for name in ("dim", "one_hot", "end_reward"):
        ours, theirs = getattr(agreed, name), getattr(found, name)
        if ours != theirs:
            raise ValueError(f"the protocol's [task] {name} is {ours}; that of --env is {theirs}")
    if agreed.blocks not in (1, found.blocks):
        raise ValueError(
            f"the protocol's [task] blocks is {agreed.blocks}; that of --env is {found.blocks}"
        )
    named = protocol.features
    if named is not None and named.digest not in ("", setting.features.digest):
        raise ValueError(
            f"the protocol's [features] are {named.name}, {named.digest[:12]}…; those of --env are "
            f"{setting.features.name}, {setting.features.digest[:12]}…"
        )
