import math
from itertools import pairwise

import numpy as np
import pytest
from feature_examples import SAMPLE, SPACE, STATES, bases
from hypothesis import given
from hypothesis import strategies as st

from rareswitch.features import Cosines, Flatten, Polynomial, Scaling, UnitNorm, joined
from rareswitch.features.basis import Chained, Joined

BASES = bases()
every_basis = pytest.mark.parametrize("basis", BASES.values(), ids=BASES)


@every_basis
def test_values_are_new_arrays_of_the_size_announced(basis):
    state = SAMPLE[0].copy()
    found = basis(state)
    assert found.shape == (basis.size,)
    assert not np.shares_memory(found, state)
    np.testing.assert_array_equal(state, SAMPLE[0])
    np.testing.assert_array_equal(basis(state), found)
    np.testing.assert_array_equal(basis(tuple(state)), found)


@every_basis
def test_states_are_checked(basis):
    with pytest.raises(ValueError, match="state must be finite; got nan at index 1"):
        basis([0.0, math.nan, 0.0])
    with pytest.raises(ValueError, match=r"state must have shape \(3,\); got \(4,\)"):
        basis(np.zeros(4))
    with pytest.raises(TypeError, match="state must be an array of"):
        basis("xyz")


@every_basis
@given(data=st.data(), length=st.floats(0.0, 100.0))
def test_no_value_is_longer_than_its_bound(basis, data, length):
    direction = data.draw(st.lists(st.floats(-1.0, 1.0), min_size=3, max_size=3))
    x = np.array(direction) * length / max(float(np.linalg.norm(direction)), 1e-3)
    longest = basis.longest(float(np.linalg.norm(x)))
    # Squares of numbers below 1e-154 are 0, or inexact.
    assert np.linalg.norm(basis(x)) <= longest * (1.0 + 1e-9) + 1e-150
    assert longest <= basis.norm


@every_basis
def test_bounds_grow_with_the_numbers(basis):
    bounds = [basis.longest(length) for length in (0.0, 0.5, 1.0, 10.0, 1e200, math.inf)]
    assert all(small <= large for small, large in pairwise(bounds))


@every_basis
def test_many_states_are_one_after_the_other(basis):
    found = basis.many(SAMPLE[:5])
    np.testing.assert_array_equal(found, [basis(state) for state in SAMPLE[:5]])
    assert basis.many([]).shape == (0, basis.size)


def test_a_basis_stands_on_another():
    scaled, squares = Scaling.standard(SAMPLE), Polynomial(inputs=3, degree=2)
    chained = scaled.then(squares)
    assert (chained.inputs, chained.size) == (3, 10)
    np.testing.assert_array_equal(chained(SAMPLE[7]), squares(scaled(SAMPLE[7])))
    assert chained.name == "scaled → 10 products of up to 2"
    assert isinstance(chained, Chained)


def test_bases_stand_side_by_side():
    first, second = Polynomial(inputs=3, degree=1, constant=False), Polynomial(inputs=3, degree=2)
    both = joined(first, second)
    assert (both.inputs, both.size) == (3, 13)
    x = SAMPLE[3]
    np.testing.assert_array_equal(both(x), np.concatenate([first(x), second(x)]))
    assert both.longest(2.0) == pytest.approx(math.sqrt(4.0 + 1.0 + 4.0 + 16.0))


def test_structured_states_are_read_once_and_first():
    flat = Flatten(space=SPACE)
    both = joined(flat, flat.then(Polynomial(inputs=14, degree=2)))
    state = STATES[1]
    expected = SPACE.flat(state)
    np.testing.assert_array_equal(flat(state), expected)
    np.testing.assert_array_equal(both(state)[:14], expected)
    np.testing.assert_array_equal(both(state)[14:], Polynomial(inputs=14, degree=2)(expected))
    with pytest.raises(ValueError, match=r"state\['gear'\] must be from 1 to 3; got 9"):
        both(state | {"gear": 9})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: Polynomial(inputs=2, degree=1, constant=False).then(
                Polynomial(inputs=3, degree=1, constant=False)
            ),
            "second must take the 2 numbers",
        ),
        (
            lambda: Polynomial(inputs=14, degree=1, constant=False).then(Flatten(space=SPACE)),
            "takes whole observations",
        ),
        (
            lambda: joined(
                Polynomial(inputs=2, degree=1, constant=False),
                Polynomial(inputs=3, degree=1, constant=False),
            ),
            "parts must all take the same",
        ),
        (
            lambda: joined(Polynomial(inputs=14, degree=1, constant=False), Flatten(space=SPACE)),
            "parts must all take the same",
        ),
        (lambda: joined(), "parts must not be empty"),
    ],
)
def test_bases_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: Polynomial(inputs=2, degree=1, constant=False).then(7),
        lambda: Joined(parts=(Polynomial, Polynomial)),
        lambda: Chained(first=None, second=Polynomial(inputs=1, degree=1, constant=False)),
        lambda: Flatten(space="Box"),
    ],
)
def test_only_bases_and_spaces_are_put_together(make):
    with pytest.raises(TypeError, match=r"must be a (Basis|Space); got"):
        make()


def test_a_chain_knows_the_sizes():
    scaled = Scaling.between([0.0, 0.0], [1.0, 9.0])
    basis = scaled.then(Cosines.fourier, order=3)
    assert basis == scaled.then(Cosines.fourier(inputs=2, order=3))
    assert basis.then(UnitNorm, bound=basis.norm).size == 16
    with pytest.raises(TypeError, match="following must be a class or constructor to take degree"):
        scaled.then(Polynomial(inputs=2, degree=1), degree=2)
