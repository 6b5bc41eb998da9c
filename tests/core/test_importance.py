"""Episodes of one mixture tell the value of another, by the ratio of their likelihoods."""

from functools import cache

import numpy as np
import pytest

import rareswitch as rs
from oracles import greedy_tables, masked_world

QUANTILE = 3.2905  # of the normal law: 99.9% lie within


def random_mixture(world, rng, *, members, allocation):
    """Return a mixture of members that differ in everything."""
    sizes = world.horizon, world.dim
    return rs.Policy(
        weights=rng.standard_normal((members, *sizes)),
        directions=rng.standard_normal((members, *sizes)),
        allocation=allocation,
        clip=False,
    )


def play(world, policy, rng, episodes):
    """Return states (n, H+1) and actions (n, H) of episodes, each by the member drawn for it."""
    tables = greedy_tables(world, policy)
    members = np.array([policy.allocate(f"episode {k}") for k in range(episodes)])
    states = np.zeros((episodes, world.horizon + 1), int)
    actions = np.zeros((episodes, world.horizon), int)
    for h in range(world.horizon):
        actions[:, h] = tables[members, h, states[:, h]]
        cdf = world.transitions[h, states[:, h], actions[:, h]].cumsum(axis=1)[:, :-1]
        states[:, h + 1] = (cdf <= rng.random((episodes, 1))).sum(axis=1)
    return states, actions


WORLDS = {
    "tabular": rs.worlds.tabular(states=3, actions=2, horizon=3, seed=1),
    "masked": masked_world(3, states=4, actions=3, d=3, horizon=2),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("seed", range(4))
def test_the_likelihood_ratio_tells_the_value_of_another_mixture(world, seed):
    rng, episodes = np.random.default_rng(seed), 30_000
    acted = random_mixture(world, rng, members=200, allocation=3)
    target = random_mixture(world, rng, members=6, allocation=4)
    states, actions = play(world, acted, rng, episodes)
    stage = np.arange(world.horizon)
    returns = world.rewards[stage, states[:, :-1], actions].sum(axis=1)

    @cache
    def weights(*path):
        steps = []
        for state, action in path:
            options = np.flatnonzero(world.feasible[state])
            steps.append((world.features[state][options], int((options < action).sum())))
        ratio = target.likelihood(steps) / acted.likelihood(steps)
        return ratio, np.prod(
            [
                target.propensities(h, rows)[a] / acted.propensities(h, rows)[a]
                for h, (rows, a) in enumerate(steps)
            ]
        )

    paths = np.stack([states[:, :-1], actions], axis=-1).tolist()
    ratio, product = np.array([weights(*map(tuple, path)) for path in paths]).T
    exact = np.mean([world.policy_values(t)[0, 0] for t in greedy_tables(world, target)])
    radius = QUANTILE / np.sqrt(episodes)
    assert abs(ratio.mean() - 1.0) <= radius * ratio.std()
    assert abs((ratio * returns).mean() - exact) <= radius * (ratio * returns).std()
    assert np.abs(ratio - product).max() > 0.1  # a member plays from beginning to end


def test_episodes_of_a_mixture_have_the_likelihood_that_it_tells():
    world = WORLDS["masked"]
    rng, episodes = np.random.default_rng(7), 50_000
    policy = random_mixture(world, rng, members=8, allocation=5)
    states, actions = play(world, policy, rng, episodes)
    # Given the states that were passed, how often each sequence of actions was taken.
    for first, second in {tuple(pair) for pair in states[:, :2].tolist()}:
        menus = [np.flatnonzero(world.feasible[s]) for s in (first, second)]
        for i, a in enumerate(menus[0]):
            reached = world.transitions[0, first, a, second]
            for j, b in enumerate(menus[1]):
                steps = [
                    (world.features[s][m], k)
                    for s, m, k in zip((first, second), menus, (i, j), strict=True)
                ]
                share = policy.likelihood(steps) * reached
                seen = (states[:, 1] == second) & (actions == [a, b]).all(axis=1)
                error = np.sqrt(share * (1 - share) / episodes)
                assert abs(seen.mean() - share) <= 5 * error
