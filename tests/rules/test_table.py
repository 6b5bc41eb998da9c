"""Every rule of the table: its row, what it needs of a task, and that it is its triggers."""

import importlib
from dataclasses import is_dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import Asked, Starts, ragged_episode, replay, unit_rows
from rareswitch.core.clock import Ledger, triggers_of
from rareswitch.rules.table import EXPLORATIONS, RULES, row_of
from rareswitch.rules.words import describe
from rareswitch.sim import Simulation
from rareswitch.testing import check_schedule

HOMES = (
    "rules.paper", "rules.grids", "rules.budget", "rules.worth", "rules.waiting",
    "core.exploration",
)  # fmt: skip
TASK = rs.Task(dim=2, horizon=2, episodes=60)
OPEN = rs.Task(dim=2, horizon=2)
Capped, EpisodeGrid = rs.rules.Capped, rs.rules.EpisodeGrid
NEED_EPISODES = {
    "UniformGrid": rs.UniformGrid(batches=5),
    "UniformGrid balanced": rs.UniformGrid(batches=7, spread="balanced"),
    "GeometricGrid": rs.rules.GeometricGrid(batches=5),
    "MinimaxGrid": rs.rules.MinimaxGrid(batches=5),
    "AdaptiveBudget": rs.rules.AdaptiveBudget(switches=3),
    "SpreadBudget": rs.SpreadBudget(switches=3),
    "Capped": Capped(rs.SpreadBudget(switches=3), 2),
    "Capped twice": Capped(Capped(rs.UniformGrid(batches=5), 3), 2),
    "Worthwhile": rs.rules.Worthwhile(rs.SpreadBudget(switches=3)),
    "Worthwhile grid": rs.rules.Worthwhile(rs.UniformGrid(batches=5)),
    "Waiting": rs.rules.Waiting(rs.SpreadBudget(switches=3), apart=7),
    "Waiting grid": rs.rules.Waiting(rs.UniformGrid(batches=5), apart=20),
}
OPEN_ENDED = {
    "EveryEpisode": rs.EveryEpisode(),
    "DeterminantGrowth": rs.DeterminantGrowth(eta=2.0),
    "TotalGrowth": rs.rules.TotalGrowth(eta=3.0),
    "EpisodeGrid": EpisodeGrid(dates=(1, 7, 30)),
    "Capped EveryEpisode": Capped(rs.EveryEpisode(), switches=4),
    "Capped growth": Capped(rs.DeterminantGrowth(eta=1.2), switches=2),
    "Capped own": Capped(Starts([4, 9, 22]), switches=2),
    "Waiting growth": rs.rules.Waiting(rs.DeterminantGrowth(eta=1.2), first=3, apart=6),
}
ALL = NEED_EPISODES | OPEN_ENDED


def test_every_rule_and_exploration_of_the_package_has_a_row():
    modules = [importlib.import_module(f"rareswitch.{name}") for name in HOMES]
    public = {
        value
        for module in modules
        for name, value in vars(module).items()
        if is_dataclass(value) and not name.startswith("_") and value.__module__ == module.__name__
        if hasattr(value, "due") or hasattr(value, "perturbations")
    }
    rows = (*RULES, *EXPLORATIONS)
    assert public == {row.cls for row in rows}
    for part in ("name", "label"):
        assert len({getattr(row, part) for row in rows}) == len(rows)
    in_rules = {value for value in vars(rs.rules).values() if isinstance(value, type)}
    assert {row.cls for row in RULES} <= in_rules
    assert {row.cls for row in RULES} == {type(rule) for rule in ALL.values()}


@pytest.mark.parametrize(
    "value", [*ALL.values(), rs.Bonus(), rs.Ensemble()], ids=[*ALL, "Bonus", "Ensemble"]
)
def test_a_rule_is_found_by_itself_and_by_its_class(value):
    row = row_of(value)
    assert row == row_of(type(value))
    assert row.cls is type(value)
    assert describe(value)["kind"] == row.name


def test_a_rule_of_ones_own_has_a_row_of_its_own():
    row = row_of(Starts([3]))
    assert row == row_of(Starts) == (Starts, "oracles:Starts", "Starts")
    assert row not in RULES


# What a rule needs of a task.

WORLD = rs.worlds.tabular(states=2, actions=1, horizon=2)


@pytest.mark.parametrize("rule", NEED_EPISODES.values(), ids=NEED_EPISODES)
def test_a_rule_that_needs_episodes_says_so_when_a_learner_is_made(rule):
    message = "^task must have episodes: .* needs their number K; got an open-ended task"
    for ask in (
        lambda: rs.Learner(OPEN, rule),
        lambda: check_schedule(rule, OPEN),
        lambda: (
            rs.Learner(TASK, rs.EveryEpisode()).amend(schedule=rule, episodes=None)
            or rs.Learner(OPEN, rs.EveryEpisode()).amend(schedule=rule)
        ),
    ):
        with pytest.raises(ValueError, match=message):
            ask()
    assert rs.Learner(TASK, rule).schedule is rule
    check_schedule(rule, TASK)
    opened = rs.Learner(OPEN, rs.EveryEpisode())
    opened.amend(schedule=rule, episodes=60)
    assert (opened.schedule, opened.task) == (rule, TASK)


@pytest.mark.parametrize("rule", OPEN_ENDED.values(), ids=OPEN_ENDED)
def test_other_rules_work_without_end(rule):
    learner, rng = rs.Learner(OPEN, rule, rs.Recipe.paper(beta=0.5)), np.random.default_rng(1)
    for _ in range(70):
        learner.observe(ragged_episode(rng, horizon=2, dim=2))
    assert len(learner.ledger) > 2
    assert learner.task.episodes is None
    check_schedule(rule, OPEN)
    own = isinstance(rule, Capped) and isinstance(rule.schedule, Starts)
    copy = rs.Learner.restore(learner.snapshot(), schedule=rule if own else None)
    assert copy.task == OPEN


@pytest.mark.parametrize("rule", NEED_EPISODES.values(), ids=NEED_EPISODES)
def test_a_rule_that_needs_episodes_cannot_be_asked_without_them(rule):
    ledger = Ledger().deploy(episode=1, logdet=np.zeros(2), trace=np.full(2, 2.0))
    with pytest.raises(ValueError, match="task must have episodes"):
        rule.due(ledger.clock(OPEN, episode=5, logdet=np.ones(2)))


@pytest.mark.parametrize("rule", ALL.values(), ids=ALL)
def test_a_limit_of_deployments_needs_episodes(rule):
    assert 0 <= rule.deployment_limit(TASK) <= 59
    if not isinstance(rule, EpisodeGrid):  # its dates are known
        with pytest.raises(ValueError, match="task must have episodes"):
            rule.deployment_limit(OPEN)


@pytest.mark.parametrize(
    "rule",
    [
        rs.UniformGrid(batches=61),
        rs.rules.GeometricGrid(batches=61),
        Capped(rs.UniformGrid(batches=99), 2),
    ],
    ids=repr,
)
def test_more_batches_than_episodes_are_refused_when_a_learner_is_made(rule):
    message = "batches must be from 1 to 60; got (61|99)"
    for ask in (
        lambda: rs.Learner(TASK, rule),
        lambda: rs.simulate(WORLD, rule, episodes=60),
        lambda: Simulation([WORLD], rule, task=WORLD.task(episodes=60), seeds=[0]),
        lambda: rs.Learner(TASK, rs.EveryEpisode()).amend(schedule=rule),
    ):
        with pytest.raises(ValueError, match=message):
            ask()


# A rule is its triggers.


@pytest.mark.parametrize("rule", ALL.values(), ids=ALL)
@given(
    deployed=st.lists(st.integers(1, 30), max_size=3),
    waited=st.integers(0, 30),
    growth=st.lists(st.floats(0.0, 3.0), min_size=2, max_size=2),
    stages=st.sampled_from(["own", "shared"]),
)
def test_a_rule_is_due_exactly_when_a_trigger_is_reached(rule, deployed, waited, growth, stages):
    ledger = Ledger()
    for episode in [1, *sorted(deployed)]:
        ledger = ledger.deploy(episode=episode, logdet=np.zeros(2), trace=np.full(2, 2.0))
    task, logdet = replace(TASK, stages=stages), np.array(growth)
    clock = ledger.clock(task, episode=ledger[-1].episode + waited, logdet=logdet)
    triggers = triggers_of(rule, clock)
    assert rule.due(clock) is any(trigger.reached for trigger in triggers)
    for trigger in triggers:
        assert trigger.reached == (trigger.margin >= 0) or abs(trigger.margin) < 1e-9


def independent(rule, clock):
    """Return whether a rule is due, as its documentation says, without its triggers."""
    if isinstance(rule, Capped):
        return clock.deployments <= rule.switches and independent(rule.schedule, clock)
    if isinstance(rule, rs.rules.Worthwhile):  # nothing was declined on this clock
        return independent(rule.schedule, clock)
    if isinstance(rule, rs.rules.Waiting):
        wait = rule.first if clock.deployments == 1 else rule.apart
        reported = clock.episode - clock.deployed_at
        return reported >= wait and independent(rule.schedule, clock)
    if isinstance(rule, rs.EveryEpisode):
        return clock.episode > clock.deployed_at
    if isinstance(rule, rs.DeterminantGrowth):
        return bool((np.exp(clock.growth) > rule.eta * (1 + 1e-10)).any())
    if isinstance(rule, rs.rules.TotalGrowth):
        return clock.growth.sum() > rule.log_eta + 1e-10
    if isinstance(rule, rs.rules.AdaptiveBudget | rs.SpreadBudget):
        left = rule.switches - (clock.deployments - 1)
        if left <= 0:
            return False
        if clock.growth.sum() > rule.threshold(clock) + 1e-10:
            return True
        return isinstance(rule, rs.SpreadBudget) and clock.episode >= rule.date(clock)
    if isinstance(rule, Starts):
        return clock.episode in rule.starts
    return any(clock.deployed_at < start <= clock.episode for start in rule.starts(clock.task))


@pytest.mark.parametrize("rule", ALL.values(), ids=ALL)
@given(
    deployed=st.lists(st.integers(1, 30), max_size=3),
    waited=st.integers(0, 30),
    growth=st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.3, 2.5]), min_size=2, max_size=2),
)
def test_triggers_are_those_of_the_documentation(rule, deployed, waited, growth):
    ledger = Ledger()
    for episode in [1, *sorted(deployed)]:
        ledger = ledger.deploy(episode=episode, logdet=np.zeros(2), trace=np.full(2, 2.0))
    clock = ledger.clock(TASK, episode=ledger[-1].episode + waited, logdet=np.array(growth, float))
    assert rule.due(clock) == independent(rule, clock)


@pytest.mark.parametrize("rule", ALL.values(), ids=ALL)
@pytest.mark.parametrize("stages", ["own", "shared"])
def test_jumping_ahead_gives_what_asking_before_every_episode_gives(rule, stages):
    world = rs.worlds.hard_to_learn(d=4, horizon=2, seed=3)
    runs = [
        rs.simulate(world, each, rs.Recipe.paper(beta=0.3), episodes=60, stages=stages, seed=2)
        for each in (rule, Asked(rule))
    ]
    np.testing.assert_array_equal(runs[0].deployment_episodes, runs[1].deployment_episodes)
    np.testing.assert_array_equal(runs[0].actions, runs[1].actions)
    assert runs[0].deployments > 1


def test_every_rule_is_due_on_some_path_and_not_always():
    features = unit_rows(np.random.default_rng(4), 60, 2, 2)
    for name, rule in ALL.items():
        made = replay(rule, features, task=TASK)
        assert 0 < len(made) < (60 if name == "EveryEpisode" else 40), name
