import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch import theory

PAPER = {"dim": 13, "horizon": 10, "episodes": 2500}
SIZES = [(13, 10, 2500, 50, 0.05, 1.0), (3, 2, 400, 7, 0.01, 0.2), (1, 1, 9, 2, 0.5, 3.0)]


def printed_batch_bound(d, H, K, B, p, c):
    T = K * H
    log = math.log(2 * d * T / p)
    return (
        2 * H * math.sqrt(T * log)
        + d * H * T / (2 * B * math.log(2)) * math.log(T / (d * H) + 1)
        + 4 * c * math.sqrt(2 * d**3 * H**3 * T * log * math.log(T / (d * H) + 1))
    )


def printed_rare_switch_bound(d, H, K, B, p, c):
    T = K * H
    log = math.log(2 * d * T / p)
    growth = (T / (d * H) + 1) ** (d * H / B)
    spread = math.sqrt(growth * math.log(T / (d * H) + 1) * log)
    return 2 * H * math.sqrt(T * log) + 2 * c * math.sqrt(2 * d**3 * H**3 * T) * spread


@pytest.mark.parametrize(("d", "H", "K", "B", "p", "c"), SIZES)
def test_theorem_1_is_as_printed(d, H, K, B, p, c):
    bound = theory.batch_regret_bound(
        batches=B, dim=d, horizon=H, episodes=K, failure_probability=p, constant=c
    )
    assert bound.total == pytest.approx(printed_batch_bound(d, H, K, B, p, c), rel=1e-12)
    assert float(bound) == bound.total
    assert set(bound.terms) == {"martingale", "batching", "exploration"}
    assert bound.trivial == K * H


@pytest.mark.parametrize(("d", "H", "K", "B", "p", "c"), SIZES)
def test_theorem_2_is_as_printed_with_its_own_eta(d, H, K, B, p, c):
    eta = theory.eta_for_budget(switches=B, dim=d, horizon=H, episodes=K)
    assert eta == pytest.approx((1 + K / d) ** (d * H / B), rel=1e-11)
    bound = theory.rare_switch_regret_bound(
        eta=eta, dim=d, horizon=H, episodes=K, failure_probability=p, constant=c
    )
    assert bound.total == pytest.approx(printed_rare_switch_bound(d, H, K, B, p, c), rel=1e-11)
    assert set(bound.terms) == {"martingale", "exploration"}
    assert bound.trivial == K * H


@pytest.mark.parametrize(("d", "H", "K", "B", "p", "c"), SIZES)
def test_the_radius_is_as_printed(d, H, K, B, p, c):
    radius = theory.confidence_radius(
        dim=d, horizon=H, episodes=K, failure_probability=p, constant=c
    )
    assert radius == pytest.approx(c * d * H * math.sqrt(math.log(2 * d * K * H / p)), rel=1e-12)


def test_the_radius_at_the_experiments_size_is_in_the_hundreds():
    assert 500 < theory.confidence_radius(**PAPER) < 550


@pytest.mark.parametrize(("L", "ridge"), [(1.0, 1.0), (3.4, 1.0), (1.0, 0.01), (0.5, 7.0)])
def test_the_lemmas_hold_with_any_feature_norm_and_ridge(L, ridge):
    d, H, K, eta = 5, 3, 200, 1.7
    logdet = theory.logdet_bound(dim=d, episode=K, feature_norm=L, ridge=ridge)
    assert logdet == pytest.approx(d * math.log(ridge + (K - 1) * L**2 / d), rel=1e-12)
    switches = theory.switch_bound(
        eta=eta, dim=d, horizon=H, episodes=K, feature_norm=L, ridge=ridge
    )
    gain = d * math.log(1 + K * L**2 / (ridge * d))
    assert switches == pytest.approx(H * gain / math.log(eta), rel=1e-12)
    budget = theory.eta_for_budget(
        switches=9, dim=d, horizon=H, episodes=K, feature_norm=L, ridge=ridge
    )
    assert budget == pytest.approx((1 + K * L**2 / (ridge * d)) ** (d * H / 9), rel=1e-11)
    found = theory.information_gain(dim=d, episodes=K, feature_norm=L, ridge=ridge)
    assert found == pytest.approx(gain, rel=1e-12)


@pytest.mark.parametrize(("L", "ridge"), [(1.0, 1.0), (3.4, 1.0), (1.0, 0.1), (0.3, 2.0)])
def test_the_bounds_take_the_feature_norm_and_the_ridge(L, ridge):
    d, H, K, B, eta, p = 4, 3, 500, 20, 2.0, 0.1
    sizes = {"dim": d, "horizon": H, "episodes": K, "failure_probability": p}
    scale = {"feature_norm": L, "ridge": ridge}
    x = L**2 / ridge
    log = math.log(2 * d * K * H / p)
    gain = d * math.log(1 + K * x / d)
    per_log = max(2.0, x / math.log(1 + x))
    bonuses = d * H * math.sqrt(log) * H * math.sqrt(K * per_log * gain)
    batch = theory.batch_regret_bound(batches=B, **sizes, **scale).terms
    assert batch["batching"] == pytest.approx(H**2 * K * gain / (2 * B * math.log(2)))
    assert batch["exploration"] == pytest.approx(4 * bonuses)
    assert batch["martingale"] == pytest.approx(2 * H * math.sqrt(K * H * log))
    rare = theory.rare_switch_regret_bound(eta=eta, **sizes, **scale).terms
    assert rare["exploration"] == pytest.approx(2 * math.sqrt(eta) * bonuses)
    assert rare["martingale"] == batch["martingale"]


@given(st.integers(0, 10**6), st.floats(0.2, 4.0), st.sampled_from([0.05, 1.0, 5.0]))
def test_no_path_exceeds_the_logdet_bound_or_the_bonus_sum(seed, norm, ridge):
    rng = np.random.default_rng(seed)
    d, K = 3, 40
    gram, bonuses = ridge * np.eye(d), 0.0
    for _ in range(K):
        feature = rng.standard_normal(d)
        feature *= norm / np.linalg.norm(feature)
        bonuses += math.sqrt(feature @ np.linalg.solve(gram, feature))
        gram += np.outer(feature, feature)
    logdet = np.linalg.slogdet(gram)[1]
    scale = {"feature_norm": norm, "ridge": ridge}
    assert logdet <= theory.logdet_bound(dim=d, episode=K + 1, **scale) + 1e-9
    bound = theory.rare_switch_regret_bound(eta=1.5, dim=d, horizon=1, episodes=K, **scale)
    radius = theory.confidence_radius(dim=d, horizon=1, episodes=K)
    assert radius * bonuses <= bound.terms["exploration"] / (2 * math.sqrt(1.5)) * (1 + 1e-12)


def test_the_theorems_are_vacuous_at_the_experiments_size_and_not_for_ever():
    assert theory.batch_regret_bound(batches=50, **PAPER).vacuous
    assert theory.rare_switch_regret_bound(eta=2.0, **PAPER).vacuous
    long = {"dim": 2, "horizon": 2, "episodes": 10**9}
    assert not theory.batch_regret_bound(batches=10**6, **long).vacuous
    assert not theory.rare_switch_regret_bound(eta=2.0, **long).vacuous
    exact = theory.RegretBound(terms={"a": 1.0, "b": 2.0}, trivial=3.0)
    assert exact.vacuous
    assert exact.total == 3.0


def test_the_experiments_budget_of_fifty_switches_needs_a_huge_eta():
    assert 1e5 < theory.eta_for_budget(switches=50, **PAPER) < 1e7


@pytest.mark.parametrize(("d", "H", "K", "B"), [(2, 4, 800, 8), (3, 5, 903, 45), (1, 2, 11, 2)])
def test_the_lower_bound_has_a_constant_for_any_grid_and_one_for_uniform_grids(d, H, K, B):
    sizes = {"states": d, "horizon": H, "episodes": K, "batches": B}
    assert theory.lower_bound(**sizes) == pytest.approx(d * H * (K * H) / (4 * B))
    uniform = theory.lower_bound(**sizes, uniform=True)
    assert uniform == pytest.approx(d * (H - 1) * H / 2 * (K // B))


def test_with_one_stage_there_is_nothing_to_lose():
    sizes = {"states": 3, "horizon": 1, "episodes": 30, "batches": 5}
    assert theory.lower_bound(**sizes) == theory.lower_bound(**sizes, uniform=True) == 0.0


radius = partial(theory.confidence_radius, dim=2, horizon=2, episodes=9)
budget = partial(theory.eta_for_budget, dim=2, horizon=2, episodes=9)
switch = partial(theory.switch_bound, dim=2, horizon=2, episodes=9)
batch = partial(theory.batch_regret_bound, dim=2, horizon=2, episodes=9)
rare = partial(theory.rare_switch_regret_bound, dim=2, horizon=2, episodes=9)
lower = partial(theory.lower_bound, states=2, horizon=2, episodes=9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radius(failure_probability=0.0), "failure_probability must be .*got 0.0"),
        (lambda: radius(failure_probability=1.0), "failure_probability must be .*got 1.0"),
        (lambda: radius(constant=0.0), "constant must be .*above 0; got 0.0"),
        (lambda: radius(dim=0), "dim must be at least 1; got 0"),
        (lambda: radius(horizon=0), "horizon must be at least 1; got 0"),
        (lambda: radius(episodes=0), "episodes must be at least 1; got 0"),
        (lambda: budget(switches=0), "switches must be at least 1; got 0"),
        (lambda: budget(switches=1, ridge=0.0), "ridge must be .*above 0; got 0.0"),
        (lambda: budget(switches=1, feature_norm=-1.0), "feature_norm must be .*above 0"),
        (lambda: switch(eta=1.0), "eta must be .*above 1; got 1.0"),
        (lambda: batch(batches=0), "batches must be from 1 to 9; got 0"),
        (lambda: batch(batches=10), "batches must be from 1 to 9; got 10"),
        (lambda: rare(eta=0.9), "eta must be .*above 1; got 0.9"),
        (lambda: lower(batches=3), "batches must be from 4 to 9; got 3"),
        (lambda: lower(batches=10), "batches must be from 4 to 9; got 10"),
        (lambda: lower(batches=5, states=0), "states must be at least 1; got 0"),
        (lambda: theory.logdet_bound(dim=2, episode=0), "episode must be at least 1; got 0"),
    ],
)
def test_a_bad_argument_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_budget_that_no_finite_eta_keeps_names_the_least_that_one_does():
    sizes = {"dim": 100, "horizon": 100, "episodes": 10**6}
    with pytest.raises(ValueError, match=r"switches must be at least (\d+).*got 1") as caught:
        theory.eta_for_budget(switches=1, **sizes)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert theory.eta_for_budget(switches=least, **sizes) <= 1e300
    with pytest.raises(ValueError, match="switches must be at least"):
        theory.eta_for_budget(switches=least - 1, **sizes)
    assert rs.theory is theory
