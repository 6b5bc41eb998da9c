"""Small worlds whose every episode can be listed, and logs of mixtures that play in them."""

from functools import cache

import numpy as np

import rareswitch as rs
from rareswitch.evaluation import conditional_propensities
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.sim import FiniteMDP
from rareswitch.trajectories import Trajectory


def small_world(seed, *, states=3, actions=2, horizon=3, d=None, ends=True):
    """Return a world whose last state is the end of an episode, where nothing is earned.

    Without `ends` no episode ends early. Its features are one-hot, or with d random ones in which
    nothing is linear.
    """
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(states), (horizon, states, actions))
    rewards = rng.random((horizon, states, actions))
    if ends:
        transitions[:, -1], rewards[:, -1] = np.eye(states)[-1], 0.0
    features = np.eye(states * actions).reshape(states, actions, -1)
    if d is not None:
        features = rng.standard_normal((states, actions, d)) / np.sqrt(d)
    return FiniteMDP(features=features, transitions=transitions, rewards=rewards)


def mixture(world, rng, members, *, towards=0.0):
    """Return a random mixture, or one policy, that leans towards the optimum by so much."""
    weights = rng.standard_normal((members, world.horizon, world.dim))
    if towards:
        values = world.optimal_values()
        best = [world._lookahead(h, values).ravel() for h in range(world.horizon)]
        weights += towards * np.array(best)
    if members == 1:
        return rs.Policy(weights=weights[0], clip=False)
    return rs.Policy(weights=weights, clip=False, allocation=int(rng.integers(1000)))


def joined(*policies):
    """Return the mixture of all members of several policies."""
    weights = [np.atleast_3d(p.weights.T).T for p in policies]
    return rs.Policy(weights=np.concatenate(weights), clip=False, allocation=0)


def tables_of(world, policy):
    """Return the action (M, H, S) that each member takes in every stage and state."""
    stages = [policy.choices(h, world.features) for h in range(world.horizon)]
    return np.stack(stages, axis=1)


def exact_value(world, policy):
    """Return the expected return of a policy from state 0."""
    return float(np.mean([world.policy_values(t)[0, 0] for t in tables_of(world, policy)]))


def trajectory_of(world, states, actions):
    """Return the trajectory of a path of states, up to the end of the episode if that comes."""
    states, actions = list(states), list(actions)
    absorbing = (world.transitions[:, -1, :, -1] == 1.0).all()
    ended = absorbing and world.states - 1 in states
    if ended:
        states = states[: states.index(world.states - 1) + 1]
        actions = actions[: len(states) - 1]
    rewards = [
        world.rewards[h, s, a] for h, (s, a) in enumerate(zip(states, actions, strict=False))
    ]
    return Trajectory(observations=states, actions=actions, rewards=rewards, terminated=bool(ended))


class Player:
    """Episodes of a mixture in a world, with what is to be logged of them."""

    def __init__(self, world, policy):
        self.world, self.policy = world, policy
        self.tables = tables_of(world, policy)
        self.logged = cache(self._logged)

    def features(self, state):
        return self.world.features[state]

    def _logged(self, states, actions):
        told = trajectory_of(self.world, states, actions)
        return Trajectory(
            observations=told.observations, actions=told.actions, rewards=told.rewards,
            terminated=told.terminated,
            propensities=conditional_propensities(self.policy, told, self.features),
        )  # fmt: skip

    def play(self, rng, episodes):
        """Return a log of so many episodes, each by a member drawn at random."""
        members = rng.integers(self.policy.members, size=episodes)
        states = np.zeros((episodes, self.world.horizon + 1), int)
        actions = np.zeros((episodes, self.world.horizon), int)
        for h in range(self.world.horizon):
            actions[:, h] = self.tables[members, h, states[:, h]]
            cdf = self.world.transitions[h, states[:, h], actions[:, h]].cumsum(axis=1)[:, :-1]
            states[:, h + 1] = (cdf <= rng.random((episodes, 1))).sum(axis=1)
        paths = zip(states.tolist(), actions.tolist(), strict=True)
        return [self.logged(tuple(path), tuple(taken)) for path, taken in paths]

    def all_episodes(self):
        """Return every trajectory that can happen, each once, and their probabilities."""
        chances = {}
        for table in self.tables:
            paths = {((0,), ()): 1.0 / len(self.tables)}
            for h in range(self.world.horizon):
                longer = {}
                for (states, actions), chance in paths.items():
                    action = int(table[h, states[-1]])
                    row = self.world.transitions[h, states[-1], action]
                    for following in np.flatnonzero(row):
                        path = ((*states, int(following)), (*actions, action))
                        longer[path] = longer.get(path, 0.0) + chance * row[following]
                paths = longer
            for path, chance in paths.items():
                trajectory = self.logged(*path)
                chances[trajectory] = chances.get(trajectory, 0.0) + chance
        return list(chances), np.array(list(chances.values()))

    def lay_out(self, log):
        return LoggedEpisodes.of(log, self.features, self.world.horizon)
