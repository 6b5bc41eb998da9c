import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features.observation import numbers


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
