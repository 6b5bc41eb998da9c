import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import cheap, clock_at, followed
from rareswitch.rules.grids import MinimaxGrid
from rareswitch.sim import Simulation
from rareswitch.testing import check_schedule


def task_of(episodes):
    return rs.Task(dim=2, horizon=1, episodes=episodes)


@pytest.mark.parametrize(
    ("episodes", "batches", "last", "balanced"),
    [
        (10, 4, [1, 3, 5, 7], [1, 3, 6, 8]),
        (10, 5, [1, 3, 5, 7, 9], [1, 3, 5, 7, 9]),
        (7, 1, [1], [1]),
        (4, 4, [1, 2, 3, 4], [1, 2, 3, 4]),
        (11, 3, [1, 4, 7], [1, 4, 8]),
        (5, 4, [1, 2, 3, 4], [1, 2, 3, 4]),
        (1, 1, [1], [1]),
    ],
)
def test_grids_are_as_printed_and_balanced(episodes, batches, last, balanced):
    printed, task = rs.UniformGrid(batches=batches), task_of(episodes)
    even = rs.UniformGrid(batches=batches, spread="balanced")
    assert list(printed.starts(task)) == followed(printed, episodes) == last
    assert list(even.starts(task)) == followed(even, episodes) == balanced


@given(st.data(), st.integers(1, 300))
def test_every_grid_has_its_batches(data, episodes):
    batches = data.draw(st.integers(1, episodes))
    task = task_of(episodes)
    printed = rs.UniformGrid(batches=batches).starts(task)
    assert tuple(printed) == tuple(
        (i - 1) * (episodes // batches) + 1 for i in range(1, batches + 1)
    )
    balanced = rs.UniformGrid(batches=batches, spread="balanced").starts(task)
    lengths = np.diff([*balanced, episodes + 1])
    assert len(balanced) == batches
    assert balanced[0] == 1
    assert set(lengths) <= {episodes // batches, -(-episodes // batches)}


def test_a_grid_names_its_next_date():
    grid = rs.UniformGrid(batches=4)
    upcoming = [grid.upcoming(task_of(10), k) for k in range(9)]
    assert upcoming == [1, 3, 3, 5, 5, 7, 7, None, None]


def test_a_printed_grid_of_a_trillion_episodes_costs_nothing():
    grid, task = rs.UniformGrid(batches=10**11), task_of(10**12)
    with cheap():
        assert len(grid.starts(task)) == 10**11
        assert grid.upcoming(task, 5) == 11
        assert grid.due(clock_at([0.0], task=task, episode=10**12 - 9))
        assert grid.upcoming(task, 10**12 - 9) is None
        assert tuple(grid.starts(task)[:3]) == (1, 11, 21)
        assert grid.deployment_limit(task) == 10**11 - 1


def test_a_balanced_grid_lists_its_dates_and_may_have_a_million():
    grid, task = rs.UniformGrid(batches=10**6, spread="balanced"), task_of(10**12 + 1)
    assert len(grid.starts(task)) == 10**6
    assert grid.starts(task) is grid.starts(task)  # listed once
    assert grid.upcoming(task, 5) == 10**6 + 1
    with pytest.raises(ValueError, match="batches must be from 1 to 1000000; got 1000001"):
        rs.UniformGrid(batches=10**6 + 1, spread="balanced")


def test_every_episode_is_due_at_every_episode():
    rule = rs.EveryEpisode()
    assert followed(rule, 5) == [1, 2, 3, 4, 5]
    assert not rule.due(clock_at([0.0], episode=5, deployed_at=5))
    assert [rule.upcoming(task_of(9), k) for k in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("eta", [1.5, 2.0, 32.0])
def test_growth_above_eta_is_due_and_exactly_eta_is_not(eta):
    rule = rs.DeterminantGrowth(eta=eta)
    exact = math.log(eta)
    assert rule.due(clock_at([exact])) is False
    assert rule.due(clock_at([exact + 0.9e-10])) is False
    assert rule.due(clock_at([exact + 1.1e-10])) is True
    assert rule.due(clock_at([0.0, exact + 1e-6, 0.0])) is True
    assert rule.due(clock_at([0.9 * exact] * 20)) is False
    assert rule.due(clock_at([exact - 1e-6], logdet=40.0)) is False


def test_unit_features_reach_ratio_two_exactly_without_a_switch():
    learner = rs.Learner(rs.Task(dim=2, horizon=1), rs.DeterminantGrowth(eta=2.0))
    once = rs.Episode(features=[[0.6, 0.8]], rewards=[0.0], next_features=[])
    assert learner.observe(once) is False
    assert learner.clock.logdet[0] == pytest.approx(math.log(2.0), abs=1e-15)
    assert learner.observe(once) is True


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: rs.UniformGrid(batches=6).starts(task_of(5)),
            ValueError,
            "batches must be from 1 to 5; got 6",
        ),
        (lambda: rs.UniformGrid(batches=0), ValueError, "batches must be at least 1; got 0"),
        (
            lambda: rs.UniformGrid(batches=0, spread="balanced"),
            ValueError,
            "batches must be from 1 to 1000000; got 0",
        ),
        (lambda: rs.UniformGrid(), TypeError, "batches"),
        (lambda: rs.UniformGrid(batches=5, episodes=10), TypeError, "episodes"),
        (lambda: rs.UniformGrid(batches=2.0), TypeError, "batches must be a whole"),
        (
            lambda: rs.UniformGrid(batches=2, spread="even"),
            ValueError,
            "spread must be one of 'last', 'balanced'; got 'even'",
        ),
        (lambda: rs.DeterminantGrowth(eta=1.0), ValueError, "eta must be .*above 1; got 1.0"),
        (lambda: rs.DeterminantGrowth(eta=0.5), ValueError, "eta must be .*above 1; got 0.5"),
        (lambda: rs.DeterminantGrowth(eta=np.inf), ValueError, "eta must be a finite number"),
        (lambda: rs.DeterminantGrowth(eta=np.nan), ValueError, "eta must be a finite number"),
        (lambda: rs.DeterminantGrowth(eta="2"), TypeError, "eta must be a finite number"),
    ],
)
def test_a_bad_rule_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_the_rule_for_a_budget_is_the_theorems():
    task = rs.Task(dim=13, horizon=10, episodes=2500, feature_norm=2.0)
    rule = rs.DeterminantGrowth.for_budget(task, switches=50, ridge=0.5)
    assert rule.eta == pytest.approx((1 + 2500 * 4.0 / (0.5 * 13)) ** (130 / 50), rel=1e-12)
    task = rs.Task(dim=13, horizon=10, episodes=2500)
    plain = rs.DeterminantGrowth.for_budget(task, switches=130)
    assert plain.eta == pytest.approx(1 + 2500 / 13, rel=1e-12)
    with pytest.raises(ValueError, match="switches must be at least 1; got 0"):
        rs.DeterminantGrowth.for_budget(task, switches=0)


def test_rules_are_values():
    assert rs.DeterminantGrowth(eta=2.0) == rs.DeterminantGrowth(eta=2.0)
    assert rs.UniformGrid(batches=2) != rs.UniformGrid(batches=3)
    with pytest.raises(AttributeError):
        rs.DeterminantGrowth(eta=2.0).eta = 3.0


@pytest.mark.parametrize(
    "rule",
    [
        rs.EveryEpisode(),
        rs.UniformGrid(batches=7),
        rs.UniformGrid(batches=7, spread="balanced"),
        rs.DeterminantGrowth(eta=1.2),
        rs.DeterminantGrowth(eta=8.0),
    ],
    ids=repr,
)
def test_the_rules_keep_what_the_public_checks_demand(rule):
    check_schedule(rule)


WORLD = rs.worlds.tabular(states=2, actions=2, horizon=1)


@pytest.mark.parametrize(
    "take",
    [
        lambda rule: rs.Learner(rs.Task(dim=2, horizon=1), rule),
        lambda rule: rs.simulate(WORLD, rule, episodes=3),
        lambda rule: Simulation([WORLD], rule, task=WORLD.task(episodes=3), seeds=[0]),
        lambda rule: rs.rules.Capped(rule, switches=2),
        check_schedule,
    ],
    ids=["Learner", "simulate", "Simulation", "Capped", "check_schedule"],
)
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (rs.EveryEpisode, r"schedule must be an instance, not the class EveryEpisode itself"),
        (rs.DeterminantGrowth, r"the class DeterminantGrowth itself; write DeterminantGrowth\(…\)"),
        ("every", r"schedule must have a method due\(clock\) -> bool; got 'every'"),
        (None, r"schedule must have a method due\(clock\) -> bool; got None"),
    ],
)
def test_what_is_no_rule_is_refused_everywhere_with_the_same_words(take, rule, message):
    with pytest.raises(TypeError, match=message):
        take(rule)


TASK = rs.Task(dim=3, horizon=2, episodes=50)


@pytest.mark.parametrize(
    ("rule", "limit"),
    [
        (rs.EveryEpisode(), 49),
        (rs.UniformGrid(batches=7), 6),
        (rs.UniformGrid(batches=50), 49),
        (rs.rules.EpisodeGrid(dates=(1, 9, 50, 51)), 2),  # only dates up to episode 50 count
        (rs.rules.GeometricGrid(batches=4), 3),
        (MinimaxGrid(batches=4), 3),
        (rs.DeterminantGrowth(eta=1e9), 0),  # 6·log(1 + 50/3)/log(1e9) = 0.83
        (rs.DeterminantGrowth(eta=5.0), math.floor(6 * math.log1p(50 / 3) / math.log(5.0))),
        (rs.DeterminantGrowth(eta=1.001), 49),
    ],
    ids=repr,
)
def test_a_rule_says_how_often_it_can_deploy(rule, limit):
    assert rule.deployment_limit(TASK) == limit


@pytest.mark.parametrize(
    "kind", [rs.EveryEpisode, rs.UniformGrid, rs.rules.GeometricGrid, rs.DeterminantGrowth]
)
@pytest.mark.parametrize("switches", [3, 49])
def test_a_rule_for_a_budget_promises_to_keep_it(kind, switches):
    if kind is rs.EveryEpisode and switches < 49:
        with pytest.raises(ValueError, match="switches must be at least 49; got 3"):
            kind.for_budget(TASK, switches=switches)
    else:
        rule = kind.for_budget(TASK, switches=switches)
        assert rule.deployment_limit(TASK) <= switches * (1 + 1e-12)


def test_regret_bounds_are_the_theorems():
    every, grid = rs.EveryEpisode(), rs.UniformGrid(batches=7)
    growth = rs.DeterminantGrowth(eta=3.0)
    theory = rs.theory
    assert every.regret_bound(TASK) == theory.batch_regret_bound(TASK, batches=50)
    assert grid.regret_bound(TASK, 0.5) == theory.batch_regret_bound(TASK, batches=7, ridge=0.5)
    assert growth.regret_bound(TASK, 0.5) == theory.rare_switch_regret_bound(
        TASK, log_eta=math.log(3.0), ridge=0.5
    )


@pytest.mark.parametrize(
    "rule",
    [
        rs.EveryEpisode(),
        rs.UniformGrid(batches=3),
        rs.rules.GeometricGrid(batches=4),
        rs.rules.EpisodeGrid(dates=(1, 5, 9)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("asked", [1, 2, 5])
@pytest.mark.parametrize("gap", [1, 2, 5])
def test_dates_are_kept_however_seldom_or_often_a_learner_asks(rule, asked, gap):
    learner = rs.Learner(rs.Task(dim=2, horizon=1, episodes=12), rule)
    episode = rs.Episode(features=np.eye(2)[:1], rewards=[1.0], next_features=[])
    for k in range(12):
        for _ in range(asked):
            if k % gap == 0 and learner.due:
                learner.deploy(learner.fit())
        learner.absorb(episode)
    made = [deployment.episode for deployment in learner.ledger]
    assert len(made) == len(set(made))
    assert len(made) - 1 <= rule.deployment_limit(rs.Task(dim=2, horizon=1, episodes=12))
    passed = rule.upcoming(learner.task, 1) or 99
    assert made[1:2] == [min(k for k in range(1, 13) if k >= passed and (k - 1) % gap == 0)]
