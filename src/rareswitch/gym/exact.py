"""Exact returns of the best and of any policy in an environment with finitely many states.

Gymnasium's toy environments have a model `P[state][action]`, a list of (probability, next state,
reward, terminated). Values are returns in the environment's own rewards, over a horizon.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.agent import check_mask
from rareswitch.core.control import Control
from rareswitch.core.policy import Policy
from rareswitch.features import FeatureMap
from rareswitch.support.arguments import Bools, Floats, Ints, whole

# Wrappers that change neither observations nor rewards. `step_limit` reads the limit of TimeLimit.
NEUTRAL = ("TimeLimit", "OrderEnforcing", "PassiveEnvChecker", "RecordEpisodeStatistics")
# Number of states in one call of a policy: more states need more memory and save no time.
STATES_AT_ONCE = 256


@dataclass(frozen=True, kw_only=True, eq=False)
class FiniteModel:
    """K outcomes (S, A, K) of A actions in S states, and the initial distribution (S,).

    An outcome has a probability, a next state, a reward, and may end the episode. `feasible` (S, A)
    marks the feasible actions, by default all.

    >>> ends, reward = np.array([[[True], [True]]]), np.array([[[0.25], [0.75]]])
    >>> one = np.ones((1, 2, 1))
    >>> model = FiniteModel(
    ...     probabilities=one, next_states=0 * one.astype(int), rewards=reward, ended=ends,
    ...     initial=np.ones(1),
    ... )
    >>> model.optimal_return(5), model.random_return(5)
    (0.75, 0.5)
    """

    probabilities: Floats
    next_states: Ints
    rewards: Floats
    ended: Bools
    initial: Floats
    feasible: Bools | None = None

    @classmethod
    def of(cls, world: Any) -> "FiniteModel | None":
        """Return the model of the environment inside all wrappers, or None without a model."""
        inner = getattr(world, "unwrapped", world)
        told, initial = getattr(inner, "P", None), getattr(inner, "initial_state_distrib", None)
        if not isinstance(told, Mapping) or initial is None:
            return None
        states, actions = len(told), len(told[0])
        most = max(len(told[s][a]) for s in range(states) for a in range(actions))
        shape = (states, actions, most)
        probabilities, rewards = np.zeros((2, *shape))
        next_states, ended = np.zeros(shape, np.int64), np.zeros(shape, bool)
        for s in range(states):
            for a in range(actions):
                for k, (p, following, reward, done) in enumerate(told[s][a]):
                    probabilities[s, a, k], next_states[s, a, k] = p, following
                    rewards[s, a, k], ended[s, a, k] = reward, done
        return cls(
            probabilities=probabilities,
            next_states=next_states,
            rewards=rewards,
            ended=ended,
            initial=np.asarray(initial, float),
            feasible=_feasible(inner, states, actions),
        )

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the largest possible reward."""
        possible = self.rewards[self.probabilities > 0.0]
        return float(possible.min()), float(possible.max())

    def optimal_return(self, horizon: int) -> float:
        """Return the expected return of the best policy."""
        return self._backward(horizon, lambda h, q: q.max(axis=1))

    def random_return(self, horizon: int) -> float:
        """Return the expected return of the uniformly random policy."""
        feasible = np.ones(self.rewards.shape[:2]) if self.feasible is None else self.feasible
        share = feasible / feasible.sum(axis=1, keepdims=True)
        return self._backward(horizon, lambda h, q: np.vecdot(share, np.where(share > 0.0, q, 0.0)))

    def policy_return(self, policy: Policy, features: FeatureMap) -> float:
        """Return the expected return of a policy, for a mixture the mean over members.

        It chooses among actions that are feasible in the model and in the features. A control and a
        floor count by their shares.
        """
        split, control = policy.split, policy.control
        found = self._members_return(policy, features)
        if split.even:
            return found
        found *= split.learned
        if control is not None and control.action is None:
            found += control.share * self._members_return(policy.controlling, features)
        elif control is not None:
            found += control.share * self._random_return(policy.horizon, features, control)
        if policy.floor:
            found += policy.floor * self._random_return(policy.horizon, features)
        return found

    def _random_return(
        self, horizon: int, features: FeatureMap, control: Control | None = None
    ) -> float:
        """Return the expected return of the floor, or of a control with a constant action."""

        def value(h: int, q_values: Floats) -> Floats:
            allowed = self._allowed(features, h)
            if control is not None:
                for mask in allowed:
                    check_mask(control, mask)
                place = control.take(allowed.shape[1])
                return q_values[:, place]
            share = allowed / allowed.sum(axis=1, keepdims=True)
            return np.vecdot(share, np.where(share > 0.0, q_values, 0.0))

        return self._backward(horizon, value)

    def _members_return(self, policy: Policy, features: FeatureMap) -> float:
        """Return the mean expected return of the learned members."""
        states = np.arange(len(self.rewards))
        value = np.zeros((policy.members, len(states)))
        for h in reversed(range(policy.horizon)):
            taken = states, self.choices(policy, features, h)
            later = np.take_along_axis(value[..., None], self.next_states[taken], axis=1)
            later = np.where(self.ended[taken], 0.0, later)
            value = np.vecdot(self.probabilities[taken], self.rewards[taken] + later)
        return float(np.mean(value @ self.initial))

    def _allowed(self, features: FeatureMap, h: int) -> Bools:
        """Return whether actions are feasible in the model and in the features (S, A)."""
        states, actions = self.rewards.shape[:2]
        allowed = np.ones((states, actions), bool) if self.feasible is None else self.feasible
        by_features = [features.feasible(state, h) for state in range(states)]
        return np.array([
            mine if theirs is None else mine & theirs
            for mine, theirs in zip(allowed, by_features, strict=True)
        ])  # fmt: skip

    def choices(self, policy: Policy, features: FeatureMap, h: int) -> Ints:
        """Return every member's action in every state at stage h (M, S).

        States with the same number of feasible actions are evaluated together, in chunks.
        """
        states, allowed = len(self.rewards), self._allowed(features, h)
        choices = np.empty((policy.members, states), np.int64)
        counts = allowed.sum(axis=1)
        for count in np.unique(counts).tolist():
            alike = np.flatnonzero(counts == count)
            for some in np.array_split(alike, -(-len(alike) // STATES_AT_ONCE)):
                rows = np.array([features(state, h)[allowed[state]] for state in some.tolist()])
                feasible = np.nonzero(allowed[some])[1].reshape(len(some), count)
                chosen = policy.choices(h, rows)
                choices[:, some] = feasible[np.arange(len(some)), chosen]
        return choices

    def _backward(self, horizon: int, chosen: Any) -> float:
        """Return the initial value; `chosen` maps stage h and Q (S, A) to values (S,)."""
        value = np.zeros(len(self.rewards))
        for h in reversed(range(whole("horizon", horizon, least=1))):
            later = np.where(self.ended, 0.0, value[self.next_states])
            q_values = np.vecdot(self.probabilities, self.rewards + later)
            if self.feasible is not None:
                q_values = np.where(self.feasible, q_values, -np.inf)
            value = chosen(h, q_values)
        return float(self.initial @ value)


def _feasible(inner: Any, states: int, actions: int) -> Bools | None:
    """Return the actions that `inner.action_mask(state)` allows, or None without this method."""
    mask = getattr(inner, "action_mask", None)
    if not callable(mask):
        return None
    allowed = np.array([mask(state) for state in range(states)]).astype(bool)
    return allowed if allowed.shape == (states, actions) else None


@dataclass(frozen=True, kw_only=True)
class Known:
    """Expected returns over the horizon of a policy, the best policy and the random policy."""

    policy: float
    optimum: float
    random: float


def known_returns(
    policy: Policy, world: Any, features: FeatureMap, actions: Sequence[Any] | None = None
) -> Known | None:
    """Return the exact returns in an environment with a model, or None if they are unknown.

    They are unknown without a model, under wrappers that may change it, with actions other than the
    numbers of the action space, or if the environment truncates episodes before the horizon.

    >>> import gymnasium
    >>> from rareswitch.features import OneHot
    >>> lake, table = gymnasium.make("FrozenLake-v1"), OneHot(states=16, actions=4)
    >>> left = Policy(weights=[[0.0] * 64] * 10, one_hot=True)
    >>> round(known_returns(left, lake, table).optimum, 4)
    0.0414
    """
    limit = step_limit(world)
    if actions is not None or (limit is not None and limit < policy.horizon):
        return None
    model = valid_model(world)
    if model is None:
        return None
    return Known(
        policy=model.policy_return(policy, features),
        optimum=model.optimal_return(policy.horizon),
        random=model.random_return(policy.horizon),
    )


def step_limit(world: Any) -> int | None:
    """Return the least limit of steps of the environment and its wrappers."""
    limits, inner = [], world
    while inner is not None:
        limits.append(getattr(getattr(inner, "spec", None), "max_episode_steps", None))
        limits.append(getattr(inner, "_max_episode_steps", None))  # of TimeLimit
        inner = vars(inner).get("env") if hasattr(inner, "__dict__") else None
    found = [int(limit) for limit in limits if isinstance(limit, int | np.integer)]
    return min(found, default=None)


def valid_model(world: Any) -> FiniteModel | None:
    """Return the model of an environment; None if a wrapper may change rewards or observations."""
    inner = world
    while hasattr(inner, "env"):
        if type(inner).__name__ not in NEUTRAL:
            return None
        inner = inner.env
    return FiniteModel.of(inner)
