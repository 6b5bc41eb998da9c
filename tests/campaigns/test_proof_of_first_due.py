"""Every planned candidate was fitted where the schedule first asked for a policy."""

from contextlib import contextmanager
from dataclasses import dataclass

import pytest

import rareswitch as rs
from campaign_builders import create, fill, propose, report
from rareswitch.campaigns import (
    Approval,
    Intake,
    Learning,
    NotAllowedError,
    heads,
    open_store,
    recording,
    verify,
)
from rareswitch.campaigns.learning import fold as folding
from rareswitch.campaigns.learning.fold import Fold
from two_proofs import of_export, of_store

ANA, BEN = {"by": "ana", "reason": "agreed"}, {"by": "ben", "reason": "after a look"}
SECOND = Approval(by="second-person", retry_after=4)
EVERY = {"kind": "every-episode"}


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield opened


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Absorb few rows at once, so that there are several blocks."""
    monkeypatch.setattr(folding, "ABSORBED_TOGETHER", 4)


@dataclass(frozen=True)
class Blinking:
    """A rule of somebody's own that is due before some episodes, and not any more after them."""

    episodes: tuple

    def due(self, clock):
        return clock.episode in self.episodes


def places(campaign):
    """Return where the candidates were fitted."""
    return [candidate.seq for candidate in campaign.state.candidates.values()]


def learn(campaign, *, decide=None):
    """Let a learner come and propose all that is due; somebody may decide about each."""
    with Learning(campaign) as learning:
        while (candidate := learning.step(reason="it is due")) is not None:
            if decide is not None:
                decide(candidate.number, **BEN)


def approve(campaign):
    learn(campaign, decide=campaign.approve)


def reject(campaign):
    learn(campaign, decide=campaign.reject)


def amend(**tables):
    return lambda campaign: campaign.amend(tables, **ANA)


def withdraw(name):
    return lambda campaign: campaign.withdraw(name, **ANA)


def rollback(campaign):
    campaign.rollback(1, **BEN)


def correct(campaign):
    campaign.correct(report(4, rewards=[0.25, 0.75]), **ANA)


def reject_early(campaign):
    with Learning(campaign) as learning:
        early = learning.propose_early(by="ana", reason="interim")
    campaign.reject(early.number, **BEN)


def record_late(first, last):
    """Record episodes of which every other was played by version 1."""
    return lambda campaign: [campaign.record(report(k, version=1 + k % 2))
                             for k in range(first, last)]  # fmt: skip


def happen(campaign, *events):
    """Record so many more episodes for a number, and call any other event."""
    for event in events:
        if isinstance(event, int):
            recorded = heads(campaign)["episodes"].length - campaign.state.corrections
            fill(campaign, range(recorded, recorded + event))
        else:
            event(campaign)
    return campaign


GRID = {"kind": "uniform-grid", "batches": 4}  # due at rows 15, 30, 45
BUDGET = {n: amend(budget={"deployments": n}) for n in (1, 2, 3)}

# The protocol, the events, and the rows at which candidates were fitted. By default a policy is due
# at rows 10, 20, … without corrections; after a rejection the schedule is asked 4 rows later.
STORIES = {
    "a learner that comes late": ({}, [34, learn], [10, 20, 30]),
    "growth and dates": ({"schedule": rs.SpreadBudget(switches=5)}, [50, learn], None),
    "rejections": ({"approval": SECOND}, [12, reject, 7, reject, 7, approve], [10, 16, 23]),
    "a rollback while a candidate waits": (
        {"approval": SECOND}, [10, approve, 15, learn, rollback, 17, approve], [10, 20, 30, 40],
    ),
    "corrections, which move no date": (
        {}, [8, withdraw("p3"), correct, 4, withdraw("p6"), 18, learn], [12, 23, 33],
    ),
    "a withdrawal when a policy was due": ({}, [10, withdraw("p3"), 10, learn], [10, 21]),
    "an early candidate that passes rows over": (
        {"approval": SECOND}, [14, reject_early, 10, approve], [14, 18, 20],
    ),
    "amended schedules": (
        {"batches": 3}, [5, amend(schedule=EVERY), 2, amend(schedule=GRID), 13, learn], [6, 7, 15],
    ),
    "a budget that goes down and up": (
        {"budget": 3}, [12, learn, BUDGET[1], 11, BUDGET[3], 9, learn], [10, 24, 30],
    ),
    "a budget that goes down, but not below the spent": (
        {"budget": 2}, [11, BUDGET[1], 11, BUDGET[2], 4, learn], [10, 23],
    ),
    "late episodes that no fit learns from": (
        {"intake": Intake(late="record"), "approval": SECOND},
        [10, approve, record_late(10, 26), reject, 3, record_late(50, 51), 1, approve], None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STORIES)
def test_a_campaign_that_went_right_passes(store, tmp_path, name):
    changes, events, expected = STORIES[name]
    campaign = happen(create(store, **changes), *events)
    assert len(places(campaign)) >= 2
    assert expected in (None, places(campaign))
    assert of_store(campaign) == []
    assert of_export(campaign, tmp_path / "out") == {}


def remarks(campaign):
    return [one for check in verify(campaign).checks for one in check.remarks]


def test_a_policy_that_is_due_and_that_nobody_proposed_is_remarked(store):
    campaign = happen(create(store), 14)
    assert remarks(campaign)[-1] == "a new policy is due since row 10; nobody proposed it yet"
    learn(campaign)
    assert "due since" not in remarks(campaign)[-1]
    campaign.stop(**ANA)
    assert not any("due since" in one for one in remarks(campaign))


# --- learners that did otherwise ------------------------------------------------------------------


@contextmanager
def a_learner_that(monkeypatch, *, overlooks=(), proposes_at=()):
    """Let the learner see nothing that is due at some rows, and something at others."""
    due = Fold.due.fget
    with monkeypatch.context() as patched:
        patched.setattr(
            Fold,
            "due",
            property(
                lambda self: self.seq in proposes_at or (due(self) and self.seq not in overlooks)
            ),
        )
        patched.setattr(Fold, "_asked_once", lambda *_: False)
        yield


def named(campaign, folder, said):
    """Check that the store and its export name a candidate that is wrong, in these words."""
    found = of_store(campaign)
    assert [one for one in found if said in one], found
    assert of_export(campaign, folder)["replay"] == found


# The protocol, the events before the learner comes, the rows that it overlooks, the rows at which
# it proposes, and the problem that is named.
OTHERWISE = {
    "a row late": ({}, [15], [10], [11], "entry 3, candidate for version 2: a new policy was due "
                   "at row 10 already, not first at row 11"),
    "late, after a withdrawal": ({}, [10, withdraw("p3"), 6], [10], [12], "at row 10 already"),
    "late, after an amendment": (
        {}, [10, amend(schedule=GRID), 8], [10], [15], "at row 10 already",
    ),
    "without an amendment": (
        {}, [5, amend(schedule=EVERY), 5], range(10), [10], "at row 6 already",
    ),
    "late, after a rejection": (
        {"approval": SECOND}, [12, reject, 7], [16, 17], [10, 18], "at row 16 already",
    ),
    "a row early": (
        {}, [12], [10, 11, 12], [9], "candidate for version 2: no new policy was due at row 9",
    ),
    "an own rule": ({"schedule": Blinking(episodes=(7, 12))}, [20], [6], [11], "at row 6 already"),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERWISE)
def test_a_candidate_of_another_row_is_named(store, tmp_path, monkeypatch, name):
    changes, events, overlooked, proposed, said = OTHERWISE[name]
    campaign = happen(create(store, **changes), *events)
    proposes_at = proposed if name == "a row early" else ()
    with a_learner_that(monkeypatch, overlooks=overlooked, proposes_at=proposes_at):
        learn(campaign)
    assert places(campaign) == proposed
    named(campaign, tmp_path / "out", said)


def test_one_row_late_is_named_where_growth_decides(store, tmp_path, monkeypatch):
    campaign = create(store, schedule=rs.DeterminantGrowth(eta=4.0))
    fill(campaign, range(8))
    with a_learner_that(monkeypatch):
        learn(campaign)
    first, second, *_ = places(campaign)
    with open_store(tmp_path / "late.db", create=True) as other:
        campaign = create(other, schedule=rs.DeterminantGrowth(eta=4.0))
        fill(campaign, range(8))
        with a_learner_that(monkeypatch, overlooks=[second]):
            learn(campaign)
        assert places(campaign)[:2] == [first, second + 1]
        named(campaign, tmp_path / "out", f"a new policy was due at row {second} already")


def test_a_row_at_which_nobody_may_ask_is_refused(store):
    """After a rejection, and while the budget was spent."""
    campaign = create(store, approval=SECOND)
    fill(campaign, range(12))
    learn(campaign, decide=campaign.reject)
    fill(campaign, range(12, 14))
    with pytest.raises(NotAllowedError, match="seq must be a row from 16 to 14"):
        propose(campaign, seq=13, evidence={"triggers": []})
    campaign = create(store, budget=1, name="other")
    fill(campaign, range(12))
    learn(campaign)
    fill(campaign, range(12, 23))
    campaign.amend({"budget": {"deployments": 3}}, **ANA)
    with pytest.raises(NotAllowedError, match="seq must be a row from 24 to 23"):
        propose(campaign, seq=20, evidence={"triggers": []})


def test_a_row_whose_protocol_left_no_deployment_is_named(store, tmp_path):
    """The budget was lower at row 20 than it is now."""
    campaign = create(store, budget=2)
    fill(campaign, range(11))
    campaign.amend({"budget": {"deployments": 1}}, **ANA)
    fill(campaign, range(11, 22))
    campaign.amend({"budget": {"deployments": 2}}, **ANA)
    with Learning(campaign) as learning:
        assert learning.step().seq == 10
    propose(campaign, seq=20, evidence={"triggers": []})
    named(campaign, tmp_path / "out", "the schedule was not to be asked at row 20")


# --- rules that are not ours ----------------------------------------------------------------------


def test_a_rule_of_ones_own_is_asked_after_every_row(store):
    campaign = create(store, schedule=Blinking(episodes=(7, 12)))
    fill(campaign, range(20))
    learn(campaign)
    assert places(campaign) == [6, 11]
    assert of_store(campaign) == []


def test_after_the_planned_episodes_nothing_is_due_but_before_it_was(store, monkeypatch):
    """An engine that did not stop: a block that goes beyond the end is asked row by row."""
    monkeypatch.setattr(folding, "ABSORBED_TOGETHER", 256)
    campaign = create(store, episodes=20, batches=2)
    with monkeypatch.context() as patched:
        patched.setattr(recording, "watch", lambda *_: ())
        fill(campaign, range(25))
    learn(campaign)
    assert places(campaign) == [10]
