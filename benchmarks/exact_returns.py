"""Exact expected returns of policies in finite worlds, fast enough for every policy of a run.

Letters: H `horizon`, S states, A actions, M members.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap
from rareswitch.gym import FiniteModel, Played
from rareswitch.sim import FiniteMDP
from rareswitch.support.arguments import Bools, Floats, Ints


class ExactReturns:
    """Exact returns, given transition probabilities, rewards and the initial distribution (S,).

    `goes_on` is (H, S, A, S) and `rewards` (H, S, A), with one stage instead of H if all stages are
    equal. `feasible` (S, A) are the feasible actions.
    """

    def __init__(
        self,
        *,
        horizon: int,
        goes_on: Floats,
        rewards: Floats,
        initial: Floats,
        feasible: Bools | None = None,
    ) -> None:
        self.horizon, self.initial = horizon, initial
        self._goes_on, self._rewards = goes_on, rewards
        self.feasible = np.ones(rewards.shape[1:], bool) if feasible is None else feasible

    @classmethod
    def of_model(cls, model: FiniteModel, horizon: int) -> "ExactReturns":
        states, actions, _ = model.rewards.shape
        goes_on = np.zeros((1, states, actions, states))
        pair = np.indices(model.rewards.shape)[:2]
        np.add.at(goes_on[0], (*pair, model.next_states), model.probabilities * ~model.ended)
        return cls(
            horizon=horizon,
            goes_on=goes_on,
            rewards=np.vecdot(model.probabilities, model.rewards)[None],
            initial=model.initial,
            feasible=model.feasible,
        )

    @classmethod
    def of_mdp(cls, mdp: FiniteMDP, initial: Floats) -> "ExactReturns":
        return cls(
            horizon=mdp.horizon, goes_on=mdp.transitions, rewards=mdp.rewards, initial=initial
        )

    def optimum(self) -> float:
        return self._backward(lambda q, h: np.where(self.feasible, q, -np.inf).max(axis=1))

    def random(self) -> float:
        share = self.feasible / self.feasible.sum(axis=1, keepdims=True)
        return self._backward(lambda q, h: np.vecdot(share, q))

    def of_actions(self, actions: Ints) -> float:
        """Return the expected return of the actions (H, S)."""
        states, value = np.arange(len(self.initial)), np.zeros(len(self.initial))
        for h in reversed(range(self.horizon)):
            at = min(h, len(self._rewards) - 1), states, actions[h]
            value = self._rewards[at] + self._goes_on[at] @ value
        return float(self.initial @ value)

    def _backward(self, chosen: Any) -> float:
        value = np.zeros(len(self.initial))
        for h in reversed(range(self.horizon)):
            at = min(h, len(self._rewards) - 1)
            value = chosen(self._rewards[at] + self._goes_on[at] @ value, h)
        return float(self.initial @ value)


class Acting:
    """The actions of policies in every state; `states` are observations."""

    def __init__(self, features: FeatureMap, states: Sequence[Any], feasible: Bools) -> None:
        counts = feasible.sum(axis=1)
        self._size, self._groups = len(states), []  # states by number of actions
        for count in np.unique(counts).tolist():
            own = np.flatnonzero(counts == count)
            allowed = np.nonzero(feasible[own])[1].reshape(-1, count)
            rows = [features(states[s])[some] for s, some in zip(own, allowed, strict=True)]
            self._groups.append((own, allowed, np.array(rows)))

    def actions(self, policy: Policy) -> Ints:
        """Return every member's action at every stage in every state (M, H, S)."""
        found = np.empty((policy.members, policy.horizon, self._size), np.int64)
        for own, allowed, rows in self._groups:
            for h in range(policy.horizon):
                found[:, h, own] = allowed[np.arange(len(own)), policy.choices(h, rows)]
        return found


class Earned:
    """A callback that stores the expected return of the member that played each episode."""

    def __init__(self, exact: ExactReturns, acting: Acting) -> None:
        self._exact, self._acting = exact, acting
        self._policy: Policy | None = None
        self.totals: list[float] = []

    def __call__(self, game: Played) -> None:
        policy = game.playing.actor.policy
        if policy is not self._policy:
            self._policy, self._actions = policy, self._acting.actions(policy)
            self._known: dict[int, float] = {}
        if game.member not in self._known:
            self._known[game.member] = self._exact.of_actions(self._actions[game.member])
        self.totals.append(self._known[game.member])

    def of(self, policy: Policy) -> float:
        """Return the expected return of a single policy."""
        return self._exact.of_actions(self._acting.actions(policy)[0])
