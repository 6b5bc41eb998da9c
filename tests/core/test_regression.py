"""A fit that estimates is the regression on the raw episodes, wherever its sums are kept."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from literal import estimated_q, estimates
from oracles import ESTIMATING, in_rows, position_episode, ragged_episode, unit_rows
from rareswitch.core.history import History
from rareswitch.core.log import LocalPartitions, LogPartition, LogStatistics, StageLog
from rareswitch.core.lsvi import fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.regression import Declared, Estimated, regression_of

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


def fitted(log, exploration, *, ridge=1.0, clip=True):
    recipe = Recipe(exploration=exploration, ridge=ridge, clip=clip, seed=2)
    return fit(History.from_log(log, dim=D, horizon=H, ridge=ridge), recipe, version=3)


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
    other = fitted(log_of(1, unit=unit), exploration, ridge=ridge)
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
    history = History.from_log(log, dim=D, horizon=H, ridge=0.7)
    cases = [
        (Declared(history, members=True), lambda *_: (1.0, 0.7)),
        (Estimated(history, members=True), lambda f, y: np.array(estimates(f, y, 1.0))[[1, 3]]),
    ]
    features = np.array([e.features[-1] for e in log if len(e) == H]).reshape(-1, D)
    targets = np.array([e.rewards[-1] for e in log if len(e) == H])
    for regression, variances in cases:
        solved = regression.stage(H - 1, None)
        (root,) = solved.offsets(np.eye(D))  # what Λ^{−1/2} makes of every unit vector
        noise, ridge = variances(features, targets)
        covariance = noise * np.linalg.inv(features.T @ features + ridge * np.eye(D))
        np.testing.assert_allclose(root, root.T, atol=1e-12)
        assert (np.linalg.eigvalsh(root) > 0.0).all()
        np.testing.assert_allclose(root @ root, covariance, atol=1e-10)
        whitener = solved.whitener[0]
        np.testing.assert_allclose(whitener.T @ whitener, covariance, atol=1e-10)


def test_an_exploration_says_which_regression_it_counts_in():
    history = History.from_log(log_of(1, 3), dim=D, horizon=H)
    for exploration in ESTIMATING:
        assert isinstance(regression_of(history, exploration), Estimated)
    for exploration in (rs.Bonus(), rs.Perturbation(1.0), rs.Ensemble(estimate=False)):
        assert isinstance(regression_of(history, exploration), Declared)


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
    history = History.from_log([still] * steps, dim=D, horizon=1, ridge=ridge)
    solved = Estimated(history, members=False).stage(0, None)
    np.testing.assert_allclose(solved.scales, np.full(D, 1.0 / 2.0))
    assert (solved.levels, solved.weights.any()) == (0.5, False)


@pytest.mark.parametrize("stages", ["own", "shared"])
@pytest.mark.parametrize("members", [True, False])
@pytest.mark.parametrize("kind", [Declared, Estimated])
def test_the_regression_of_positions_is_that_of_the_rows_written_out(kind, members, stages):
    rng = np.random.default_rng(3)
    log = [position_episode(rng, horizon=H, states=2, actions=2) for _ in range(12)]
    settings = {"dim": D, "horizon": H, "ridge": 0.7, "stages": stages}
    by_position = History.from_log(log, one_hot=True, **settings)
    by_rows = History.from_log([in_rows(episode, D) for episode in log], **settings)
    found, wanted = (kind(history, members=members) for history in (by_position, by_rows))
    drawn = rng.standard_normal((2, 3, D)) if members else rng.standard_normal((3, D))
    for h in reversed(range(H)):
        following = None if h == H - 1 else rng.random((2, D + 3) if members else D + 3)
        one, other = found.stage(h, following), wanted.stage(h, following)
        np.testing.assert_allclose(one.weights, other.weights, atol=1e-12)
        squares = np.square(one.whitener)[..., None] * np.eye(D)
        np.testing.assert_allclose(squares, other.whitener.mT @ other.whitener, atol=1e-12)
        if kind is Estimated:
            np.testing.assert_allclose(one.levels, other.levels, atol=1e-12)
            np.testing.assert_allclose(found.spreads[h], wanted.spreads[h], atol=1e-12)
        if kind is Estimated or members:
            np.testing.assert_allclose(one.offsets(drawn), other.offsets(drawn), atol=1e-11)
