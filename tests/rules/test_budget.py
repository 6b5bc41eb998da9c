import math
import tomllib
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from oracles import (
    Asked,
    clock_at,
    followed,
    masked_world,
    ragged_episode,
    replay,
    stepped,
    switches_of,
)
from rareswitch import theory
from rareswitch.core.clock import GROWTH_TOLERANCE, Ledger
from rareswitch.rules import words
from rareswitch.rules.grids import MinimaxGrid
from rareswitch.rules.table import RULES, row_of
from rareswitch.rules.words import describe, rebuild
from rareswitch.sim.run import noise_of
from rareswitch.testing import check_schedule


def isotropic(rng, count, dim):
    """Every direction in turn: the determinant grows as much as it can."""
    return np.eye(dim)[np.arange(count) % dim]


def same(rng, count, dim):
    return np.tile(np.eye(dim)[0], (count, 1))


def one_new_at_a_time(rng, count, dim):
    return np.eye(dim)[np.minimum(np.arange(count) * dim // count, dim - 1)]


def tiny_then_full(rng, count, dim):
    size = np.where(np.arange(count) < count // 2, 1e-6, 1.0)
    return size[:, None] * isotropic(rng, count, dim)


def full_then_nothing(rng, count, dim):
    return isotropic(rng, count, dim) * (np.arange(count) < count // 2)[:, None]


def nothing(rng, count, dim):
    return np.zeros((count, dim))


def random_lengths(rng, count, dim):
    rows = rng.standard_normal((count, dim))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * rng.random((count, 1))


def rotated(rng, count, dim):
    """As isotropic, in a basis of its own: rounding enters everywhere."""
    basis = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return basis[np.arange(count) % dim]


PATHS = [
    isotropic,
    same,
    one_new_at_a_time,
    tiny_then_full,
    full_then_nothing,
    nothing,
    random_lengths,
    rotated,
]


@st.composite
def logs(draw, *, most_episodes=14, ridges=(1e-9, 1e-4, 0.5, 1.0, 50.0)):
    """Draw (task, λ, features): features (K+1, H, d) no longer than L, the last row never seen."""
    task = rs.Task(
        dim=draw(st.integers(1, 4)),
        horizon=draw(st.integers(1, 3)),
        episodes=draw(st.integers(1, most_episodes)),
        feature_norm=draw(st.sampled_from([0.05, 1.0, 3.4])),
        stages=draw(st.sampled_from(["own", "shared"])),
    )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    stages = [
        draw(st.sampled_from(PATHS))(rng, task.episodes, task.dim) for _ in range(task.horizon)
    ]
    features = task.feature_norm * np.stack(stages, axis=1)
    return task, draw(st.sampled_from(ridges)), np.concatenate([features, features[:1]])


def guaranteed(switches, task, ridge):
    """Yield every rule that promises at most so many deployments after the first."""
    K = task.episodes
    adaptive = rs.rules.AdaptiveBudget.for_budget(task, switches=switches)
    yield rs.rules.Capped(rs.EveryEpisode(), switches)
    yield rs.rules.Capped(rs.DeterminantGrowth(eta=1.0 + 1e-9), switches=switches)
    yield rs.rules.Capped(
        rs.rules.Capped(rs.rules.TotalGrowth(log_eta=1e-6), switches + 1), switches
    )
    yield rs.rules.Capped(adaptive, switches)
    yield rs.UniformGrid(batches=switches + 1, spread="balanced")
    yield MinimaxGrid(batches=switches + 1)
    for kind in (row.cls for row in RULES if hasattr(row.cls, "for_budget")):
        growth = theory.total_growth(task, ridge=ridge)
        if kind is rs.EveryEpisode and switches < K - 1:
            continue
        if kind is rs.DeterminantGrowth and growth >= switches * math.log(1e300):
            continue  # its η would exceed every float
        yield kind.for_budget(task, switches=switches, ridge=ridge)


@given(logs())
def test_no_rule_exceeds_its_budget_on_any_path(log):
    task, ridge, features = log
    for budget in range(task.episodes):
        for rule in guaranteed(budget, task, ridge):
            made = len(replay(rule, features[:-1], task=task, ridge=ridge))
            assert made <= budget, rule
            limit = getattr(rule, "deployment_limit", None)
            assert limit is None or made <= limit(task, ridge) * (1 + 1e-12), rule
            # Also were it asked after the last episode; but where growth is then exactly the bound,
            # the rounding of whole episodes, which is coarser, may decide.
            if task.stages == "own" and not isinstance(rule, rs.EveryEpisode):
                assert len(replay(rule, features, task=task, ridge=ridge)) <= budget, rule


@given(logs())
def test_a_budget_holds_where_the_task_says_too_small_a_feature_norm(log):
    task, ridge, features = log
    told = replace(task, feature_norm=task.feature_norm / 100)
    for budget in range(task.episodes):
        for kind in (rs.rules.AdaptiveBudget, rs.SpreadBudget):
            made = len(replay(kind(switches=budget), features, task=told, ridge=ridge))
            assert made <= budget
            made = len(replay(kind(switches=budget), features[:-1], task=told, ridge=ridge))
            assert made <= kind(switches=budget).deployment_limit(told, ridge)


@settings(max_examples=12)
@given(st.integers(0, 10**6), st.integers(1, 9), st.sampled_from([1e-3, 1.0]))
def test_a_learner_of_a_task_with_episodes_keeps_every_budget(seed, K, ridge):
    rng = np.random.default_rng(seed)
    task = rs.Task(dim=2, horizon=2, episodes=K)
    episodes = [ragged_episode(rng, horizon=2, dim=2) for _ in range(K + 2)]
    for budget in range(K):
        for rule in guaranteed(budget, task, ridge):
            learner = rs.Learner(task, rule, rs.Recipe.paper(beta=1.0, ridge=ridge))
            for episode in episodes:
                learner.observe(episode)
            assert len(learner.ledger) - 1 <= budget, rule
            if isinstance(rule, rs.EveryEpisode):
                assert len(learner.ledger) - 1 == K - 1
            assert learner.due is False


@given(logs(most_episodes=40))
def test_the_adaptive_rule_is_never_behind_the_one_with_a_fixed_threshold(log):
    task, ridge, features = log
    for budget in {0, 1, task.episodes // 3, task.episodes - 1}:
        fixed = rs.rules.TotalGrowth.for_budget(task, switches=budget, ridge=ridge)
        adaptive = rs.rules.AdaptiveBudget.for_budget(task, switches=budget)
        early, late = (replay(rule, features, task=task, ridge=ridge) for rule in (adaptive, fixed))
        assert len(early) >= len(late)
        assert all(a <= b for a, b in zip(early, late, strict=False))


class Watched:
    """A rule, with the thresholds it had."""

    def __init__(self, rule):
        self.rule = rule
        self.thresholds = []

    def due(self, clock):
        self.thresholds.append(self.rule.threshold(clock))
        return self.rule.due(clock)


@given(logs(most_episodes=30))
def test_the_adaptive_threshold_never_increases_and_starts_at_the_fixed_one(log):
    task, ridge, features = log
    for budget in {0, 2, task.episodes // 2}:
        watched = Watched(rs.rules.AdaptiveBudget.for_budget(task, switches=budget))
        made = replay(watched, features, task=task, ridge=ridge)
        assert len(made) <= budget
        fixed = rs.rules.TotalGrowth.for_budget(task, switches=budget, ridge=ridge).log_eta
        assert watched.thresholds[0] == pytest.approx(fixed, rel=1e-9, abs=1e-12)
        assert (np.diff(watched.thresholds) <= 1e-9).all()


@given(logs())
def test_a_budget_of_none_is_never_spent(log):
    task, ridge, features = log
    for rule in guaranteed(0, task, ridge):
        assert replay(rule, features[:-1], task=task, ridge=ridge) == []


def test_the_budget_is_used_when_growth_is_what_the_bound_allows():
    # d = H = 1: log det Λ before episode k is log(k), the bound with equality.
    ones = np.ones((1025, 1, 1))
    task = rs.Task(dim=1, horizon=1, episodes=1023)
    rule = rs.rules.TotalGrowth.for_budget(task, switches=9)
    assert rule.log_eta == pytest.approx(math.log(2.0))
    assert replay(rule, ones) == [2**i - 1 for i in range(2, 11)]
    adaptive = rs.rules.AdaptiveBudget.for_budget(task, switches=9)
    assert len(replay(adaptive, ones, task=task)) == 9


@pytest.mark.parametrize("switches", range(60))
def test_a_rule_for_a_budget_says_that_it_keeps_it(switches):
    task = rs.Task(dim=3, horizon=2, episodes=60, feature_norm=1.7)
    for kind in (rs.rules.TotalGrowth, rs.rules.AdaptiveBudget, rs.SpreadBudget):
        rule = kind.for_budget(task, switches=switches, ridge=0.3)
        assert rule.deployment_limit(task, 0.3) <= switches
    assert rs.rules.Capped(rs.EveryEpisode(), switches).deployment_limit(task) == switches


def test_regret_bounds_are_those_of_the_growth_they_allow():
    task = rs.Task(dim=3, horizon=2, episodes=60)
    total = rs.rules.TotalGrowth.for_budget(task, switches=7, ridge=0.3)
    expected = theory.rare_switch_regret_bound(task, log_eta=total.log_eta, ridge=0.3)
    assert total.regret_bound(task, 0.3) == expected
    adaptive = rs.rules.AdaptiveBudget.for_budget(task, switches=7)
    assert adaptive.regret_bound(task, 0.3) == expected


@given(logs(ridges=(0.1, 1.0, 50.0)), st.sampled_from([0.05, math.log(2.0), 1.5]))
def test_between_switches_no_bonus_shrinks_by_more_than_root_eta(log, log_eta):
    task, ridge, features = log
    rule = rs.rules.TotalGrowth(log_eta=log_eta)
    made = set(replay(rule, features, task=task, ridge=ridge))
    current = np.tile(ridge * np.eye(task.dim), (task.pools.count, 1, 1))
    deployed, contains = current.copy(), task.pools.contains
    for k in range(2, len(features) + 1):
        seen = features[k - 2]
        current += np.einsum("ph,hi,hj->pij", contains, seen, seen)
        if k in made:
            deployed = current.copy()
        inverse = np.linalg.inv(np.linalg.cholesky(deployed))
        # The largest of (Γ^b/Γ^k)² over all φ is the largest eigenvalue of Λ_b⁻¹Λ_k.
        ratio = np.linalg.eigvalsh(inverse @ current @ inverse.mT).max(axis=-1)
        assert ratio.max() <= math.exp(log_eta) * (1 + 1e-8)
        product = np.linalg.slogdet(current)[1] - np.linalg.slogdet(deployed)[1]
        assert product.sum() <= log_eta + 1e-8


def test_the_threshold_counts_all_steps_that_an_episode_may_add():
    """Where stages share, of the growth still possible."""
    logdet, trace, steps = np.array([1.5, 4.0]), np.array([7.0, 30.0]), np.array([4.0, 5.0])
    task = rs.Task(dim=3, horizon=5, episodes=100, feature_norm=2.0, stages="shared")
    for kind in (rs.rules.AdaptiveBudget, rs.SpreadBudget):
        clock = clock_at(
            [1.0, 1.0],
            task=task,
            episode=70,
            logdet=logdet,
            deployed_at=41,
            deployments=3,
            trace=trace,
        )
        largest = 3 * np.log((trace + 60 * steps * 4.0) / 3)
        found = kind(switches=5).threshold(clock)
        assert found == pytest.approx((largest - logdet).sum() / 4, rel=1e-12)


# Paths that are as bad as can be for stages that share: every pool grows as much as it can, not at
# all, or all at once.


def growing_most(rng, count, dim, horizon):
    """At every step the direction that is known least: no path makes determinants grow more."""
    gram, path = 1e-3 * np.eye(dim), []
    for _ in range(count * horizon):
        direction = np.linalg.eigh(gram)[1][:, 0]
        gram += np.outer(direction, direction)
        path.append(direction)
    return np.reshape(path, (count, horizon, dim))


def by_episode(path):
    """Return the path that does the same in all stages of an episode."""
    return lambda rng, count, dim, horizon: np.repeat(
        path(rng, count, dim)[:, None], horizon, axis=1
    )


def by_step(path):
    """Return the path that goes on from stage to stage."""
    return lambda rng, count, dim, horizon: path(rng, count * horizon, dim).reshape(
        count, horizon, dim
    )


EXTREME = {
    "growing most": growing_most,
    **{f"{path.__name__} by episode": by_episode(path) for path in PATHS},
    **{f"{path.__name__} by step": by_step(path) for path in PATHS},
}
PROMISING = (rs.rules.TotalGrowth, rs.DeterminantGrowth, rs.rules.AdaptiveBudget, rs.SpreadBudget)


@pytest.mark.parametrize("path", EXTREME.values(), ids=EXTREME)
@pytest.mark.parametrize(("d", "H", "K"), [(1, 2, 9), (2, 2, 11), (3, 4, 8), (6, 3, 7)])
def test_every_budget_holds_on_extreme_paths_of_shared_stages(path, d, H, K):
    rng = np.random.default_rng(d)
    for norm, ridge in ((1.0, 1.0), (3.4, 1e-3), (0.3, 5.0)):
        task = rs.Task(dim=d, horizon=H, episodes=K, feature_norm=norm, stages="shared")
        features = norm * path(rng, K, d, H)
        for budget in (0, 1, 3, K - 1):
            for kind in PROMISING:
                growth = theory.total_growth(task, ridge=ridge)
                if kind is rs.DeterminantGrowth and growth >= budget * math.log(1e300):
                    continue  # its η would exceed every float
                rule = kind.for_budget(task, switches=budget, ridge=ridge)
                made = len(replay(rule, features, task=task, ridge=ridge))
                assert made <= budget
                assert made <= rule.deployment_limit(task, ridge) <= budget
                if kind is rs.SpreadBudget:
                    assert made == budget
        for rule in (rs.rules.TotalGrowth(eta=1.5), rs.DeterminantGrowth(eta=1.5)):
            made = len(replay(rule, features, task=task, ridge=ridge))
            assert made <= rule.deployment_limit(task, ridge)


@pytest.mark.parametrize("H", [2, 5])
def test_the_budget_of_shared_stages_is_used_where_growth_is_what_the_bound_allows(H):
    """With d = 1 every path of full length is: a lower threshold would be too low for the last."""
    K, budget = 2000, 6
    task = rs.Task(dim=1, horizon=H, episodes=K, stages="shared")
    rule = rs.rules.TotalGrowth.for_budget(task, switches=budget)
    assert len(replay(rule, np.ones((K, H, 1)), task=task)) == budget
    lower = rs.rules.TotalGrowth(log_eta=rule.log_eta * budget / (budget + 1))
    assert len(replay(lower, np.ones((K, H, 1)), task=task)) == budget + 1
    growth = math.log1p((H - 1) * K) + math.log1p(H * K)
    assert rule.log_eta == pytest.approx(growth / (budget + 1), rel=1e-12)


@pytest.mark.parametrize("stages", ["own", "shared"])
@given(st.integers(0, 10**6), st.sampled_from(list(EXTREME)), st.integers(0, 5))
def test_every_budget_holds_after_a_warm_start(stages, seed, path, budget):
    rng, K, d, H = np.random.default_rng(seed), 8, 2, 2
    task = rs.Task(dim=d, horizon=H, episodes=K, stages=stages)
    seen = EXTREME[path](rng, K, d, H)
    log = [
        rs.Episode(features=rows, rewards=np.zeros(H), next_features=[rows] * (H - 1))
        for rows in seen
    ]
    warm = [ragged_episode(rng, horizon=H, dim=d) for _ in range(int(rng.integers(0, 6)))]
    for kind in PROMISING:
        if kind is rs.DeterminantGrowth and not budget:
            continue
        rule = kind.for_budget(task, switches=budget)
        learner = rs.Learner(task, rule, rs.Recipe.paper(beta=0.5), warm_start=warm)
        for episode in log:
            learner.observe(episode)
        assert len(learner.ledger) - 1 <= budget
        if kind is rs.SpreadBudget:
            assert len(learner.ledger) - 1 == budget


def test_the_adaptive_threshold_is_the_share_of_what_growth_is_left():
    rule = rs.rules.AdaptiveBudget(switches=5)
    logdet, trace = np.array([1.5, 4.0]), np.array([7.0, 30.0])
    task = rs.Task(dim=3, horizon=2, episodes=100, feature_norm=2.0)
    clock = clock_at(
        [1.0, 1.0],
        task=task,
        episode=70,
        logdet=logdet,
        deployed_at=41,
        deployments=3,
        trace=trace,
    )
    # 60 episodes and 3 switches are left, so there are 4 shares.
    largest = 3 * np.log((trace + 60 * 4.0) / 3)
    assert rule.threshold(clock) == pytest.approx((largest - logdet).sum() / 4, rel=1e-12)


def at(log_growth, *, deployments=1):
    task = rs.Task(dim=2, horizon=2, episodes=50)
    return clock_at([log_growth / 2] * 2, task=task, deployments=deployments, trace=2.0)


def test_growth_adds_over_stages_and_exactly_eta_is_not_above_it():
    rule = rs.rules.TotalGrowth(eta=2.0)
    assert rule == rs.rules.TotalGrowth(log_eta=math.log(2.0))
    exact = math.log(2.0)
    assert [rule.due(at(exact + extra)) for extra in (-1e-6, 0.0, 0.9e-10, 1.1e-10)] == [
        False,
        False,
        False,
        True,
    ]
    mixed = clock_at([0.4, 0.0, 0.3], logdet=[5.0, 2.0, 1.0])
    assert rule.due(mixed) is True
    assert rs.rules.TotalGrowth(eta=2.1).due(mixed) is False


def test_the_adaptive_rule_needs_more_than_its_threshold():
    rule = rs.rules.AdaptiveBudget(switches=3)
    threshold = rule.threshold(at(0.0))
    assert rule.due(at(threshold)) is False
    assert rule.due(at(threshold + 0.5 * GROWTH_TOLERANCE)) is False
    assert rule.due(at(threshold + 2 * GROWTH_TOLERANCE)) is True
    assert rule.due(at(threshold + 9.0, deployments=3)) is True
    assert rule.due(at(threshold + 9.0, deployments=4)) is False


def test_features_longer_than_said_still_keep_the_budget_and_spend_it():
    features = np.tile(5.0 * np.eye(2)[:, None], (20, 1, 1))
    task = rs.Task(dim=2, horizon=1, episodes=40, feature_norm=0.1)
    assert len(replay(rs.rules.AdaptiveBudget(switches=4), features, task=task)) == 4


def test_a_stage_that_outgrew_its_bound_takes_nothing_from_the_others():
    rule = rs.rules.AdaptiveBudget(switches=3)
    task = rs.Task(dim=1, horizon=2, episodes=9)
    clock = clock_at([0.0, 0.0], task=task, logdet=[50.0, 0.0])
    assert rule.threshold(clock) == pytest.approx(math.log(10.0) / 4)
    clock = clock_at([0.0], task=replace(task, horizon=1), logdet=50.0)
    assert rule.threshold(clock) == 0.0
    assert rule.due(clock) is False


# A budget that is spent.


@st.composite
def growths(draw, *, most_episodes=40):
    """Draw (rule, log-determinants (K, H) before episodes 1 … K, traces): any path that grows.

    Steps may be nothing, tiny, of common size, or jumps far above what ‖φ‖ ≤ L allows.
    """
    K, stages = draw(st.integers(1, most_episodes)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.sampled_from([0.0, 1e-12, 0.1, 2.0, 1e3]), min_size=1, max_size=4))
    steps = rng.choice(sizes, (K - 1, stages)) * rng.random((K - 1, stages))
    logdet = np.concatenate([np.zeros((1, stages)), np.cumsum(steps, axis=0)])
    rule = rs.SpreadBudget(switches=draw(st.integers(0, K + 3)))
    task = rs.Task(dim=draw(st.integers(1, 3)), horizon=stages, episodes=K)
    return rule, task, logdet, task.dim * (1.0 + np.arange(K))[:, None] * np.ones(stages)


def deployed_on(rule, task, logdet, trace, *, asked=None):
    """Return the episodes of all deployments, and how each clock of those asked was answered."""
    ledger, answers = Ledger(), {}
    for k in range(1, len(logdet) + 1):
        if k > 1 and asked is not None and k not in asked:
            continue
        if k > 1:
            clock = ledger.clock(task, episode=k, logdet=logdet[k - 1])
            answers[k] = clock, rule.due(clock)
        if k == 1 or answers[k][1]:
            ledger = ledger.deploy(episode=k, logdet=logdet[k - 1], trace=trace[k - 1])
    return [deployment.episode for deployment in ledger], answers


@given(growths())
def test_the_spread_budget_is_spent_to_the_last_whatever_the_growth(path):
    rule, task, logdet, trace = path
    made, answers = deployed_on(rule, task, logdet, trace)
    assert len(made) - 1 == min(rule.switches, task.episodes - 1)
    for clock, due in answers.values():
        if clock.deployments <= rule.switches:  # never later than its date
            assert clock.episode <= rule.date(clock)
            assert due or clock.episode < rule.date(clock)


@given(growths(), st.integers(0, 2**32), st.sampled_from([0.1, 0.5, 0.9]))
def test_a_spread_budget_that_is_asked_late_is_never_exceeded(path, seed, share):
    rule, task, logdet, trace = path
    asked = np.flatnonzero(np.random.default_rng(seed).random(task.episodes) < share) + 1
    made, answers = deployed_on(rule, task, logdet, trace, asked=set(asked.tolist()))
    assert len(made) - 1 <= min(rule.switches, task.episodes - 1)
    for clock, due in answers.values():
        left = rule.switches - (clock.deployments - 1)
        if clock.episode >= rule.date(clock):  # what is overdue is due at once
            assert due == (left > 0)
        else:
            grown = clock.growth.sum() > rule.threshold(clock) + GROWTH_TOLERANCE
            assert due == bool(left > 0 and grown)


@given(st.integers(1, 200), st.integers(0, 210))
def test_without_growth_the_spread_budget_is_a_balanced_grid(K, switches):
    task = rs.Task(dim=2, horizon=1, episodes=K)
    made = followed(rs.SpreadBudget(switches=switches), K, task)
    batches = min(switches, K - 1) + 1
    lengths = np.diff([*made, K + 1])
    assert len(lengths) == batches
    assert (np.diff(lengths) <= 0).all()  # longer batches come first
    assert lengths[0] - lengths[-1] <= 1
    grid = rs.UniformGrid(batches=batches, spread="balanced").starts(task)
    assert sorted(lengths) == sorted(np.diff([*grid, K + 1]))
    if K % batches == 0:
        assert made == list(grid)


def test_growth_spends_a_switch_early_and_spreads_what_is_left():
    rule, task = rs.SpreadBudget(switches=3), rs.Task(dim=1, horizon=1, episodes=100)
    logdet = np.zeros((100, 1))
    logdet[9:] = 3.0  # before episode 10: above log(101)/4, its share
    made, _ = deployed_on(rule, task, logdet, np.ones((100, 1)))
    # 91 episodes are left with two switches and the deployment in force: ⌈91/3⌉ = 31.
    assert made == [1, 10, 41, 71]
    quiet = replace(task, dim=10)  # 3 is below its share
    assert deployed_on(rule, quiet, logdet, 10 * np.ones((100, 1)))[0] == [1, 26, 51, 76]


def test_a_jump_before_every_episode_spends_all_at_once():
    rule, task = rs.SpreadBudget(switches=5), rs.Task(dim=2, horizon=1, episodes=50)
    logdet = 1e3 * np.arange(50.0)[:, None]
    assert deployed_on(rule, task, logdet, 2 * np.ones((50, 1)))[0] == [1, 2, 3, 4, 5, 6]


def test_the_date_is_one_share_of_the_episodes_left():
    rule = rs.SpreadBudget(switches=5)
    at_clock = partial(clock_at, task=rs.Task(dim=3, horizon=1, episodes=100))
    clock = at_clock([0.0], episode=70, deployed_at=41, deployments=3)
    assert rule.date(clock) == 41 + 15  # 60 episodes for the one in force and three more
    assert rule.date(at_clock([0.0], deployed_at=42, deployments=3)) == 42 + 15  # ⌈59/4⌉
    spent = at_clock([0.0], episode=100, deployed_at=41, deployments=6)
    assert rule.due(spent) is False
    assert rule.due(at_clock([99.0], episode=100, deployed_at=41, deployments=6)) is False
    beyond = at_clock([0.0], episode=200, deployed_at=150, deployments=3)
    assert rule.date(beyond) == 151  # after the episodes of the task


@given(logs(most_episodes=40))
def test_growth_decides_as_for_the_adaptive_rule_until_the_first_date(log):
    task, ridge, features = log
    for budget in {0, 1, task.episodes // 3, task.episodes - 1}:
        spread = rs.SpreadBudget.for_budget(task, switches=budget)
        adaptive = rs.rules.AdaptiveBudget.for_budget(task, switches=budget)
        early, late = (
            replay(rule, features, task=task, ridge=ridge) for rule in (spread, adaptive)
        )
        assert len(early) >= len(late)
        if budget:
            date = 1 + -(-task.episodes // (budget + 1))
            assert early[0] == min([date, *late[:1]])


def test_the_spread_budget_promises_a_number_and_no_regret():
    task = rs.Task(dim=3, horizon=2, episodes=60, feature_norm=1.7)
    rule = rs.SpreadBudget.for_budget(task, switches=7, ridge=0.3)
    assert rule == rs.SpreadBudget(switches=7)
    assert type(rule) is rs.SpreadBudget
    assert not hasattr(rule, "regret_bound")
    assert hasattr(rs.rules.AdaptiveBudget.for_budget(task, switches=7), "regret_bound")
    assert rule.deployment_limit(task) == 7
    assert rule.deployment_limit(replace(task, episodes=5)) == 4


def test_the_spread_budget_goes_by_its_name_everywhere():
    task = rs.Task(dim=3, horizon=2, episodes=60, feature_norm=1.7)
    rule = rs.SpreadBudget.for_budget(task, switches=7)
    row = row_of(rule)
    assert (row.name, row.label) == ("spread-budget", "spread budget")
    assert words.to_words(rule) == "spread-budget,switches=7"
    assert words.make_schedule(*words.parse("spread-budget,switches=7"), task) == rule
    toml = tomllib.loads('kind = "spread-budget"\nswitches = 7')
    assert words.make_schedule(toml.pop("kind"), toml, task) == rule
    capped = {"switches": 3, "schedule": {"kind": "spread-budget", "switches": 7}}
    assert words.make_schedule("capped", capped, task) == rs.rules.Capped(rule, 3)
    assert rebuild(describe(rule)) == rule
    learner = rs.Learner(task, rule)
    assert rs.Learner.restore(learner.snapshot()).schedule == rule


def test_eta_may_exceed_every_float():
    task = rs.Task(dim=13, horizon=100, episodes=2500)
    rule = rs.rules.TotalGrowth.for_budget(task, switches=2)
    assert rule.log_eta == pytest.approx(1300 * math.log(1 + 2500 / 13) / 3, rel=1e-12)
    assert rule.log_eta > math.log(1e300)
    assert rule.due(at(rule.log_eta)) is False
    assert rule.due(at(rule.log_eta + 1e-6)) is True
    assert rule.regret_bound(task).vacuous
    with pytest.raises(ValueError, match="switches must be at least"):
        rs.DeterminantGrowth.for_budget(task, switches=2)


TASK_3 = rs.Task(dim=3, horizon=3, episodes=200)
NEW_RULES = {  # with a task of each
    "total": (rs.rules.TotalGrowth(eta=1.5), TASK_3),
    "total-budget": (rs.rules.TotalGrowth.for_budget(TASK_3, switches=7), TASK_3),
    "adaptive": (rs.rules.AdaptiveBudget(switches=7), TASK_3),
    "adaptive-none": (rs.rules.AdaptiveBudget(switches=0), TASK_3),
    "spread": (rs.SpreadBudget(switches=7), TASK_3),
    "spread-none": (rs.SpreadBudget(switches=0), TASK_3),
    "spread-all": (rs.SpreadBudget(switches=60), replace(TASK_3, episodes=50)),
    "spread-short": (rs.SpreadBudget(switches=7), replace(TASK_3, feature_norm=0.01)),
    "capped-every": (rs.rules.Capped(rs.EveryEpisode(), 5), TASK_3),
    "capped-growth": (rs.rules.Capped(rs.DeterminantGrowth(eta=1.5), 5), TASK_3),
    "capped-total": (rs.rules.Capped(rs.rules.TotalGrowth(eta=1.3), 5), TASK_3),
    "capped-spread": (rs.rules.Capped(rs.SpreadBudget(switches=7), 5), TASK_3),
    "capped-grid": (rs.rules.Capped(rs.UniformGrid(batches=20), 5), TASK_3),
    "capped-twice": (
        rs.rules.Capped(rs.rules.Capped(rs.rules.EpisodeGrid(dates=(1, 5, 9, 50)), 9), 2),
        TASK_3,
    ),
}


@pytest.mark.parametrize(("rule", "task"), NEW_RULES.values(), ids=NEW_RULES)
def test_the_rules_keep_what_the_public_checks_demand(rule, task):
    check_schedule(rule, task)
    check_schedule(rule, replace(task, stages="shared"), seed=1)


def test_a_cap_is_as_persistent_as_what_it_caps():
    assert rs.rules.Capped(rs.rules.TotalGrowth(eta=2.0), 3).stays_due is True
    assert rs.rules.Capped(rs.DeterminantGrowth(eta=2.0), 3).stays_due is True
    assert rs.rules.Capped(rs.rules.Capped(rs.rules.AdaptiveBudget(switches=1), 3), 3).stays_due
    assert rs.rules.Capped(rs.SpreadBudget(switches=1), 3).stays_due is True
    assert rs.rules.Capped(rs.EveryEpisode(), 3).stays_due is True
    assert rs.rules.Capped(rs.UniformGrid(batches=3), 3).stays_due is True
    assert rs.rules.Capped(Asked(rs.rules.TotalGrowth(eta=2.0)), 3).stays_due is False
    assert (
        rs.rules.Capped(rs.rules.Capped(Asked(rs.rules.TotalGrowth(eta=2.0)), 3), 3).stays_due
        is False
    )


def test_a_cap_answers_with_a_bool():
    class Numpy:
        def due(self, clock):
            return np.True_

    assert rs.rules.Capped(Numpy(), 3).due(at(1.0)) is True
    assert rs.rules.Capped(Numpy(), 3).due(at(1.0, deployments=4)) is False


@pytest.mark.parametrize("switches", [0, 1, 3, 7, 20])
@pytest.mark.parametrize("exploration", [rs.Bonus(1.0), rs.Ensemble(members=8)], ids=repr)
def test_a_capped_grid_is_the_grid_cut_short(exploration, switches):
    world = masked_world(1)
    grid = rs.UniformGrid(batches=8)
    assert not hasattr(rs.rules.Capped(grid, switches), "upcoming")
    dates = tuple(grid.starts(world.task(episodes=60))[: switches + 1])
    short = rs.rules.EpisodeGrid(dates=dates)
    capped, cut = (
        rs.simulate(world, rule, rs.Recipe(exploration=exploration), episodes=60)
        for rule in (rs.rules.Capped(grid, switches), short)
    )
    np.testing.assert_array_equal(capped.deployment_episodes, cut.deployment_episodes)
    np.testing.assert_array_equal(capped.actions, cut.actions)
    np.testing.assert_array_equal(capped.members, cut.members)
    if exploration.members == 1:
        assert capped.policy.digest == cut.policy.digest
    else:  # a batch shorter than a mixture's table is added up in another order
        np.testing.assert_allclose(capped.policy.weights, cut.policy.weights, atol=1e-9)
        assert capped.policy.allocation == cut.policy.allocation


WORLDS = {
    "masked": masked_world(3),
    "hard": rs.worlds.hard_to_learn(d=5, horizon=4, seed=2),
    "tabular": rs.worlds.tabular(states=3, actions=2, horizon=2, seed=1),
}


RECIPES = {"paper": rs.Recipe.paper(beta=1.0), "default": rs.Recipe()}


def spent_as_by_hand(world, rule, recipe):
    """Return the deployments after the first of a simulation that a learner by hand repeats."""
    K, seed = 40, (3, 1)
    noise, initial = noise_of(None, K, world.horizon, seed), np.zeros(K, int)
    run = rs.simulate(world, rule, recipe, episodes=K, seed=seed)
    learner = rs.Learner(world.task(episodes=K), rule, replace(recipe, seed=seed))
    states, actions, members, tables = stepped(world, learner, noise=noise, initial=initial)
    np.testing.assert_array_equal(run.states, states)
    np.testing.assert_array_equal(run.actions, actions)
    np.testing.assert_array_equal(run.members, members)
    assert list(run.deployment_episodes) == list(tables)
    assert (list(run.switch_episodes), run.local_switches) == switches_of(tables)
    assert run.switches <= run.deployments - 1 == len(learner.ledger) - 1
    return run.deployments - 1, len(learner.ledger) - 1


@pytest.mark.parametrize("ridge", [0.01, 1.0])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_a_simulation_keeps_every_budget_and_is_the_learner_stepped_by_hand(world, ridge):
    task = world.task(episodes=40)
    spent = set()
    for budget in (0, 1, 6, 15):
        rules = [
            rs.rules.TotalGrowth.for_budget(task, switches=budget, ridge=ridge),
            rs.rules.AdaptiveBudget.for_budget(task, switches=budget),
            rs.rules.Capped(rs.DeterminantGrowth(eta=1.3), budget),
            rs.rules.Capped(rs.EveryEpisode(), budget),
        ]
        for rule in rules:
            recipe = rs.Recipe.paper(beta=1.0, ridge=ridge)
            made, after_all = spent_as_by_hand(world, rule, recipe)
            assert after_all <= budget
            spent.add(made)
    assert max(spent) == 15


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_a_simulation_spends_the_spread_budget_as_the_learner_stepped_by_hand(world, recipe):
    task = world.task(episodes=40)
    for budget in (0, 1, 6, 15):
        rule = rs.SpreadBudget.for_budget(task, switches=budget)
        assert spent_as_by_hand(world, rule, recipe) == (budget, budget)
    capped = rs.rules.Capped(rs.DeterminantGrowth(eta=1.3), 6)
    assert max(spent_as_by_hand(world, capped, recipe)) <= 6


@pytest.mark.parametrize("name", ["total", "adaptive", "spread", "capped-spread"])
@pytest.mark.parametrize("recipe", RECIPES.values(), ids=RECIPES)
def test_jumping_ahead_gives_what_asking_before_every_episode_gives(name, recipe):
    world, (rule, _) = WORLDS["hard"], NEW_RULES[name]
    quick = rs.simulate(world, rule, recipe, episodes=150, seed=4)
    asked = rs.simulate(world, Asked(rule), recipe, episodes=150, seed=4)
    assert quick.deployments > 2
    np.testing.assert_array_equal(quick.deployment_episodes, asked.deployment_episodes)
    np.testing.assert_array_equal(quick.actions, asked.actions)


@settings(max_examples=15)
@given(st.integers(0, 39), st.integers(0, 1000), st.sampled_from(sorted(WORLDS)))
def test_budgets_hold_on_worlds_for_any_seed(budget, seed, name):
    world = WORLDS[name]
    for kind in (rs.rules.TotalGrowth, rs.rules.AdaptiveBudget, rs.SpreadBudget):
        rule = kind.for_budget(world.task(episodes=40), switches=budget)
        for exploration in (rs.Bonus(0.3), rs.Ensemble(members=3)):
            recipe = rs.Recipe(exploration=exploration)
            run = rs.simulate(world, rule, recipe, episodes=40, seed=seed)
            assert run.deployments - 1 <= budget
            if kind is rs.SpreadBudget:
                assert run.deployments - 1 == budget


def test_rules_for_a_budget_are_values():
    rule = rs.rules.AdaptiveBudget(switches=3)
    assert rule == rs.rules.AdaptiveBudget(switches=3)
    assert rs.SpreadBudget(switches=3) != rule
    assert repr(rule) == "AdaptiveBudget(switches=3)"
    spread = rs.SpreadBudget(switches=3)
    assert repr(spread) == "SpreadBudget(switches=3)"
    assert len({rule, spread, rs.SpreadBudget(switches=3)}) == 2
    assert rs.rules.TotalGrowth(eta=2.0) != rs.rules.TotalGrowth(eta=3.0)
    assert rs.rules.Capped(rule, 2) == rs.rules.Capped(rule, switches=2) != rs.rules.Capped(rule, 3)
    for frozen, name in (
        (rule, "switches"),
        (spread, "switches"),
        (rs.rules.TotalGrowth(eta=2.0), "log_eta"),
    ):
        with pytest.raises(AttributeError):
            setattr(frozen, name, 4)


TASK = rs.Task(dim=2, horizon=2, episodes=10)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rs.rules.TotalGrowth(), TypeError, "either eta or log_eta must be given"),
        (lambda: rs.rules.TotalGrowth(eta=2.0, log_eta=1.0), TypeError, "either eta or log_eta"),
        (lambda: rs.rules.TotalGrowth(2.0), TypeError, "takes its arguments by name"),
        (lambda: rs.rules.TotalGrowth(eta=1.0), ValueError, "eta must be .*above 1; got 1.0"),
        (lambda: rs.rules.TotalGrowth(eta=np.inf), ValueError, "eta must be a finite number"),
        (
            lambda: rs.rules.TotalGrowth(log_eta=0.0),
            ValueError,
            "log_eta must be .*above 0; got 0.0",
        ),
        (
            lambda: rs.rules.TotalGrowth(log_eta=np.nan),
            ValueError,
            "log_eta must be a finite number",
        ),
        (
            lambda: rs.rules.TotalGrowth.for_budget(TASK, switches=-1),
            ValueError,
            "switches must be at least 0; got -1",
        ),
        (
            lambda: rs.rules.TotalGrowth.for_budget(TASK, switches=1, ridge=0.0),
            ValueError,
            "ridge must be a finite number at least 1e-100",
        ),
        (
            lambda: rs.rules.AdaptiveBudget(switches=-1),
            ValueError,
            "switches must be at least 0; got -1",
        ),
        (
            lambda: rs.rules.AdaptiveBudget(switches=1.0),
            TypeError,
            "switches must be a whole number",
        ),
        (lambda: rs.rules.AdaptiveBudget(), TypeError, "switches"),
        (lambda: rs.rules.AdaptiveBudget(3), TypeError, "takes its arguments by name"),
        (lambda: rs.SpreadBudget(switches=1, episodes=9), TypeError, "episodes"),
        (
            lambda: rs.SpreadBudget(switches=-1),
            ValueError,
            "switches must be at least 0; got -1",
        ),
        (
            lambda: rs.SpreadBudget(switches=True),
            TypeError,
            "switches must be a whole number",
        ),
        (
            lambda: rs.SpreadBudget.for_budget(None, switches=1),
            TypeError,
            "task must be a Task",
        ),
        (
            lambda: rs.rules.Capped("every", 3),
            TypeError,
            "schedule must have a method due.*got 'every'",
        ),
        (lambda: rs.rules.Capped(rs.EveryEpisode(), -1), ValueError, "switches must be at least 0"),
        (
            lambda: rs.rules.Capped(rs.EveryEpisode(), 2.5),
            TypeError,
            "switches must be a whole number",
        ),
    ],
)
def test_a_bad_budget_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
