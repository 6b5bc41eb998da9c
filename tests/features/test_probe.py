import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from rareswitch.features.probe import behaviour, name_of

VALUES = arrays(np.float64, (3, 2), elements=st.floats(-1e6, 1e6).map(lambda x: round(x, 3)))


@given(VALUES)
def test_the_last_bits_do_not_count(values):
    nudged = np.nextafter(values, np.inf)
    assert behaviour([values]) == behaviour([np.nextafter(nudged, np.inf)])
    assert behaviour([values]) == behaviour([np.nextafter(values, -np.inf)])


@given(VALUES, st.integers(0, 5))
def test_what_can_be_seen_does(values, place):
    other = values.copy()
    other.flat[place] += 1e-6 * max(1.0, abs(other.flat[place]))
    assert behaviour([values]) != behaviour([other])


def test_rounding_errors_around_zero_and_one_do_not_count():
    assert behaviour([np.array([0.0, 1.0])]) == behaviour([np.array([-1.2e-16, 1.0 - 1e-16])])
    assert behaviour([np.array([0.0])]) == behaviour([np.array([-0.0])])


def test_shapes_count():
    flat = np.arange(6.0)
    assert behaviour([flat]) != behaviour([flat.reshape(2, 3)]) != behaviour([flat.reshape(3, 2)])
    assert behaviour([flat]) != behaviour([flat[:3], flat[3:]])


def test_code_goes_by_its_name():
    class Mask:
        pass

    assert (name_of(len), name_of(Mask())) == ("len", "Mask")
