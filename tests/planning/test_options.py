import math
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import replay as replayed
from oracles import unit_rows
from rareswitch import theory
from rareswitch.planning.options import candidates_for, own_candidates
from rareswitch.rules import words
from rareswitch.rules.table import RULES, row_of

SMALL = rs.Task(episodes=30, horizon=2, dim=3, feature_norm=1.5)
NAMES = [
    "uniform-grid",
    "determinant-growth",
    "adaptive-budget",
    "spread-budget",
    "total-growth",
    "geometric-grid",
]


@dataclass(frozen=True)
class EveryMonday:
    """A rule of one's own, with a limit."""

    day: int = 1

    def due(self, clock):
        return clock.episode % 7 == self.day

    def deployment_limit(self, task, ridge):
        return task.episodes / 7 + ridge


class Bare:
    def due(self, clock):
        return False


def names(budget, task):
    return [candidate.name for candidate in candidates_for(budget, task)]


def test_the_candidates_of_a_budget():
    for budget in range(1, 29):
        assert names(budget, SMALL) == NAMES
    assert names(0, SMALL) == ["uniform-grid"]
    assert names(29, SMALL) == ["every-episode"]
    assert names(0, rs.Task(episodes=1, horizon=2, dim=3)) == ["every-episode"]


def test_every_rule_of_the_table_that_can_keep_a_budget_is_a_candidate():
    able = {row.name for row in RULES if hasattr(row.cls, "for_budget")}
    assert able == {*NAMES, "every-episode"}
    for candidate in candidates_for(9, SMALL):
        row = row_of(candidate.schedule)
        assert (candidate.name, candidate.label) == (row.name, row.plain_label)
        assert candidate.guaranteed


@given(
    st.integers(1, 12),
    st.integers(1, 3),
    st.integers(1, 3),
    st.sampled_from([0.1, 1.0, 3.4]),
    st.sampled_from([1e-6, 1.0, 20.0]),
    st.integers(0, 2**32),
    st.sampled_from(["own", "shared"]),
)
def test_every_candidate_keeps_the_budget_and_promises_no_more(K, H, d, norm, ridge, seed, stages):
    task = rs.Task(episodes=K, horizon=H, dim=d, feature_norm=norm, stages=stages)
    rng = np.random.default_rng(seed)
    turns = np.eye(d)[np.arange(K) % d]
    logs = [norm * unit_rows(rng, K, H, d), norm * np.repeat(turns[:, None], H, axis=1)]
    for budget in range(K):
        for candidate, features in product(candidates_for(budget, task, ridge=ridge), logs):
            assert candidate.deployment_limit <= budget
            made = replayed(candidate.schedule, features, ridge=ridge, stages=stages)
            assert len(made) <= candidate.deployment_limit


@pytest.mark.parametrize(
    ("task", "ridge"),
    [
        (SMALL, 0.5),
        (rs.Task(episodes=2500, horizon=10, dim=13, feature_norm=3.3911649915626345), 1e-3),
    ],
)
def test_the_code_and_the_word_make_the_schedule(task, ridge):
    for budget in (0, 1, 7, 20, task.episodes - 2, task.episodes - 1):
        for candidate in candidates_for(budget, task, ridge=ridge):
            kind, arguments = words.parse(words.to_words(candidate.schedule))
            for made in (
                eval(candidate.code, {"rs": rs}),
                words.make_schedule(kind, arguments, task, ridge=ridge),
            ):
                assert made == candidate.schedule
                assert type(made) is type(candidate.schedule)
            assert kind == candidate.name


def test_the_theorems_rule_is_left_out_where_its_eta_exceeds_every_float():
    task = rs.Task(episodes=2500, horizon=40, dim=13)
    gain = 40 * theory.information_gain(task)
    least = math.ceil(gain / math.log(1e300))
    assert least > 1
    assert names(least - 1, task) == [name for name in NAMES if name != "determinant-growth"]
    assert names(least, task) == NAMES
    total = next(c for c in candidates_for(1, task) if c.name == "total-growth")
    assert total.schedule.log_eta == pytest.approx(gain / 2)
    assert math.isfinite(total.bound.total)


def test_the_bounds_are_the_theorems():
    found = {candidate.name: candidate for candidate in candidates_for(9, SMALL, ridge=0.5)}
    log_eta = found["total-growth"].schedule.log_eta
    growth = theory.rare_switch_regret_bound(SMALL, log_eta=log_eta, ridge=0.5).total
    eta = theory.eta_for_budget(SMALL, switches=9, ridge=0.5)
    any_stage = theory.rare_switch_regret_bound(SMALL, eta=eta, ridge=0.5).total
    wanted = {
        "adaptive-budget": growth,
        "total-growth": growth,
        "uniform-grid": theory.batch_regret_bound(SMALL, batches=10, ridge=0.5).total,
        "determinant-growth": any_stage,
    }
    for name, bound in wanted.items():
        assert found[name].bound.total == pytest.approx(bound, rel=1e-9)
    assert found["geometric-grid"].bound is None
    assert found["spread-budget"].bound is None
    assert growth < any_stage
    (every,) = candidates_for(29, SMALL, ridge=0.5)
    assert every.bound.total == theory.batch_regret_bound(SMALL, batches=30, ridge=0.5).total


@pytest.mark.parametrize("budget", [-1, 30, 31, 1000])
def test_an_impossible_budget_is_answered_with_what_is_possible(budget):
    with pytest.raises(ValueError, match=rf"switches must be from 0 to 29; got {budget}"):
        candidates_for(budget, SMALL)


def test_rounding_takes_nothing_from_a_promise():
    task = rs.Task(episodes=2500, horizon=10, dim=13)
    for budget in (41, 50, 82, 121):  # of some, η gives a limit just below
        limits = {c.name: c.deployment_limit for c in candidates_for(budget, task)}
        assert limits == dict.fromkeys(NAMES, budget)


def test_a_rule_that_cannot_promise_the_budget_is_left_out():
    # Floats near 1 are too far apart for this η: the one below it would promise fewer.
    tiny = replace(SMALL, feature_norm=1e-8)
    made = rs.DeterminantGrowth.for_budget(tiny, switches=20)
    assert made.deployment_limit(tiny, 1.0) == 27
    assert names(20, tiny) == [name for name in NAMES if name != "determinant-growth"]


def test_a_rule_of_ones_own_is_judged_by_what_it_promises():
    one, other, bare, ours = own_candidates(
        [EveryMonday(), EveryMonday(day=3), Bare(), rs.rules.TotalGrowth(eta=2.0)], SMALL, ridge=2.0
    )
    assert one.name == f"{__name__}:EveryMonday"
    assert other.name == other.label == f"{__name__}:EveryMonday,day=3"
    assert (one.deployment_limit, one.guaranteed, one.bound) == (6, True, None)
    assert (bare.name, bare.deployment_limit, bare.guaranteed) == (f"{__name__}:Bare", 29, False)
    assert ours.schedule == words.make_schedule(*words.parse(ours.name), SMALL)
    assert ours.bound == ours.schedule.regret_bound(SMALL, 2.0)


@pytest.mark.parametrize("limit", [math.inf, math.nan, 1e9])
def test_no_rule_deploys_more_often_than_there_are_episodes(limit):
    class Endless(Bare):
        def deployment_limit(self, task, ridge):
            return limit

    (candidate,) = own_candidates([Endless()], SMALL)
    assert candidate.deployment_limit == 29


def test_what_cannot_be_written_in_one_word_goes_by_its_kind():
    (capped,) = own_candidates([rs.rules.Capped(EveryMonday(), 4)], SMALL)
    assert (capped.name, capped.deployment_limit) == ("capped", 4)


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ([rs.EveryEpisode], "candidates must be an instance"),
        ([3], "candidates must have a method due"),
        (rs.EveryEpisode(), "candidates must be a list of schedules"),
    ],
)
def test_what_is_no_rule_is_refused(given_, message):
    with pytest.raises(TypeError, match=message):
        own_candidates(given_, SMALL)


def test_shared_stages_have_the_same_candidates_and_no_bounds_on_regret():
    shared = replace(SMALL, stages="shared")
    assert names(9, shared) == NAMES
    for candidate in candidates_for(9, shared, ridge=0.5):
        assert candidate.bound is None
        assert (candidate.guaranteed, candidate.deployment_limit) == (True, 9)
    growth = theory.total_growth(shared, ridge=0.5)
    found = {
        candidate.name: candidate.schedule for candidate in candidates_for(9, shared, ridge=0.5)
    }
    assert found["total-growth"].log_eta == pytest.approx(growth / 10)
    assert math.log(found["determinant-growth"].eta) == pytest.approx(growth / 9)
    (own,) = own_candidates([rs.rules.TotalGrowth(eta=2.0)], shared)
    assert own.bound is None
    single = rs.Task(episodes=30, horizon=1, dim=3, stages="shared")
    assert candidates_for(9, single)[0].bound is not None
