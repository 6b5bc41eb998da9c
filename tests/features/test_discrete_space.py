from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features.discrete_space import Bits, Digits, Whole


@given(st.integers(1, 50), st.integers(-20, 20))
def test_whole_numbers_are_counted_from_their_start(count, start):
    space = Whole(count=count, start=start)
    assert [space.index(start + i) for i in range(count)] == list(range(count))
    for outside in (start - 1, start + count):
        with pytest.raises(ValueError, match=f"state must be from {start} to {start + count - 1};"):
            space.index(outside)


@pytest.mark.parametrize("state", [np.int8(2), np.uint64(2), np.array(2), True + True])
def test_any_whole_number_is_one(state):
    assert Whole(count=3).index(state) == 2


@pytest.mark.parametrize("state", [2.0, "2", None, [2], np.array([2, 1]), np.float64(2)])
def test_what_is_no_whole_number_is_refused(state):
    with pytest.raises(TypeError, match="state must be a whole number; got"):
        Whole(count=3).index(state)


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
        lambda: Whole(count=0),
        lambda: Digits(counts=(), starts=()),
        lambda: Digits(counts=(2, 2), starts=(0,)),
        lambda: Bits(size=0),
    ],
)
def test_a_space_must_have_a_state(make):
    with pytest.raises(ValueError, match="must be"):
        make()
