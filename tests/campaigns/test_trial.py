"""A trial in memory is the rehearsal in a store, and a literal trial of two arms."""

import json
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
import sqlalchemy as sa

import rareswitch as rs
from rareswitch.campaigns import (
    Approval,
    Campaign,
    Circumstances,
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    FiniteWorld,
    Futility,
    Harm,
    Intake,
    OneStep,
    Protocol,
    Trial,
    open_store,
    simulate,
)
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.stopping import may_pass
from rareswitch.campaigns.store import tables
from rareswitch.core.control import Control
from rareswitch.core.task import Task

CALM = Circumstances.calm()
SLOW = replace(CALM, sites=3, delay=9.0, missing=0.1, learn_every=2)
SIGNED = replace(SLOW, signing=4.0, rejected=0.6, overridden=0.1)
SECOND = Approval(by="second-person", retry_after=4)
MDP = rs.worlds.tabular(states=3, actions=3, horizon=2, seed=5)


def participant(rng):
    severe = rng.random()
    told = np.array([1.0, severe]) / 1.5
    rows = np.zeros((3, 6))
    for action in range(3):
        rows[action, 2 * action : 2 * action + 2] = told
    return rows, np.array([0.4, 0.5, 0.3 + 0.3 * severe])


@dataclass(frozen=True)
class Picky:
    """Due before every ninth episode, and content at every other of them."""

    def due(self, clock):
        return clock.episode % 9 == 0

    def accepts(self, candidate):
        return candidate.clock.episode % 2 == 0


def protocol_of(task=None, **changes):
    recipe = {
        "exploration": rs.Ensemble(members=4),
        "control": Control(0, share=0.2),
        "floor": 0.1,
        "burn_in": True,
    } | changes.pop("recipe", {})
    given = {
        "name": "trial",
        "task": task or Task(dim=6, horizon=1, episodes=150),
        "schedule": rs.rules.Waiting(rs.SpreadBudget(switches=4), first=30, apart=10),
        "budget": 4,
        "recipe": rs.Recipe(**recipe),
    }
    return Protocol(**given | changes)


TWO_STEPS = MDP.task(episodes=100)
CASES = {
    "calm": (protocol_of(), CALM),
    "late": (protocol_of(schedule=rs.UniformGrid(batches=5)), SLOW),
    "late episodes on record": (protocol_of(intake=Intake(late="record")), SLOW),
    "signed": (protocol_of(approval=SECOND), SIGNED),
    "declined": (
        protocol_of(schedule=rs.rules.Worthwhile(rs.UniformGrid(batches=9), change=0.2), budget=8),
        SLOW,
    ),
    "picky and signed": (protocol_of(schedule=Picky(), budget=3, approval=SECOND), SIGNED),
    "two steps": (protocol_of(TWO_STEPS, schedule=rs.DeterminantGrowth(eta=2.0)), SIGNED),
    "harm": (protocol_of(stopping=[Harm(below=0.9)]), SLOW),
    "futility": (protocol_of(TWO_STEPS, stopping=[Futility(target=1.9, after=40)]), SLOW),
    "superiority": (
        protocol_of(
            stopping=[
                ControlHarm(margin=0.1),
                ControlSuperiority(margin=-0.9, after=40, confidence=0.6),
                ControlFutility(target=0.5, after=150),
            ]
        ),
        SLOW,
    ),
    "no gain": (
        protocol_of(stopping=[ControlFutility(target=0.9, after=60, confidence=0.6)]),
        SLOW,
    ),
    "accrual": (
        protocol_of(approval=SECOND),
        replace(SIGNED, accrual=3.0, delay_law="fixed", delay=5.0),
    ),
    "expiring": (
        protocol_of(approval=replace(SECOND, expires_after=5)),
        replace(SIGNED, signing=6.0, rejected=0.2),
    ),
    "several signers": (
        protocol_of(
            approval=replace(
                SECOND, quorum=3, groups={"clinic": ("ana",)}, signature="passkey", expires_after=9
            )
        ),
        SIGNED,
    ),
    "no control": (protocol_of(recipe={"control": None, "floor": 0.0, "burn_in": False}), SLOW),
}


def world_of(protocol, seed):
    if protocol.task.horizon == 2:
        return FiniteWorld(MDP, seed=seed)
    return OneStep(participant, seed=seed)


def test_the_cases_end_as_they_are_meant_to():
    ends = {
        name: Trial(protocol, world_of(protocol, 7), circumstances, seed=7).run()
        for name, (protocol, circumstances) in CASES.items()
    }
    assert ends["superiority"].stop.rule == "control-superiority"
    assert ends["no gain"].stop.rule == "control-futility"
    assert ends["harm"].stop.rule == "harm"
    assert ends["futility"].stop.rule == "futility"
    assert ends["calm"].stop.rule == "episodes"
    assert ends["declined"].declined > 0
    assert ends["signed"].rejections > 0
    assert ends["expiring"].expired > 0
    assert ends["several signers"].deployments > 0
    assert ends["late"].late > 0
    assert ends["late"].missing > 0
    assert ends["accrual"].elapsed < ends["signed"].elapsed


def test_a_rule_that_is_reached_is_never_left_out():
    rules = [
        ControlSuperiority(margin=0.1, after=30, confidence=0.9),
        ControlHarm(margin=0.1, confidence=0.9),
        ControlFutility(target=0.1, after=30, confidence=0.9),
        Harm(below=0.9),
        DataQuality(most=0.01),
    ]
    reached, skipped = Counter(), Counter()
    for seed, gain in enumerate((-0.5, -0.2, 0.0, 0.2, 0.5)):
        rng, cohorts = np.random.default_rng(seed), Cohorts(horizon=2, control=0.4)
        for number in range(400):
            version, role = 1 + number // 150, ("learned", "control")[int(rng.random() < 0.4)]
            chance = 0.5 + gain * (role == "learned")
            cohorts.record(version, 2.0 * (rng.random() < chance), role)
            if rng.random() < 0.5 and number > 200:
                cohorts.refuse()
            for rule in rules:
                seen, asked = rule.watch(cohorts, version), may_pass(rule, cohorts, version)
                assert asked or not (seen and seen.passed)
                reached[rule.name] += bool(seen and seen.passed)
                skipped[rule.name] += not asked
    assert {name for name, times in reached.items() if times} == {rule.name for rule in rules}
    assert all(skipped[rule.name] for rule in rules if rule.name != "harm")


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("seed", [7])
def test_a_trial_in_memory_is_the_rehearsal_in_a_store(case, seed, tmp_path):
    protocol, circumstances = CASES[case]
    trial = Trial(protocol, world_of(protocol, seed), circumstances, seed=seed).run()
    with open_store(tmp_path / "trial.db", create=True) as store:
        done = simulate(
            protocol, world_of(protocol, seed), store, circumstances=circumstances, seed=seed
        )
        campaign = Campaign(store, "trial")
        with store.reading() as connection:
            rows = connection.execute(sa.select(tables.assignments)).all()
            log = connection.execute(sa.select(tables.episodes)).all()
            kept = connection.execute(sa.select(tables.cohorts)).all()
        state = campaign.state
    assert [(one.version, one.member) for one in trial.assignments] == [
        (row.version, row.member) for row in rows
    ]
    assert [(one.policy.digest, one.seq, one.since) for one in trial.versions] == [
        (one.digest, one.seq, one.since) for one in state.versions
    ]
    assert trial.stop.rule == state.stopped.payload.get("rule", "")
    assert done.stopped.endswith(trial.stop.reason)
    assert trial.stop.recorded == state.stopped.position
    assert (trial.recorded, trial.missing, trial.late) == (done.recorded, done.missing, done.late)
    assert (trial.deployments, trial.declined, trial.rejections) == (
        done.deployments, done.declined, done.rejections,
    )  # fmt: skip
    totals = [sum(one.rewards) for one in trial.episodes]
    assert sum(row.total for row in log) <= sum(totals) + 1e-9
    for row in kept:  # the sealed text of a cohort ends with its sums
        sums = json.loads(row.state.partition(" ")[2])
        if isinstance(sums, list):
            counted = list(trial.cohorts[row.version])
            if (arms := trial.cohorts.strata.get(row.version)) is not None:
                counted.append([arms.centre, list(arms.learned), list(arms.control)])
            assert sums == counted
    assert len(kept) > 1


def test_a_participant_is_drawn_by_number_alone():
    forward, backward = OneStep(participant, seed=3), OneStep(participant, seed=3)
    seen = {number: (forward.begin(number), forward.step(1)) for number in (1, 2, 3)}
    for number in (3, 2, 1):
        rows = backward.begin(number)
        np.testing.assert_array_equal(rows, seen[number][0])
        assert backward.step(1) == seen[number][1]
    assert OneStep(participant, seed=4).begin(1)[0, 1] != seen[1][0][0, 1]


def test_rewards_have_their_means_and_a_policy_its_value():
    world = OneStep(participant, seed=5)
    steps = [world.step(2) for number in range(1, 2001) if world.begin(number) is not None]
    noise = np.mean([one.reward - one.expected for one in steps])
    assert abs(noise) < 4 * 0.5 / np.sqrt(2000)
    best = [one.best for one in steps]
    assert np.mean(best) == pytest.approx(1 / 3, abs=0.05)  # 0.3 + 0.3·s is best above s = 2/3
    always = protocol_of().learner().policy
    trial = Trial(protocol_of(), world, CALM, seed=1).run()
    assert world.value(trial.versions[-1].policy.alone(4)) == pytest.approx(0.4)  # the control
    assert world.value(always) == pytest.approx((0.4 + 0.5 + 0.45) / 3, abs=0.01)  # at random


def test_a_world_may_draw_other_rewards_and_name_subgroups():
    def person(rng):
        return np.eye(2), [0.2, 0.6], "mild"

    world = OneStep(person, reward=lambda rng, mean: rng.beta(2 * mean, 2 * (1 - mean)))
    world.begin(4)
    first = world.step(1)
    assert 0.0 < first.reward < 1.0
    assert first.expected == 0.6
    assert world.subgroup() == "mild"
    world.begin(5)
    world.begin(4)
    assert world.step(1) == first


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (7, r"participant must return \(rows, means\)"),
        ((np.eye(2), [0.5]), "means must be one for each row"),
        ((np.eye(2), [0.5, 1.5]), "means must be numbers from 0.0 to 1.0"),
        ((np.eye(2), [0.5, np.nan]), "means must be numbers from 0.0 to 1.0"),
        ((["a"], [0.5]), "rows must be"),
    ],
)
def test_a_participant_that_is_none_is_refused(drawn, message):
    with pytest.raises((TypeError, ValueError), match=message):
        OneStep(lambda rng: drawn).begin(1)


def test_mishaps_of_a_store_and_rewards_out_of_range_are_refused():
    with pytest.raises(ValueError, match=r"crashes must be 0 in a trial without a store; got 0.05"):
        Trial(protocol_of(), OneStep(participant), Circumstances(repeated=0.0, damaged=0.0,
              corrected=0.0, withdrawn=0.0))  # fmt: skip
    high = OneStep(participant, reward=lambda rng, mean: 1.5)
    with pytest.raises(ValueError, match=r"reward must lie in \[0, 1\]; the world gave 1.5"):
        Trial(protocol_of(), high, CALM).run()
