import math

import mpmath
import numpy as np
import pytest

import rareswitch as rs
from oracles import unit_rows
from rareswitch.core.gram import Gram, solve

DIM = 8
UPDATES = 100_000
GRID = 2.0**20  # features on this grid have an exact Gram matrix in int64


def squared_norms(gram, columns):
    """Return φᵀΛ⁻¹φ (..., n) of columns (d, n)."""
    return ((gram.whitener @ columns) ** 2).sum(axis=-2)


def reflection(v):
    """Return I − 2vvᵀ/vᵀv, exact in float64 when vᵀv is a power of two."""
    v = np.array(v, float)
    return np.eye(len(v)) - 2.0 * np.outer(v, v) / (v @ v)


def random_unit_features(rng):
    features = np.round(unit_rows(rng, UPDATES, DIM) * GRID) / GRID
    return features, np.vstack([features[:3], np.eye(DIM)[:2]])


def hard_features_that_miss_two_directions(rng):
    delta = 11 / 32
    world = rs.instances.hard_to_learn(d=DIM, horizon=1, delta=delta)
    features = world.features[0][rng.integers(0, world.features.shape[1], UPDATES)]
    unseen = np.zeros((2, DIM))
    unseen[0, -2:] = delta, delta - 1.0
    unseen[1, -3:-1] = 1.0 - delta, 1.0
    assert not (features @ unseen.T).any()
    return features, np.vstack([features[:3], unseen, world.features[1, :1]])


def features_in_a_rotated_subspace(rng):
    rotation = reflection(np.ones(8)) @ reflection([1, 2, 1, 1, 1, 0, 0, 0])
    features = np.round(unit_rows(rng, UPDATES, 5) * 2.0**12) / 2.0**12 @ rotation[:5]
    assert not (features @ rotation[5:].T).any()
    return features, np.vstack([features[:3], rotation[5:], features[0] + rotation[6]])


FAMILIES = [
    random_unit_features,
    hard_features_that_miss_two_directions,
    features_in_a_rotated_subspace,
]


def exact_squared_norms(features, directions, ridge):
    whole = features * GRID
    assert (whole == np.round(whole)).all()
    counts = whole.astype(np.int64)
    assert UPDATES * np.abs(counts).max().item() ** 2 < 2**63
    gram = counts.T @ counts
    with mpmath.workdps(60):
        scale = mpmath.mpf(GRID) ** 2
        matrix = mpmath.matrix(DIM, DIM)
        for i in range(DIM):
            for j in range(DIM):
                matrix[i, j] = mpmath.mpf(int(gram[i, j])) / scale
            matrix[i, i] += mpmath.mpf(ridge)
        norms = []
        for direction in directions:
            column = mpmath.matrix([mpmath.mpf(float(x)) for x in direction])
            norms.append(float((column.T * mpmath.lu_solve(matrix, column))[0]))
    return np.array(norms)


@pytest.mark.parametrize(("ridge", "tolerance"), [(1.0, 1e-8), (1e-6, 1e-6)])
def test_norms_stay_accurate_over_a_hundred_thousand_updates(ridge, tolerance):
    sets = [family(np.random.default_rng(i)) for i, family in enumerate(FAMILIES)]
    gram = Gram((len(sets),), DIM, ridge)
    for row in np.stack([features for features, _ in sets], axis=1):
        gram.absorb(row)
    for i, (features, directions) in enumerate(sets):
        truth = exact_squared_norms(features, directions, ridge)
        found = squared_norms(gram, directions.T)[i]
        error = np.abs(found - truth) / truth
        assert error.max() < tolerance, (FAMILIES[i].__name__, error)
        solved = [direction @ solve(gram.whitener[i], direction) for direction in directions]
        assert (np.abs(solved - truth) / truth).max() < tolerance, FAMILIES[i].__name__


def test_logdet_and_trace_start_at_the_ridge_and_are_those_of_the_matrix():
    rng = np.random.default_rng(3)
    features = rng.standard_normal((50, 2, 4))
    gram = Gram((2,), 4, 0.3)
    np.testing.assert_allclose(gram.logdet, 4 * math.log(0.3), rtol=1e-14)
    np.testing.assert_allclose(gram.trace, 4 * 0.3, rtol=1e-14)
    for row in features:
        gram.absorb(row)
    for h in range(2):
        matrix = 0.3 * np.eye(4) + features[:, h].T @ features[:, h]
        assert gram.logdet[h] == pytest.approx(np.linalg.slogdet(matrix)[1], rel=1e-12)
        assert gram.trace[h] == pytest.approx(np.trace(matrix), rel=1e-12)
        whitener = gram.whitener[h]
        np.testing.assert_allclose(whitener.T @ whitener, np.linalg.inv(matrix), rtol=1e-9)


def test_solve_applies_the_inverse_of_that_stage():
    rng = np.random.default_rng(4)
    features = rng.standard_normal((20, 3, 4))
    gram = Gram((3,), 4, 0.7)
    for row in features:
        gram.absorb(row)
    target = rng.standard_normal(4)
    for h in range(3):
        matrix = 0.7 * np.eye(4) + features[:, h].T @ features[:, h]
        np.testing.assert_allclose(solve(gram.whitener[h], target), np.linalg.solve(matrix, target))


def test_what_the_inverse_loses_is_returned():
    rng = np.random.default_rng(5)
    gram = Gram((2, 3), 4, 0.5)
    for _ in range(30):
        before = gram.whitener.mT @ gram.whitener
        lost = gram.absorb(rng.standard_normal((2, 3, 4)), rng.integers(0, 3, (2, 3)))
        after = gram.whitener.mT @ gram.whitener
        product = lost[..., :, None] * lost[..., None, :]
        np.testing.assert_allclose(before - after, product, atol=1e-12)


@pytest.mark.parametrize("count", [0, 1, 2, 37])
def test_a_count_is_that_many_single_updates(count):
    rng = np.random.default_rng(6)
    directions, feature = rng.standard_normal((3, 5)), rng.standard_normal((2, 3))
    at_once, one_by_one = (Gram((2,), 3, 0.1) for _ in range(2))
    at_once.absorb(feature, np.array([count, 1]))
    one_by_one.absorb(feature * [[count > 0], [1]])
    for _ in range(count - 1):
        one_by_one.absorb(feature * [[1], [0]])
    np.testing.assert_allclose(at_once.logdet, one_by_one.logdet, rtol=1e-12)
    np.testing.assert_allclose(at_once.trace, one_by_one.trace, rtol=1e-12)
    norms = squared_norms(at_once, directions)
    np.testing.assert_allclose(norms, squared_norms(one_by_one, directions), rtol=1e-9)


def test_runs_stacked_are_bit_identical_to_each_alone():
    rng = np.random.default_rng(7)
    features = rng.standard_normal((150, 5, 3, 4))
    stacked = Gram((5, 3), 4, 0.2)
    for row in features:
        stacked.absorb(row)
    target = rng.standard_normal((5, 4))
    for run in range(5):
        alone = Gram((3,), 4, 0.2)
        for row in features[:, run]:
            alone.absorb(row)
        assert (alone.whitener == stacked.whitener[run]).all()
        assert (alone.logdet == stacked.logdet[run]).all()
        assert (alone.trace == stacked.trace[run]).all()
        solved = solve(stacked.whitener[:, 1], target)[run]
        assert (solve(alone.whitener[1], target[run]) == solved).all()


def test_a_zero_feature_changes_nothing():
    rng = np.random.default_rng(8)
    gram = Gram((2,), 3, 1.0)
    gram.absorb(rng.standard_normal((2, 3)))
    before = gram.whitener, gram.logdet, gram.trace
    gram.absorb(np.zeros((2, 3)))
    gram.absorb(rng.standard_normal((2, 3)), np.zeros(2))
    for was, now in zip(before, (gram.whitener, gram.logdet, gram.trace), strict=True):
        assert (was == now).all()


def test_what_was_read_before_stays_what_it_was():
    rng = np.random.default_rng(9)
    gram = Gram((2,), 3, 1.0)
    for _ in range(3):
        read = gram.whitener, gram.logdet, gram.trace
        copies = [array.copy() for array in read]
        gram.absorb(rng.standard_normal((2, 3)))
        for was, copy in zip(read, copies, strict=True):
            assert (was == copy).all()
            with pytest.raises(ValueError, match="read-only"):
                was[...] = 0.0
