import numpy as np
import pytest
from feature_examples import SAMPLE
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import MinMax


def test_the_sample_fills_the_range():
    values = MinMax.fit(SAMPLE).many(SAMPLE)
    np.testing.assert_allclose(values.min(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(values.max(axis=0), 1.0, atol=1e-12)


def test_clipping_is_a_choice():
    far = SAMPLE.max(axis=0) + np.array([1.0, -1e9, 0.0])
    np.testing.assert_allclose(MinMax.fit(SAMPLE)(far), [1.0, 0.0, 1.0], atol=1e-12)
    free = MinMax.fit(SAMPLE, clip=False)(far)
    assert free[0] > 1.0
    assert free[1] < -1e6


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0.0, 1.0))
def test_known_ends_become_0_and_1(low, width, share):
    scaled = MinMax.between([low], [low + width])
    ends = [scaled([low])[0], scaled([low + width])[0], scaled([low + share * width])[0]]
    np.testing.assert_allclose(ends, [0.0, 1.0, share], atol=1e-12 + 1e-15 * abs(low) / width)


@pytest.mark.parametrize("ends", [([0.0, 1.0], [1.0, 1.0]), ([0.0, 2.0], [1.0, 1.0])])
def test_ends_must_be_in_order(ends):
    with pytest.raises(ValueError, match=r"highest must be above lowest.* at 1"):
        MinMax.between(*ends)


def test_ends_must_be_within_what_a_float_can_hold():
    with pytest.raises(ValueError, match="highest must be above lowest, within"):
        MinMax.between([-1.7e308], [1.7e308])
    with pytest.raises(ValueError, match="highest must be finite"):
        MinMax.between([0.0], [np.inf])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": [], "shift": []}, "scale must have at least one entry"),
        ({"scale": [1.0, 0.0], "shift": [0.0, 0.0]}, r"scale must be above 0; got 0\.0 at 1"),
        ({"scale": [1.0], "shift": [0.0], "low": 1.0}, "high must be a finite number above 1"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        MinMax(**arguments)
