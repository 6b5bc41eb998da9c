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
