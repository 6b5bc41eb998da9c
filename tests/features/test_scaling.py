import numpy as np
import pytest
from feature_examples import SAMPLE, bases
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import (
    ActionBlocks,
    Custom,
    OneHot,
    Polynomial,
    Scaling,
    UnitNorm,
    UnitRows,
)


def test_the_sample_has_mean_0_and_deviation_1():
    values = Scaling.standard(SAMPLE).many(SAMPLE)
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(values.std(axis=0), 1.0, rtol=1e-12)


def test_values_are_clipped_on_both_sides():
    scaled = Scaling(origin=[1.0, 2.0], unit=[2.0, 0.5], low=-1.5, high=1.5)
    np.testing.assert_array_equal(scaled([2.0, 2.5]), [0.5, 1.0])
    np.testing.assert_array_equal(scaled([1e300, -1e300]), [1.5, -1.5])
    assert scaled.norm == 1.5 * np.sqrt(2)


def test_a_constant_column_is_only_centred():
    scaled = Scaling.standard([[1.0, 0.1], [3.0, 0.1], [2.0, 0.1]])
    np.testing.assert_allclose(scaled([2.0, 0.4]), [0.0, 0.3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"origin": [0.0], "unit": [0.0]}, r"unit must be above 0; got 0\.0 at 0"),
        ({"origin": [0.0, 0.0], "unit": [1.0, -2.0]}, r"unit must be above 0; got -2\.0 at 1"),
        ({"origin": [0.0], "unit": [1.0, 1.0]}, r"unit must have shape \(1,\)"),
        ({"origin": [], "unit": []}, "origin must not be empty"),
        ({"origin": [np.nan], "unit": [1.0]}, "origin must be finite"),
        (
            {"origin": [0.0], "unit": [1.0], "low": 1.0, "high": 1.0},
            "high must be a finite number above 1",
        ),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Scaling(**arguments)


@pytest.mark.parametrize("sample", [[1.0, 2.0], [[1.0, np.inf]]])
def test_the_sample_is_checked(sample):
    with pytest.raises(ValueError, match="sample must"):
        Scaling.standard(sample)


def test_the_clip_is_checked():
    with pytest.raises(ValueError, match="clip must be a finite number above 0"):
        Scaling.standard(SAMPLE, clip=0.0)


def test_one_end_is_enough():
    above = Scaling(origin=[1.0], unit=[2.0], low=0.0)
    assert above.name == "scaled to [0, ∞]"
    np.testing.assert_array_equal(above.many([[-9.0], [9.0]]), [[0.0], [4.0]])
    assert above.norm == np.inf
    assert Scaling(origin=[1.0], unit=[2.0], high=0.0).name == "scaled to [−∞, 0]"


def test_numbers_far_from_0_keep_their_digits():
    found = Scaling.standard([[1e12], [1e12 + 2.0]])([1e12 + 1.5])
    np.testing.assert_allclose(found, [0.5], rtol=1e-12)


def test_the_sample_fills_the_range():
    values = Scaling.min_max(SAMPLE).many(SAMPLE)
    np.testing.assert_allclose(values.min(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(values.max(axis=0), 1.0, atol=1e-12)


def test_clipping_is_a_choice():
    far = SAMPLE.max(axis=0) + np.array([1.0, -1e9, 0.0])
    np.testing.assert_allclose(Scaling.min_max(SAMPLE)(far), [1.0, 0.0, 1.0], atol=1e-12)
    free = Scaling.min_max(SAMPLE, clip=False)(far)
    assert free[0] > 1.0
    assert free[1] < -1e6


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.0, 1.0))
def test_known_ends_become_0_and_1(low, width, share):
    scaled = Scaling.between([low], [low + width])
    ends = [scaled([low])[0], scaled([low + width])[0], scaled([low + share * width])[0]]
    np.testing.assert_allclose(ends, [0.0, 1.0, share], atol=1e-12 + 1e-15 * abs(low) / width)


@pytest.mark.parametrize("ends", [([0.0, 1.0], [1.0, 1.0]), ([0.0, 2.0], [1.0, 1.0])])
def test_ends_must_be_in_order(ends):
    with pytest.raises(ValueError, match=r"highest must be above lowest.* at 1"):
        Scaling.between(*ends)


def test_ends_must_be_within_what_a_float_can_hold():
    with pytest.raises(ValueError, match="highest must be above lowest, within"):
        Scaling.between([-1.7e308], [1.7e308])
    with pytest.raises(ValueError, match="highest must be finite"):
        Scaling.between([0.0], [np.inf])


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
    with pytest.raises(ValueError, match="sample must have a nonzero row"):
        UnitNorm.fit(sample)
    with pytest.raises(ValueError, match="states must have a nonzero row"):
        UnitRows.measured(
            ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=2), sample
        )


@given(VECTORS, st.floats(1e-3, 1e3))
def test_rows_are_divided_each_by_itself(x, bound):
    raw = Custom(lambda state: np.array([state, [0.0, 0.5], [0.0, 0.0]]), actions=3, dim=2)
    rows, expected = UnitRows(raw, bound=bound)(x), raw(x)
    for row, given_row in zip(rows, expected, strict=True):
        length = max(bound, float(np.linalg.norm(given_row)))
        np.testing.assert_allclose(row, given_row / length, rtol=1e-12)


def test_rows_know_their_bound():
    raw = ActionBlocks(Polynomial(inputs=2, degree=1, constant=False), actions=2)
    assert UnitRows.measured(raw, [[3.0, 4.0], [1.0, 1.0]]).bound == 5.0
    assert UnitRows(raw, bound=2.0).norm == 1.0
    short = Custom(lambda state: np.eye(2), actions=2, dim=2, norm=1.0)
    assert UnitRows(short, bound=4.0).norm == 0.25


def test_one_hot_rows_need_no_division():
    with pytest.raises(ValueError, match="map must have rows of floats"):
        UnitRows(OneHot(states=2, actions=2), bound=1.0)
