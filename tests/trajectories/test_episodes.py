import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.features import OneHot, WithStage
from rareswitch.trajectories import Rewards, Trajectory, episode_of

STEPS = {"observations": [0, 1, 2, 0], "actions": [1, 0, 1], "rewards": [-1.0, 0.0, 3.0]}
TABLE = OneHot(states=3, actions=2)


def rows(state):
    return np.array([[1.0, 0.0], [0.0, 1.0]]) * (state + 1.0)


def test_an_episode_has_the_rows_that_were_taken_and_all_that_were_offered_next():
    trajectory = Trajectory(**STEPS, terminated=True)
    assert episode_of(trajectory, rows, Rewards(-1.0, 3.0)) == rs.Episode(
        features=[[0, 1], [2, 0], [0, 3]],
        rewards=[0.0, 0.25, 1.0],
        next_features=[2 * np.eye(2), 3 * np.eye(2)],
        first_features=np.eye(2),
    )


def test_one_cut_off_has_the_rows_after_its_last_step_too():
    trajectory = Trajectory(**STEPS, terminated=False)
    episode = episode_of(trajectory, rows, Rewards(-1.0, 3.0))
    assert len(episode.next_features) == 3
    np.testing.assert_array_equal(episode.next_features[-1], np.eye(2))


def test_the_last_observation_of_one_that_ended_is_never_looked_at():
    steps = STEPS | {"observations": ["a", "b", "c", "gone"]}
    table = {name: rows(i) for i, name in enumerate("abc")}
    trajectory = Trajectory(**steps, terminated=True)
    assert len(episode_of(trajectory, table.__getitem__, Rewards(-1.0, 3.0))) == 3


def test_masks_drop_rows():
    masks = np.array([[0, 1], [1, 1], [0, 1], [1, 0]], bool)
    trajectory = Trajectory(**STEPS, terminated=False, masks=masks)
    episode = episode_of(trajectory, rows, Rewards(-1.0, 3.0))
    assert [len(offered) for offered in episode.next_features] == [2, 1, 1]
    np.testing.assert_array_equal(episode.features, [[0, 1], [2, 0], [0, 3]])
    np.testing.assert_array_equal(episode.next_features[1], [[0, 3]])


@pytest.mark.parametrize("terminated", [True, False])
@pytest.mark.parametrize("horizon", [1, 2, 3, 4])
def test_what_comes_after_the_horizon_is_dropped(horizon, terminated):
    trajectory = Trajectory(**STEPS, terminated=terminated)
    episode = episode_of(trajectory, TABLE, Rewards(-1.0, 3.0), horizon)
    assert len(episode) == min(horizon, 3)
    assert episode.features.tolist() == [1, 2, 5][:horizon]
    cut = horizon < 3 or not terminated
    assert len(episode.next_features) == len(episode) - 1 + cut


def test_a_map_with_stages_is_never_asked_for_one_after_the_last():
    trajectory = Trajectory(**STEPS, terminated=False)
    episode = episode_of(trajectory, WithStage(TABLE, horizon=3), Rewards(-1, 3), horizon=3)
    assert [positions.tolist() for positions in episode.next_features] == [
        [8, 9], [16, 17], [12, 13],
    ]  # fmt: skip


def test_rewards_out_of_range_are_named():
    with pytest.raises(ValueError, match=r"reward must be from 0 to 1; got -1\.0: give the range"):
        episode_of(Trajectory(**STEPS, terminated=True), rows)


def test_what_is_no_trajectory_is_named():
    with pytest.raises(TypeError, match="trajectory must be a Trajectory; got 7"):
        episode_of(7, rows)
    with pytest.raises(ValueError, match="horizon must be at least 1; got 0"):
        episode_of(Trajectory(**STEPS, terminated=True), rows, horizon=0)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=6))
def test_one_hot_and_dense_rows_teach_a_learner_the_same(steps):
    states, actions = map(list, zip(*steps, strict=True))
    trajectory = Trajectory(
        observations=[*states, 0],
        actions=actions,
        rewards=[state / 2 for state in states],
        terminated=False,
    )
    fitted = []
    for table in (TABLE, TABLE.dense()):
        learner = rs.Learner(
            rs.Task(dim=6, horizon=6, one_hot=table.one_hot),
            rs.EveryEpisode(),
            rs.Recipe.paper(beta=0.5),
            warm_start=[episode_of(trajectory, table, horizon=6)],
        )
        fitted.append([learner.policy.q_values(0, table(state)) for state in range(3)])
    np.testing.assert_allclose(*fitted, atol=1e-9)
