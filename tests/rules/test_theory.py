import math
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch import theory

PAPER = rs.Task(dim=13, horizon=10, episodes=2500)
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
        rs.Task(dim=d, horizon=H, episodes=K), batches=B, failure_probability=p, constant=c
    )
    assert bound.total == pytest.approx(printed_batch_bound(d, H, K, B, p, c), rel=1e-12)
    assert float(bound) == bound.total
    assert set(bound.terms) == {"martingale", "batching", "exploration"}
    assert bound.trivial == K * H


@pytest.mark.parametrize(("d", "H", "K", "B", "p", "c"), SIZES)
def test_theorem_2_is_as_printed_with_its_own_eta(d, H, K, B, p, c):
    task = rs.Task(dim=d, horizon=H, episodes=K)
    eta = theory.eta_for_budget(task, switches=B)
    assert eta == pytest.approx((1 + K / d) ** (d * H / B), rel=1e-11)
    bound = theory.rare_switch_regret_bound(task, eta=eta, failure_probability=p, constant=c)
    same = theory.rare_switch_regret_bound(
        task, log_eta=math.log(eta), failure_probability=p, constant=c
    )
    assert same.total == bound.total
    assert bound.total == pytest.approx(printed_rare_switch_bound(d, H, K, B, p, c), rel=1e-11)
    assert set(bound.terms) == {"martingale", "exploration"}
    assert bound.trivial == K * H


@pytest.mark.parametrize(("d", "H", "K", "B", "p", "c"), SIZES)
def test_the_radius_is_as_printed(d, H, K, B, p, c):
    task = rs.Task(dim=d, horizon=H, episodes=K)
    radius = theory.confidence_radius(task, failure_probability=p, constant=c)
    assert radius == pytest.approx(c * d * H * math.sqrt(math.log(2 * d * K * H / p)), rel=1e-12)


def test_the_radius_at_the_experiments_size_is_in_the_hundreds():
    assert 500 < theory.confidence_radius(PAPER) < 550


@pytest.mark.parametrize(("L", "ridge"), [(1.0, 1.0), (3.4, 1.0), (1.0, 0.01), (0.5, 7.0)])
def test_the_lemmas_hold_with_any_feature_norm_and_ridge(L, ridge):
    d, H, K, eta = 5, 3, 200, 1.7
    task = rs.Task(dim=d, horizon=H, episodes=K, feature_norm=L)
    logdet = theory.logdet_bound(task, episode=K, ridge=ridge)
    assert logdet == pytest.approx(d * math.log(ridge + (K - 1) * L**2 / d), rel=1e-12)
    switches = theory.switch_bound(task, eta=eta, ridge=ridge)
    gain = d * math.log(1 + K * L**2 / (ridge * d))
    assert switches == pytest.approx(H * gain / math.log(eta), rel=1e-12)
    budget = theory.eta_for_budget(task, switches=9, ridge=ridge)
    assert budget == pytest.approx((1 + K * L**2 / (ridge * d)) ** (d * H / 9), rel=1e-11)
    assert theory.information_gain(task, ridge=ridge) == pytest.approx(gain, rel=1e-12)
    half = d * math.log(1 + K / 2 * L**2 / (ridge * d))
    found = theory.information_gain(task, ridge=ridge, episodes=K // 2)
    assert found == pytest.approx(half, rel=1e-12)
    found = theory.switch_bound(task, eta=eta, ridge=ridge, episodes=K // 2)
    assert found == pytest.approx(H * half / math.log(eta), rel=1e-12)


@pytest.mark.parametrize(("L", "ridge"), [(1.0, 1.0), (3.4, 1.0), (1.0, 0.1), (0.3, 2.0)])
def test_the_bounds_take_the_feature_norm_and_the_ridge(L, ridge):
    d, H, K, B, eta, p = 4, 3, 500, 20, 2.0, 0.1
    task = rs.Task(dim=d, horizon=H, episodes=K, feature_norm=L)
    terms = {"ridge": ridge, "failure_probability": p}
    x = L**2 / ridge
    log = math.log(2 * d * K * H / p)
    gain = d * math.log(1 + K * x / d)
    per_log = max(2.0, x / math.log(1 + x))
    bonuses = d * H * math.sqrt(log) * H * math.sqrt(K * per_log * gain)
    batch = theory.batch_regret_bound(task, batches=B, **terms).terms
    assert batch["batching"] == pytest.approx(H**2 * K * gain / (2 * B * math.log(2)))
    assert batch["exploration"] == pytest.approx(4 * bonuses)
    assert batch["martingale"] == pytest.approx(2 * H * math.sqrt(K * H * log))
    rare = theory.rare_switch_regret_bound(task, eta=eta, **terms).terms
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
    task = rs.Task(dim=d, horizon=1, episodes=K, feature_norm=norm)
    assert logdet <= theory.logdet_bound(task, episode=K + 1, ridge=ridge) + 1e-9
    bound = theory.rare_switch_regret_bound(task, eta=1.5, ridge=ridge)
    radius = theory.confidence_radius(task)
    assert radius * bonuses <= bound.terms["exploration"] / (2 * math.sqrt(1.5)) * (1 + 1e-12)


def test_the_theorems_are_vacuous_at_the_experiments_size_and_not_for_ever():
    assert theory.batch_regret_bound(PAPER, batches=50).vacuous
    assert theory.rare_switch_regret_bound(PAPER, eta=2.0).vacuous
    long = rs.Task(dim=2, horizon=2, episodes=10**9)
    assert not theory.batch_regret_bound(long, batches=10**6).vacuous
    assert not theory.rare_switch_regret_bound(long, eta=2.0).vacuous
    assert theory.rare_switch_regret_bound(long, log_eta=1e6).vacuous
    exact = theory.RegretBound(terms={"a": 1.0, "b": 2.0}, trivial=3.0)
    assert exact.vacuous
    assert exact.total == 3.0


def test_the_experiments_budget_of_fifty_switches_needs_a_huge_eta():
    assert 1e5 < theory.eta_for_budget(PAPER, switches=50) < 1e7


@pytest.mark.parametrize(("d", "H", "K", "B"), [(2, 4, 800, 8), (3, 5, 903, 45), (1, 2, 11, 2)])
def test_the_lower_bound_has_a_constant_for_any_grid_and_one_for_uniform_grids(d, H, K, B):
    sizes = {"states": d, "horizon": H, "episodes": K, "batches": B}
    assert theory.lower_bound(**sizes) == pytest.approx(d * H * (K * H) / (4 * B))
    uniform = theory.lower_bound(**sizes, uniform=True)
    assert uniform == pytest.approx(d * (H - 1) * H / 2 * (K // B))


def test_with_one_stage_there_is_nothing_to_lose():
    sizes = {"states": 3, "horizon": 1, "episodes": 30, "batches": 5}
    assert theory.lower_bound(**sizes) == theory.lower_bound(**sizes, uniform=True) == 0.0


SMALL = rs.Task(dim=2, horizon=2, episodes=9)
radius = partial(theory.confidence_radius, SMALL)
budget = partial(theory.eta_for_budget, SMALL)
switch = partial(theory.switch_bound, SMALL)
batch = partial(theory.batch_regret_bound, SMALL)
rare = partial(theory.rare_switch_regret_bound, SMALL)
lower = partial(theory.lower_bound, states=2, horizon=2, episodes=9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: radius(failure_probability=0.0), "failure_probability must be .*got 0.0"),
        (lambda: radius(failure_probability=1.0), "failure_probability must be .*got 1.0"),
        (lambda: radius(constant=0.0), "constant must be .*above 0 .*; got 0.0"),
        (lambda: budget(switches=0), "switches must be at least 1; got 0"),
        (lambda: budget(switches=1, ridge=0.0), "ridge must be .*at least 1e-100 .*; got 0.0"),
        (lambda: switch(eta=1.0), "eta must be .*above 1; got 1.0"),
        (lambda: batch(batches=0), "batches must be from 1 to 9; got 0"),
        (lambda: batch(batches=10), "batches must be from 1 to 9; got 10"),
        (lambda: rare(eta=0.9), "eta must be .*above 1; got 0.9"),
        (lambda: rare(log_eta=0.0), "log_eta must be .*above 0; got 0.0"),
        (lambda: switch(eta=2.0, episodes=-1), "episodes must be at least 0; got -1"),
        (lambda: lower(batches=3), "batches must be from 4 to 9; got 3"),
        (lambda: lower(batches=10), "batches must be from 4 to 9; got 10"),
        (lambda: lower(batches=5, states=0), "states must be at least 1; got 0"),
        (lambda: theory.logdet_bound(SMALL, episode=0), "episode must be at least 1; got 0"),
    ],
)
def test_a_bad_argument_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("given", [{}, {"eta": 2.0, "log_eta": 1.0}])
def test_growth_is_said_once(given):
    with pytest.raises(TypeError, match="either eta or log_eta must be given"):
        rare(**given)


def test_a_budget_that_no_finite_eta_keeps_names_the_least_that_one_does():
    task = rs.Task(dim=100, horizon=100, episodes=10**6)
    with pytest.raises(ValueError, match=r"switches must be at least (\d+).*got 1") as caught:
        theory.eta_for_budget(task, switches=1)
    least = int(str(caught.value).split("at least ")[1].split()[0])
    assert theory.eta_for_budget(task, switches=least) <= 1e300
    with pytest.raises(ValueError, match="switches must be at least"):
        theory.eta_for_budget(task, switches=least - 1)
    assert rs.theory is theory


def test_no_size_makes_the_gain_infinite():
    huge = rs.Task(dim=5, horizon=2, episodes=10**9, feature_norm=1e100)
    gain = rs.theory.information_gain(huge, ridge=1e-100)
    expected = 5 * (math.log(10**9 / 5) + 300 * math.log(10))
    assert gain == pytest.approx(expected, rel=1e-12)


# Stages that share their steps.


@pytest.mark.parametrize(("L", "ridge"), [(1.0, 1.0), (3.4, 0.1), (0.5, 7.0)])
@pytest.mark.parametrize("H", [2, 5])
def test_pools_grow_by_all_steps_of_an_episode(H, L, ridge):
    d, K = 3, 200
    task = rs.Task(dim=d, horizon=H, episodes=K, feature_norm=L, stages="shared")

    def most(steps):
        return d * math.log(1 + steps * L**2 / (ridge * d))

    growth = most((H - 1) * K) + most(H * K)
    assert theory.total_growth(task, ridge=ridge) == pytest.approx(growth, rel=1e-12)
    half = most((H - 1) * K // 2) + most(H * K // 2)
    found = theory.total_growth(task, ridge=ridge, episodes=K // 2)
    assert found == pytest.approx(half, rel=1e-12)
    assert theory.information_gain(task, ridge=ridge) == pytest.approx(most(H * K), rel=1e-12)
    bound = theory.switch_bound(task, eta=1.7, ridge=ridge)
    assert bound == pytest.approx(growth / math.log(1.7), rel=1e-12)
    eta = theory.eta_for_budget(task, switches=9, ridge=ridge)
    assert math.log(eta) == pytest.approx(growth / 9, rel=1e-11)
    logdet = theory.logdet_bound(task, episode=K, ridge=ridge)
    assert logdet == pytest.approx(d * math.log(ridge + H * (K - 1) * L**2 / d), rel=1e-12)


def test_own_stages_grow_alike_and_a_single_one_has_nothing_to_share():
    own = rs.Task(dim=4, horizon=5, episodes=30)
    assert theory.total_growth(own, ridge=0.2) == 5 * theory.information_gain(own, ridge=0.2)
    one, same = (rs.Task(dim=4, horizon=1, episodes=30, stages=s) for s in ("own", "shared"))
    assert theory.total_growth(one) == theory.total_growth(same)
    assert theory.batch_regret_bound(one, batches=3) == theory.batch_regret_bound(same, batches=3)


@given(st.integers(0, 10**6), st.integers(2, 4), st.sampled_from([0.05, 1.0]))
def test_no_pool_exceeds_the_logdet_bound(seed, H, ridge):
    rng, d, K = np.random.default_rng(seed), 3, 15
    task = rs.Task(dim=d, horizon=H, episodes=K, stages="shared")
    features = rng.standard_normal((K, H, d))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    for last in (H - 1, H):
        rows = features[:, :last].reshape(-1, d)
        logdet = np.linalg.slogdet(ridge * np.eye(d) + rows.T @ rows)[1]
        assert logdet <= theory.logdet_bound(task, episode=K + 1, ridge=ridge) + 1e-9


@pytest.mark.parametrize(
    "bound",
    [
        lambda task: theory.batch_regret_bound(task, batches=3),
        lambda task: theory.rare_switch_regret_bound(task, eta=2.0),
        lambda task: rs.DeterminantGrowth(eta=2.0).regret_bound(task),
        lambda task: rs.EveryEpisode().regret_bound(task),
        lambda task: rs.rules.TotalGrowth(eta=2.0).regret_bound(task),
    ],
)
def test_no_regret_bound_is_claimed_for_shared_stages(bound):
    task = rs.Task(dim=2, horizon=2, episodes=9, stages="shared")
    with pytest.raises(ValueError, match='task must have stages="own": no regret bound is proved'):
        bound(task)


OPEN = rs.Task(dim=2, horizon=2)


@pytest.mark.parametrize(
    "bound",
    [
        theory.information_gain,
        theory.total_growth,
        theory.confidence_radius,
        partial(theory.eta_for_budget, switches=3),
        partial(theory.switch_bound, eta=2.0),
        partial(theory.batch_regret_bound, batches=3),
        partial(theory.rare_switch_regret_bound, eta=2.0),
    ],
    ids=lambda bound: getattr(bound, "func", bound).__name__,
)
def test_a_bound_needs_episodes(bound):
    with pytest.raises(ValueError, match="task must have episodes: a bound needs their number K"):
        bound(OPEN)
    assert bound(SMALL) is not None


def test_a_bound_for_a_given_number_of_episodes_needs_no_task_with_episodes():
    for bound in (
        theory.information_gain,
        theory.total_growth,
        partial(theory.switch_bound, eta=2.0),
    ):
        assert bound(OPEN, episodes=9) == bound(SMALL)
    assert theory.logdet_bound(OPEN, episode=5) == theory.logdet_bound(SMALL, episode=5)
