"""The page of the paper: Q of a stage, its regression, the backward pass and the fit."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import ESTIMATING, episode_of, masked_world, ragged_episode, reference_q, unit_rows
from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import QFunction, backward, project
from rareswitch.core.policy import Policy, fit, regressor_of
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Pools
from rareswitch.sim.tally import Tally
from rareswitch.statistics import history_of
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics

ROWS = np.random.default_rng(9).standard_normal((6, 3))


def a_q_function(*leading, cap=1.0, seed=0):
    rng = np.random.default_rng(seed)
    return QFunction(
        weights=rng.standard_normal((*leading, 3)),
        levels=rng.random(leading),
        whitener=rng.standard_normal((*leading, 3, 3)),
        beta=0.4,
        offsets=rng.standard_normal((*leading, 2, 3)),
        cap=cap,
    )


@pytest.mark.parametrize("cap", [1.0, None])
def test_leading_axes_are_so_many_stages_side_by_side(cap):
    stage = a_q_function(4, cap=cap)
    values = stage.q_values(ROWS)
    assert values.shape == (4, 6)
    for r in range(4):
        np.testing.assert_allclose(values[r], stage.select(r).q_values(ROWS), rtol=1e-12)


def test_q_is_level_estimate_bonus_and_the_largest_offset_clipped():
    stage = a_q_function()
    for row, value in zip(ROWS, stage.q_values(ROWS), strict=True):
        plain = stage.levels + stage.weights @ row
        bonus = 0.4 * np.linalg.norm(stage.whitener @ row)
        expected = np.clip(plain + bonus + max(o @ row for o in stage.offsets), 0.0, 1.0)
        assert value == pytest.approx(expected, abs=1e-12)
    raw = stage._replace(cap=None).q_values(ROWS)
    assert raw.min() < 0.0 or raw.max() > 1.0  # the clip had something to do


def test_what_a_q_function_lacks_its_runs_lack_too():
    bare = QFunction(np.ones((2, 3)), None, None, 0.0, None, None).select(1)
    assert (bare.levels, bare.whitener, bare.offsets) == (None, None, None)
    np.testing.assert_allclose(bare.q_values(ROWS), ROWS.sum(axis=1))


@pytest.mark.parametrize("leading", [(), (4,), (2, 4)])
@pytest.mark.parametrize("cap", [1.0, None])
def test_positions_are_the_rows_written_out(leading, cap):
    stage = a_q_function(*leading, cap=cap)
    diagonal = np.random.default_rng(1).random((*leading, 3))
    by_rows = stage._replace(whitener=diagonal[..., None] * np.eye(3))
    by_position = stage._replace(whitener=diagonal)
    for positions in (np.arange(3), np.array([2]), np.array([1, 1, 0])):
        rows = np.eye(3)[positions]
        found = by_position.q_values(positions)
        assert found.shape == (*leading, len(positions))
        np.testing.assert_allclose(found, by_rows.q_values(rows), atol=1e-14)
        np.testing.assert_allclose(
            project(stage.weights, positions), project(stage.weights, rows), atol=1e-14
        )


def test_valuing_positions_leaves_the_stage_as_it_was():
    bare = QFunction(np.array([-1.0, 0.5, 9.0]), None, None, 0.0, None, 1.0)
    assert bare.q_values(np.arange(3)).tolist() == [0.0, 0.5, 1.0]
    assert bare.weights.tolist() == [-1.0, 0.5, 9.0]


class Scripted:
    """Statistics of three stages with Λ_h = 2, whose next values are ten times the weights."""

    pools, one_hot, dim = Pools(3), False, 1

    def __init__(self):
        self.whitener = Gram.of_ridge((3,), 1, 1.0).add(np.ones((3, 1)))[0].whitener
        self.reward_sums = np.array([[0.1], [0.2], [0.4]])
        self.asked = []

    def next_value_sums(self, h, following):
        self.asked.append((h, following))
        return 10 * following.weights


WEIGHTS = [(0.1 + 10 * 1.1) / 2, (0.2 + 10 * 0.2) / 2, 0.4 / 2]


@pytest.mark.parametrize("clip", [True, False])
def test_backward_regresses_on_the_stage_that_follows(clip):
    statistics = Scripted()
    regression = regressor_of(statistics, Recipe(exploration=rs.Bonus(0.7)))
    stages = backward(statistics, regression, beta=0.7, clip=clip)
    np.testing.assert_allclose([stage.weights[0] for stage in stages], WEIGHTS)
    assert [h for h, _ in statistics.asked] == [1, 0]
    assert all(following is stages[h + 1] for h, following in statistics.asked)
    for h, stage in enumerate(stages):
        assert (stage.whitener == statistics.whitener[h]).all()
        assert (stage.levels, stage.offsets, stage.beta) == (None, None, 0.7)
        assert stage.cap == (3 - h if clip else None)
    assert statistics.reward_sums.tolist() == [[0.1], [0.2], [0.4]]  # untouched


@pytest.mark.parametrize("members", [1, 4])
def test_of_several_draws_the_largest_counts_and_weights_are_those_of_the_data(members):
    statistics, drawn = Scripted(), np.random.default_rng(0).standard_normal((members, 3, 2, 1))
    regression = regressor_of(statistics, Recipe(exploration=rs.Perturbation(1.0, draws=2)))
    stages = backward(statistics, regression, beta=0.0, perturbations=drawn)
    for h, stage in enumerate(stages):
        found = np.broadcast_to(stage.weights, (members, 1))
        np.testing.assert_allclose(found, np.full((members, 1), WEIGHTS[h]))
        np.testing.assert_allclose(stage.offsets, drawn[:, h] / np.sqrt(2.0))  # Λ = 2
        assert stage.whitener is None  # without a bonus nobody needs it


def test_one_draw_is_added_to_the_weights_on_which_the_stage_before_regresses():
    statistics, drawn = Scripted(), np.random.default_rng(0).standard_normal((4, 3, 1, 1))
    regression = regressor_of(statistics, Recipe(exploration=rs.Ensemble(4, estimate=False)))
    stages = backward(statistics, regression, beta=0.0, perturbations=drawn)
    expected = np.zeros((4, 1))
    for h in (2, 1, 0):
        data = statistics.reward_sums[h] + (10 * expected if h < 2 else 0.0)
        expected = data / 2 + drawn[:, h, 0] / np.sqrt(2.0)
        np.testing.assert_allclose(stages[h].weights, expected)
        assert stages[h].offsets is None


@given(st.integers(0, 10**6), st.sampled_from([0.0, 0.3, 5.0]), st.booleans())
def test_fit_is_the_regression_on_the_raw_history(seed, beta, clip):
    rng = np.random.default_rng(seed)
    episodes = [ragged_episode(rng, horizon=3, dim=3) for _ in range(15)]
    history = history_of(rs.Task(dim=3, horizon=3), 0.5, episodes)
    recipe = Recipe(exploration=rs.Bonus(beta), ridge=0.5, clip=clip, ties="lowest")
    policy = fit(history, recipe, version=7)
    expected = reference_q(episodes, horizon=3, dim=3, beta=beta, ridge=0.5, clip=clip)
    for h in range(3):
        rows = unit_rows(rng, 8, 3)
        np.testing.assert_allclose(policy.q_values(h, rows), expected(h, rows), atol=1e-9)
    assert (policy.beta, policy.clip, policy.directions) == (beta, clip, None)


@pytest.mark.parametrize(
    "exploration",
    [rs.Bonus(0.5), rs.Bonus(0.5, 4), rs.Perturbation(0.5, draws=3), rs.Ensemble(4)],
    ids=repr,
)
def test_fit_is_a_pure_function_of_statistics_recipe_and_version(exploration):
    rng = np.random.default_rng(1)
    log = [ragged_episode(rng, horizon=3, dim=3) for _ in range(9)]
    history = history_of(rs.Task(dim=3, horizon=3), log=log)
    recipe = Recipe(exploration=exploration, seed=3)
    first = fit(history, recipe, version=2)
    other = fit(history, recipe, version=3)
    assert fit(history, recipe, version=2).to_bytes() == first.to_bytes()
    assert other.to_bytes() != first.to_bytes()
    anew = Recipe(exploration=exploration, seed=3)
    assert fit(history, anew, version=3).to_bytes() == other.to_bytes()
    assert (first.directions == recipe.directions(2, 3, 3)).all()
    assert (first.members, first.allocation) == (exploration.members, recipe.allocation(2))


def test_without_data_weights_are_zero_and_bonuses_are_those_of_the_ridge():
    history = history_of(rs.Task(dim=3, horizon=2), 4.0)
    policy = fit(history, Recipe(exploration=rs.Bonus(0.5), ridge=4.0), version=1)
    assert isinstance(policy, Policy)
    assert not policy.weights.any()
    np.testing.assert_allclose(policy.q_values(0, np.eye(3)), 0.5 / np.sqrt(4.0))


def test_a_recipe_with_another_ridge_than_the_statistics_is_refused():
    history = history_of(rs.Task(dim=2, horizon=1), 0.5, [])
    assert fit(history, Recipe(ridge=0.5), version=1).horizon == 1
    with pytest.raises(ValueError, match=r"ridge must be 0\.5, as in the statistics; .* has 1"):
        fit(history, Recipe(), version=1)


class Shared(Scripted):
    """The same of two pools, with Λ = 2 and Λ = 4, for stages that share their steps."""

    pools = Pools(3, shared=True)

    def __init__(self):
        gram, _, _ = Gram.of_ridge((2,), 1, 1.0).add(np.array([[1.0], [np.sqrt(3.0)]]))
        self.whitener = gram.whitener
        self.reward_sums = np.array([[0.2], [0.4]])
        self.asked = []


def test_stages_that_share_regress_on_their_pool_each_with_the_stage_that_follows():
    statistics = Shared()
    stages = backward(
        statistics, regressor_of(statistics, Recipe(exploration=rs.Bonus(0.7))), beta=0.7
    )
    last = 0.4 / 4
    middle = (0.2 + 10 * last) / 2
    first = (0.2 + 10 * middle) / 2
    np.testing.assert_allclose([stage.weights[0] for stage in stages], [first, middle, last])
    assert [h for h, _ in statistics.asked] == [1, 0]
    assert all(following is stages[h + 1] for h, following in statistics.asked)
    assert [stage.cap for stage in stages] == [3.0, 2.0, 1.0]
    for stage, pool in zip(stages, (0, 0, 1), strict=True):
        assert (stage.whitener == statistics.whitener[pool]).all()


@pytest.mark.parametrize("one_hot", [True, False])
@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("exploration", [rs.Bonus(0.5), rs.Bonus(0.5, estimate=True)], ids=repr)
def test_the_whitener_of_a_policy_has_a_part_for_each_stage(exploration, stages, one_hot):
    history = history_of(rs.Task(dim=2, horizon=4, stages=stages, one_hot=one_hot))
    policy = fit(history, Recipe(exploration=exploration), version=1)
    assert policy.one_hot is one_hot
    assert policy.whitener.shape == ((4, 2) if one_hot else (4, 2, 2))
    assert policy.weights.shape == (4, 2)
    mixture = fit(history, Recipe(exploration=rs.Ensemble(3)), version=1)
    assert (mixture.weights.shape, mixture.levels.shape) == ((3, 4, 2), (3, 4))
    assert mixture.whitener is None


H, D = 3, 4


def following_stage(rng, *leading):
    """Return any Q of the stage after, with members or none."""
    return QFunction(
        weights=rng.standard_normal((*leading, D)),
        levels=rng.random(leading),
        whitener=None,
        beta=0.0,
        offsets=None,
        cap=2.0,
    )


@pytest.mark.parametrize("members", [(), (5,)], ids=["one", "members"])
def test_the_sums_of_targets_are_those_of_the_raw_episodes(members):
    rng = np.random.default_rng(4)
    log = [ragged_episode(rng, horizon=H, dim=D) for _ in range(25)]
    history = history_of(rs.Task(dim=D, horizon=H), log=log).fold()
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:9], log[9:])]
    for statistics in (history, LogStatistics(LocalPartitions(parts))):
        for h in range(H - 1):
            following = following_stage(rng, *members)
            sums = statistics.next_value_sums(h, following)
            assert sums.shape == (*members, D + 3)
            there = [e for e in log if len(e) > h]
            steps = np.array([[*e.features[h], 1.0, e.rewards[h]] for e in there])
            np.testing.assert_allclose(statistics.step_sums[h], steps.sum(axis=0), atol=1e-12)
            by_reward = steps[:, -1] @ steps
            np.testing.assert_allclose(statistics.reward_sums[h], by_reward, atol=1e-12)
            for m in np.ndindex(members):
                one = following._replace(
                    weights=following.weights[m], levels=np.asarray(following.levels[m])
                )
                goes_on = [len(e.next_features) > h for e in there]
                values = np.array(
                    [
                        one.q_values(e.next_features[h]).max() if more else 0.0
                        for e, more in zip(there, goes_on, strict=True)
                    ]
                )
                wanted = [*(values @ steps), values @ values]
                np.testing.assert_allclose(sums[m], wanted, atol=1e-12)
                squares = by_reward[-1] + 2 * sums[m][D + 1] + sums[m][D + 2]
                targets = steps[:, -1] + values
                np.testing.assert_allclose(squares, targets @ targets, rtol=1e-12)


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
def test_a_history_a_partitioned_log_and_a_tally_agree(exploration):
    world, rng = masked_world(3, d=D, horizon=H), np.random.default_rng(5)
    count = 30
    states = rng.integers(0, world.states, (count, H + 1))
    chance = rng.random((count, H, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    log = [episode_of(world, *episode) for episode in zip(states, actions, strict=True)]
    history = history_of(rs.Task(dim=D, horizon=H), log=log).fold()
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:7], log[7:])]
    partitioned = LogStatistics(LocalPartitions(parts))
    tally = Tally(world.space, runs=1, pools=Pools(H), recipe=Recipe(exploration=exploration))
    for path, taken in zip(states, actions, strict=True):
        features = world.features[path[:-1], taken]
        rewards = world.rewards[np.arange(H), path[:-1], taken]
        tally.absorb(features[None], rewards[None], path[None, 1:])
    for name in ("step_sums", "reward_sums"):
        np.testing.assert_allclose(getattr(partitioned, name), getattr(history, name), atol=1e-9)
        np.testing.assert_allclose(getattr(tally, name)[0], getattr(history, name), atol=1e-9)
    recipe = Recipe(exploration=exploration, seed=2)
    drawn = recipe.perturbations(3, H, D)
    tally.fit(perturbations=None if drawn is None else drawn[None], directions=None)
    policies = [fit(each, recipe, version=3) for each in (history, partitioned)]
    for h in range(H):
        for s in range(world.states):
            rows = world.features[s][world.feasible[s]]
            found = [
                np.array([policy.member(m).q_values(h, rows) for m in range(policy.members)])
                for policy in policies
            ]
            np.testing.assert_allclose(*found, atol=1e-9)
            best = found[0].max(axis=1)
            np.testing.assert_allclose(tally.values[h, 0, :, s], best, atol=1e-9)


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
def test_where_stages_share_all_three_agree_too(exploration):
    world, rng, count = masked_world(3, d=D, horizon=H), np.random.default_rng(6), 20
    states = rng.integers(0, world.states, (count, H + 1))
    chance = rng.random((count, H, world.features.shape[1]))
    actions = (chance * world.feasible[states[:, :-1]]).argmax(axis=-1)
    log = [episode_of(world, *episode) for episode in zip(states, actions, strict=True)]
    history = history_of(rs.Task(dim=D, horizon=H, stages="shared"), log=log).fold()
    parts = [LogPartition.from_episodes(part, horizon=H) for part in (log[:7], log[7:])]
    partitioned = LogStatistics(LocalPartitions(parts), stages="shared")
    shared, recipe = Pools(H, shared=True), Recipe(exploration=exploration)
    tally = Tally(world.space, runs=1, pools=shared, recipe=recipe)
    for path, taken in zip(states, actions, strict=True):
        rewards = world.rewards[np.arange(H), path[:-1], taken]
        features = world.features[path[:-1], taken]
        tally.absorb(features[None], rewards[None], path[None, 1:])
    steps = [
        np.array([[*e.features[h], 1.0, e.rewards[h]] for e in log for h in range(last)])
        for last in (H - 1, H)
    ]
    for statistics in (history, partitioned):
        for pool in (0, 1):
            found, wanted = statistics.step_sums[pool], steps[pool].sum(axis=0)
            np.testing.assert_allclose(found, wanted, atol=1e-11)
            wanted = steps[pool][:, -1] @ steps[pool]
            np.testing.assert_allclose(statistics.reward_sums[pool], wanted, atol=1e-11)
    np.testing.assert_allclose(tally.step_sums[0], history.step_sums, atol=1e-11)
    np.testing.assert_allclose(tally.reward_sums[0], history.reward_sums, atol=1e-11)
    policy = fit(history, Recipe(exploration=exploration), version=2)
    other = fit(partitioned, Recipe(exploration=exploration), version=2)
    np.testing.assert_allclose(other.weights, policy.weights, atol=1e-9)
