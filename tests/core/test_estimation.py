"""Estimates are those of the documented equations, put into each other on dense arrays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from literal import estimates
from oracles import unit_rows
from rareswitch.core.estimation import StageEstimate


def estimated(features, targets, cap, counts=None):
    """Return the estimate from sums over the data, each row counted so often."""
    features, targets = np.asarray(features, float), np.asarray(targets, float)
    if counts is None:  # sums over distinct rows round less
        rows, counts = np.unique(np.column_stack([features, targets]), axis=0, return_counts=True)
        features, targets = rows[:, :-1], rows[:, -1]
    values, vectors = np.linalg.eigh(features.T @ (counts[:, None] * features))
    return StageEstimate(
        eigenvalues=np.maximum(values, 0.0),
        steps=np.asarray(counts.sum()),
        features=vectors.T @ (counts @ features),
        products=vectors.T @ ((counts * targets) @ features),
        total=np.asarray(counts @ targets),
        squares=np.asarray(counts @ targets**2),
        cap=cap,
    ), vectors


def assert_agree(found, vectors, features, targets, cap):
    level, noise, spread, ridge = estimates(features, targets, cap)
    np.testing.assert_allclose(found.level, level, rtol=1e-9)
    np.testing.assert_allclose(found.noise**2, noise, rtol=1e-9)
    np.testing.assert_allclose(found.spread**2, spread, rtol=1e-9)
    np.testing.assert_allclose(found.ridge, ridge, rtol=1e-9)
    inverse = np.linalg.inv(features.T @ features + ridge * np.eye(features.shape[1]))
    weights = inverse @ features.T @ (targets - level)
    np.testing.assert_allclose(vectors @ found.weights, weights, atol=1e-9)
    covariance = vectors @ np.diag(found.scales**2) @ vectors.T
    np.testing.assert_allclose(covariance, noise * inverse, rtol=1e-9, atol=1e-12)


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 6), st.sampled_from([1.0, 7.0]))
def test_estimates_are_those_of_the_equations_on_raw_data(seed, steps, dim, cap):
    rng = np.random.default_rng(seed)
    features = unit_rows(rng, steps, dim) * rng.exponential(1.0, (steps, 1))
    targets = cap * rng.random(steps)
    found, vectors = estimated(features, targets, cap)
    assert_agree(found, vectors, features, targets, cap)


E1, E2, E3 = np.eye(3)
CASES = {
    "nothing": (np.zeros((0, 3)), np.zeros(0)),
    "one step": (E1[None], np.array([0.4])),
    "fewer steps than directions": (np.array([E1, E2]), np.array([0.1, 0.9])),
    "a feature of length 0": (np.zeros((2, 3)), np.array([0.5, 0.6])),
    "always 0": (unit_rows(np.random.default_rng(1), 50, 3), np.zeros(50)),
    "always the cap": (unit_rows(np.random.default_rng(1), 50, 3), np.full(50, 2.0)),
    "without noise": (
        unit_rows(np.random.default_rng(2), 50, 3),
        1.0 + unit_rows(np.random.default_rng(2), 50, 3) @ [0.3, -0.2, 0.1],
    ),
    "one feature again and again": (np.tile(2.0 * E2, (100_000, 1)), np.full(100_000, 0.7)),
    "noise alone": (
        unit_rows(np.random.default_rng(3), 5000, 3),
        2.0 * np.random.default_rng(4).random(5000),
    ),
    "tiny features": (1e-6 * unit_rows(np.random.default_rng(5), 30, 3), np.linspace(0, 2, 30)),
    "huge features": (1e6 * unit_rows(np.random.default_rng(5), 30, 3), np.linspace(0, 2, 30)),
}


@pytest.mark.parametrize(("features", "targets"), CASES.values(), ids=CASES)
def test_estimates_are_finite_and_sensible_on_any_data(features, targets):
    cap = 2.0
    found, vectors = estimated(features, targets, cap)
    for name in ("level", "noise", "spread", "ridge", "weights", "scales"):
        assert np.isfinite(getattr(found, name)).all(), name
    assert 0.0 < found.level < cap
    assert 0.0 < found.noise <= cap
    assert 0.0 < found.spread <= cap
    assert found.ridge > 0.0
    assert (found.scales > 0.0).all()
    length = np.sqrt(np.mean((features**2).sum(axis=1))) if features.any() else 1.0
    # No typical feature is more uncertain than one that was never tried, which is so by V.
    assert (found.scales * length <= found.spread * (1 + 1e-9)).all()
    if abs(np.log10(length)) < 1:
        assert_agree(found, vectors, features, targets, cap)


def test_on_no_data_a_value_is_anything_below_the_cap():
    found, _ = estimated(np.zeros((0, 3)), np.zeros(0), 6.0)
    assert (found.level, found.ridge) == (3.0, 1.0)
    assert found.noise == found.spread == pytest.approx(6.0 / 2.0)
    np.testing.assert_allclose(found.scales, 6.0 / 2.0)
    assert not found.weights.any()


def test_one_feature_tried_often_is_known_and_others_are_not():
    n = 100_000
    found, vectors = estimated(E1[None], [0.7], 1.0, counts=np.array([n]))
    tried = np.abs(vectors.T @ E1)
    assert found.level + tried @ np.abs(found.weights) == pytest.approx(0.7, abs=1e-5)
    uncertain = np.sqrt(tried**2 @ found.scales**2)
    assert uncertain == pytest.approx(found.noise / np.sqrt(n), rel=1e-3)
    np.testing.assert_allclose(found.scales[tried < 0.5], found.spread, rtol=1e-9)
    assert found.noise < 0.01


def test_the_noise_of_many_steps_is_found():
    rng = np.random.default_rng(6)
    features = unit_rows(rng, 20_000, 3)
    noise = 0.1 * rng.standard_normal(20_000)
    found, vectors = estimated(features, 1.0 + features @ [0.5, 0.0, -0.3] + noise, 2.0)
    assert found.noise == pytest.approx(0.1, rel=0.03)
    np.testing.assert_allclose(vectors @ found.weights, [0.5, 0.0, -0.3], atol=0.01)


@given(st.integers(0, 10**6), st.sampled_from([1e-3, 10.0, 1e3]))
def test_units_of_features_change_nothing(seed, unit):
    rng = np.random.default_rng(seed)
    features, targets = unit_rows(rng, 20, 3), 2.0 * rng.random(20)
    found, turned = estimated(features, targets, 2.0)
    other, turned_too = estimated(unit * features, targets, 2.0)
    for name in ("level", "noise", "spread"):
        np.testing.assert_allclose(getattr(other, name), getattr(found, name), rtol=1e-8)
    np.testing.assert_allclose(other.ridge, unit**2 * found.ridge, rtol=1e-8)
    np.testing.assert_allclose(
        unit * (turned_too @ other.weights), turned @ found.weights, atol=1e-8
    )


def test_leading_axes_are_free():
    rng = np.random.default_rng(7)
    features, targets = unit_rows(rng, 15, 3), rng.random((2, 4, 15))
    values, vectors = np.linalg.eigh(features.T @ features)
    together = StageEstimate(
        eigenvalues=values[None, None],
        steps=np.array([[15.0]]),
        features=(vectors.T @ features.sum(axis=0))[None, None],
        products=targets @ features @ vectors,
        total=targets.sum(axis=-1),
        squares=(targets**2).sum(axis=-1),
        cap=1.0,
    )
    for i in np.ndindex(2, 4):
        alone, _ = estimated(features, targets[i], 1.0)
        for name in ("level", "noise", "spread", "ridge", "weights", "scales"):
            np.testing.assert_allclose(
                getattr(together, name)[i], getattr(alone, name), rtol=1e-9, atol=1e-12
            )
