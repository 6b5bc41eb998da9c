"""Estimates are those of the documented equations, and a fit uses them in place of the ridge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from literal import estimated_q, estimates
from oracles import ESTIMATING, in_rows, position_episode, ragged_episode, unit_rows
from rareswitch.core.estimation import EstimatedRegression, estimate_stage
from rareswitch.core.lsvi import RidgeRegression
from rareswitch.core.policy import fit, regressor_of
from rareswitch.core.recipe import Recipe
from rareswitch.statistics import history_of
from rareswitch.statistics.partitions import LocalPartitions, LogPartition, LogStatistics, StageLog


def estimated(features, targets, cap, counts=None):
    """Return the estimate from sums over the data, each row counted so often."""
    features, targets = np.asarray(features, float), np.asarray(targets, float)
    if counts is None:  # sums over distinct rows round less
        rows, counts = np.unique(np.column_stack([features, targets]), axis=0, return_counts=True)
        features, targets = rows[:, :-1], rows[:, -1]
    values, vectors = np.linalg.eigh(features.T @ (counts[:, None] * features))
    return estimate_stage(
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
    together = estimate_stage(
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


H, D = 3, 4


def log_of(seed, count=25, *, unit=1.0):
    rng = np.random.default_rng(seed)
    log = [ragged_episode(rng, horizon=H, dim=D) for _ in range(count)]
    return [
        rs.Episode(
            features=unit * e.features,
            rewards=e.rewards,
            next_features=[unit * rows for rows in e.next_features],
        )
        for e in log
    ]


def fitted(log, exploration, *, ridge=1.0, clip=True, feature_norm=1.0):
    recipe = Recipe(exploration=exploration, ridge=ridge, clip=clip, seed=2)
    task = rs.Task(dim=D, horizon=H, feature_norm=feature_norm)
    return fit(history_of(task, ridge, log), recipe, version=3)


def member_values(policy, h, rows):
    """Return Q of every member (M, A)."""
    return np.array([policy.member(m).q_values(h, rows) for m in range(policy.members)])


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("count", [0, 1, 3, 25])
def test_a_fit_that_estimates_is_the_regression_on_the_raw_episodes(exploration, clip, count):
    log, rows = log_of(1, count), unit_rows(np.random.default_rng(2), 7, D)
    policy = fitted(log, exploration, clip=clip)
    assert policy.members == exploration.members
    drawn = Recipe(exploration=exploration, seed=2).perturbations(3, H, D)
    for m in range(policy.members):
        expected = estimated_q(
            log,
            horizon=H,
            dim=D,
            drawn=None if drawn is None else drawn[m],
            beta=exploration.beta,
            clip=clip,
        )
        for h in range(H):
            found = policy.member(m).q_values(h, rows)
            np.testing.assert_allclose(found, expected(h, rows), atol=1e-9)


@pytest.mark.parametrize("exploration", ESTIMATING, ids=repr)
@pytest.mark.parametrize(("unit", "ridge"), [(10.0, 1.0), (0.1, 1.0), (1.0, 0.01), (1.0, 20.0)])
def test_neither_the_units_of_features_nor_the_declared_ridge_change_values(
    exploration, unit, ridge
):
    rows = unit_rows(np.random.default_rng(2), 7, D)
    plain = fitted(log_of(1), exploration)
    other = fitted(log_of(1, unit=unit), exploration, ridge=ridge, feature_norm=unit)
    for h in range(H):
        np.testing.assert_allclose(
            member_values(other, h, unit * rows), member_values(plain, h, rows), atol=1e-9
        )


@given(st.integers(0, 10**6), st.sampled_from(ESTIMATING))
def test_the_order_of_episodes_changes_nothing(seed, exploration):
    log, rng = log_of(seed), np.random.default_rng(seed)
    rows = unit_rows(rng, 7, D)
    other = fitted([log[i] for i in rng.permutation(len(log))], exploration)
    for h in range(H):
        np.testing.assert_allclose(
            member_values(other, h, rows),
            member_values(fitted(log, exploration), h, rows),
            atol=1e-9,
        )


@pytest.mark.parametrize("count", [0, 2, 40])
def test_the_root_of_the_covariance_is_symmetric_and_that_of_the_data(count):
    log = log_of(6, count)
    history = history_of(rs.Task(dim=D, horizon=H), 0.7, log).fold()
    cases = [
        (RidgeRegression(history, perturbed=True), lambda *_: (1.0, 0.7)),
        (
            EstimatedRegression(history, perturbed=True),
            lambda f, y: np.array(estimates(f, y, 1.0))[[1, 3]],
        ),
    ]
    features = np.array([e.features[-1] for e in log if len(e) == H]).reshape(-1, D)
    targets = np.array([e.rewards[-1] for e in log if len(e) == H])
    for regression, variances in cases:
        solved = regression.stage(H - 1, None)
        (root,) = solved.perturb(np.eye(D))  # what Λ^{−1/2} makes of every unit vector
        noise, ridge = variances(features, targets)
        covariance = noise * np.linalg.inv(features.T @ features + ridge * np.eye(D))
        np.testing.assert_allclose(root, root.T, atol=1e-12)
        assert (np.linalg.eigvalsh(root) > 0.0).all()
        np.testing.assert_allclose(root @ root, covariance, atol=1e-10)
        whitener = solved.whitener()[0]
        np.testing.assert_allclose(whitener.T @ whitener, covariance, atol=1e-10)


def test_an_exploration_says_which_regression_it_counts_in():
    history = history_of(rs.Task(dim=D, horizon=H), log=log_of(1, 3))
    for exploration in ESTIMATING:
        assert isinstance(
            regressor_of(history, Recipe(exploration=exploration)), EstimatedRegression
        )
    for exploration in (rs.Bonus(), rs.Perturbation(1.0), rs.Ensemble(estimate=False)):
        assert isinstance(regressor_of(history, Recipe(exploration=exploration)), RidgeRegression)


def test_the_declared_regression_has_neither_level_nor_noise():
    policy = fitted(log_of(1), rs.Ensemble(3, estimate=False))
    assert policy.levels is None
    assert fitted(log_of(1), rs.Ensemble(3)).levels.shape == (3, H)
    assert fitted(log_of(1), rs.Bonus(estimate=True)).levels.shape == (H,)


@pytest.mark.parametrize("rewards", ["none", "always one", "of chance"])
def test_a_hundred_thousand_steps_of_two_features_are_remembered_as_two_means(rewards):
    count, rng = 100_000, np.random.default_rng(7)
    features = np.eye(D)[rng.integers(0, 2, count)]
    chance = rng.random(count) < np.where(features[:, 0] > 0, 0.2, 0.6)
    earned = {"none": np.zeros(count), "always one": np.ones(count), "of chance": chance * 1.0}
    stage = StageLog(
        features=features,
        rewards=earned[rewards],
        lengths=np.zeros(count, np.int64),
        next_features=np.zeros((0, D)),
    )
    log = LocalPartitions([LogPartition((stage,), np.ones(count, np.int64))])
    recipe = Recipe(exploration=rs.Bonus(0.0, estimate=True))
    found = fit(LogStatistics(log), recipe, version=1).q_values(0, np.eye(D))
    means = [earned[rewards][features[:, a] > 0].mean() for a in range(2)]
    np.testing.assert_allclose(found[:2], means, atol=1e-4)
    np.testing.assert_allclose(found[2:], earned[rewards].mean(), atol=1e-4)  # the level
    explored = fit(LogStatistics(log), Recipe(exploration=rs.Bonus(1.0, estimate=True)), version=1)
    noise = explored.whitener[0] @ np.eye(D)[:2].T
    assert (np.linalg.norm(noise, axis=0) < 0.01).all()


@pytest.mark.parametrize("ridge", [1e-3, 0.1, 0.7, 1.0, 3.0, 1e3])
@pytest.mark.parametrize("steps", [0, 1, 4])
def test_where_no_direction_was_tried_all_are_uncertain_alike_whatever_the_ridge(ridge, steps):
    still = rs.Episode(features=np.zeros((1, D)), rewards=[0.5], next_features=[])
    history = history_of(rs.Task(dim=D, horizon=1), ridge, [still] * steps).fold()
    solved = EstimatedRegression(history, perturbed=False).stage(0, None)
    np.testing.assert_allclose(solved.scales, np.full(D, 1.0 / 2.0))
    assert (solved.levels, solved.weights.any()) == (0.5, False)


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("perturbed", [True, False])
@pytest.mark.parametrize("kind", [RidgeRegression, EstimatedRegression])
def test_the_regression_of_positions_is_that_of_the_rows_written_out(kind, perturbed, stages):
    rng = np.random.default_rng(3)
    log = [position_episode(rng, horizon=H, states=2, actions=2) for _ in range(12)]
    task = rs.Task(dim=D, horizon=H, stages=stages)
    by_position = history_of(replace(task, one_hot=True), 0.7, log).fold()
    by_rows = history_of(task, 0.7, [in_rows(episode, D) for episode in log]).fold()
    found, wanted = (kind(history, perturbed=perturbed) for history in (by_position, by_rows))
    drawn = rng.standard_normal((2, 3, D)) if perturbed else rng.standard_normal((3, D))
    for h in reversed(range(H)):
        following = None if h == H - 1 else rng.random((2, D + 3) if perturbed else D + 3)
        one, other = found.stage(h, following), wanted.stage(h, following)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-12)
        squares = np.square(one.whitener())[..., None] * np.eye(D)
        np.testing.assert_allclose(squares, other.whitener().mT @ other.whitener(), atol=1e-12)
        if kind is EstimatedRegression:
            np.testing.assert_allclose(one.levels, other.levels, atol=1e-12)
            np.testing.assert_allclose(found.spreads[h], wanted.spreads[h], atol=1e-12)
        if kind is EstimatedRegression or perturbed:
            np.testing.assert_allclose(one.perturb(drawn), other.perturb(drawn), atol=1e-11)
