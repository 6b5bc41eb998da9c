import numpy as np
import pytest
from feature_examples import SAMPLE

from rareswitch.features import Standardised


def test_the_sample_has_mean_0_and_deviation_1():
    values = Standardised.fit(SAMPLE).many(SAMPLE)
    np.testing.assert_allclose(values.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(values.std(axis=0), 1.0, rtol=1e-12)


def test_values_are_clipped_on_both_sides():
    scaled = Standardised(mean=[1.0, 2.0], scale=[2.0, 0.5], clip=1.5)
    np.testing.assert_array_equal(scaled([2.0, 2.5]), [0.5, 1.0])
    np.testing.assert_array_equal(scaled([1e300, -1e300]), [1.5, -1.5])
    assert scaled.norm == 1.5 * np.sqrt(2)


def test_a_constant_column_is_only_centred():
    scaled = Standardised.fit([[1.0, 0.1], [3.0, 0.1], [2.0, 0.1]])
    np.testing.assert_allclose(scaled([2.0, 0.4]), [0.0, 0.3])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mean": [0.0], "scale": [0.0]}, r"scale must be above 0; got 0\.0 at 0"),
        ({"mean": [0.0, 0.0], "scale": [1.0, -2.0]}, r"scale must be above 0; got -2\.0 at 1"),
        ({"mean": [0.0], "scale": [1.0, 1.0]}, r"scale must have shape \(1,\)"),
        ({"mean": [], "scale": []}, "mean must have at least one entry"),
        ({"mean": [np.nan], "scale": [1.0]}, "mean must be finite"),
        ({"mean": [0.0], "scale": [1.0], "clip": 0.0}, "clip must be a finite number above 0"),
    ],
)
def test_arguments_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        Standardised(**arguments)


@pytest.mark.parametrize("sample", [[1.0, 2.0], [[1.0, np.inf]]])
def test_the_sample_is_checked(sample):
    with pytest.raises(ValueError, match="sample must"):
        Standardised.fit(sample)
