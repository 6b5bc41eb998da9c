"""A rule that looks at the candidate, on clocks, in learners and in their snapshots."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import stepped
from rareswitch.core.candidate import RECENT, Gain, reasons_of
from rareswitch.core.clock import Ledger
from rareswitch.rules import Worthwhile
from rareswitch.rules.words import describe, make_schedule, rebuild, to_python
from rareswitch.support import codec

WORLD = rs.worlds.tabular(states=3, actions=2, horizon=3, seed=2)
EPISODES = 120
TASK = WORLD.task(episodes=EPISODES)
INNER = {
    "spread": rs.SpreadBudget(switches=6),
    "adaptive": rs.rules.AdaptiveBudget(switches=6),
    "grid": rs.UniformGrid(batches=7),
    "balanced": rs.UniformGrid(batches=7, spread="balanced"),
    "growth": rs.DeterminantGrowth(eta=2.0),
    "total": rs.rules.TotalGrowth(eta=6.0),
    "capped": rs.rules.Capped(rs.EveryEpisode(), switches=6),
}


class Told:
    """A candidate with these figures."""

    def __init__(self, change, gain, left):
        self.change, self.gain, self.episodes_left = change, Gain(gain, 0.0), left


@pytest.mark.parametrize(
    ("change", "gain", "left", "accepted"),
    [
        (0.2, -1.0, 100, True),  # it acts otherwise: perhaps it explores
        (0.1, 0.0, 100, True),
        (0.05, 0.02, 100, True),  # it pays
        (0.05, 0.02, 50, False),  # a price of 1 is not exceeded
        (0.0, 0.0, 100, False),
    ],
)
def test_a_candidate_must_change_much_or_pay(change, gain, left, accepted):
    rule = Worthwhile(rs.SpreadBudget(switches=3), change=0.1, price=1.0)
    assert rule.accepts(Told(change, gain, left)) is accepted


def test_after_a_decline_the_next_candidate_comes_a_quarter_of_the_time_later():
    rule, task = Worthwhile(rs.SpreadBudget(switches=1)), rs.Task(dim=1, horizon=1, episodes=200)
    ledger = Ledger().deploy(episode=1, logdet=np.zeros(1), trace=np.ones(1))
    asked = []
    for k in range(2, 201):
        clock = ledger.clock(task, episode=k, logdet=np.zeros(1))
        assert clock.declined_at == (asked[-1] if asked else None)
        if rule.due(clock):
            asked.append(k)
            ledger = ledger.decline(k)
    assert asked == [101, 126, 158, 198]
    assert ledger.declined == tuple(asked)


@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
@given(answers=st.lists(st.booleans(), min_size=1, max_size=30), seed=st.integers(0, 10**6))
def test_no_budget_is_exceeded_whatever_is_declined(inner, answers, seed):
    rule, rng = Worthwhile(inner), np.random.default_rng(seed)
    learner = rs.Learner(TASK, rule, rs.Recipe.paper(beta=0.5))
    gram, ledger = learner._state.history.gram, Ledger()
    ledger = ledger.deploy(episode=1, logdet=gram.logdet, trace=gram.trace)
    said = iter([*answers, *[True] * EPISODES])
    for k in range(2, EPISODES + 1):
        rows = rng.normal(size=(TASK.horizon, TASK.dim))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        gram = gram.add_episode(rows, TASK.pools)
        if rule.due(ledger.clock(TASK, episode=k, logdet=gram.logdet)):
            if next(said):
                ledger = ledger.deploy(episode=k, logdet=gram.logdet, trace=gram.trace)
            else:
                ledger = ledger.decline(k)
    assert len(ledger) - 1 <= rule.deployment_limit(TASK) <= inner.deployment_limit(TASK)


class Stubborn(Worthwhile):
    """A rule that accepts every third candidate, as its clock tells."""

    def accepts(self, candidate):
        assert len(candidate.paths) == min(
            RECENT, candidate.clock.episode - candidate.clock.deployed_at
        )
        return candidate.clock.episode % 3 == 0


def played(rule, episodes=EPISODES):
    learner = rs.Learner(TASK, rule, rs.Recipe(seed=3))
    noise = np.random.default_rng(0).random((episodes, TASK.horizon))
    stepped(WORLD, learner, noise=noise, initial=np.zeros(episodes, int))
    return learner


def test_a_declined_candidate_leaves_the_policy_in_force_and_an_entry():
    learner = played(Stubborn(rs.SpreadBudget(switches=6)))
    dates = [deployment.episode for deployment in learner.ledger]
    assert all(date % 3 == 0 for date in dates[1:])
    assert learner.ledger.declined
    assert all(date % 3 for date in learner.ledger.declined)
    assert all(after > before for before, after in pairwise(learner.ledger.declined))


def test_observe_is_absorb_fit_accepts_and_deploy_or_decline():
    rule = Stubborn(rs.SpreadBudget(switches=6))
    one = rs.Learner(TASK, rule, rs.Recipe(seed=3))
    other = rs.Learner(TASK, rule, rs.Recipe(seed=3))
    rng = np.random.default_rng(1)
    menus = WORLD.features
    for _ in range(EPISODES):
        states, actions = rng.integers(0, 3, 3), rng.integers(0, 2, 3)
        episode = rs.Episode(
            features=menus[states, actions],
            rewards=rng.random(3),
            next_features=[menus[s] for s in states[1:]],
            first_features=menus[states[0]],
        )
        switched = one.observe(episode)
        other.absorb(episode)
        if other.due:
            policy = other.fit()
            if other.accepts(policy):
                other.deploy(policy)
                assert switched
            else:
                other.decline()
                assert not switched
    assert one.ledger == other.ledger
    assert one.ledger.declined
    assert one.snapshot() == other.snapshot()


def test_a_rule_that_does_not_look_accepts_every_policy():
    learner = rs.Learner(TASK, rs.SpreadBudget(switches=2))
    assert learner.accepts(learner.fit())


def test_an_episode_without_its_first_offers_is_refused_and_leaves_no_trace():
    learner = rs.Learner(TASK, Worthwhile(rs.SpreadBudget(switches=2)))
    before = learner.snapshot()
    row = WORLD.features[0][[0]]
    episode = rs.Episode(features=row, rewards=[0.5], next_features=[])
    with pytest.raises(ValueError, match="episode must have first_features for a rule that looks"):
        learner.observe(episode)
    assert learner.snapshot() == before
    rs.Learner(TASK, rs.SpreadBudget(switches=2)).observe(episode)


@pytest.mark.parametrize("one_hot", [False, True])
def test_a_restored_learner_declines_and_deploys_as_if_it_had_never_stopped(one_hot):
    rule = Worthwhile(rs.SpreadBudget(switches=20), change=0.5, price=2.0)
    task = rs.Task(dim=6, horizon=3, episodes=EPISODES, one_hot=one_hot)
    rng, menus = np.random.default_rng(5), np.eye(6).reshape(3, 2, 6)
    if one_hot:
        menus = np.arange(6).reshape(3, 2)
    whole = rs.Learner(task, rule)
    parts = rs.Learner(task, rule)
    for k in range(EPISODES):
        n = int(rng.integers(1, 4))
        states = rng.integers(0, 3, n)
        actions = rng.integers(0, 2, n)
        episode = rs.Episode(
            features=menus[states, actions],
            rewards=(states == actions).astype(float),
            next_features=[menus[s] for s in states[1:]],
            first_features=menus[states[0]],
        )
        whole.observe(episode)
        parts.observe(episode)
        if k % 7 == 0:
            parts = rs.Learner.restore(parts.snapshot())
    assert whole.ledger.declined
    assert len(whole.ledger) > 2
    assert parts.ledger == whole.ledger
    assert parts.snapshot() == whole.snapshot()


def wide_row(arrays):
    arrays["paths/rows"] = np.append(arrays["paths/rows"], [[0.0] * TASK.dim], axis=0)


def no_number(arrays):
    arrays["paths/rows"] = np.where(arrays["paths/rows"] == 1.0, np.nan, arrays["paths/rows"])


def long_path(arrays):
    arrays["paths/steps"] = np.array([len(arrays["paths/lengths"])])


def early_decline(arrays):
    arrays["declined"] = np.array([1])


def no_paths(arrays):
    del arrays["paths/steps"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (wide_row, "in agreement with their lengths"),
        (no_number, "of finite numbers"),
        (long_path, "of the task"),
        (early_decline, "declined must be"),
        (no_paths, "paths/steps"),
    ],
)
def test_a_snapshot_whose_paths_do_not_fit_is_refused(change, message):
    learner = played(Worthwhile(rs.SpreadBudget(switches=0)), episodes=15)
    parts = codec.unpack("learner", learner.snapshot())
    arrays = dict(parts.arrays)
    change(arrays)
    with pytest.raises(ValueError, match=message):
        rs.Learner.restore(codec.pack("learner", parts.meta, arrays))


def test_the_rule_has_words():
    rule = Worthwhile(rs.SpreadBudget(switches=6), price=3.0)
    assert rebuild(describe(rule)) == rule
    assert to_python(rule).startswith("rs.rules.Worthwhile(schedule=rs.SpreadBudget(switches=6)")
    inner = {"kind": "uniform-grid", "switches": 4}
    made = make_schedule("worthwhile", {"schedule": inner, "change": 0.2}, TASK)
    assert made == Worthwhile(rs.UniformGrid(batches=5), change=0.2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"change": 1.5}, "change must be .*; got 1.5"),
        ({"change": -0.1}, "change must be .*; got -0.1"),
        ({"price": -1.0}, "price must be .*; got -1.0"),
    ],
)
def test_a_bad_argument_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Worthwhile(rs.SpreadBudget(switches=1), **arguments)


def test_reasons_are_what_accepts_decides_by():
    inner = Worthwhile(rs.SpreadBudget(switches=9), change=0.5, price=3.0)
    for rule in (inner, rs.rules.Capped(inner, switches=3)):
        for told in (Told(0.2, 0.02, 100), Told(0.5, 0.0, 100), Told(0.0, 0.04, 100)):
            change, gain = reasons_of(rule, told)
            assert (change.value, change.threshold) == (told.change, 0.5)
            assert (gain.value, gain.threshold) == (told.gain.mean * 100, 3.0)
            assert (change.reached or gain.reached) is rule.accepts(told)
    assert len(reasons_of(Worthwhile(inner), Told(0.2, 0.0, 100))) == 4
    (only,) = reasons_of(Silent(), Told(0.2, 0.0, 100))
    assert (only.quantity, only.value, only.reached) == ("accepted", 0.0, False)


class Silent:
    """A rule that gives no reasons."""

    def due(self, clock):
        return True

    def accepts(self, candidate):
        return False


def test_episodes_that_do_not_tell_their_offers_are_absorbed_and_not_compared():
    learner = rs.Learner(TASK, Worthwhile(rs.SpreadBudget(switches=2)))
    row = WORLD.features[0][[0]]
    silent = rs.Episode(features=row, rewards=[0.5], next_features=[])
    learner.absorb(silent, silent)
    with pytest.raises(ValueError, match="episodes of the policy in force, with first_features"):
        learner.accepts(learner.fit())
    told = rs.Episode(
        features=row, rewards=[0.5], next_features=[], first_features=WORLD.features[0]
    )
    learner.absorb(told)
    assert len(learner.candidate(learner.fit()).paths) == 1


def test_a_learner_that_does_not_look_any_more_keeps_its_declined_candidates():
    """Its draws depend on them; the paths are forgotten, whether it was restored or not."""
    learner = played(Worthwhile(rs.SpreadBudget(switches=9), change=1.0, price=1e9), episodes=30)
    assert learner.ledger.declined
    learner.amend(schedule=rs.SpreadBudget(switches=9))
    restored = rs.Learner.restore(learner.snapshot())
    assert restored.ledger == learner.ledger
    assert restored.fit().digest == learner.fit().digest
    for one in (learner, restored):
        one.amend(schedule=Worthwhile(rs.SpreadBudget(switches=9)))
        assert not one.candidate(one.fit()).paths


def test_a_declined_candidate_is_followed_by_one_with_draws_of_its_own():
    learner = played(Worthwhile(rs.SpreadBudget(switches=0)), episodes=15)
    policy = learner.fit()
    assert learner.fit().digest == policy.digest
    learner.decline()
    assert learner.fit().digest != policy.digest


def test_a_cap_asks_the_rule_inside_about_a_candidate():
    looking = Worthwhile(rs.SpreadBudget(switches=9), change=0.1)
    capped = rs.rules.Capped(looking, switches=3)
    assert not capped.accepts(Told(0.0, 0.0, 100))
    assert capped.accepts(Told(0.2, 0.0, 100))
    assert not hasattr(rs.rules.Capped(rs.EveryEpisode(), switches=3), "accepts")


def test_two_rules_that_look_must_both_accept():
    rule = Worthwhile(Worthwhile(rs.SpreadBudget(switches=9), change=0.5), change=0.1)
    assert not rule.accepts(Told(0.3, 0.0, 100))
    assert rule.accepts(Told(0.6, 0.0, 100))
