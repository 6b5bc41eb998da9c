import numpy as np
import pytest

import rareswitch as rs
from oracles import episode_of, greedy_tables, masked_world, reference_q
from rareswitch.core.exploration import Bonus, Ensemble, Perturbation
from rareswitch.core.lsvi import QFunction
from rareswitch.core.policy import TIE_TOLERANCE, fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Pools
from rareswitch.sim.mdp import FiniteSpace
from rareswitch.sim.tally import RECOMPUTE_EVERY, Tally, best_rows
from rareswitch.statistics import history_of


def random_paths(world, rng, episodes):
    """Return states (n, H+1) and feasible actions (n, H)."""
    states = rng.integers(0, world.states, (episodes, world.horizon + 1))
    chance = rng.random((episodes, world.horizon, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    return states, actions


GREEDY, HALF = Bonus(0.0), Bonus(0.5)


def empty(space, *, runs=1, horizon=1, exploration=GREEDY, **rest):
    recipe = Recipe(exploration=exploration, **rest)
    return Tally(space, runs=runs, pools=Pools(horizon), recipe=recipe)


def tally_of(world, paths, *, exploration=HALF, **rest):
    """Return the tally of several runs, each (states, actions)."""
    tally = empty(
        world.space,
        runs=len(paths),
        horizon=world.horizon,
        exploration=exploration,
        **rest,
    )
    stage = np.arange(world.horizon)
    for step in range(len(paths[0][0])):
        states = np.array([states[step] for states, _ in paths])
        actions = np.array([actions[step] for _, actions in paths])
        features = world.features[states[:, :-1], actions]
        tally.absorb(features, world.rewards[stage, states[:, :-1], actions], states[:, 1:])
    return tally


def linear(weights):
    """Return a stage whose values are those of weights (R, d)."""
    return QFunction(weights=weights, levels=None, whitener=None, beta=0.0, offsets=None, cap=None)


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


@pytest.mark.parametrize("exploration", [Bonus(0.0), Bonus(0.0, estimate=True), Ensemble(3)])
def test_sums_are_those_of_the_raw_episodes(exploration):
    rng = np.random.default_rng(0)
    runs, horizon, states, d, episodes = 3, 4, 5, 2, 20
    space = FiniteSpace(rng.random((states, 3, d)), np.ones((states, 3), bool))
    tally = empty(space, runs=runs, horizon=horizon, exploration=exploration)
    features = rng.random((episodes, runs, horizon, d))
    rewards = rng.random((episodes, runs, horizon))
    following = rng.integers(0, states, (episodes, runs, horizon))
    for episode in zip(features, rewards, following, strict=True):
        tally.absorb(*episode)
    steps = features
    if exploration.estimate:
        steps = np.concatenate([features, np.ones((*rewards.shape, 1)), rewards[..., None]], -1)
    if exploration.estimate:  # other fits do not read them
        np.testing.assert_allclose(tally.step_sums, steps.sum(axis=0))
    np.testing.assert_allclose(tally.reward_sums, np.einsum("krh,krhd->rhd", rewards, steps))
    members = exploration.members
    weights = rng.standard_normal((runs, members, d) if members > 1 else (runs, d))
    for h in range(horizon - 1):
        found = tally.next_value_sums(h, linear(weights))
        assert found.shape == (*weights.shape[:-1], steps.shape[-1] + exploration.estimate)
        for run in range(runs):
            by_member = np.atleast_2d(weights[run]), np.atleast_2d(found[run])
            for mine, sums in zip(*by_member, strict=True):
                best = np.maximum.reduceat(mine @ space.columns, space.starts)  # (S,)
                reached = best[following[:, run, h]]
                expected = reached @ steps[:, run, h]
                if exploration.estimate:
                    expected = [*expected, reached @ reached]
                np.testing.assert_allclose(sums, expected, atol=1e-12)


@pytest.mark.parametrize(
    "exploration",
    [
        Bonus(0.3),
        Bonus(0.3, 2),
        Bonus(0.3, estimate=True),
        Ensemble(3),
        Ensemble(3, estimate=False),
    ],
)
def test_moves_counted_at_once_equal_episodes_one_by_one(exploration):
    rng = np.random.default_rng(1)
    runs, horizon, states, d, episodes = 2, 3, 4, 3, 30
    space = FiniteSpace(rng.random((states, 2, d)), np.ones((states, 2), bool))
    at_once, one_by_one = (
        empty(space, runs=runs, horizon=horizon, ridge=0.4, exploration=exploration)
        for _ in range(2)
    )
    cells = exploration.members * states
    features = rng.random((runs, horizon, cells, d))
    rewards = rng.random((runs, horizon, cells))
    path = rng.integers(0, states, (episodes, runs, horizon + 1))
    members = rng.integers(0, exploration.members, (episodes, runs, 1))
    moves = np.zeros((runs, horizon, cells, states))
    run, stage = np.ogrid[:runs, :horizon]
    for states_now, member in zip(path, members, strict=True):
        here, there = states_now[:, :-1] + states * member, states_now[:, 1:]
        one_by_one.absorb(features[run, stage, here], rewards[run, stage, here], there)
        np.add.at(moves, (run, stage, here, there), 1.0)
    at_once.absorb_moves(moves, features, rewards)
    for name in ("logdet", "trace"):
        np.testing.assert_allclose(
            getattr(at_once.gram, name), getattr(one_by_one.gram, name), rtol=1e-12
        )
    for name in ("step_sums", "reward_sums"):
        found = getattr(at_once, name), getattr(one_by_one, name)
        np.testing.assert_allclose(*found, atol=1e-12)
    drawn = None
    if exploration.draws:
        drawn = rng.standard_normal((runs, exploration.members, horizon, 1, d))
    for tally in (at_once, one_by_one):
        tally.fit(perturbations=drawn, directions=None)
    np.testing.assert_allclose(at_once.values, one_by_one.values, atol=1e-9)


@pytest.mark.parametrize("beta", [0.0, 0.3])
def test_squared_norms_stay_those_of_the_catalogue(beta):
    world = rs.worlds.hard_to_learn(d=6, horizon=2, seed=2)
    tally = empty(world.space, runs=2, horizon=2, ridge=0.5, exploration=Bonus(beta))
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
            tally.fit(perturbations=None, directions=None)


@pytest.mark.parametrize("ties", ["direction", "lowest"])
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("beta", [0.0, 0.2, 100.0])
@pytest.mark.parametrize(
    "world",
    [
        masked_world(1),
        rs.worlds.hard_to_learn(d=6, horizon=4, seed=2),
        rs.worlds.tabular(states=4, actions=3, horizon=2, seed=3),
    ],
    ids=["masked", "hard", "tabular"],
)
def test_finite_and_ragged_fits_agree(world, beta, clip, ties):
    path = random_paths(world, np.random.default_rng(4), 40)
    episodes = [episode_of(world, states, actions) for states, actions in zip(*path, strict=True)]
    recipe = Recipe(exploration=Bonus(beta), ridge=0.3, clip=clip, ties=ties)
    policy = fit(history_of(world.task(), 0.3, episodes), recipe, version=1)
    tally = tally_of(world, [path], ridge=0.3, exploration=Bonus(beta), clip=clip)
    stages, choices = tally.fit(
        perturbations=None,
        directions=None if policy.directions is None else policy.directions[None],
    )
    np.testing.assert_allclose([s.weights[0] for s in stages], policy.weights, atol=1e-9)
    expected = reference_q(
        episodes, horizon=world.horizon, dim=world.dim, beta=beta, ridge=0.3, clip=clip
    )
    for h in range(world.horizon):
        for s in range(world.states):
            options = np.flatnonzero(world.feasible[s])
            rows = world.features[s][options]
            value = tally.values[h, 0, 0, s]
            assert value == pytest.approx(policy.value(h, rows), abs=1e-9)
            assert value == pytest.approx(expected(h, rows).max(), abs=1e-9)
            assert world.space.actions[choices[0, h, 0, s]] == options[policy.act(h, rows)]


EXPLORATIONS = [
    Bonus(0.5),
    Bonus(0.5, estimate=True),
    Bonus(0.5, members=4),
    Bonus(0.5, members=4, estimate=True),
    Perturbation(0.5, draws=3),
    Perturbation(0.5, draws=3, estimate=True),
    Ensemble(4),
    Ensemble(4, estimate=False),
]


@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
@pytest.mark.parametrize("with_directions", [True, False])
def test_runs_fitted_together_are_bit_identical_to_each_alone(with_directions, exploration):
    world = rs.worlds.hard_to_learn(d=7, horizon=3, seed=5)
    rng = np.random.default_rng(6)
    paths = [random_paths(world, rng, 25) for _ in range(4)]
    members, draws = exploration.members, exploration.draws
    by_member = (4, 3, 7) if members == 1 else (4, members, 3, 7)
    directions = rng.standard_normal(by_member) if with_directions else None
    drawn = rng.standard_normal((4, members, 3, draws, 7)) if draws else None
    together = tally_of(world, paths, exploration=exploration)
    stages, choices = together.fit(perturbations=drawn, directions=directions)
    for run, path in enumerate(paths):
        alone = tally_of(world, [path], exploration=exploration)
        single, chosen = alone.fit(
            perturbations=None if drawn is None else drawn[run : run + 1],
            directions=None if directions is None else directions[run : run + 1],
        )
        assert (choices[run] == chosen[0]).all()
        assert (together.values[:, run] == alone.values[:, 0]).all()
        for stacked, part in zip(stages, single, strict=True):
            for one, other in zip(stacked.select(run), part.select(0), strict=True):
                assert np.array_equal(one, other)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("exploration", EXPLORATIONS, ids=repr)
def test_a_fit_of_runs_is_that_of_each_history(exploration, clip):
    world = masked_world(7)
    rng = np.random.default_rng(8)
    paths = [random_paths(world, rng, 20) for _ in range(2)]
    recipe = Recipe(exploration=exploration, ridge=0.3, clip=clip, seed=5)
    sizes = world.horizon, world.dim
    tally = tally_of(world, paths, ridge=0.3, exploration=exploration, clip=clip)
    drawn = recipe.perturbations(2, *sizes)
    _, choices = tally.fit(
        perturbations=None if drawn is None else np.stack([drawn] * 2),
        directions=np.stack([recipe.directions(2, *sizes)] * 2),
    )
    for run, path in enumerate(paths):
        log = [episode_of(world, *episode) for episode in zip(*path, strict=True)]
        policy = fit(history_of(world.task(), 0.3, log), recipe, version=2)
        tables = greedy_tables(world, policy)
        np.testing.assert_array_equal(
            world.space.actions[choices[run]].swapaxes(0, 1), tables, err_msg=str(run)
        )
        for h in range(world.horizon):
            for s in range(world.states):
                rows = world.features[s][world.feasible[s]]
                values = np.atleast_2d(policy.q_values(h, rows)).max(axis=-1)
                np.testing.assert_allclose(tally.values[h, run, :, s], values, atol=1e-9)


def test_with_a_large_bonus_every_row_ties_at_the_cap_and_the_direction_decides():
    world = rs.worlds.hard_to_learn(d=6, horizon=3, seed=7)
    directions = np.random.default_rng(8).standard_normal((1, 3, 6))
    tally = tally_of(
        world, [random_paths(world, np.random.default_rng(9), 5)], exploration=Bonus(1e6)
    )
    _, choices = tally.fit(perturbations=None, directions=directions)
    assert (tally.values[:, 0, 0] == [[3.0], [2.0], [1.0]]).all()
    along = world.features[0] @ directions[0].T
    assert world.space.actions[choices[0, :, 0, 0]].tolist() == along.argmax(axis=0).tolist()


@pytest.mark.parametrize("with_directions", [True, False])
def test_where_every_value_is_clipped_to_zero_all_rows_tie(with_directions):
    features = np.array([[[-1.0, 0.0], [-0.9, 0.5], [-0.8, 0.9], [0.0, 0.3]]])
    space = FiniteSpace(features, np.array([[True, True, True, False]]))
    directions = np.array([[[0.0, 1.0]]]) if with_directions else None
    tally = empty(space)
    tally.absorb(np.array([[[1.0, 0.0]]]), np.ones((1, 1)), np.zeros((1, 1), int))
    (stage,), choices = tally.fit(perturbations=None, directions=directions)
    assert (features[0, :3] @ stage.weights[0]).max() < 0.0
    assert tally.values.item() == 0.0
    assert choices.item() == (2 if with_directions else 0)
