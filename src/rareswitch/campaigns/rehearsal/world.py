"""What a simulated campaign is played in: a world that offers rows, and answers to actions."""

from typing import NamedTuple, Protocol

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.support.arguments import Floats, Ints, Rows, whole
from rareswitch.support.streams import Seed, Stream, generator


class Step(NamedTuple):
    """What a world answers to an action.

    `reward` lies in [0, 1]; `offered` are the rows of the next state, None if there is none. An
    episode that is `over` though rows are offered was cut off.
    """

    reward: float
    offered: Rows | None
    over: bool


class World(Protocol):
    """A world that plays one episode at a time.

    What it draws in an episode depends on its number and on nothing else, so that episodes are the
    same in whichever order they are played. A world may tell its `horizon`, which then must be that
    of the protocol, and its `feature_norm`, which then must not be above the protocol's. Where it
    is known what a policy loses against the best one, a world has `loss(policy)` too: the expected
    regret of an episode, or None.
    """

    def begin(self, number: int) -> Rows:
        """Begin an episode, counted from 1; return the rows offered in its first state."""
        ...

    def step(self, place: int) -> Step:
        """Take the action whose row has that place among those offered."""
        ...


class FiniteWorld:
    """Episodes of a finite MDP that all begin in one state.

    Episode k moves by the same noise as the k-th of `rareswitch.simulate` with that seed.

    >>> import rareswitch as rs
    >>> world = FiniteWorld(rs.worlds.tabular(states=2, actions=3, horizon=1, seed=0))
    >>> world.begin(1).shape, world.step(2).over
    ((3, 6), True)
    """

    def __init__(self, mdp: FiniteMDP, *, seed: Seed = 0, initial_state: int = 0) -> None:
        self.mdp = checked_world(mdp)
        self._initial = whole("initial_state", initial_state, least=0, most=mdp.states - 1)
        self._offers: list[Rows] = [
            rows[allowed] for rows, allowed in zip(mdp.features, mdp.feasible, strict=True)
        ]
        self._actions: list[Ints] = [np.flatnonzero(allowed) for allowed in mdp.feasible]
        self._best = float(mdp.optimal_values()[0, self._initial])
        self._generator = generator(seed, Stream.NOISE)
        self._noise: list[Floats] = []
        self._number = self._stage = self._state = 0

    @property
    def horizon(self) -> int:
        return self.mdp.horizon

    @property
    def feature_norm(self) -> float:
        return self.mdp.feature_norm

    def begin(self, number: int) -> Rows:
        number = whole("number", number, least=1)
        while len(self._noise) < number:
            self._noise.append(self._generator.random(self.mdp.horizon))
        self._number, self._stage, self._state = number, 0, self._initial
        return self._offers[self._state]

    def step(self, place: int) -> Step:
        h, action = self._stage, int(self._actions[self._state][place])
        at = h, self._state, action
        self._state = int((self.mdp.thresholds[at] <= self._noise[self._number - 1][h]).sum())
        self._stage = h + 1
        over = self._stage == self.mdp.horizon
        reward = min(max(float(self.mdp.rewards[at]), 0.0), 1.0)  # but for rounding it lies there
        return Step(reward, None if over else self._offers[self._state], over)

    def loss(self, policy: Policy) -> float:
        """Return V*₁ − V₁^π at the first state, of a mixture the mean of its members."""
        found, offered = [], list(zip(self._offers, self._actions, strict=True))
        for member in range(policy.members):
            one = policy.member(member)
            actions = [
                [taken[one.act(h, rows)] for rows, taken in offered]
                for h in range(self.mdp.horizon)
            ]
            found.append(self.mdp.policy_values(np.array(actions))[0, self._initial])
        return max(self._best - float(np.mean(found)), 0.0)
