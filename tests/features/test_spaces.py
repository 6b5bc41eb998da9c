import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features.spaces import Bits, Digits, action_count, numbers, space_of


@given(st.integers(1, 50), st.integers(-20, 20))
def test_whole_numbers_are_counted_from_their_start(count, start):
    space = Digits(counts=(count,), starts=(start,))
    assert [space.index(start + i) for i in range(count)] == list(range(count))
    for outside in (start - 1, start + count):
        with pytest.raises(ValueError, match=f"state must be from {start} to {start + count - 1};"):
            space.index(outside)


@pytest.mark.parametrize(
    "state", [np.int8(2), np.uint64(2), np.array(2), True + True, [2], np.array([2])]
)
def test_any_whole_number_is_one(state):
    assert Digits(counts=(3,)).index(state) == 2


@pytest.mark.parametrize("state", [2.0, "2", None, [2.0], np.array([2, 1]), np.float64(2)])
def test_what_is_no_whole_number_is_refused(state):
    with pytest.raises(TypeError, match="state must be a whole number; got"):
        Digits(counts=(3,)).index(state)


def test_digits_run_like_the_entries_of_an_array():
    space = Digits(counts=(2, 3, 4), starts=(0, 5, -1))
    assert (space.count, space.size) == (24, 9)
    states = product((0, 1), (5, 6, 7), (-1, 0, 1, 2))
    assert [space.index(state) for state in states] == list(range(24))
    assert space.index(np.array([[1], [7], [2]])) == space.index([[1, 7, 2]]) == 23
    np.testing.assert_array_equal(space.flat((1, 6, 2)), [0, 1, 0, 1, 0, 0, 0, 0, 1])


def test_bits_are_digits_of_two_and_lie_flat_as_they_are():
    space = Bits(size=3)
    assert space.count == 8
    assert [space.index(bits) for bits in product((0, 1), repeat=3)] == list(range(8))
    assert space.index(np.array([1, 0, 1], np.int8)) == 5
    np.testing.assert_array_equal(space.flat([True, False, True]), [1.0, 0.0, 1.0])


@pytest.mark.parametrize(
    ("space", "state", "message"),
    [
        (Digits(counts=(2, 3), starts=(0, 0)), [0], "state must be 2 numbers; got"),
        (Digits(counts=(2, 3), starts=(0, 0)), [0, 3], r"state must be from 0 to 2; got 3 in \[0,"),
        (Digits(counts=(2, 3), starts=(0, 0)), 4, "state must be 2 numbers; got 4"),
        (Bits(size=2), [0, 2], r"state must hold only 0 and 1; got \[0, 2\]"),
        (Bits(size=2), [0, 0.5], "state must hold only 0 and 1"),
        (Bits(size=2), np.zeros(3), "state must be 2 numbers"),
    ],
)
def test_other_states_are_refused(space, state, message):
    with pytest.raises(ValueError, match=message):
        space.index(state)
    with pytest.raises(ValueError, match=message):
        space.flat(state)


def test_digits_that_are_no_whole_numbers_are_refused():
    with pytest.raises(TypeError, match=r"state must be a whole number; got 1\.5 in"):
        Digits(counts=(2, 3), starts=(0, 0)).index([1, 1.5])


@pytest.mark.parametrize(
    "make",
    [
        lambda: Digits(counts=(0,)),
        lambda: Digits(counts=(), starts=()),
        lambda: Digits(counts=(2, 2), starts=(0,)),
        lambda: Bits(size=0),
    ],
)
def test_a_space_must_have_a_state(make):
    with pytest.raises(ValueError, match="must be"):
        make()


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
    assert ours.ranges == ((4, 2),)
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
    with pytest.raises(TypeError, match=r"_space must be a Discrete, .*--features module:name"):
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


@pytest.mark.parametrize(
    "state",
    [
        [1, 0],
        (1.0, 0.0),
        np.array([1, 0], np.float32),
        np.array([1, 0], np.uint8),
        np.array([True, False]),
        np.array([1, 0, 9, 9])[:2],
    ],
)
def test_numbers_of_any_kind_become_floats(state):
    found = numbers(state, (2,))
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, [1.0, 0.0])


@given(st.lists(st.floats(width=64), min_size=1, max_size=30))
def test_only_finite_numbers_pass(state):
    finite = np.isfinite(state)
    if finite.all():
        np.testing.assert_array_equal(numbers(state, (len(state),)), state)
    else:
        with pytest.raises(ValueError, match=f"must be finite; got .* at index {finite.argmin()}$"):
            numbers(np.array(state), (len(state),))


def test_the_entry_is_named_in_several_axes():
    with pytest.raises(ValueError, match=r"state must be finite; got -inf at index \(1, 0\)"):
        numbers([[0, 1], [-np.inf, np.nan]], (2, 2))


@pytest.mark.parametrize("state", [1.0, [1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], []])
def test_the_shape_must_be_the_right_one(state):
    with pytest.raises(ValueError, match=r"state must have shape \(2,\); got \("):
        numbers(state, (2,))


@pytest.mark.parametrize("state", ["12", ["1", "2"], [1j, 2j], [None, 1.0], [[1.0], [1.0, 2.0]]])
def test_what_is_no_number_is_a_type_error(state):
    with pytest.raises(TypeError, match="state must be an array of"):
        numbers(state, (2,))


def test_the_largest_floats_are_numbers_too():
    largest = np.array([1.7e308, 1.7e308, -1.7e308])
    np.testing.assert_array_equal(numbers(largest, (3,)), largest)
