"""Rules that wait for reported episodes: dates, budgets, text, snapshots and delays."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from rareswitch.core.clock import Ledger, triggers_of
from rareswitch.rules import Waiting
from rareswitch.rules.words import describe, make_schedule, parse, rebuild, to_python, to_words

INNER = {
    "spread": rs.SpreadBudget(switches=6),
    "adaptive": rs.rules.AdaptiveBudget(switches=6),
    "grid": rs.UniformGrid(batches=7),
    "growth": rs.DeterminantGrowth(eta=1.05),
    "total": rs.rules.TotalGrowth(eta=1.2),
    "every": rs.EveryEpisode(),
    "capped": rs.rules.Capped(rs.EveryEpisode(), switches=6),
}


def dates_of(rule, task, grows):
    """Return the deployments of a rule that is asked before each episode, given growth (K,)."""
    ledger, logdet, trace = Ledger(), np.zeros(1), np.full(1, 2.0)
    for k in range(1, task.episodes + 1):
        if k > 1:
            # ‖φ‖ = 1: tr Λ grows by 1, and log det Λ by at most what that allows
            trace = trace + 1.0
            logdet = np.minimum(logdet + grows[k - 2], 2.0 * np.log(trace / 2.0))
        clock = None if k == 1 else ledger.clock(task, episode=k, logdet=logdet)
        if clock is None or rule.due(clock):
            ledger = ledger.deploy(episode=k, logdet=logdet, trace=trace)
    return [deployment.episode for deployment in ledger]


growths = st.lists(st.sampled_from([0.0, 0.01, 0.3, 2.0]), min_size=80, max_size=80)


@given(
    name=st.sampled_from(sorted(INNER)),
    first=st.integers(0, 79),
    apart=st.integers(0, 90),
    grows=growths,
)
@settings(max_examples=150, deadline=None)
def test_no_deployment_comes_too_early_and_never_one_too_many(name, first, apart, grows):
    task, inner = rs.Task(dim=2, horizon=1, episodes=80), INNER[name]
    rule = Waiting(inner, first=first, apart=apart)
    dates = dates_of(rule, task, grows)
    if len(dates) > 1:
        assert dates[1] - 1 >= first  # the episodes reported before it
    assert all(later - one >= apart for one, later in pairwise(dates[1:]))
    assert len(dates) - 1 <= rule.deployment_limit(task) <= inner.deployment_limit(task)
    if not first and not apart:
        assert dates == dates_of(inner, task, grows)


@given(
    episodes=st.integers(2, 80),
    switches=st.integers(1, 12),
    first=st.integers(0, 79),
    apart=st.integers(0, 30),
    grows=growths,
)
@settings(max_examples=200, deadline=None)
def test_a_spread_budget_spends_what_fits_on_every_path(episodes, switches, first, apart, grows):
    """The claim of docs/theory/budgets.md, with its proof."""
    first = min(first, episodes - 1)
    task = rs.Task(dim=2, horizon=1, episodes=episodes)
    rule = Waiting(rs.SpreadBudget(switches=switches), first=first, apart=apart)
    made = len(dates_of(rule, task, grows)) - 1
    gap = max(apart, 1)
    start = max(first, math.ceil(episodes / (switches + 1)), 1)
    room = 1 + (episodes - 1 - start) // gap if start < episodes else 0
    assert min(switches, room) <= made <= switches
    if start + (switches - 1) * gap < episodes:
        assert made == switches


def test_a_switch_that_comes_too_early_is_due_when_the_wait_is_over():
    task = rs.Task(dim=2, horizon=1, episodes=80)
    always = [2.0] * 80
    assert dates_of(Waiting(rs.EveryEpisode(), first=20, apart=30), task, always) == [1, 21, 51]
    assert dates_of(Waiting(rs.EveryEpisode(), first=20), task, always)[:4] == [1, 21, 22, 23]
    assert dates_of(Waiting(rs.EveryEpisode(), apart=40), task, always) == [1, 2, 42]
    grid = Waiting(rs.rules.EpisodeGrid(dates=(1, 5, 9, 30)), first=10)
    assert dates_of(grid, task, always) == [1, 11, 30]  # once for the dates that passed


def test_while_it_waits_the_trigger_is_the_date():
    task = rs.Task(dim=2, horizon=1, episodes=80)
    ledger = Ledger().deploy(episode=1, logdet=np.zeros(1), trace=np.full(1, 2.0))
    rule = Waiting(rs.rules.TotalGrowth(eta=2.0), first=20, apart=5)
    early = ledger.clock(task, episode=9, logdet=np.ones(1))
    (trigger,) = triggers_of(rule, early)
    assert (trigger.quantity, trigger.value, trigger.threshold) == ("episode", 9, 21)
    assert not rule.due(early)
    late = ledger.clock(task, episode=21, logdet=np.ones(1))
    assert triggers_of(rule, late) == triggers_of(rule.schedule, late)
    assert rule.due(late)


def test_reported_episodes_count_and_not_those_that_began():
    """Outcomes come late: episodes that were assigned and not reported do not end the wait."""
    task = rs.Task(dim=2, horizon=1, episodes=100)
    learner = rs.Learner(task, Waiting(rs.EveryEpisode(), first=10, apart=4))
    episode = rs.Episode(features=[[1.0, 0.0]], rewards=[1.0], next_features=[])
    drawn = [learner.policy.draw(key) for key in range(60)]  # sixty have begun
    assert len(drawn) == 60
    learner.absorb(*[episode] * 9)
    assert not learner.due
    learner.absorb(episode)
    assert learner.due
    learner.deploy(learner.fit())
    learner.absorb(*[episode] * 3)  # of version 1, late: they are reported all the same
    assert not learner.due
    learner.absorb(episode)
    assert learner.due


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (
            "spread-budget,switches=9,first=200,apart=50",
            Waiting(rs.SpreadBudget(switches=9), first=200, apart=50),
        ),
        ("every-episode,first=3", Waiting(rs.EveryEpisode(), first=3)),
        ("uniform-grid,batches=5,apart=7", Waiting(rs.UniformGrid(batches=5), apart=7)),
    ],
)
def test_a_rule_that_waits_is_one_word_on_the_command_line(text, rule):
    task = rs.Task(dim=2, horizon=1, episodes=1000)
    kind, arguments = parse(text)
    assert make_schedule(kind, arguments, task) == rule
    assert to_words(rule) == text
    assert rebuild(describe(rule)) == rule
    assert eval(to_python(rule), {"rs": rs}) == rule
    table = describe(rule)
    assert make_schedule(table.pop("kind"), table, task) == rule


def test_a_budget_inside_a_rule_that_waits_follows_from_the_task():
    task = rs.Task(dim=2, horizon=1, episodes=1000)
    kind, arguments = parse("uniform-grid,switches=4,first=100")
    assert make_schedule(kind, arguments, task) == Waiting(rs.UniformGrid(batches=5), first=100)


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: Waiting(rs.EveryEpisode(), first=-1), "first must be"),
        (lambda: Waiting(rs.EveryEpisode(), apart=0.5), "apart must be"),
        (lambda: Waiting(rs.EveryEpisode), "instance"),
        (
            lambda: rs.Learner(
                rs.Task(dim=2, horizon=1, episodes=50), Waiting(rs.EveryEpisode(), first=50)
            ),
            "first must be below the 50 episodes of the task; got 50",
        ),
        (
            lambda: rs.Learner(rs.Task(dim=2, horizon=1), Waiting(rs.SpreadBudget(switches=2))),
            "episodes",
        ),
    ],
)
def test_impossible_waits_are_refused(make, match):
    with pytest.raises((TypeError, ValueError), match=match):
        make()


def test_a_wait_passes_on_the_other_questions():
    looking = rs.rules.Worthwhile(rs.SpreadBudget(switches=3))
    assert Waiting(looking).accepts == looking.accepts
    assert not hasattr(Waiting(rs.EveryEpisode()), "accepts")
    assert Waiting(rs.EveryEpisode()).stays_due is True
    assert not hasattr(Waiting(rs.UniformGrid(batches=3)), "upcoming")


def test_a_snapshot_restores_it():
    task = rs.Task(dim=2, horizon=1, episodes=100)
    learner = rs.Learner(task, Waiting(rs.SpreadBudget(switches=3), first=10, apart=4))
    assert rs.Learner.restore(learner.snapshot()).schedule == learner.schedule
