"""A trial in memory is the rehearsal in a store, and a literal trial of two arms."""

import json
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
from rareswitch.campaigns.store import tables
from rareswitch.core.control import Control
from rareswitch.core.task import Task

CALM = Circumstances.calm()
SLOW = replace(CALM, sites=3, delay=9.0, missing=0.1, learn_every=2)
SIGNED = replace(SLOW, signing=7.0, rejected=0.3, overridden=0.1)
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
                ControlSuperiority(margin=-0.3, after=40, confidence=0.9),
                ControlFutility(target=0.5, after=150),
            ]
        ),
        SLOW,
    ),
    "accrual": (
        protocol_of(approval=SECOND),
        replace(SIGNED, accrual=3.0, delay_law="fixed", delay=5.0),
    ),
    "no control": (protocol_of(recipe={"control": None, "floor": 0.0, "burn_in": False}), SLOW),
}


def world_of(protocol, seed):
    if protocol.task.horizon == 2:
        return FiniteWorld(MDP, seed=seed)
    return OneStep(participant, seed=seed)


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
