import numpy as np
import pytest

from rareswitch.features import Masked, OneHot, WithStage
from rareswitch.trajectories import Trajectory, episode_of, episodes_of
from rareswitch.trajectories.episodes import choice_offered, offered

STEPS = {"observations": [0, 1, 2], "actions": [2, 1], "rewards": [0.0, 1.0], "terminated": False}
MASKS = np.array([[0, 1, 1], [1, 1, 0], [1, 0, 1]], bool)


def thirds(state):
    return np.eye(3) * (state + 1.0)


def test_all_rows_are_offered_where_nothing_says_otherwise():
    trajectory = Trajectory(**STEPS)
    rows, place = choice_offered(trajectory, thirds, 1)
    np.testing.assert_array_equal(rows, 2.0 * np.eye(3))
    assert place == 1
    np.testing.assert_array_equal(offered(trajectory, thirds, 2)[0], 3.0 * np.eye(3))


@pytest.mark.parametrize("t", [0, 1])
def test_masks_drop_rows_and_the_action_is_counted_among_those_left(t):
    trajectory = Trajectory(**STEPS, masks=MASKS)
    rows, place = choice_offered(trajectory, thirds, t)
    np.testing.assert_array_equal(rows, thirds(t)[MASKS[t]])
    np.testing.assert_array_equal(rows[place], thirds(t)[STEPS["actions"][t]])
    np.testing.assert_array_equal(offered(trajectory, thirds, t)[0], rows)


def test_a_feature_map_is_told_the_stage_and_says_what_is_feasible():
    table = OneHot(states=3, actions=3)
    staged = WithStage(table, horizon=2)
    trajectory = Trajectory(**STEPS)
    rows, place = choice_offered(trajectory, staged, 1)
    assert rows.tolist() == [12, 13, 14]  # one-hot, by position: 9 of stage 0, then 3 of state 0
    assert place == 1
    masked = Masked(table, lambda state: MASKS[state])
    rows, place = choice_offered(trajectory, masked, 0)
    assert (rows.tolist(), place) == ([1, 2], 1)
    # What was logged goes before what the map says.
    rows, _ = choice_offered(Trajectory(**STEPS, masks=np.ones((3, 3), bool)), masked, 0)
    assert rows.tolist() == [0, 1, 2]


def test_after_the_horizon_a_map_is_told_the_last_stage():
    asked = []

    class Recorded(OneHot):
        def __call__(self, state, h=0):
            asked.append(h)
            return super().__call__(state, h)

    table = Recorded(states=3, actions=3)
    for horizon in (2, 3, None):
        assert offered(Trajectory(**STEPS), table, 2, horizon)[0].tolist() == [6, 7, 8]
    assert asked == [1, 2, 2]


@pytest.mark.parametrize(
    ("features", "change", "message"),
    [
        (lambda state: np.eye(2), {}, "got 2 at step 0 of .*, where features has 2 rows"),
        (lambda state: np.zeros((0, 2)), {}, "features must return one row or more"),
        (lambda state: 1.0, {}, r"features must return one row .* got shape \(\) for"),
        (lambda state: np.eye(4), {"masks": MASKS}, "masks must have an entry for each of the 4"),
    ],
)
def test_what_does_not_fit_the_features_is_named(features, change, message):
    with pytest.raises(ValueError, match=message):
        choice_offered(Trajectory(**STEPS | change), features, 0)


def test_the_episode_with_a_wrong_action_is_named():
    log = [Trajectory(**STEPS | {"actions": [0, 1]}), Trajectory(**STEPS, key="ada")]
    table = OneHot(states=3, actions=2)
    with pytest.raises(ValueError, match=r"^trajectory 1 of the log: actions .* with key 'ada'"):
        list(episodes_of(log, table))
    with pytest.raises(ValueError, match=r"got 2 at step 0 of Trajectory.* with key 'ada'"):
        episode_of(log[1], table)


def test_an_action_that_the_map_forbids_is_named():
    table = Masked(OneHot(states=3, actions=3), lambda state: np.array([True, True, False]))
    with pytest.raises(ValueError, match=r"got 2 at step 0 .* and this action is not feasible"):
        choice_offered(Trajectory(**STEPS), table, 0)
