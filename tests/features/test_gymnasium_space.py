import subprocess
import sys

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features.gymnasium_space import action_count, space_of


def gymnasium_spaces(countable):
    leaves = [
        st.builds(lambda n, start: spaces.Discrete(n, start=start), st.integers(1, 5),
                  st.integers(-3, 3)),
        st.builds(lambda nvec, start: spaces.MultiDiscrete(nvec, start=[start] * len(nvec)),
                  st.lists(st.integers(1, 3), min_size=1, max_size=3), st.integers(-2, 2)),
        st.just(spaces.MultiDiscrete([[2, 3], [1, 2]])),
        st.builds(spaces.MultiBinary, st.sampled_from([1, 3, (2, 2), [3]])),
    ]  # fmt: skip
    if not countable:
        boxes = st.sampled_from([(2,), (1, 3), (), (2, 2, 2)])
        leaves.append(boxes.map(lambda shape: spaces.Box(-2.0, 2.0, shape)))
        leaves.append(boxes.map(lambda shape: spaces.Box(0, 255, shape, np.uint8)))
    return st.recursive(
        st.one_of(leaves),
        lambda parts: st.one_of(
            st.lists(parts, min_size=1, max_size=3).map(spaces.Tuple),
            st.dictionaries(st.sampled_from("zab"), parts, min_size=1).map(spaces.Dict),
        ),
        max_leaves=4,
    )


@given(gymnasium_spaces(countable=False), st.integers(0, 100))
def test_states_lie_flat_as_gymnasium_lays_them(space, seed):
    space.seed(seed)
    for state in (space.sample(), space.sample()):
        flat = space_of(space).flat(state)
        np.testing.assert_array_equal(flat, spaces.flatten(space, state))
        assert flat.shape == (space_of(space).size,) == (spaces.flatdim(space),)


@given(gymnasium_spaces(countable=True), st.integers(0, 100))
def test_different_states_have_different_numbers(space, seed):
    space.seed(seed)
    ours, numbered = space_of(space), {}
    for _ in range(40):
        state = space.sample()
        number = ours.index(state)
        assert 0 <= number < ours.count
        flat = spaces.flatten(space, state).tobytes()
        assert numbered.setdefault(number, flat) == flat
    assert len(set(numbered.values())) == len(numbered)


def test_a_space_with_a_box_is_not_counted():
    space = space_of(spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2,))]))
    assert space.count is None
    with pytest.raises(TypeError, match=r"state\[1\] must be countable"):
        space.index((0, [0.5, 0.5]))


class Named(spaces.Discrete):
    """A subclass of a user's."""


def test_subclasses_and_plain_spaces_are_understood():
    ours = space_of(Named(4, start=2))
    assert (ours.count, ours.start) == (4, 2)
    assert space_of(ours) is ours


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({"a": 1}, "state must be a mapping with the keys a, b; got"),
        ([1, 2], "state must be a mapping"),
        ({"a": 5, "b": (0, [0.0, 0.0])}, r"state\['a'\] must be from 0 to 2; got 5"),
        (
            {"a": 1, "b": (0, [0.0, np.nan])},
            r"state\['b'\]\[1\] must be finite; got nan at index 1",
        ),
        ({"a": 1, "b": (0, [0.0])}, r"state\['b'\]\[1\] must have shape \(2,\); got \(1,\)"),
        ({"a": 1, "b": (0,)}, r"state\['b'\] must be a tuple of 2 parts; got \(0,\)"),
    ],
)
def test_what_is_wrong_in_a_state_is_named_with_its_place(state, message):
    inner = spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (2,))])
    space = space_of(spaces.Dict(a=spaces.Discrete(3), b=inner))
    with pytest.raises(ValueError, match=message):
        space.flat(state)


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))])
def test_other_spaces_are_refused_with_what_to_do(space):
    with pytest.raises(TypeError, match=r"_space must be a Discrete, .*Custom\(function"):
        space_of(space)
    with pytest.raises(TypeError, match=r"observation_space\['x'\] must be a Discrete"):
        space_of(spaces.Dict(x=space))


@pytest.mark.parametrize("space", [None, 7, "Box", spaces.Box])
def test_what_is_no_space_is_refused(space):
    with pytest.raises(TypeError, match="observation_space must be a Discrete"):
        space_of(space)


def test_actions_are_discrete():
    assert action_count(spaces.Discrete(5, start=3)) == 5
    assert action_count(np.int64(4)) == 4
    for space in (spaces.Box(0, 1, (2,)), spaces.MultiDiscrete([2, 2]), 2.0):
        with pytest.raises(TypeError, match=r"action_space must be Discrete; got.*wrap the world"):
            action_count(space)


def test_gymnasium_and_scikit_learn_are_not_imported():
    code = (
        "import sys, rareswitch.features\n"
        "assert not {'gymnasium', 'sklearn', 'scipy'} & set(sys.modules), 'imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
