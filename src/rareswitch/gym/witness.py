"""What can be said of the policies of a round: what was lost by them, and which changed an action.

Where an environment tells its model, both are exact: the regret of an episode is what the best
policy earns on average, minus what the policy in force does, of a mixture the mean of its members.
Else it is what was missing to the largest return possible, and every deployment after the first
counts as a change.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap
from rareswitch.gym.known import Known, known_returns
from rareswitch.gym.model import FiniteModel
from rareswitch.gym.setting import Setting
from rareswitch.support.arguments import Ints


class Witness:
    """Sees every policy that is deployed in a world, in order.

    `changed` says of each whether it does anything else than the one before; the first does not.
    With `exact=False` regret is not computed, even where it could be.
    """

    def __init__(self, world: Any, setting: Setting, *, exact: bool = True) -> None:
        self._world, self._setting, self._exact = world, setting, exact
        self._model = FiniteModel.of(world)
        self._known: list[Known | None] = []
        self._does: Ints | None = None
        self.changed: list[bool] = []

    def see(self, policy: Policy) -> None:
        """Take in the next policy that is deployed."""
        setting, first = self._setting, not self.changed
        if first or (self._exact and self._known[0] is not None):
            self._known.append(
                known_returns(policy, self._world, setting.features, setting.actions)
            )
        does = self._choices(policy) if self._known[0] is not None else None
        same = does is not None and self._does is not None and np.array_equal(does, self._does)
        self.changed.append(not first and not same)
        self._does = does

    def regret(self, dates: Sequence[int], returns: Sequence[float]) -> tuple[str, float]:
        """Return the measure and the total, given the first episode of each policy."""
        if self._exact and None not in self._known:
            lost = [max(one.optimum - one.policy, 0.0) for one in self._known if one]
            episodes = [end - start for start, end in pairwise([*dates, len(returns) + 1])]
            return "regret", float(np.dot(episodes, lost))
        most = self._setting.horizon * self._setting.rewards.high
        return "shortfall", float(np.maximum(most - np.array(returns), 0.0).sum())

    def _choices(self, policy: Policy) -> Ints | None:
        """Return what every member does at every stage and state (H, M, S), if all is feasible."""
        model, features = self._model, self._setting.features
        if model is None or model.feasible is not None:
            return None
        states = range(len(model.rewards))
        if not _offers_all(features, len(states), policy.horizon):
            return None
        by_stage = (np.stack([features(s, h) for s in states]) for h in range(policy.horizon))
        return np.stack([policy.choices(h, rows) for h, rows in enumerate(by_stage)])


def _offers_all(features: FeatureMap, states: int, horizon: int) -> bool:
    """Return whether features leave all actions feasible in every state and at every stage."""
    try:
        offers = (features.feasible(s, h) for s in range(states) for h in range(horizon))
        return all(offer is None for offer in offers)
    except ValueError:  # a state without any
        return False
