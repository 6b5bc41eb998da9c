"""A finite MDP as the world of a simulated campaign."""

import numpy as np

from rareswitch.campaigns.simulated.world import Step
from rareswitch.core.policy import Policy
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.support.arguments import Floats, Ints, Rows, whole
from rareswitch.support.streams import Seed, Stream, generator


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
        found = []
        for member in range(policy.members):
            one = policy.member(member)
            actions = [
                [taken[one.act(h, rows)] for rows, taken in zip(*self._by_state, strict=True)]
                for h in range(self.mdp.horizon)
            ]
            found.append(self.mdp.policy_values(np.array(actions))[0, self._initial])
        return max(self._best - float(np.mean(found)), 0.0)

    @property
    def _by_state(self) -> tuple[list[Rows], list[Ints]]:
        return self._offers, self._actions
