import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import Starts, unit_rows
from rareswitch import theory
from rareswitch.planning.candidates import Sizes, candidates_for, replay

SMALL = Sizes(episodes=30, horizon=2, dim=3, feature_norm=1.5, ridge=0.5)
NAMES = [
    "adaptive budget",
    "total growth",
    "uniform grid",
    "geometric grid",
    "any-stage growth (Theorem 2)",
]


def names(budget, sizes):
    return [candidate.name for candidate in candidates_for(budget, sizes)]


def test_the_candidates_of_a_budget():
    for budget in range(1, 29):
        assert names(budget, SMALL) == NAMES
    assert names(0, SMALL) == ["uniform grid"]
    assert names(29, SMALL) == ["every episode"]
    assert names(0, Sizes(episodes=1, horizon=2, dim=3)) == ["every episode"]


@given(
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.1, 1.0, 3.4]),
    st.sampled_from([1e-6, 1.0, 20.0]),
    st.integers(0, 2**32),
)
def test_every_candidate_keeps_the_budget_and_promises_no_more(K, H, d, norm, ridge, seed):
    sizes = Sizes(episodes=K, horizon=H, dim=d, feature_norm=norm, ridge=ridge)
    rng = np.random.default_rng(seed)
    turns = np.eye(d)[np.arange(K + 1) % d]
    logs = [norm * unit_rows(rng, K + 1, H, d), norm * np.repeat(turns[:, None], H, axis=1)]
    for budget in range(K):
        for candidate, features in product(candidates_for(budget, sizes), logs):
            assert candidate.guaranteed_switches <= budget
            seen = features if budget < K - 1 else features[:K]
            made = replay(candidate.schedule, seen, ridge=ridge)
            assert len(made) <= candidate.guaranteed_switches


@pytest.mark.parametrize(
    "sizes",
    [SMALL, Sizes(episodes=2500, horizon=10, dim=13, feature_norm=3.3911649915626345, ridge=1e-3)],
)
def test_the_code_makes_the_schedule(sizes):
    for budget in (0, 1, 7, 20, sizes.episodes - 2, sizes.episodes - 1):
        for candidate in candidates_for(budget, sizes):
            made = eval(candidate.code, {"rs": rs})
            assert made == candidate.schedule
            assert type(made) is type(candidate.schedule)


def test_the_theorems_rule_is_left_out_where_its_eta_exceeds_every_float():
    sizes = Sizes(episodes=2500, horizon=40, dim=13)
    gain = 40 * theory.information_gain(dim=13, episodes=2500)
    least = math.ceil(gain / math.log(1e300))
    assert least > 1
    assert names(least - 1, sizes) == NAMES[:-1]
    assert names(least, sizes) == NAMES
    total = candidates_for(1, sizes)[1]
    assert total.schedule.log_eta == pytest.approx(gain / 2)
    assert math.isfinite(total.bound.total)


def test_the_bounds_are_the_theorems():
    sizes = vars(SMALL)
    found = {candidate.name: candidate for candidate in candidates_for(9, SMALL)}
    log_eta = found["total growth"].schedule.log_eta
    growth = theory.rare_switch_regret_bound(eta=math.exp(log_eta), **sizes).total
    any_stage = theory.rare_switch_regret_bound(
        eta=theory.eta_for_budget(switches=9, **sizes), **sizes
    ).total
    wanted = {
        "adaptive budget": growth,
        "total growth": growth,
        "uniform grid": theory.batch_regret_bound(batches=10, **sizes).total,
        "any-stage growth (Theorem 2)": any_stage,
    }
    for name, bound in wanted.items():
        assert found[name].bound.total == pytest.approx(bound, rel=1e-9)
    assert found["geometric grid"].bound is None
    assert growth < any_stage
    (every,) = candidates_for(29, SMALL)
    assert every.bound.total == theory.batch_regret_bound(batches=30, **sizes).total


@pytest.mark.parametrize("budget", [-1, 30, 31, 1000])
def test_an_impossible_budget_is_answered_with_what_is_possible(budget):
    with pytest.raises(ValueError, match=rf"switches must be from 0 to 29: .*; got {budget}"):
        candidates_for(budget, SMALL)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"episodes": None}, ValueError, r"episodes must be given.*DeterminantGrowth\(eta=2.0\)"),
        ({"episodes": 0}, ValueError, "episodes must be at least 1; got 0"),
        ({"episodes": 2.5}, TypeError, "episodes must be a whole number"),
        ({"horizon": 0}, ValueError, "horizon must be at least 1; got 0"),
        ({"dim": 0}, ValueError, "dim must be at least 1; got 0"),
        ({"feature_norm": 0.0}, ValueError, "feature_norm must be a finite number above 0"),
        ({"ridge": -1.0}, ValueError, "ridge must be a finite number above 0"),
    ],
)
def test_bad_sizes_are_refused(changes, error, message):
    with pytest.raises(error, match=message):
        Sizes(**vars(SMALL) | changes)


def test_a_replay_switches_when_the_learner_would():
    rng = np.random.default_rng(1)
    features = unit_rows(rng, 40, 3, 4)
    rules = [
        rs.DeterminantGrowth(eta=1.5),
        rs.TotalGrowth(2.0),
        rs.AdaptiveBudget(switches=9, episodes=40, dim=4, ridge=0.3),
        rs.UniformGrid(episodes=40, batches=7),
        rs.Capped(rs.EveryEpisode(), 5),
        rs.EveryEpisode(),
    ]
    for rule in rules:
        learner = rs.Learner(dim=4, horizon=3, schedule=rule, ridge=0.3)
        switched = []
        for k, rows in enumerate(features[:-1]):
            step = rs.Episode(features=rows, rewards=np.zeros(3), next_features=[rows, rows])
            if learner.observe(step):
                switched.append(k + 2)
        assert switched
        assert replay(rule, features, ridge=0.3) == switched


def test_a_replay_shows_the_rule_true_clocks():
    rng = np.random.default_rng(2)
    features = rng.standard_normal((12, 2, 3))

    class Spy:
        def __init__(self):
            self.clocks = []

        def due(self, clock):
            self.clocks.append(rs.Clock(**{k: np.copy(v) for k, v in vars(clock).items()}))
            return clock.episode in (4, 9)

    spy = Spy()
    assert replay(spy, features, ridge=0.7) == [4, 9]
    assert [int(clock.episode) for clock in spy.clocks] == list(range(2, 13))
    assert [int(c.updates) for c in spy.clocks] == [1] * 3 + [2] * 5 + [3] * 3
    for clock in spy.clocks:
        k = int(clock.episode)
        deployed = max(start for start in (1, 4, 9) if start < k)
        assert clock.deployed == deployed

        def gram(h, before):
            rows = features[: before - 1, h]
            return 0.7 * np.eye(3) + rows.T @ rows

        now = [np.linalg.slogdet(gram(h, k))[1] for h in range(2)]
        then = [np.linalg.slogdet(gram(h, deployed))[1] for h in range(2)]
        np.testing.assert_allclose(clock.logdet, now, atol=1e-9)
        np.testing.assert_allclose(clock.logdet_deployed, then, atol=1e-9)
        traces = [np.trace(gram(h, deployed)) for h in range(2)]
        np.testing.assert_allclose(clock.trace_deployed, traces, rtol=1e-12)


def test_a_log_of_one_episode_has_no_switch():
    assert replay(rs.EveryEpisode(), np.ones((1, 2, 3))) == []
    assert replay(Starts([2]), np.ones((2, 2, 3))) == [2]


@pytest.mark.parametrize(
    ("features", "error", "message"),
    [
        (np.ones((5, 3)), ValueError, r"features must have shape \(n, H, d\); got \(5, 3\)"),
        (np.full((5, 2, 2), np.nan), ValueError, "features must be finite"),
        ("log", TypeError, "features must be an array of numbers"),
    ],
)
def test_a_bad_log_is_refused(features, error, message):
    with pytest.raises(error, match=message):
        replay(rs.EveryEpisode(), features)
