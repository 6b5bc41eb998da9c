"""Finite episodic MDPs with features, and their exact values.

A learner sees the features; the transitions need not be linear in them. Arrays are indexed
(stage, state, action, next state). In a linear MDP (Definition 2)
P_h(s'|s,a) = ⟨φ(s,a), μ_h(s')⟩ and r_h(s,a) = ⟨φ(s,a), θ_h⟩.
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.core.task import Task
from rareswitch.support.arguments import Bools, Floats, Ints, floats, short_repr

# Probabilities and rewards computed from features may miss their range by rounding.
ROUNDING = 1e-9


class FiniteMDP:
    """A finite MDP with S states, A actions and horizon H.

    `features` (S, A, d), `transitions` (H, S, A, S), `rewards` (H, S, A). `feasible`
    (S, A) marks the actions that each state allows; by default all.
    """

    def __init__(
        self,
        *,
        features: Floats,
        transitions: Floats,
        rewards: Floats,
        feasible: npt.NDArray[np.bool] | None = None,
    ) -> None:
        self.features = floats("features", features, ("S", "A", "d"))
        states, actions, _ = self.features.shape
        self.transitions = floats("transitions", transitions, ("H", states, actions, states))
        horizon = len(self.transitions)
        self.rewards = floats("rewards", rewards, (horizon, states, actions))
        if feasible is None:
            feasible = np.ones((states, actions), bool)
        given = np.asanyarray(feasible)
        if given.dtype != bool or isinstance(given, np.ma.MaskedArray):
            raise TypeError(f"feasible must be an array of True and False; got {given.dtype}")
        self.feasible = np.array(given)
        self.feasible.flags.writeable = False
        if self.feasible.shape != (states, actions):
            raise ValueError(
                f"feasible must have shape {(states, actions)}; got {self.feasible.shape}"
            )
        if not self.feasible.any(axis=1).all():
            state = int(np.argmin(self.feasible.any(axis=1)))
            raise ValueError(
                f"feasible must allow an action in every state; state {state} has none"
            )
        _check_range("transitions", self.transitions, 0.0, np.inf)
        _check_range("rewards", self.rewards, 0.0, 1.0)
        sums = self.transitions.sum(axis=-1)
        place = _worst(np.abs(sums - 1.0))
        if abs(sums[place] - 1.0) > ROUNDING:
            raise ValueError(
                f"transitions must sum to 1 over next states; at (h, s, a) = {place} they sum "
                f"to {sums[place]:.12g}"
            )

    @property
    def horizon(self) -> int:
        return self.transitions.shape[0]

    @property
    def dim(self) -> int:
        return self.features.shape[2]

    @property
    def states(self) -> int:
        return self.features.shape[0]

    @cached_property
    def feature_norm(self) -> float:
        """L = max‖φ(s, a)‖₂ over feasible pairs."""
        return float(np.linalg.norm(self.features[self.feasible], axis=-1).max())

    @cached_property
    def tabular(self) -> bool:
        """Whether every pair (s, a) has a coordinate of its own."""
        states, actions, dim = self.features.shape
        rows = self.features.reshape(states * actions, dim)
        return dim == len(rows) and np.array_equal(rows, np.eye(dim))

    @cached_property
    def space(self) -> "FiniteSpace":
        """The catalogue of distinct feature rows."""
        return FiniteSpace(self.features, self.feasible)

    @cached_property
    def thresholds(self) -> Floats:
        """The next state is #{thresholds ≤ u} for a uniform u, (H, S, A, S−1)."""
        return thresholds(self.transitions)

    def task(self, *, episodes: int | None = None, stages: str = "own") -> Task:
        """Return the task of learning this world."""
        return Task(
            dim=self.dim,
            horizon=self.horizon,
            episodes=episodes,
            feature_norm=self.feature_norm,
            stages=stages,
        )

    def __repr__(self) -> str:
        states, actions, dim = self.features.shape
        name = type(self).__name__
        return f"{name}({states} states, {actions} actions, d={dim}, horizon={self.horizon})"

    def optimal_values(self) -> Floats:
        """Return V*_h(s), (H+1, S), the last row 0."""
        values = np.zeros((self.horizon + 1, self.states))
        for h in reversed(range(self.horizon)):
            values[h] = np.where(self.feasible, self._lookahead(h, values), -np.inf).max(axis=1)
        return values

    def optimal_actions(self) -> Ints:
        """Return a greedy optimal policy (H, S), the lowest index among equals."""
        return self.action_values(self.optimal_values()).argmax(axis=-1)

    def action_values(self, values: Floats) -> Floats:
        """Return Q_h(s, a) given V_h(s), (H, S, A); −∞ for actions that are not feasible."""
        q_values = np.stack([self._lookahead(h, values) for h in range(self.horizon)])
        return np.where(self.feasible, q_values, -np.inf)

    def policy_values(self, actions: Ints) -> Floats:
        """Return V^π_h(s), (H+1, S), of the deterministic policy actions (H, S)."""
        actions = self._checked(actions)
        everywhere = np.arange(self.states)
        values = np.zeros((self.horizon + 1, self.states))
        for h in reversed(range(self.horizon)):
            values[h] = self._lookahead(h, values)[everywhere, actions[h]]
        return values

    def random_values(self) -> Floats:
        """Return V_h(s), (H+1, S), of the policy that picks a feasible action uniformly."""
        chance = self.feasible / self.feasible.sum(axis=1, keepdims=True)
        values = np.zeros((self.horizon + 1, self.states))
        for h in reversed(range(self.horizon)):
            values[h] = np.vecdot(chance, self._lookahead(h, values))
        return values

    def _lookahead(self, h: int, values: Floats) -> Floats:
        """Q_h = r_h + P_h V_{h+1}, (S, A)."""
        return self.rewards[h] + self.transitions[h] @ values[h + 1]

    def _checked(self, actions: Ints) -> Ints:
        actions = np.asarray(actions)
        shape = (self.horizon, self.states)
        if actions.shape != shape or actions.dtype.kind not in "iu":
            raise ValueError(
                f"actions must be whole numbers of shape (H, S) = {shape}; got {actions.dtype} "
                f"of shape {actions.shape}"
            )
        count = self.features.shape[1]
        if actions.min() < 0 or actions.max() >= count:
            raise ValueError(
                f"actions must be from 0 to {count - 1}; got {actions.min()} … {actions.max()}"
            )
        allowed = self.feasible[np.arange(self.states), actions]
        if not allowed.all():
            h, s = (int(i) for i in np.argwhere(~allowed)[0])
            raise ValueError(
                f"actions must be feasible; action {actions[h, s]} is not in state {s}"
            )
        return actions


class FiniteLinearMDP(FiniteMDP):
    """The linear MDP of features φ (S, A, d), measures μ (H, S, d) and θ (H, d).

    Probabilities and rewards out of range raise ValueError. The norms of the definition, ‖φ‖ ≤ 1,
    ‖μ_h(S)‖ ≤ √d and ‖θ_h‖ ≤ √d, only set the scale: `violations` lists the exceeded norms with
    place and amount; the paper's bounds then use `feature_norm`.

    >>> features = np.eye(2).reshape(1, 2, 2)
    >>> world = FiniteLinearMDP(features, mu=np.ones((3, 1, 2)), theta=np.full((3, 2), 0.5))
    >>> world.optimal_values()[0], world.violations
    (array([1.5]), ())
    """

    def __init__(
        self,
        features: Floats,
        mu: Floats,
        theta: Floats,
        *,
        feasible: npt.NDArray[np.bool] | None = None,
    ) -> None:
        features = floats("features", features, ("S", "A", "d"))
        states, _, dim = features.shape
        self.mu = floats("mu", mu, ("H", states, dim))
        self.theta = floats("theta", theta, (len(self.mu), dim))
        transitions = features @ self.mu.mT[:, None]  # (H, S, A, S)
        rewards = np.moveaxis(features @ self.theta.T, -1, 0).copy()  # (H, S, A)
        barred = ~np.asarray(feasible, bool) if feasible is not None else np.zeros(0)
        if barred.shape == features.shape[:2]:  # infeasible pairs need not be valid
            transitions[:, barred] = np.eye(states)[0]
            rewards[:, barred] = 0.0
        super().__init__(
            features=features,
            transitions=_snap(transitions),
            rewards=_snap(rewards),
            feasible=feasible,
        )

    @property
    def violations(self) -> tuple[str, ...]:
        """The exceeded norms of the definition, one sentence each."""
        found = []
        norms = np.linalg.norm(self.features, axis=-1) * self.feasible
        state, action = (int(i) for i in np.unravel_index(norms.argmax(), norms.shape))
        found.append(("‖φ(s,a)‖", f"(s, a) = ({state}, {action})", norms.max(), 1.0))
        root = np.sqrt(self.dim)
        for name, vectors in (("‖μ_h(S)‖", self.mu.sum(axis=1)), ("‖θ_h‖", self.theta)):
            lengths = np.linalg.norm(vectors, axis=-1)
            found.append((name, f"h = {int(lengths.argmax())}", lengths.max(), root))
        return tuple(
            f"{name} = {value:.4g} at {place} exceeds {limit:.4g} by {value - limit:.3g}"
            for name, place, value, limit in found
            if value > limit + ROUNDING
        )

    def policy_weights(self, actions: Ints) -> Floats:
        """Return w^π (H, d) with Q^π_h = ⟨φ, w^π_h⟩ (Proposition 1)."""
        return self.theta + np.vecmat(self.policy_values(actions)[1:], self.mu)


class FiniteSpace:
    """The catalogue of distinct feature rows (N, d), state by state.

    `features` is (S, A, d); `feasible` (S, A) marks the actions that each state allows. The rows
    of state s begin at `starts[s]`. Row n stands for `actions[n]`, the lowest action with its
    features. `columns` is the transpose, contiguous for fast products.
    """

    def __init__(self, features: Floats, feasible: Bools) -> None:
        rows, actions, lengths = [], [], []
        for state_features, allowed in zip(features, feasible, strict=True):
            candidates = np.flatnonzero(allowed)
            _, first = np.unique(state_features[candidates], axis=0, return_index=True)
            kept = candidates[np.sort(first)]
            rows.append(state_features[kept])
            actions.append(kept)
            lengths.append(len(kept))
        self.states = len(lengths)
        self.rows: Floats = np.concatenate(rows)
        self.columns: Floats = np.ascontiguousarray(self.rows.T)
        self.actions: Ints = np.concatenate(actions)
        self.lengths: Ints = np.array(lengths)
        self.starts: Ints = np.cumsum([0, *lengths[:-1]])


def checked_world(world: Any) -> FiniteMDP:
    """Return the world, or raise TypeError if it is no FiniteMDP."""
    if not isinstance(world, FiniteMDP):
        raise TypeError(f"world must be a FiniteMDP; got {short_repr(world)}")
    return world


def _check_range(name: str, array: Floats, low: float, high: float) -> None:
    excess = np.maximum(low - array, array - high)
    place = _worst(excess)
    if excess[place] > ROUNDING:
        allowed = f"at least {low:g}" if np.isinf(high) else f"in [{low:g}, {high:g}]"
        raise ValueError(
            f"{name} must be {allowed}; got {array[place]:.12g} at {place}, "
            f"off by {excess[place]:.3g}"
        )


def _worst(array: Floats) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(array.argmax(), array.shape))


def _snap(array: Floats) -> Floats:
    """Round numbers near 0 or 1 to exactly 0 or 1, so impossible moves have probability 0."""
    for exact in (0.0, 1.0):
        array[np.abs(array - exact) < ROUNDING] = exact
    return array


def thresholds(transitions: Floats) -> Floats:
    """Return (…, S−1) so that the next state under probabilities (…, S) is #{thresholds ≤ u}.

    They are the cumulative distribution, but infinite once no probability is left, so rounding
    never leads to a state of probability 0 for any uniform u < 1.
    """
    left = np.flip(np.flip(transitions, -1).cumsum(axis=-1), -1)[..., 1:]
    return np.where(left > 0.0, transitions.cumsum(axis=-1)[..., :-1], np.inf)
