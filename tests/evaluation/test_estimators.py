"""Estimates against exact values: every episode that can happen, weighed by its probability."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from listed_worlds import Player, exact_value, joined, mixture, small_world

from rareswitch.evaluation import estimators
from rareswitch.evaluation.agreement import behaviour_in, path_probabilities

WEIGHED = {
    "trajectory": estimators.whole_trajectories,
    "per-decision": estimators.per_decision,
}


def laid_out(seed, *, members=3, others=5, d=None, horizon=3):
    """Return all that is needed to estimate a candidate whose members are among those logged."""
    world = small_world(seed, horizon=horizon, d=d)
    rng = np.random.default_rng(seed)
    candidate = mixture(world, rng, members)
    player = Player(world, joined(candidate, mixture(world, rng, others)))
    log, chances = player.all_episodes()
    logged = player.lay_out(log)
    behaviour = behaviour_in(logged, candidate)
    return world, candidate, logged, behaviour, path_probabilities(behaviour), chances


def weights_of(paths, likelihood):
    return paths.mean(axis=-1) / likelihood


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("name", WEIGHED)
def test_weighted_returns_are_unbiased(name, members, seed):
    world, candidate, logged, _, agrees, chances = laid_out(seed, members=members)
    weights = weights_of(agrees, logged.likelihood)
    assert chances @ weights[:, -1] == pytest.approx(1.0, rel=1e-12)
    found = WEIGHED[name](weights, logged.rewards)
    expected = found.estimate(chances @ found.columns)
    assert expected == pytest.approx(exact_value(world, candidate), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_self_normalised_estimate_is_right_in_the_limit(seed):
    world, candidate, logged, _, agrees, chances = laid_out(seed)
    found = estimators.self_normalised(weights_of(agrees, logged.likelihood), logged.rewards)
    expected = found.estimate(chances @ found.columns)
    assert expected == pytest.approx(exact_value(world, candidate), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("members", [1, 3])
def test_the_doubly_robust_estimate_is_unbiased_however_wrong_its_model(monkeypatch, members, seed):
    world, candidate, logged, behaviour, agrees, chances = laid_out(seed, members=members, d=4)
    rng = np.random.default_rng(seed)
    nonsense = rng.normal(0.0, 10.0, (members, world.horizon, world.states, 2))
    # V̂ and Q̂ of nonsense, at the states and actions of every episode.
    q_values = np.zeros((len(logged), world.horizon, members))
    values = np.zeros((len(logged), world.horizon + 1, members))
    for h, stage in enumerate(logged.stages):
        found = stage.rows.reshape(-1, 2, 4)  # of every state, two actions
        table = (found[:, None] == world.features).all(axis=(-2, -1)).argmax(axis=1)
        for i in np.flatnonzero(stage.state >= 0):
            state = table[stage.state[i]]
            for m in range(members):
                action = candidate.member(m).act(h, world.features[state])
                values[i, h, m] = nonsense[m, h, state, action]
                q_values[i, h, m] = nonsense[m, h, state, stage.taken[i]]
    monkeypatch.setattr(estimators, "fitted_values", lambda *_, **__: (q_values, values))
    estimate = estimators.doubly_robust(
        logged, behaviour, agrees, ridge=1.0, shared=False, folds=np.zeros(len(logged), int)
    )
    expected = estimate.estimate(chances @ estimate.columns)
    assert expected == pytest.approx(exact_value(world, candidate), rel=1e-9)


def test_each_fold_is_judged_by_a_model_of_the_others(monkeypatch):
    *_, logged, behaviour, agrees, _ = laid_out(0)
    folds, asked = np.arange(len(logged)) % 3, []

    def fitted(logged, behaviour, training, **_):
        asked.append(training)
        shape = (len(logged), logged.horizon, 3)
        return np.zeros(shape), np.full((len(logged), logged.horizon + 1, 3), float(len(asked)))

    monkeypatch.setattr(estimators, "fitted_values", fitted)
    nobody = np.zeros_like(agrees)
    found = estimators.doubly_robust(
        logged, behaviour, nobody, ridge=1.0, shared=False, folds=folds
    )
    for fold, training in enumerate(asked):
        np.testing.assert_array_equal(training, folds != fold)
    # Without a member that agrees nothing is left but the model's value of the first state.
    np.testing.assert_array_equal(found.columns[:, 0], folds + 1.0)


@given(st.integers(0, 50), st.integers(1, 5))
def test_of_the_policy_that_was_logged_the_value_is_the_mean_return(seed, members):
    world = small_world(seed)
    rng = np.random.default_rng(seed)
    player = Player(world, mixture(world, rng, members))
    logged = player.lay_out(player.play(rng, 30))
    agrees = path_probabilities(behaviour_in(logged, player.policy))
    weights = weights_of(agrees, logged.likelihood)
    np.testing.assert_allclose(weights, 1.0, rtol=1e-12)
    mean = logged.rewards.sum(axis=1).mean()
    for weigh in (*WEIGHED.values(), estimators.self_normalised):
        assert weigh(weights, logged.rewards).value == pytest.approx(mean, rel=1e-12)


@given(st.integers(0, 2**32), st.floats(-5, 5), st.floats(0.1, 10))
def test_shares_follow_a_shift_of_rewards_and_forget_a_common_factor_of_weights(
    seed, shift, factor
):
    rng = np.random.default_rng(seed)
    weights, rewards = rng.random((9, 4)), rng.random((9, 4))
    once = estimators.self_normalised(weights, rewards).value
    shifted = estimators.self_normalised(factor * weights, rewards + shift).value
    assert shifted == pytest.approx(once + 4 * shift)


def test_a_stage_without_weights_counts_as_nothing():
    weights = np.array([[1.0, 0.0], [1.0, 0.0]])
    assert estimators.self_normalised(weights, np.full((2, 2), 3.0)).value == 3.0


def test_weights_count_from_the_step_on_that_they_belong_to():
    weights = np.array([[1.0, 2.0, 4.0]])
    rewards = np.array([[1.0, 10.0, 100.0]])
    assert estimators.per_decision(weights, rewards).value == 421.0
    assert estimators.whole_trajectories(weights, rewards).value == 444.0
