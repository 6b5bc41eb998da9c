import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.core import row_sets as module
from rareswitch.core.row_sets import row_sets


def literal(rows, lengths):
    ends = np.cumsum(lengths)
    states = (rows[end - length : end] for end, length in zip(ends, lengths, strict=True))
    return [b"".join(sorted({(row + 0.0).tobytes() for row in state})) for state in states]


@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, 4), max_size=8) | st.lists(st.sampled_from([0, 3]), max_size=8),
    st.integers(1, 3),
    st.sampled_from([1, 2, 1000]),
)
def test_a_state_is_the_sorted_set_of_its_rows_however_many_there_are(seed, lengths, dim, values):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal(values)[rng.integers(values, size=(sum(lengths), dim))]
    rows = np.where(rng.random(rows.shape) < 0.3, rng.choice([0.0, -0.0], rows.shape), rows)
    found = []
    for many in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "MANY", many)
            found.append(row_sets(rows, lengths))
    assert found[0] == found[1] == literal(rows, lengths)


def test_many_states_are_as_few():
    rows = np.random.default_rng(0).standard_normal((400, 5))
    lengths = [4, 0] * 100
    assert row_sets(rows, lengths) == literal(rows, lengths)
