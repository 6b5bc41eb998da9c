import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.core.growing import Growing


@given(st.lists(st.integers(0, 40), max_size=15), st.sampled_from([(), (2,), (3, 2)]))
def test_what_was_added_is_there_in_order(sizes, shape):
    rng = np.random.default_rng(0)
    grown, parts = Growing(np.zeros((0, *shape))), [np.zeros((0, *shape))]
    for size in sizes:
        parts.append(rng.random((size, *shape)))
        grown.extend(parts[-1])
        np.testing.assert_array_equal(grown.array, np.concatenate(parts))
        assert grown.count == len(grown.array)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_numbers_keep_their_kind(dtype):
    grown = Growing(np.zeros(0, dtype))
    assert grown.array.dtype == dtype
    grown.extend(np.arange(5, dtype=dtype))
    assert grown.array.dtype == dtype
    assert grown.array.tolist() == [0, 1, 2, 3, 4]


def test_rows_taken_back_are_written_over():
    grown = Growing(np.zeros(0))
    grown.extend(np.arange(6.0))
    grown.count = 2
    assert grown.array.tolist() == [0.0, 1.0]
    grown.extend(np.array([9.0, 8.0]))
    assert grown.array.tolist() == [0.0, 1.0, 9.0, 8.0]
    grown.count = 0
    assert grown.array.tolist() == []


def test_rows_may_be_changed_in_place():
    grown = Growing(np.zeros((0, 2)))
    grown.extend(np.ones((3, 2)))
    grown.array[1] += 4.0
    grown.extend(np.ones((9, 2)))  # more than there was room for
    assert grown.array[:4].tolist() == [[1.0, 1.0], [5.0, 5.0], [1.0, 1.0], [1.0, 1.0]]


def test_growing_moves_a_row_a_bounded_number_of_times():
    grown, moved, last = Growing(np.zeros(0)), 0, None
    for k in range(5000):
        grown.extend(np.array([float(k)]))
        base = grown.array.base
        moved += grown.count if base is not last else 0
        last = base
    assert moved < 3 * 5000
