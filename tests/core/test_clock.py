"""What a rule sees, the triggers that it shows, and the ledger of deployments."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rareswitch as rs
from oracles import clock_at
from rareswitch.core.clock import (
    GROWTH_TOLERANCE,
    Deployment,
    Ledger,
    Rule,
    Trigger,
    checked_schedule,
    triggers_of,
)

TASK = rs.Task(dim=3, horizon=2)


def make():
    ledger = Ledger().deploy(episode=1, logdet=np.zeros(2), trace=np.ones(2), digest="a")
    return ledger.deploy(
        episode=4, logdet=np.array([0.5, 1.0]), trace=np.array([2.0, 3.0]), digest="b"
    )


def test_versions_count_from_one():
    ledger = make().deploy(episode=4, logdet=np.ones(2), trace=np.ones(2))
    third = ledger[-1]
    assert isinstance(third, Deployment)
    assert third.digest == ""
    assert [(d.version, d.episode) for d in ledger] == [(1, 1), (2, 4), (3, 4)]
    assert len(ledger) == 3
    assert ledger[1:] == list(ledger)[1:]


def test_a_ledger_never_changes():
    ledger = make()
    before = list(ledger)
    one = ledger.deploy(episode=7, logdet=np.ones(2), trace=np.ones(2), digest="c")
    other = ledger.deploy(episode=9, logdet=np.ones(2), trace=np.ones(2), digest="d")
    assert list(ledger) == before
    assert [d.episode for d in one] == [1, 4, 7]
    assert [d.episode for d in other] == [1, 4, 9]
    assert len(Ledger()) == 0


def test_a_clock_shows_the_task_and_the_policy_in_force():
    ledger = make()
    clock = ledger.clock(TASK, episode=9, logdet=np.array([0.75, 2.0]))
    expected = clock_at(
        [0.25, 1.0],
        task=TASK,
        episode=9,
        deployed_at=4,
        deployments=2,
        logdet=[0.5, 1.0],
        trace=[2.0, 3.0],
    )
    assert clock == expected
    assert clock.task is TASK
    assert clock.growth.tolist() == [0.25, 1.0]


def test_ledgers_and_deployments_compare_and_tell_what_they_are():
    ledger, same = make(), make()
    assert ledger == same
    assert (ledger != same) is False
    assert ledger[0] == same[0]
    assert len({*ledger, *same}) == 2
    assert ledger[0] != ledger[1]
    assert ledger != same.deploy(episode=9, logdet=np.zeros(2), trace=np.ones(2))
    assert ledger != [1]
    assert ledger[0] != "a"
    other = Ledger().deploy(episode=1, logdet=np.full(2, 0.5), trace=np.ones(2), digest="a")
    assert other[0] != ledger[0]
    assert repr(ledger) == "Ledger(2 deployments, before episodes [1, 4])"
    assert repr(ledger[1]).startswith("Deployment(version=2, episode=4, ")
    with pytest.raises(TypeError, match="unhashable"):
        hash(ledger)


def test_a_deployment_is_frozen():
    with pytest.raises(AttributeError):
        make()[0].episode = 3


def test_clocks_compare_and_tell_their_growth():
    clock, same = (clock_at([0.25, 0.5], task=TASK, logdet=[1.0, 2.0]) for _ in range(2))
    assert clock.growth.tolist() == [0.25, 0.5]
    assert clock == same
    assert (clock != same) is False
    assert hash(clock) == hash(same)
    for other in (
        clock_at([0.25, 0.75], task=TASK, logdet=[1.0, 2.0]),
        clock_at([0.25], task=TASK, logdet=1.0),
        clock_at([0.25, 0.5], task=TASK, logdet=[1.0, 2.0], deployments=2),
        clock_at([0.25, 0.5], task=TASK, logdet=[1.0, 2.0], deployed_at=2),
        clock_at([0.25, 0.5], task=TASK, logdet=[1.0, 2.0], trace=3.0),
        clock_at([0.25, 0.5], task=rs.Task(dim=4, horizon=2), logdet=[1.0, 2.0]),
        None,
        "clock",
    ):
        assert clock != other
        assert (clock == other) is False
    with pytest.raises(AttributeError):
        clock.episode = 3


def test_a_trigger_says_by_how_much_it_is_reached():
    date = Trigger.of_date(clock_at([0.0], episode=9), 7)
    assert date == ("episode", 9, 7, True)
    assert date.margin == 2
    assert Trigger.of_date(clock_at([0.0], episode=7), 7).reached is True
    assert Trigger.of_date(clock_at([0.0], episode=6), 7).reached is False
    assert Trigger.of_growth("growth", 0.5, 0.75).margin == -0.25
    assert Trigger.of_growth("growth", 0.5, 0.75).to_dict() == {
        "quantity": "growth",
        "value": 0.5,
        "threshold": 0.75,
        "reached": False,
        "margin": -0.25,
    }


@given(st.floats(0.0, 50.0))
def test_a_growth_of_exactly_the_threshold_is_not_above_it(threshold):
    at = [
        Trigger.of_growth("growth", threshold + extra * GROWTH_TOLERANCE, threshold).reached
        for extra in (-1.0, 0.0, 0.9, 1.1)
    ]
    assert at == [False, False, False, True]


class Every(Rule):
    """A rule of its triggers alone."""

    def __init__(self, *reached):
        self.reached = reached

    def triggers(self, clock):
        return tuple(Trigger("x", 1.0, 2.0, reached) for reached in self.reached)


@pytest.mark.parametrize(
    ("reached", "due"),
    [((), False), ((False,), False), ((True,), True), ((False, True), True), ((True,) * 2, True)],
)
def test_a_rule_is_due_when_one_of_its_triggers_is_reached(reached, due):
    rule = Every(*reached)
    assert rule.due(clock_at([0.0])) is due
    assert triggers_of(rule, clock_at([0.0])) == rule.triggers(clock_at([0.0]))
    assert rule.stays_due is False


def test_a_rule_without_triggers_of_its_own_is_no_rule():
    class Empty(Rule):
        pass

    with pytest.raises(TypeError, match=r"Empty must have a method triggers\(clock\)"):
        Empty().due(clock_at([0.0]))


class Own:
    """A rule of the user's own, with `due` alone."""

    def due(self, clock):
        return clock.episode % 4 == 0


def test_a_rule_with_due_alone_says_only_whether_it_is_due():
    (trigger,) = triggers_of(Own(), clock_at([0.0], episode=4))
    assert trigger == ("due", 1.0, 1.0, True)
    (trigger,) = triggers_of(Own(), clock_at([0.0], episode=5))
    assert trigger == ("due", 0.0, 1.0, False)


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_a_rule_with_due_alone_works_in_a_learner_and_in_a_simulation(stages):
    world = rs.worlds.tabular(states=3, actions=2, horizon=2, seed=1)
    run = rs.simulate(world, Own(), rs.Recipe.paper(beta=0.5), episodes=13, stages=stages)
    assert run.deployment_episodes.tolist() == [1, 4, 8, 12]
    learner = rs.Learner(world.task(episodes=13, stages=stages), Own(), rs.Recipe.paper(beta=0.5))
    step = np.arange(2)
    for states, actions in zip(run.states, run.actions, strict=True):
        learner.observe(
            rs.Episode(
                features=world.features[states[:-1], actions],
                rewards=world.rewards[step, states[:-1], actions],
                next_features=[world.features[states[1]]],
            )
        )
    assert [d.episode for d in learner.ledger] == [1, 4, 8, 12]
    np.testing.assert_allclose(learner.policy.weights, run.policy.weights, atol=1e-9)
    assert learner.due is False


class Choosy(Own):
    """A rule that serves only tasks of two stages."""

    def __init__(self):
        self.asked = []

    def check(self, task):
        self.asked.append(task)
        if task.horizon != 2:
            raise ValueError(f"horizon must be 2; got {task.horizon}")


def test_a_rule_is_asked_whether_it_can_serve_a_task():
    rule, other = Choosy(), rs.Task(dim=3, horizon=3)
    assert checked_schedule(rule) is rule
    assert rule.asked == []
    assert checked_schedule(rule, TASK) is rule
    assert rule.asked == [TASK]
    for make_learner in (
        lambda: checked_schedule(rule, other),
        lambda: rs.Learner(other, rule),
        lambda: rs.Learner(other, rs.rules.Capped(rule, 3)),
        lambda: rs.simulate(rs.worlds.tabular(states=2, actions=2, horizon=3), rule, episodes=4),
    ):
        with pytest.raises(ValueError, match="horizon must be 2; got 3"):
            make_learner()
    rs.Learner(TASK, rule)


@pytest.mark.parametrize("name", ["schedule", "rule"])
def test_an_error_names_the_argument(name):
    with pytest.raises(TypeError, match=f"^{name} must have a method due"):
        checked_schedule(3, name=name)
    with pytest.raises(TypeError, match=f"^{name} must be an instance, not the class Own itself"):
        checked_schedule(Own, name=name)


class Bare:
    def due(self, clock):
        return False


@pytest.mark.parametrize(
    ("method", "found", "said"),
    [
        (
            "deployment_limit",
            lambda task: 3,
            r"take the arguments \(task, ridge\); it takes \(task\)",
        ),
        ("upcoming", lambda task: 3, r"take the arguments \(task, episode\); it takes \(task\)"),
        ("due", lambda: True, r"take the arguments \(clock\); it takes \(\)"),
    ],
)
def test_the_methods_of_a_rule_must_take_their_arguments(method, found, said):
    rule = Bare()
    setattr(rule, method, found)
    with pytest.raises(TypeError, match=rf"^schedule: Bare.{method} must {said}$"):
        checked_schedule(rule)
    setattr(rule, method, lambda *anything: False)
    assert checked_schedule(rule) is rule
    setattr(rule, method, min)  # a function without a signature
    assert checked_schedule(rule) is rule
