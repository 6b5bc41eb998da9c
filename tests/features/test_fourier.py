import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import Fourier


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99))
def test_it_has_every_cosine_once(inputs, order, coupled, seed):
    basis, x = Fourier(inputs=inputs, order=order, coupled=coupled), np.random.default_rng(seed)
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
        Fourier(inputs=9, order=9, coupled=9)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(1, 60))
def test_the_slowest_come_first_and_each_once(inputs, order, coupled, terms):
    every = Fourier(inputs=inputs, order=order, coupled=coupled)
    some = Fourier(inputs=inputs, order=order, coupled=coupled, terms=terms)
    rows = {tuple(row) for row in every.frequencies.T}
    found = [tuple(row) for row in some.frequencies.T]
    assert some.size == len(found) == len(set(found)) == min(terms, every.size)
    assert set(found) <= rows
    sums = [sum(row) for row in found]
    assert sums == sorted(sums)
    assert max(sums) <= min((sum(row) for row in rows - set(found)), default=np.inf)


def test_terms_must_be_some():
    with pytest.raises(ValueError, match="terms must be from 1"):
        Fourier(inputs=1, order=1, terms=0)
