import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.testing import check_schedule


def clock(episode, growth=(0.0,), deployed=None):
    deployed = np.zeros(len(growth)) if deployed is None else np.array(deployed, float)
    return rs.Clock(episode=episode, logdet=deployed + growth, logdet_deployed=deployed)


def dates(rule, episodes):
    return [k for k in range(1, episodes + 1) if rule.due(clock(k))]


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
    printed = rs.UniformGrid(episodes=episodes, batches=batches)
    even = rs.UniformGrid(episodes=episodes, batches=batches, spread="balanced")
    assert list(printed.starts) == dates(printed, episodes) == last
    assert list(even.starts) == dates(even, episodes) == balanced


@given(st.data(), st.integers(1, 300))
def test_every_grid_has_its_batches(data, episodes):
    batches = data.draw(st.integers(1, episodes))
    printed = rs.UniformGrid(episodes=episodes, batches=batches).starts
    assert printed == tuple((i - 1) * (episodes // batches) + 1 for i in range(1, batches + 1))
    balanced = rs.UniformGrid(episodes=episodes, batches=batches, spread="balanced").starts
    lengths = np.diff([*balanced, episodes + 1])
    assert len(balanced) == batches
    assert balanced[0] == 1
    assert set(lengths) <= {episodes // batches, -(-episodes // batches)}


def test_a_grid_names_its_next_date():
    grid = rs.UniformGrid(episodes=10, batches=4)
    upcoming = [grid.upcoming(k) for k in range(9)]
    assert upcoming == [1, 3, 3, 5, 5, 7, 7, None, None]


def test_every_episode_is_due_at_every_episode():
    rule = rs.EveryEpisode()
    assert dates(rule, 5) == [1, 2, 3, 4, 5]
    assert [rule.upcoming(k) for k in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("eta", [1.5, 2.0, 32.0])
def test_growth_above_eta_is_due_and_exactly_eta_is_not(eta):
    rule = rs.DeterminantGrowth(eta=eta)
    exact = math.log(eta)
    assert rule.due(clock(9, [exact])) is False
    assert rule.due(clock(9, [exact + 0.9e-10])) is False
    assert rule.due(clock(9, [exact + 1.1e-10])) is True
    assert rule.due(clock(9, [0.0, exact + 1e-6, 0.0])) is True
    assert rule.due(clock(9, [0.9 * exact] * 20)) is False
    assert rule.due(clock(9, [exact - 1e-6], deployed=[40.0])) is False


def test_unit_features_reach_ratio_two_exactly_without_a_switch():
    learner = rs.Learner(dim=2, horizon=1, schedule=rs.DeterminantGrowth(eta=2.0))
    once = rs.Episode(features=[[0.6, 0.8]], rewards=[0.0], next_features=[])
    assert learner.observe(once) is False
    assert learner.clock.logdet[0] == pytest.approx(math.log(2.0), abs=1e-15)
    assert learner.observe(once) is True


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: rs.UniformGrid(episodes=5, batches=6), ValueError, "batches must be from 1 to 5"),
        (lambda: rs.UniformGrid(episodes=5, batches=0), ValueError, "from 1 to 5; got 0"),
        (lambda: rs.UniformGrid(episodes=0, batches=1), ValueError, "episodes must be at least 1"),
        (lambda: rs.UniformGrid(episodes=5, batches=2.0), TypeError, "batches must be a whole"),
        (
            lambda: rs.UniformGrid(episodes=5, batches=2, spread="even"),
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
    rule = rs.DeterminantGrowth.for_budget(
        switches=50, dim=13, horizon=10, episodes=2500, feature_norm=2.0, ridge=0.5
    )
    assert rule.eta == pytest.approx((1 + 2500 * 4.0 / (0.5 * 13)) ** (130 / 50), rel=1e-12)
    plain = rs.DeterminantGrowth.for_budget(switches=130, dim=13, horizon=10, episodes=2500)
    assert plain.eta == pytest.approx(1 + 2500 / 13, rel=1e-12)
    with pytest.raises(ValueError, match="switches must be at least 1; got 0"):
        rs.DeterminantGrowth.for_budget(switches=0, dim=2, horizon=2, episodes=10)


def test_rules_are_values():
    assert rs.DeterminantGrowth(eta=2.0) == rs.DeterminantGrowth(eta=2.0)
    assert rs.UniformGrid(episodes=5, batches=2) != rs.UniformGrid(episodes=5, batches=3)
    with pytest.raises(AttributeError):
        rs.DeterminantGrowth(eta=2.0).eta = 3.0


@pytest.mark.parametrize(
    "rule",
    [
        rs.EveryEpisode(),
        rs.UniformGrid(episodes=200, batches=7),
        rs.UniformGrid(episodes=200, batches=7, spread="balanced"),
        rs.DeterminantGrowth(eta=1.2),
        rs.DeterminantGrowth(eta=8.0),
    ],
)
def test_the_rules_keep_what_the_public_checks_demand(rule):
    check_schedule(rule)
