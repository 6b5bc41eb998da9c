import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import cheap
from rareswitch.core.task import Pools, checked_task, planned_episodes

HORIZONS = range(1, 7)


def test_a_task_is_a_value_of_plain_numbers():
    task = rs.Task(
        dim=np.int32(3), horizon=np.int64(2), episodes=np.uint8(9), feature_norm=np.float32(2)
    )
    assert repr(task) == "Task(dim=3, horizon=2, episodes=9, feature_norm=2.0)"
    types = [type(getattr(task, field.name)) for field in dataclasses.fields(task)]
    assert rs.Task(dim=6, horizon=1, blocks=np.int64(2)).block_size == 3
    assert types == [int, int, int, float, str, bool, float, int]
    assert task == rs.Task(dim=3, horizon=2, episodes=9, feature_norm=Fraction(2))
    assert hash(task) == hash(rs.Task(dim=3, horizon=2, episodes=9, feature_norm=2.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.dim = 4


def test_a_task_is_the_same_after_its_pools_were_read_and_after_a_pickle():
    task, other = (rs.Task(dim=3, horizon=2, stages="shared") for _ in range(2))
    assert task.pools is task.pools
    assert task == other
    assert hash(task) == hash(other)
    again = pickle.loads(pickle.dumps(task))
    assert again == task
    assert again.pools.steps.tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "task",
    [
        rs.Task(dim=3, horizon=2),
        rs.Task(dim=3, horizon=2, episodes=9),
        rs.Task(dim=3, horizon=2, feature_norm=2.5, stages="shared", end_reward=0.25),
        rs.Task(dim=3, horizon=2, one_hot=True, stages="auto"),
    ],
    ids=repr,
)
def test_the_repr_of_a_task_is_the_code_that_makes_it_without_defaults(task):
    assert eval(repr(task), {"Task": rs.Task}) == task
    for field in dataclasses.fields(task):
        is_default = getattr(task, field.name) == field.default
        assert (f"{field.name}=" in repr(task)) is not is_default


def test_an_open_ended_task_has_no_number_of_episodes():
    task = rs.Task(dim=3, horizon=2)
    assert task.episodes is None
    with pytest.raises(
        ValueError, match="task must have episodes: a grid needs their number K; got an open-ended"
    ):
        planned_episodes(task, "a grid")
    assert planned_episodes(dataclasses.replace(task, episodes=7), "a grid") == 7


@pytest.mark.parametrize("given", [None, 3, "task", rs.Task, {"dim": 2, "horizon": 3}], ids=repr)
def test_what_is_no_task_is_refused(given):
    with pytest.raises(TypeError, match="task must be a Task; got "):
        checked_task(given)
    with pytest.raises(TypeError, match="task must be a Task; got "):
        planned_episodes(given, "a grid")


def test_a_world_is_a_task():
    world = rs.worlds.hard_to_learn(d=5, horizon=3)
    task = world.task(episodes=7)
    assert (task.dim, task.horizon, task.episodes) == (world.dim, world.horizon, 7)
    assert task.feature_norm == world.feature_norm
    assert task.stages == "own"
    assert world.task(episodes=7, stages="shared") == dataclasses.replace(task, stages="shared")


def test_a_task_says_whether_its_stages_share_their_steps():
    own, shared = (rs.Task(dim=2, horizon=3, episodes=9, stages=s) for s in ("own", "shared"))
    assert own == rs.Task(dim=2, horizon=3, episodes=9) != shared
    assert (own.pools.count, shared.pools.count) == (3, 2)
    assert shared.pools.steps.tolist() == [2.0, 3.0]
    assert shared == dataclasses.replace(own, stages="shared")
    auto = dataclasses.replace(own, stages="auto")
    assert auto.pools.shared
    assert auto.chooses_stages
    assert not dataclasses.replace(auto, horizon=2).pools.shared


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim must be at least 1; got 0"),
        ({"dim": 2.0}, TypeError, "dim must be a whole number, at least 1; got 2.0"),
        ({"horizon": 0}, ValueError, "horizon must be from 1 to 1000000; got 0"),
        ({"horizon": 2.0}, TypeError, "horizon must be a whole number"),
        ({"horizon": 10**7}, ValueError, "horizon must be from 1 to 1000000; got 10000000"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"episodes": 9.0}, TypeError, "episodes must be a whole number, at least 1; got 9.0"),
        ({"episodes": 10**400}, ValueError, "episodes must be from 1 to .*401 characters"),
        ({"feature_norm": 0.0}, ValueError, "feature_norm must be .*above 0 .*got 0.0"),
        ({"feature_norm": -1.0}, ValueError, "feature_norm must be .*above 0 .*got -1.0"),
        ({"feature_norm": 1e101}, ValueError, r"feature_norm must be .*at most 1e\+100; got 1e"),
        ({"feature_norm": "1"}, TypeError, "feature_norm must be a finite number"),
        (
            {"stages": "each"},
            ValueError,
            "stages must be one of 'auto', 'own', 'shared'; got 'each'",
        ),
        ({"stages": None}, ValueError, "stages must be one of 'auto', 'own', 'shared'; got None"),
        ({"stages": True}, ValueError, "stages must be one of 'auto', 'own', 'shared'; got True"),
        ({"feature_norm": math.nan}, ValueError, "feature_norm must be a finite number"),
        ({"one_hot": 1}, TypeError, "one_hot must be True or False; got 1"),
        ({"end_reward": -0.1}, ValueError, "end_reward must be .*at least 0 and at most 1; got -0"),
        ({"end_reward": 1.5}, ValueError, "end_reward must be .*at most 1; got 1.5"),
        ({"end_reward": True}, TypeError, "end_reward must be a finite number"),
        (
            {"one_hot": True, "feature_norm": 0.5},
            ValueError,
            "feature_norm must be at least 1, the length of a one-hot feature; got 0.5",
        ),
        ({"blocks": 0}, ValueError, "blocks must be"),
        ({"dim": 6, "blocks": 4}, ValueError, "blocks must divide dim = 6; got 4"),
        ({"dim": 6, "blocks": 12}, ValueError, "blocks must be .*; got 12"),
        (
            {"dim": 6, "blocks": 3, "one_hot": True},
            ValueError,
            "blocks must be 1 for one-hot features; got 3",
        ),
    ],
)
def test_a_bad_size_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        rs.Task(**{"dim": 2, "horizon": 2, "episodes": 9} | changes)


def pools_of(horizon, stages):
    return rs.Task(dim=1, horizon=horizon, stages=stages).pools


def stages_by_pool(horizon, stages):
    """Return the stages of each pool, and the pool of each stage, as the documentation says."""
    if stages == "own" or horizon == 1:
        return [[h] for h in range(horizon)], list(range(horizon))
    return [list(range(horizon - 1)), list(range(horizon))], [0] * (horizon - 1) + [1]


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_all_stages_but_the_last_share_one_pool_and_the_last_learns_from_every_step(
    horizon, stages
):
    pools = pools_of(horizon, stages)
    having, learning = stages_by_pool(horizon, stages)
    assert pools.count == len(having)
    assert [pools.index(h) for h in range(horizon)] == learning
    assert [list(pools.stages(p)) for p in range(pools.count)] == having
    assert pools.steps.tolist() == [len(stages) for stages in having]
    assert [np.flatnonzero(row).tolist() for row in pools.contains] == having
    assert pools.shared is (stages == "shared" and horizon > 1)
    for h in range(horizon):  # a stage learns from its own steps, whatever else
        assert h in having[pools.index(h)]


def test_a_single_stage_has_nothing_to_share():
    own, shared = Pools(1), Pools(1, shared=True)
    assert (own.count, own.index(0), own.steps.tolist()) == (1, 0, [1.0])
    assert (shared.count, shared.index(0), shared.steps.tolist()) == (1, 0, [1.0])
    assert not shared.shared


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("horizon", HORIZONS)
def test_the_steps_of_an_episode_have_a_place_in_each_pool_that_has_their_stage(horizon, stages):
    having, _ = stages_by_pool(horizon, stages)
    for steps in range(1, horizon + 1):
        pool, step = pools_of(horizon, stages).places(steps)
        wanted = [(p, h) for p, its in enumerate(having) for h in its if h < steps]
        assert sorted(zip(pool.tolist(), step.tolist(), strict=True)) == sorted(wanted)


@given(
    st.integers(1, 5), st.sampled_from(["own", "shared"]), st.lists(st.integers(1, 3), max_size=2)
)
def test_sums_over_a_pool_are_those_over_its_stages(horizon, stages, leading):
    having, _ = stages_by_pool(horizon, stages)
    by_stage = np.random.default_rng(horizon).random((*leading, horizon, 4))
    found = pools_of(horizon, stages).sum_stages(by_stage)
    for pool, its in enumerate(having):
        np.testing.assert_allclose(found[..., pool, :], by_stage[..., its, :].sum(axis=-2))
    assert found.shape == (*leading, len(having), 4)


@given(
    st.integers(1, 5),
    st.sampled_from(["own", "shared"]),
    st.lists(st.integers(1, 3), max_size=2),
    st.integers(1, 3),
    st.data(),
)
def test_a_pool_has_all_steps_of_its_stages_and_else_nothing(horizon, stages, leading, each, data):
    played = data.draw(st.integers(1, horizon))
    having, _ = stages_by_pool(horizon, stages)
    steps = np.random.default_rng(horizon).random((*leading, played, each, 2))
    found = pools_of(horizon, stages).spread(steps)
    if not pools_of(horizon, stages).shared:
        assert found is steps
        return
    for pool, its in enumerate(having):
        kept = found[..., pool, :, :]
        inside = kept.any(axis=tuple({*range(kept.ndim)} - {kept.ndim - 2}))
        wanted = [steps[..., h, :, :] for h in its if h < played]
        assert int(inside.sum()) == each * len(wanted)
        if wanted:
            np.testing.assert_array_equal(kept[..., inside, :], np.concatenate(wanted, axis=-2))


def test_long_horizons_cost_no_more_than_their_length():
    with cheap(megabytes=20.0, seconds=30.0):
        own = Pools(100_000)
        assert own.steps.sum() == 100_000
        pool, step = own.places(70_000)
        assert (pool == step).all()
        assert len(pool) == 70_000
        assert list(own.stages(99_999)) == [99_999]
        shared = Pools(100_000, shared=True)
        assert shared.steps.tolist() == [99_999, 100_000]
        assert len(shared.places(100_000)[0]) == 199_999


def test_the_arrays_of_pools_cannot_be_changed():
    for pools in (Pools(3), Pools(3, shared=True)):
        for array in (pools.steps, pools.contains):
            with pytest.raises(ValueError, match="read-only"):
                array[:] = 0.0
