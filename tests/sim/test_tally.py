import numpy as np
import pytest

import rareswitch as rs
from oracles import episode_of, masked_world, reference_q
from rareswitch.core.exploration import Bonus
from rareswitch.core.history import History
from rareswitch.core.lsvi import fit
from rareswitch.core.policy import TIE_TOLERANCE, Policy, Stage
from rareswitch.core.recipe import Recipe
from rareswitch.sim.space import FiniteSpace
from rareswitch.sim.tally import RECOMPUTE_EVERY, Tally
from rareswitch.sim.ties import best_rows


def random_paths(world, rng, episodes):
    """Return states (n, H+1) and feasible actions (n, H)."""
    states = rng.integers(0, world.states, (episodes, world.horizon + 1))
    chance = rng.random((episodes, world.horizon, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    return states, actions


def tally_of(world, paths, *, ridge=1.0, beta=0.5):
    """Return the tally of several runs, each (states, actions)."""
    tally = Tally(world.space, runs=len(paths), horizon=world.horizon, ridge=ridge, beta=beta)
    stage = np.arange(world.horizon)
    for step in range(len(paths[0][0])):
        states = np.array([states[step] for states, _ in paths])
        actions = np.array([actions[step] for _, actions in paths])
        features = world.features[states[:, :-1], actions]
        tally.absorb(features, world.rewards[stage, states[:, :-1], actions], states[:, 1:])
    return tally


def linear(weights):
    """Return a stage whose values are those of weights (R, d)."""
    return Stage(weights=weights, whitener=None, beta=0.0, offsets=None, cap=None)


def test_a_space_lists_distinct_rows_by_state_under_their_lowest_feasible_action():
    a, b, c = np.eye(3)
    features = np.array([[b, a, b, a], [c, c, c, c], [a, b, c, a]])
    feasible = np.ones((3, 4), bool)
    feasible[0, 0] = feasible[2, 0] = False
    space = FiniteSpace(features, feasible)
    assert space.states == 3
    assert space.starts.tolist() == [0, 2, 3]
    assert space.lengths.tolist() == [2, 1, 3]
    assert space.actions.tolist() == [1, 2, 0, 1, 2, 3]
    assert (space.rows == [a, b, c, b, c, a]).all()
    assert (space.columns == space.rows.T).all()


def test_a_state_of_the_hard_instance_with_one_feature_has_one_row():
    features = np.zeros((2, 8, 3))
    features[0] = np.arange(24).reshape(8, 3)
    space = FiniteSpace(features, np.ones((2, 8), bool))
    assert len(space.rows) == 9
    assert space.actions[-1] == 0


@pytest.mark.parametrize("with_directions", [True, False])
def test_the_best_rows_are_those_that_a_policy_takes(with_directions):
    rng = np.random.default_rng(0)
    world = masked_world(2, states=6, actions=5, d=3)
    space, vectors = world.space, 40
    weights = rng.integers(-1, 2, (vectors, 3)) / 4.0
    weights[::5] = 0.0  # then every row of a state is tied
    values = weights @ space.columns
    values += rng.choice([0.0, 0.4 * TIE_TOLERANCE], values.shape)
    directions = rng.standard_normal((vectors, 3)) if with_directions else None
    top = np.maximum.reduceat(values, space.starts, axis=1)
    found = best_rows(values, top, space, directions)
    ends = [*space.starts[1:], len(space.rows)]
    for m in range(vectors):
        for s, (start, end) in enumerate(zip(space.starts, ends, strict=True)):
            tied = start + np.flatnonzero(values[m, start:end] >= top[m, s] - TIE_TOLERANCE)
            if directions is not None:
                along = space.rows[tied] @ directions[m]
                tied = tied[along >= along.max() - TIE_TOLERANCE]
            assert found[m, s] == tied[0]


def test_sums_are_those_of_the_raw_episodes():
    rng = np.random.default_rng(0)
    runs, horizon, states, d, episodes = 3, 4, 5, 2, 20
    space = FiniteSpace(rng.random((states, 3, d)), np.ones((states, 3), bool))
    tally = Tally(space, runs=runs, horizon=horizon, ridge=1.0, beta=0.0)
    features = rng.random((episodes, runs, horizon, d))
    rewards = rng.random((episodes, runs, horizon))
    following = rng.integers(0, states, (episodes, runs, horizon))
    for episode in zip(features, rewards, following, strict=True):
        tally.absorb(*episode)
    np.testing.assert_allclose(tally.reward_sums, np.einsum("krh,krhd->rhd", rewards, features))
    weights = rng.standard_normal((runs, d))
    best = np.maximum.reduceat(weights @ space.columns, space.starts, axis=1)  # (R, S)
    reached = np.take_along_axis(best[None, :, None], following[..., None], axis=-1)[..., 0]
    for h in range(horizon - 1):
        expected = np.einsum("kr,krd->rd", reached[:, :, h], features[:, :, h])
        found = tally.next_value_sums(h, linear(weights))
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_moves_counted_at_once_equal_episodes_one_by_one():
    rng = np.random.default_rng(1)
    runs, horizon, states, d, episodes = 2, 3, 4, 3, 30
    space = FiniteSpace(rng.random((states, 2, d)), np.ones((states, 2), bool))
    at_once, one_by_one = (
        Tally(space, runs=runs, horizon=horizon, ridge=0.4, beta=0.3) for _ in range(2)
    )
    features = rng.random((runs, horizon, states, d))
    rewards = rng.random((runs, horizon, states))
    path = rng.integers(0, states, (episodes, runs, horizon + 1))
    moves = np.zeros((runs, horizon, states, states))
    run, stage = np.ogrid[:runs, :horizon]
    for states_now in path:
        here, there = states_now[:, :-1], states_now[:, 1:]
        one_by_one.absorb(features[run, stage, here], rewards[run, stage, here], there)
        np.add.at(moves, (run, stage, here, there), 1.0)
    at_once.absorb_moves(moves, features, rewards)
    for name in ("logdet", "trace"):
        np.testing.assert_allclose(
            getattr(at_once.gram, name), getattr(one_by_one.gram, name), rtol=1e-12
        )
    np.testing.assert_allclose(at_once.reward_sums, one_by_one.reward_sums, atol=1e-12)
    fits = [tally.fit(offsets=None, clip=True, directions=None) for tally in (at_once, one_by_one)]
    np.testing.assert_allclose(fits[0][0], fits[1][0], atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_squared_norms_stay_those_of_the_catalogue(beta):
    world = rs.instances.hard_to_learn(d=6, horizon=2, seed=2)
    tally = Tally(world.space, runs=2, horizon=2, ridge=0.5, beta=beta)
    rng = np.random.default_rng(5)
    for fits in range(2 * RECOMPUTE_EVERY):
        features = world.space.rows[rng.integers(0, len(world.space.rows), (2, 2))]
        tally.absorb(features, np.ones((2, 2)), np.zeros((2, 2), int))
        whitened = tally.whitener @ world.space.columns
        np.testing.assert_allclose(
            tally.squared_norms().swapaxes(0, 1),
            (whitened**2).sum(axis=-2),
            rtol=1e-9,
            atol=1e-15,
        )
        if fits % 2:
            tally.fit(offsets=None, clip=True, directions=None)


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
    path = random_paths(world, np.random.default_rng(4), 40)
    episodes = [episode_of(world, states, actions) for states, actions in zip(*path, strict=True)]
    recipe = Recipe(exploration=Bonus(beta), ridge=0.3, clip=clip, ties=ties)
    history = History.from_log(episodes, dim=world.dim, horizon=world.horizon, ridge=0.3)
    policy = fit(history, recipe, version=1)
    tally = tally_of(world, [path], ridge=0.3, beta=beta)
    weights, choices = tally.fit(
        offsets=None,
        clip=clip,
        directions=None if policy.directions is None else policy.directions[None],
    )
    np.testing.assert_allclose(weights[0], policy.weights, atol=1e-9)
    expected = reference_q(
        episodes, horizon=world.horizon, dim=world.dim, beta=beta, ridge=0.3, clip=clip
    )
    for h in range(world.horizon):
        for s in range(world.states):
            options = np.flatnonzero(world.feasible[s])
            rows = world.features[s][options]
            value = tally.values[0, h, s]
            assert value == pytest.approx(policy.value(h, rows), abs=1e-9)
            assert value == pytest.approx(expected(h, rows).max(), abs=1e-9)
            assert world.space.actions[choices[0, h, s]] == options[policy.act(h, rows)]


@pytest.mark.parametrize("draws", [0, 3])
@pytest.mark.parametrize("with_directions", [True, False])
def test_runs_fitted_together_are_bit_identical_to_each_alone(with_directions, draws):
    world = rs.instances.hard_to_learn(d=7, horizon=3, seed=5)
    rng = np.random.default_rng(6)
    paths = [random_paths(world, rng, 25) for _ in range(4)]
    directions = rng.standard_normal((4, 3, 7)) if with_directions else None
    offsets = rng.standard_normal((4, 3, draws, 7)) if draws else None
    together = tally_of(world, paths)
    fitted = together.fit(offsets=offsets, clip=True, directions=directions)
    for run, path in enumerate(paths):
        alone = tally_of(world, [path])
        single = alone.fit(
            offsets=None if offsets is None else offsets[run : run + 1],
            clip=True,
            directions=None if directions is None else directions[run : run + 1],
        )
        for stacked, part in zip((*fitted, together.values), (*single, alone.values), strict=True):
            assert (stacked[run] == part[0]).all()


def test_offsets_take_the_place_of_a_bonus():
    world = masked_world(7)
    rng = np.random.default_rng(8)
    offsets = rng.standard_normal((1, world.horizon, 3, world.dim))
    tally = tally_of(world, [random_paths(world, rng, 20)], beta=0.0)
    weights, choices = tally.fit(offsets=offsets, clip=True, directions=None)
    policy = Policy(weights=weights[0], whitener=tally.whitener[0], beta=0.0, offsets=offsets[0])
    for h in range(world.horizon):
        for s in range(world.states):
            options = np.flatnonzero(world.feasible[s])
            rows = world.features[s][options]
            assert tally.values[0, h, s] == pytest.approx(policy.value(h, rows), abs=1e-12)
            assert world.space.actions[choices[0, h, s]] == options[policy.act(h, rows)]


def test_with_a_large_bonus_every_row_ties_at_the_cap_and_the_direction_decides():
    world = rs.instances.hard_to_learn(d=6, horizon=3, seed=7)
    directions = np.random.default_rng(8).standard_normal((1, 3, 6))
    tally = tally_of(world, [random_paths(world, np.random.default_rng(9), 5)], beta=1e6)
    _, choices = tally.fit(offsets=None, clip=True, directions=directions)
    assert (tally.values[0] == [[3.0], [2.0], [1.0]]).all()
    along = world.features[0] @ directions[0].T
    assert world.space.actions[choices[0, :, 0]].tolist() == along.argmax(axis=0).tolist()


@pytest.mark.parametrize("with_directions", [True, False])
def test_where_every_value_is_clipped_to_zero_all_rows_tie(with_directions):
    features = np.array([[[-1.0, 0.0], [-0.9, 0.5], [-0.8, 0.9], [0.0, 0.3]]])
    space = FiniteSpace(features, np.array([[True, True, True, False]]))
    directions = np.array([[[0.0, 1.0]]]) if with_directions else None
    tally = Tally(space, runs=1, horizon=1, ridge=1.0, beta=0.0)
    tally.absorb(np.array([[[1.0, 0.0]]]), np.ones((1, 1)), np.zeros((1, 1), int))
    weights, choices = tally.fit(offsets=None, clip=True, directions=directions)
    assert (features[0, :3] @ weights[0, 0]).max() < 0.0
    assert tally.values.item() == 0.0
    assert choices.item() == (2 if with_directions else 0)
