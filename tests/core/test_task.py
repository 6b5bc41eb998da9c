import dataclasses
from fractions import Fraction

import numpy as np
import pytest

import rareswitch as rs


def test_a_task_is_a_value_of_plain_numbers():
    task = rs.Task(
        dim=np.int32(3), horizon=np.int64(2), episodes=np.uint8(9), feature_norm=np.float32(2)
    )
    assert repr(task) == "Task(dim=3, horizon=2, episodes=9, feature_norm=2.0, stages='own')"
    assert [type(value) for value in vars(task).values()] == [int, int, int, float, str]
    assert task == rs.Task(dim=3, horizon=2, episodes=9, feature_norm=Fraction(2))
    assert hash(task) == hash(rs.Task(dim=3, horizon=2, episodes=9, feature_norm=2.0))
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.dim = 4


def test_a_world_is_a_task():
    world = rs.instances.hard_to_learn(d=5, horizon=3)
    task = world.task(episodes=7)
    assert (task.dim, task.horizon, task.episodes) == (world.dim, world.horizon, 7)
    assert task.feature_norm == world.feature_norm


def test_a_task_says_whether_its_stages_share_their_steps():
    own, shared = (rs.Task(dim=2, horizon=3, episodes=9, stages=s) for s in ("own", "shared"))
    assert own == rs.Task(dim=2, horizon=3, episodes=9) != shared
    assert (own.pools.count, shared.pools.count) == (3, 2)
    assert shared.pools.steps.tolist() == [2.0, 3.0]
    assert shared == dataclasses.replace(own, stages="shared")


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"dim": 0}, ValueError, "dim must be at least 1; got 0"),
        ({"dim": 2.0}, TypeError, "dim must be a whole number, at least 1; got 2.0"),
        ({"horizon": 0}, ValueError, "horizon must be at least 1; got 0"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"episodes": None}, TypeError, "episodes must be given: no budget can be guaranteed"),
        ({"episodes": 10**400}, ValueError, "episodes must be from 1 to .*401 characters"),
        ({"feature_norm": 0.0}, ValueError, "feature_norm must be .*above 0 .*got 0.0"),
        ({"feature_norm": -1.0}, ValueError, "feature_norm must be .*above 0 .*got -1.0"),
        ({"feature_norm": 1e101}, ValueError, r"feature_norm must be .*at most 1e\+100; got 1e"),
        ({"feature_norm": "1"}, TypeError, "feature_norm must be a finite number"),
        ({"stages": "each"}, ValueError, "stages must be one of 'own', 'shared'; got 'each'"),
        ({"stages": None}, ValueError, "stages must be one of 'own', 'shared'; got None"),
    ],
)
def test_a_bad_size_is_refused(changes, error, message):
    with pytest.raises(error, match=message):
        rs.Task(**{"dim": 2, "horizon": 2, "episodes": 9} | changes)
