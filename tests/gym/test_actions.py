"""Actions that are not numbered are listed: every combination, or levels of real numbers."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.gym.setting import LEVELS, MOST_ACTIONS, listed_actions


def test_actions_numbered_from_0_need_no_list():
    assert listed_actions(Discrete(4)) is None
    assert listed_actions(Discrete(4, start=-2)) == [-2, -1, 0, 1]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(-3, 3))
def test_every_combination_of_choices_is_listed_once(counts, start):
    space = MultiDiscrete(counts, start=[start] * len(counts))
    actions = listed_actions(space)
    assert len(actions) == np.prod(counts)
    assert len({action.tobytes() for action in actions}) == len(actions)
    for action in actions:
        assert space.contains(action)
        assert action.dtype == space.dtype


def test_combinations_count_like_digits():
    found = [action.tolist() for action in listed_actions(MultiDiscrete([2, 3]))]
    assert found == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]


@pytest.mark.parametrize(
    "space", [MultiBinary(3), MultiBinary([2, 2]), MultiDiscrete([[2, 2], [1, 3]])]
)
def test_shapes_are_those_of_the_space(space):
    actions = listed_actions(space)
    assert all(space.contains(action) for action in actions)
    assert len({action.tobytes() for action in actions}) == len(actions)


def test_bits_are_all_listed():
    found = {tuple(action.tolist()) for action in listed_actions(MultiBinary(2))}
    assert found == {(0, 0), (0, 1), (1, 0), (1, 1)}


@given(st.integers(2, 9), st.floats(-5.0, 0.0), st.floats(0.5, 5.0))
def test_levels_go_from_the_lowest_to_the_highest(levels, low, width):
    space = Box(np.float32(low), np.float32(low + width), (1,))
    actions = listed_actions(space, levels)
    assert len(actions) == levels
    assert all(space.contains(action) for action in actions)
    assert (actions[0], actions[-1]) == (space.low, space.high)
    steps = np.diff(np.concatenate(actions))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-3)


def test_several_numbers_are_levelled_each():
    space = Box(np.array([-2.0, 0.0]), np.array([2.0, 1.0]), dtype=np.float64)
    actions = listed_actions(space)
    assert len(actions) == LEVELS**2
    assert {action[0] for action in actions} == {-2.0, -1.0, 0.0, 1.0, 2.0}
    assert {action[1] for action in actions} == {0.0, 0.25, 0.5, 0.75, 1.0}
    assert all(space.contains(action) for action in actions)


@pytest.mark.parametrize(
    ("space", "error", "message"),
    [
        (Box(-np.inf, 1.0, (2,)), ValueError, "actions must be given for an action space without"),
        (Box(0.0, np.inf, (1,)), ValueError, "without bounds; got Box"),
        (Box(0.0, 1.0, (5,)), ValueError, "all combinations are 3125, more than 1000"),
        (MultiBinary(10), ValueError, "all combinations are 1024, more than 1000"),
        (MultiDiscrete([11, 100]), ValueError, "all combinations are 1100, more than 1000"),
        (MultiDiscrete([10**6] * 4), ValueError, "all combinations are 10{24}, more than 1000"),
        (MultiBinary(80), ValueError, "all combinations are 1208925819614629174706176, more"),
        (Dict(a=Discrete(2)), TypeError, "action_space must be Discrete, MultiDiscrete, MultiBin"),
        (Tuple((Discrete(2),)), TypeError, "or actions must be given as a list; got Tuple"),
        (Text(3), TypeError, "action_space must be Discrete"),
        (None, TypeError, "got None"),
    ],
)
def test_what_cannot_be_listed_is_refused_with_a_reason(space, error, message):
    with pytest.raises(error, match=message):
        listed_actions(space)


def test_as_many_as_may_be_are_listed():
    assert len(listed_actions(MultiDiscrete([10, 100]))) == MOST_ACTIONS


@pytest.mark.parametrize("levels", [1, 0, -3, 2.5, True])
def test_levels_must_be_two_or_more(levels):
    with pytest.raises((TypeError, ValueError), match="levels must be"):
        listed_actions(Box(0.0, 1.0, (1,)), levels)
