import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import PolynomialFeatures

from rareswitch.features import Polynomial


@given(st.integers(1, 4), st.integers(1, 4), st.booleans(), st.booleans(), st.integers(0, 99))
def test_products_are_those_of_scikit_learn(inputs, degree, constant, alone, seed):
    x = np.random.default_rng(seed).normal(size=inputs)
    basis = Polynomial(inputs=inputs, degree=degree, constant=constant, interaction_only=alone)
    theirs = PolynomialFeatures(degree, interaction_only=alone, include_bias=constant)
    np.testing.assert_allclose(basis(x), theirs.fit_transform(x[None])[0], rtol=1e-12)


def test_too_many_are_refused():
    with pytest.raises(ValueError, match="the number of products of up to 9 of 90 numbers must be"):
        Polynomial(inputs=90, degree=9)


@pytest.mark.parametrize("degree", [0, 101])
def test_the_degree_must_make_sense(degree):
    with pytest.raises(ValueError, match="degree must be from 1 to 100"):
        Polynomial(inputs=2, degree=degree)
