import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import episode_of, masked_world, ragged_episode, reference_q, unit_rows
from rareswitch.core.gram import Gram
from rareswitch.core.history import History
from rareswitch.core.lsvi import backward, fit, fit_finite
from rareswitch.core.policy import Policy
from rareswitch.core.tally import FiniteSpace, Tally


def random_paths(world, rng, episodes):
    """Return states (n, H+1) and feasible actions (n, H)."""
    states = rng.integers(0, world.states, (episodes, world.horizon + 1))
    chance = rng.random((episodes, world.horizon, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    return states, actions


def statistics(world, paths, ridge):
    """Return the Gram matrices and the tally of several runs, each (states, actions)."""
    gram = Gram((len(paths), world.horizon), world.dim, ridge, watch=world.space.columns)
    tally = Tally(world.space, len(paths), world.horizon)
    stage = np.arange(world.horizon)
    for step in range(len(paths[0][0])):
        states = np.array([states[step] for states, _ in paths])
        actions = np.array([actions[step] for _, actions in paths])
        features = world.features[states[:, :-1], actions]
        gram.absorb(features)
        tally.absorb(features, world.rewards[stage, states[:, :-1], actions], states[:, 1:])
    return gram, tally


def ragged(world, path, ridge):
    gram, history = Gram((world.horizon,), world.dim, ridge), History(world.horizon, world.dim)
    episodes = [episode_of(world, states, actions) for states, actions in zip(*path, strict=True)]
    for episode in episodes:
        gram.absorb(episode.features)
        history.absorb(episode)
    return gram, history, episodes


def test_backward_regresses_on_the_weights_of_the_next_stage():
    gram = Gram((3,), 1, 1.0)
    gram.absorb(np.ones((3, 1)))  # Λ_h = 2
    asked = []

    def next_value_sums(h, weights):
        asked.append((h, weights.item()))
        return 10 * weights

    rewards = np.array([[0.1], [0.2], [0.4]])
    weights = backward(gram, rewards, next_value_sums)
    np.testing.assert_allclose(weights[:, 0], [(0.1 + 10 * 1.1) / 2, (0.2 + 10 * 0.2) / 2, 0.4 / 2])
    assert [h for h, _ in asked] == [1, 0]
    np.testing.assert_allclose([w for _, w in asked], [0.2, 1.1])


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 5.0]), st.booleans())
def test_fit_is_the_regression_on_the_raw_history(seed, beta, clip):
    rng = np.random.default_rng(seed)
    episodes = [ragged_episode(rng, horizon=3, dim=3, steps=3) for _ in range(15)]
    gram, history = Gram((3,), 3, 0.5), History(3, 3)
    for episode in episodes:
        gram.absorb(episode.features)
        history.absorb(episode)
    policy = fit(gram, history, beta=beta, clip=clip, version=7)
    expected = reference_q(episodes, horizon=3, dim=3, beta=beta, ridge=0.5, clip=clip)
    for h in range(3):
        rows = unit_rows(rng, 8, 3)
        np.testing.assert_allclose(policy.q_values(h, rows), expected(h, rows), atol=1e-9)
    assert (policy.version, policy.beta, policy.clip) == (7, beta, clip)
    assert policy.directions is None


@pytest.mark.parametrize("ties", ["direction", "lowest"])
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.2, 100.0])
@pytest.mark.parametrize(
    "world",
    [
        masked_world(1),
        rs.instances.hard_to_learn(d=6, horizon=4, seed=2),
        rs.instances.tabular(states=4, actions=3, horizon=2, seed=3),
    ],
    ids=["masked", "hard", "tabular"],
)
def test_finite_and_ragged_fits_agree(world, beta, clip, ties):
    rng = np.random.default_rng(4)
    path = random_paths(world, rng, 40)
    directions = rng.standard_normal((world.horizon, world.dim)) if ties == "direction" else None
    gram, tally = statistics(world, [path], 0.3)
    weights, values, choices = fit_finite(
        gram,
        tally,
        beta=beta,
        clip=clip,
        directions=None if directions is None else directions[None],
    )
    ragged_gram, history, episodes = ragged(world, path, 0.3)
    policy = fit(ragged_gram, history, beta=beta, clip=clip, directions=directions)
    np.testing.assert_allclose(weights[0], policy.weights, atol=1e-9)
    expected = reference_q(
        episodes, horizon=world.horizon, dim=world.dim, beta=beta, ridge=0.3, clip=clip
    )
    for h in range(world.horizon):
        for s in range(world.states):
            options = np.flatnonzero(world.feasible[s])
            rows = world.features[s][options]
            assert values[0, h, s] == pytest.approx(policy.value(h, rows), abs=1e-9)
            assert values[0, h, s] == pytest.approx(expected(h, rows).max(), abs=1e-9)
            assert world.space.actions[choices[0, h, s]] == options[policy.act(h, rows)]


@pytest.mark.parametrize("with_directions", [True, False])
def test_runs_fitted_together_are_bit_identical_to_each_alone(with_directions):
    world = rs.instances.hard_to_learn(d=7, horizon=3, seed=5)
    rng = np.random.default_rng(6)
    paths = [random_paths(world, rng, 25) for _ in range(4)]
    directions = rng.standard_normal((4, 3, 7)) if with_directions else None
    together = fit_finite(*statistics(world, paths, 1.0), beta=0.5, directions=directions)
    for run, path in enumerate(paths):
        alone = fit_finite(
            *statistics(world, [path], 1.0),
            beta=0.5,
            directions=None if directions is None else directions[run : run + 1],
        )
        for stacked, single in zip(together, alone, strict=True):
            assert (stacked[run] == single[0]).all()


def test_with_a_large_bonus_every_row_ties_at_the_cap_and_the_direction_decides():
    world = rs.instances.hard_to_learn(d=6, horizon=3, seed=7)
    directions = np.random.default_rng(8).standard_normal((1, 3, 6))
    gram, tally = statistics(world, [random_paths(world, np.random.default_rng(9), 5)], 1.0)
    _, values, choices = fit_finite(gram, tally, beta=1e6, directions=directions)
    assert (values[0] == [[3.0], [2.0], [1.0]]).all()
    along = world.features[0] @ directions[0].T
    assert world.space.actions[choices[0, :, 0]].tolist() == along.argmax(axis=0).tolist()


def test_without_data_weights_are_zero_and_bonuses_are_those_of_the_ridge():
    policy = fit(Gram((2,), 3, 4.0), History(2, 3), beta=0.5)
    assert isinstance(policy, Policy)
    assert not policy.weights.any()
    np.testing.assert_allclose(policy.q_values(0, np.eye(3)), 0.5 / np.sqrt(4.0))


@pytest.mark.parametrize("with_directions", [True, False])
def test_where_every_value_is_clipped_to_zero_all_rows_tie(with_directions):
    features = np.array([[[-1.0, 0.0], [-0.9, 0.5], [-0.8, 0.9], [0.0, 0.3]]])
    space = FiniteSpace(features, np.array([[True, True, True, False]]))
    directions = np.array([[[0.0, 1.0]]]) if with_directions else None
    gram, tally = Gram((1, 1), 2, 1.0, watch=space.columns), Tally(space, 1, 1)
    tally.absorb(np.array([[[1.0, 0.0]]]), np.ones((1, 1)), np.zeros((1, 1), int))
    weights, values, choices = fit_finite(gram, tally, beta=0.0, directions=directions)
    assert (features[0, :3] @ weights[0, 0]).max() < 0.0
    assert values.item() == 0.0
    assert choices.item() == (2 if with_directions else 0)
