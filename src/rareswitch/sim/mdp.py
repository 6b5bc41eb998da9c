"""A finite episodic MDP with features, and its exact values.

The features are what a learner sees; the transitions need not be linear in them (a misspecified
world is one whose transitions are not). Arrays are indexed (stage, state, action, next state).
"""

from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.core.arguments import Floats, Ints, floats, shown
from rareswitch.core.task import Task
from rareswitch.sim.rollout import thresholds
from rareswitch.sim.space import FiniteSpace

# Probabilities and rewards computed from features may miss their range by rounding.
ROUNDING = 1e-9


class FiniteMDP:
    """S states, A actions, horizon H.

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
    def space(self) -> FiniteSpace:
        """The catalogue of distinct feature rows."""
        return FiniteSpace(self.features, self.feasible)

    @cached_property
    def thresholds(self) -> Floats:
        """What decides the next state: #{thresholds ≤ u} for a uniform u, (H, S, A, S−1)."""
        return thresholds(self.transitions)

    def task(self, *, episodes: int) -> Task:
        """Return what budgets and bounds need of the world: d, H, K and L."""
        return Task(
            dim=self.dim, horizon=self.horizon, episodes=episodes, feature_norm=self.feature_norm
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
        values = self.optimal_values()
        q_values = np.stack([self._lookahead(h, values) for h in range(self.horizon)])
        return np.where(self.feasible, q_values, -np.inf).argmax(axis=-1)

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


def checked_world(mdp: Any) -> FiniteMDP:
    """Return a world, if it is one."""
    if not isinstance(mdp, FiniteMDP):
        raise TypeError(f"mdp must be a FiniteMDP; got {shown(mdp)}")
    return mdp


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
