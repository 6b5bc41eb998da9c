import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from trajectory_strategies import logs

from rareswitch.trajectories import Trajectory

GOOD = {"observations": [0, 1, 2], "actions": [1, 0], "rewards": [0.5, -3.0], "terminated": True}


def test_it_keeps_what_it_was_given_in_arrays_that_nobody_writes_to():
    rewards = np.array([0.5, -3.0])
    trajectory = Trajectory(**GOOD | {"rewards": rewards})
    rewards[0] = 9.0
    assert (len(trajectory), trajectory.total) == (2, -2.5)
    assert trajectory.observations.dtype == trajectory.actions.dtype == np.int64
    for array in (trajectory.observations, trajectory.actions, trajectory.rewards):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert repr(trajectory) == "Trajectory(2 steps, return -2.5, ended)"
    assert repr(Trajectory(**GOOD | {"terminated": False})).endswith("cut off)")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": []}, "actions must be a list of whole numbers; got float64"),
        ({"actions": np.zeros(0, int)}, "actions must not be empty"),
        ({"actions": [0.0, 1.0]}, "actions must be a list of whole numbers; got float64"),
        ({"actions": [True, False]}, "actions must be a list of whole numbers; got bool"),
        ({"actions": [[0, 1]]}, r"actions must be .* got int64 of shape \(1, 2\)"),
        ({"actions": np.ma.array([0, 1])}, "actions must be a list of whole numbers"),
        ({"actions": [0, -1]}, "actions must be 0 or more; got -1 at step 1"),
        ({"actions": [2**40, 0]}, "actions must count rows of features; got 1099511627776"),
        ({"observations": [0, 1]}, "observations must be 3 for 2 actions.*; got 2"),
        ({"observations": [0, 1, 2, 3]}, "observations must be 3 for 2 actions.*; got 4"),
        ({"observations": 7}, "observations must be a list or an array; got 7"),
        ({"rewards": [0.0]}, r"rewards must have shape \(2,\); got \(1,\)"),
        ({"rewards": [0.0, np.nan]}, r"rewards must be finite; got nan at index \(1,\)"),
        ({"terminated": 1}, "terminated must be True or False; got 1"),
        ({"propensities": [0.5]}, r"propensities must have shape \(2,\)"),
        ({"propensities": [0.5, 0.0]}, "propensities must be above 0 and .*; got 0.0 at step 1"),
        ({"propensities": [1.5, 1.0]}, "propensities must be .* at most 1; got 1.5 at step 0"),
        ({"propensities": [0.5, np.nan]}, "propensities must be finite"),
        ({"masks": [[True, True]] * 2}, "masks must be 3 for 2 actions.*; got 2"),
        ({"masks": [[1, 2]] * 3}, "masks must be True or False, or 1 or 0"),
        ({"masks": [[-1, 1]] * 3}, "masks must be True or False, or 1 or 0"),
        ({"masks": [[1.0, 1.0]] * 3}, "masks must be True or False, or 1 or 0"),
        ({"masks": [True] * 3}, "masks must be True or False"),
        ({"masks": [[True], [True, False], [True]]}, "masks must be True or False"),
        (
            {"masks": [[True]] * 3},
            "masks must have an entry for every action; got 1 entries, and action 1",
        ),
        ({"masks": [[True, False]] * 3}, "action 1 is not feasible at step 0"),
        ({"version": 0}, "version must be at least 1; got 0"),
        ({"member": -1}, "member must be at least 0; got -1"),
        ({"key": ""}, "key must name the episode; got an empty text"),
        ({"key": 1.5}, "key must be a whole number"),
    ],
)
def test_what_is_wrong_is_named(change, message):
    with pytest.raises((TypeError, ValueError), match=message):
        Trajectory(**GOOD | change)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_masks_of_ones_and_zeros_are_masks(dtype):
    masks = [[True, True], [True, False], [False, True]]
    found = Trajectory(**GOOD, masks=np.array(masks, dtype))
    assert found == Trajectory(**GOOD, masks=masks)
    assert found.masks.dtype == bool


def test_after_its_end_nothing_needs_to_be_feasible_and_after_a_cut_something_does():
    masks = [[True, True], [True, False], [False, False]]
    assert not Trajectory(**GOOD, masks=masks).masks[-1].any()
    with pytest.raises(ValueError, match="masks must allow an action after the last step unless"):
        Trajectory(**GOOD | {"masks": masks, "terminated": False})


def test_what_comes_after_some_steps_can_be_cut_off():
    whole = Trajectory(
        **GOOD, propensities=[0.5, 0.25], masks=np.ones((3, 2), bool), version=3, member=1, key="a"
    )
    first = whole.until(1)
    assert first == Trajectory(
        observations=[0, 1], actions=[1], rewards=[0.5], terminated=False, propensities=[0.5],
        masks=np.ones((2, 2), bool), version=3, member=1, key="a",
    )  # fmt: skip
    assert whole.until(2) is whole
    assert whole.until(9) is whole
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        whole.until(0)


CHANGES = [
    {"observations": [0, 1, 3]}, {"actions": [1, 1]}, {"rewards": [0.5, -3.5]},
    {"terminated": False}, {"propensities": [1.0, 1.0]}, {"masks": np.ones((3, 2), bool)},
    {"version": 1}, {"member": 0}, {"key": "a"},
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
def test_trajectories_that_differ_anywhere_are_not_equal(change):
    assert Trajectory(**GOOD) == Trajectory(**GOOD)
    assert hash(Trajectory(**GOOD)) == hash(Trajectory(**GOOD))
    assert Trajectory(**GOOD) != Trajectory(**GOOD | change)
    assert Trajectory(**GOOD) != "text"


@given(logs(most=2), st.integers(1, 5))
def test_cutting_and_copying_keep_what_is_there(log, steps):
    for trajectory in log:
        cut = trajectory.until(steps)
        assert len(cut) == min(steps, len(trajectory))
        assert cut.rewards.tolist() == trajectory.rewards.tolist()[:steps]
        assert copy.deepcopy(trajectory) == trajectory
