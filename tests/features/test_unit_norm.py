import numpy as np
import pytest
from feature_examples import SAMPLE, bases
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import ActionBlocks, Custom, Identity, OneHot, UnitNorm, UnitRows

VECTORS = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=2)


@given(VECTORS, st.floats(1e-3, 1e3))
def test_no_feature_is_longer_than_1_and_short_ones_keep_their_proportion(x, bound):
    values, length = UnitNorm(inputs=2, bound=bound)(x), float(np.linalg.norm(x))
    assert np.linalg.norm(values) <= 1.0 + 1e-12
    np.testing.assert_allclose(values, np.array(x) / max(bound, length), rtol=1e-12)


def test_the_bound_is_measured_or_known():
    assert UnitNorm.fit([[3.0, 4.0], [0.0, 1.0]]).bound == 5.0
    assert UnitNorm.fit([[3.0, 4.0], [0.0, 1.0]]).name == "divided by L = 5"
    for basis in bases().values():
        if np.isfinite(basis.norm):
            unit = basis.then(UnitNorm(inputs=basis.size, bound=basis.norm))
            assert unit.norm == 1.0
            np.testing.assert_allclose(unit(SAMPLE[0]) * basis.norm, basis(SAMPLE[0]), rtol=1e-12)


@pytest.mark.parametrize("sample", [np.zeros((2, 2)), np.zeros((0, 2))])
def test_a_bound_needs_something_to_measure(sample):
    with pytest.raises(ValueError, match="sample must have a row that is not 0"):
        UnitNorm.fit(sample)
    with pytest.raises(ValueError, match="states must have a row that is not 0"):
        UnitRows.measured(ActionBlocks(Identity(inputs=2), actions=2), sample)


@given(VECTORS, st.floats(1e-3, 1e3))
def test_rows_are_divided_each_by_itself(x, bound):
    raw = Custom(lambda state: np.array([state, [0.0, 0.5], [0.0, 0.0]]), actions=3, dim=2)
    rows, expected = UnitRows(raw, bound=bound)(x), raw(x)
    for row, given_row in zip(rows, expected, strict=True):
        length = max(bound, float(np.linalg.norm(given_row)))
        np.testing.assert_allclose(row, given_row / length, rtol=1e-12)


def test_rows_know_their_bound():
    raw = ActionBlocks(Identity(inputs=2), actions=2)
    assert UnitRows.measured(raw, [[3.0, 4.0], [1.0, 1.0]]).bound == 5.0
    assert UnitRows(raw, bound=2.0).norm == 1.0
    short = Custom(lambda state: np.eye(2), actions=2, dim=2, norm=1.0)
    assert UnitRows(short, bound=4.0).norm == 0.25


def test_one_hot_rows_need_no_division():
    with pytest.raises(ValueError, match="map must have rows of floats"):
        UnitRows(OneHot(states=2, actions=2), bound=1.0)
