import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import Cosines


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_it_has_every_cosine_once(inputs, order, coupled, seed):
    basis, x = (
        Cosines.fourier(inputs=inputs, order=order, coupled=coupled),
        np.random.default_rng(seed),
    )
    x = x.random(inputs)
    every = product(range(order + 1), repeat=inputs)
    expected = sorted(
        math.cos(math.pi * float(np.dot(c, x))) for c in every if np.count_nonzero(c) <= coupled
    )
    np.testing.assert_allclose(sorted(basis(x)), expected, atol=1e-12)
    assert basis.size == len(expected)
    assert basis(x)[0] == 1.0


def test_too_many_are_refused():
    with pytest.raises(
        ValueError, match="the number of cosines of order 9, 9 of 9 numbers coupled"
    ):
        Cosines.fourier(inputs=9, order=9, coupled=9)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 60))
def test_the_slowest_come_first_and_each_once(inputs, order, coupled, terms):
    every = Cosines.fourier(inputs=inputs, order=order, coupled=coupled)
    some = Cosines.fourier(inputs=inputs, order=order, coupled=coupled, terms=terms)
    rows = {tuple(row) for row in every.weights.T}
    found = [tuple(row) for row in some.weights.T]
    assert some.size == len(found) == len(set(found)) == min(terms, every.size)
    assert set(found) <= rows
    sums = [sum(row) for row in found]
    assert sums == sorted(sums)
    assert max(sums) <= min((sum(row) for row in rows - set(found)), default=np.inf)


def test_terms_must_be_some():
    with pytest.raises(ValueError, match="terms must be from 1"):
        Cosines.fourier(inputs=1, order=1, terms=0)


def test_equal_seeds_draw_equal_features_and_others_do_not():
    first, again, other = (
        Cosines.radial(inputs=2, components=4, bandwidths=1.0, seed=seed) for seed in (0, 0, 1)
    )
    assert first == again
    assert first != other


def test_bandwidths_have_directions_of_their_own():
    basis = Cosines.radial(inputs=2, components=4, bandwidths=(1.0, 2.0))
    assert not np.allclose(basis.weights[:, :4], 2.0 * basis.weights[:, 4:])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bandwidths": 0.0}, "bandwidths must be a finite number above 0"),
        ({"bandwidths": ()}, "bandwidths must not be empty"),
        ({"bandwidths": 1.0, "components": 0}, "components must be at least 1"),
        ({"bandwidths": 1.0, "inputs": 0}, "inputs must be at least 1"),
        ({"bandwidths": 1.0, "seed": -1}, "seed must be at least 0"),
    ],
)
def test_what_is_drawn_must_make_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cosines.radial(**{"inputs": 2, "components": 3} | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"weights": np.zeros((2, 0)), "offsets": []}, "weights must have a row and a column"),
        ({"weights": [[1.0, 2.0]], "offsets": [0.0]}, r"offsets must have shape \(2,\)"),
        ({"weights": [[1.0]], "offsets": [0.0], "amplitude": 0.0}, "amplitude must be"),
    ],
)
def test_arrays_must_fit(arguments, message):
    with pytest.raises(ValueError, match=message):
        Cosines(**{"amplitude": 1.0} | arguments)
