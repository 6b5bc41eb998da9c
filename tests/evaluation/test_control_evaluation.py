"""Off-policy evaluation of and by policies with a control and a floor."""

from itertools import product

import numpy as np
import pytest
from listed_worlds import mixture, small_world

import rareswitch as rs
from rareswitch.evaluation import compare, conditional_propensities, estimators
from rareswitch.evaluation.agreement import average, behaviour_in, path_probabilities
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.trajectories import Trajectory

HORIZON = 2


def world_of(seed):
    return small_world(seed, states=3, actions=3, horizon=HORIZON, ends=False)


def with_shares(world, seed, *, members=3, control, floor):
    rng = np.random.default_rng(seed)
    plain = mixture(world, rng, members)
    if control == "policy":
        control = rs.Control(mixture(world, rng, 2), share=0.3)
    return rs.Policy(weights=plain.weights, clip=False, allocation=5, control=control, floor=floor)


CANDIDATES = {
    "action": {"control": rs.Control(1, share=0.3), "floor": 0.0},
    "policy and floor": {"control": "policy", "floor": 0.2},
    "floor": {"control": None, "floor": 0.4},
    "one member": {"members": 2, "control": rs.Control(0, share=0.5), "floor": 0.5},
}


def value_of(world, policy):
    """Return V₁ at state 0: the mean over players, each evaluated alone."""
    total = 0.0
    for player, tickets in enumerate(policy.tickets):
        alone, value = policy.alone(player), np.zeros(world.states)
        for h in reversed(range(world.horizon)):
            q_values = world.rewards[h] + world.transitions[h] @ value
            chances = [alone.propensities(h, world.features[s]) for s in range(world.states)]
            value = (np.array(chances) * q_values).sum(axis=1)
        total += tickets / policy.members * value[0]
    return total


def every_episode(world, logger):
    """Return all episodes from state 0 that a logger can play, and their probabilities."""
    log, chances = [], []
    for actions in product(range(3), repeat=HORIZON):
        for following in product(range(world.states), repeat=HORIZON):
            states = (0, *following)
            steps = [(world.features[s], a) for s, a in zip(states, actions, strict=False)]
            moves = [
                world.transitions[h, states[h], actions[h], states[h + 1]] for h in range(HORIZON)
            ]
            told = Trajectory(
                observations=states,
                actions=actions,
                rewards=[world.rewards[h, states[h], actions[h]] for h in range(HORIZON)],
                terminated=False,
            )
            likely = logger.likelihood(steps)
            assert likely > 0.0
            propensities = conditional_propensities(logger, told, lambda s: world.features[s])
            assert np.prod(propensities) == pytest.approx(likely, rel=1e-12)
            log.append(
                Trajectory(
                    observations=told.observations,
                    actions=told.actions,
                    rewards=told.rewards,
                    terminated=False,
                    propensities=propensities,
                )
            )
            chances.append(likely * np.prod(moves))
    return log, np.array(chances)


@pytest.mark.parametrize("name", CANDIDATES)
@pytest.mark.parametrize("seed", range(2))
def test_weighted_returns_are_unbiased(name, seed):
    world = world_of(seed)
    candidate = with_shares(world, seed, **CANDIDATES[name])
    logger = with_shares(world, seed + 9, control=rs.Control(2, share=0.2), floor=0.3)
    log, chances = every_episode(world, logger)
    assert chances.sum() == pytest.approx(1.0)
    logged = LoggedEpisodes.of(log, lambda s: world.features[s], HORIZON)
    behaviour = behaviour_in(logged, candidate)
    paths = path_probabilities(behaviour)
    weights = average(paths, behaviour[0].shares) / logged.likelihood
    steps = [
        (world.features[s], a) for s, a in zip(log[4].observations, log[4].actions, strict=False)
    ]
    assert (weights * logged.likelihood)[4, -1] == pytest.approx(candidate.likelihood(steps))
    for estimator in (estimators.whole_trajectories, estimators.per_decision):
        found = estimator(weights, logged.rewards)
        expected = found.estimate(chances @ found.columns)
        assert expected == pytest.approx(value_of(world, candidate), rel=1e-10)


@pytest.mark.parametrize("name", CANDIDATES)
def test_the_model_expects_what_each_player_does(name):
    world = world_of(3)
    candidate = with_shares(world, 3, **CANDIDATES[name])
    logger = with_shares(world, 12, control=None, floor=1.0)
    log, _ = every_episode(world, logger)
    logged = LoggedEpisodes.of(log, lambda s: world.features[s], HORIZON)
    rng = np.random.default_rng(1)
    for h, acts in enumerate(behaviour_in(logged, candidate)):
        stage = logged.stages[h]
        values = rng.normal(size=(len(stage.rows), candidate.players))
        found = acts.expected(values)
        for t, start in enumerate(stage.starts):
            rows = stage.rows[start : start + 3]
            by_hand = [
                candidate.alone(p).propensities(h, rows) @ values[start : start + 3, p]
                for p in range(candidate.players)
            ]
            np.testing.assert_allclose(found[t], by_hand, atol=1e-12)


def test_a_comparison_finds_the_gain_over_the_control():
    """The doubly robust estimate on a log with a control agrees with the exact gain."""
    world = world_of(5)
    logger = with_shares(world, 1, control=rs.Control(0, share=0.3), floor=0.5)
    candidate = with_shares(world, 2, control=rs.Control(0, share=0.2), floor=0.1)
    log, chances = every_episode(world, logger)
    rng = np.random.default_rng(0)
    drawn = [log[i] for i in rng.choice(len(log), size=3000, p=chances / chances.sum())]
    found = compare(candidate, drawn, against=logger, features=lambda s: world.features[s])
    gain = value_of(world, candidate) - value_of(world, logger)
    assert found.gain.low <= gain <= found.gain.high
    assert found.gain.high - found.gain.low < 0.2
