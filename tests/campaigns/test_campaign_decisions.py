"""Decisions: who may put which version in force, and what an amendment may change."""

import math

import numpy as np
import pytest

import rareswitch as rs
from campaign_builders import chain, check_chains, create, fill, propose, report, some_policy
from rareswitch.campaigns import Approval, Learning, MovedError, NotAllowedError
from rareswitch.campaigns.campaign import campaigns_of
from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.record.artifacts import artifact_of
from rareswitch.campaigns.state import State
from rareswitch.campaigns.store.tables import artifacts

SECOND = Approval(by="second-person", retry_after=3)


@pytest.fixture
def campaign(store):
    return create(store, approval=SECOND)


@pytest.fixture
def automatic(store):
    return create(store)


def kinds(campaign):
    return [entry.kind for entry in campaign.entries]


def test_where_the_schedule_decides_a_candidate_is_in_force_at_once(automatic):
    fill(automatic, range(4))
    candidate = propose(automatic, seq=3, evidence={"value": 0.5})
    assert (candidate.status, candidate.version, candidate.seq) == ("deployed", 2, 3)
    version = automatic.state.in_force
    assert (version.version, version.seq, version.since) == (2, 3, 4)
    assert version.digest == candidate.digest == some_policy(0).digest
    assert automatic.policy().to_bytes() == some_policy(0).to_bytes()
    assert kinds(automatic)[2:] == ["candidate", "deployed"]
    assert candidate.evidence == {"value": 0.5}
    check_chains(automatic)


def test_an_unplanned_candidate_waits_even_where_the_schedule_decides(automatic):
    candidate = propose(automatic, planned=False, actor="ana")
    assert candidate.status == "waiting"
    assert automatic.version == 1
    automatic.approve(candidate.number, actor="ben", reason="agreed")
    assert automatic.version == 2


def test_a_second_person_signs(campaign):
    fill(campaign, range(2))
    candidate = propose(campaign)
    assert campaign.version == 1
    fill(campaign, range(2, 5))
    version = campaign.approve(candidate.number, actor="ben", reason="looks right")
    assert (version.version, version.seq, version.since) == (2, 2, 5)
    signed, deployed = campaign.entries[-2:]
    assert (signed.kind, signed.actor, signed.reason) == ("approved", "ben", "looks right")
    assert signed.payload["meaning"] == "approve version 2 for deployment"
    assert (deployed.kind, deployed.actor) == ("deployed", "ben")
    assert campaign.state.candidate(candidate.number).approver == "ben"
    check_chains(campaign)


@pytest.mark.parametrize("same", ["ana", " ana", "Ana", "ANA "])
def test_whoever_proposed_cannot_approve(campaign, same):
    candidate = propose(campaign, actor="ana")
    with pytest.raises(NotAllowedError, match="another person has to approve"):
        campaign.approve(candidate.number, actor=same, reason="mine")
    assert campaign.version == 1
    assert campaign.state.waiting.number == candidate.number


@pytest.mark.parametrize(("actor", "reason"), [("", "x"), ("ben", " "), ("b\0", "x"), (None, "x")])
def test_a_signature_has_a_name_and_a_reason(campaign, actor, reason):
    candidate = propose(campaign)
    with pytest.raises((TypeError, ValueError), match=r"(actor|reason) must"):
        campaign.approve(candidate.number, actor=actor, reason=reason)
    with pytest.raises((TypeError, ValueError), match=r"(actor|reason) must"):
        campaign.stop(actor=actor, reason=reason)
    assert kinds(campaign) == ["created", "deployed", "candidate"]
    check_chains(campaign)


def test_one_candidate_waits_at_a_time(campaign):
    first = propose(campaign)
    with pytest.raises(NotAllowedError, match=f"candidate {first.number} waits for a decision"):
        propose(campaign, seed=1)
    assert kinds(campaign) == ["created", "deployed", "candidate"]


def test_a_rejected_candidate_is_asked_for_again_after_some_episodes(campaign):
    fill(campaign, range(4))
    candidate = propose(campaign, seq=2)
    fill(campaign, [4])
    campaign.reject(candidate.number, actor="ben", reason="too early")
    assert campaign.state.candidate(candidate.number).status == "rejected"
    assert campaign.version == 1
    assert campaign.state.spent == 0
    assert campaign.state.watched == 7  # five are recorded: the eighth is the third after them
    for seq in (2, 5):
        with pytest.raises(NotAllowedError, match="must be fitted on the log up to a row from 8"):
            propose(campaign, seq=seq)
    fill(campaign, range(5, 8))
    again = propose(campaign)
    assert campaign.approve(again.number, actor="ben", reason="now").version == 2


@pytest.mark.parametrize("what", ["approve", "reject"])
def test_what_is_decided_is_not_decided_again(campaign, what):
    candidate = propose(campaign)
    campaign.reject(candidate.number, actor="ben", reason="no")
    with pytest.raises(NotAllowedError, match=f"candidate {candidate.number} is rejected already"):
        getattr(campaign, what)(candidate.number, actor="cyd", reason="?")
    other = propose(campaign, planned=False, seed=2, actor="ana")
    campaign.approve(other.number, actor="ben", reason="yes")
    with pytest.raises(NotAllowedError, match=f"candidate {other.number} is deployed already"):
        getattr(campaign, what)(other.number, actor="cyd", reason="?")
    with pytest.raises(NotAllowedError, match="there is no candidate"):
        getattr(campaign, what)(99, actor="cyd", reason="?")


@pytest.mark.parametrize("seq", [-1, 5, 10**9])
def test_a_candidate_cannot_be_fitted_on_what_is_not_there(automatic, seq):
    fill(automatic, range(4))
    with pytest.raises(NotAllowedError, match="a row from 0 to 4"):
        propose(automatic, seq=seq)
    assert kinds(automatic) == ["created", "deployed"]


def test_a_candidate_cannot_be_fitted_before_the_version_in_force(automatic):
    fill(automatic, range(4))
    propose(automatic, seq=3)
    with pytest.raises(NotAllowedError, match="a row from 3 to 4"):
        propose(automatic, seq=2)


@pytest.mark.parametrize("evidence", [{"value": math.nan}, {"value": math.inf}, {"x": np.ones(2)}])
def test_evidence_is_plain_values(automatic, evidence):
    with pytest.raises((TypeError, ValueError)):
        propose(automatic, evidence=evidence)
    assert kinds(automatic) == ["created", "deployed"]
    assert propose(automatic).status == "deployed"
    check_chains(automatic)


def test_a_candidate_about_another_version_has_moved(automatic):
    propose(automatic)
    with pytest.raises(MovedError, match="version 2 is in force; this is about version 1"):
        automatic.propose(some_policy(3), seq=0, evidence={}, expected=1, actor="x", reason="y")


# The budget


def test_the_budget_is_never_exceeded(store):
    campaign = create(store, budget=2)
    propose(campaign, seed=1)
    propose(campaign, seed=2)
    assert (campaign.state.spent, campaign.state.left) == (2, 0)
    with pytest.raises(NotAllowedError, match="the budget of 2 deployments is spent"):
        propose(campaign, seed=3)
    assert campaign.version == 3
    campaign.amend({"budget": {"deployments": 3}}, actor="ana", reason="more was granted")
    fill(campaign, [0])
    propose(campaign, seed=3)
    with pytest.raises(NotAllowedError, match="the budget of 3 deployments is spent"):
        propose(campaign, seed=4)
    check_budget_at_every_prefix(campaign)


def test_an_approval_keeps_the_budget(store):
    campaign = create(store, budget=1, approval=SECOND)
    candidate = propose(campaign)
    campaign.amend({"budget": {"deployments": 0}}, actor="ana", reason="frozen")
    with pytest.raises(NotAllowedError, match="the budget of 0 deployments is spent"):
        campaign.approve(candidate.number, actor="ben", reason="too late")
    assert campaign.version == 1


def check_budget_at_every_prefix(campaign):
    """Count for every prefix of the ledger, and not as the library does."""
    budget, version, spent = None, 0, -1
    for entry in campaign.entries:
        if entry.kind in ("created", "amended"):
            budget = entry.payload["protocol"]["budget"]["deployments"]
        if entry.kind in ("deployed", "rolled-back"):
            version += 1
            assert entry.payload["version"] == version
            spent += entry.kind == "deployed"
        assert spent <= budget
        state = State().after(campaign.entries[: entry.number])
        assert (len(state.versions), state.spent) == (version, max(spent, -1))


# Rollbacks


def test_a_rollback_is_a_new_version_counted_apart(store):
    campaign = create(store, budget=1)
    first = campaign.policy().digest
    fill(campaign, range(3))
    propose(campaign)
    fill(campaign, range(3, 5))
    version = campaign.roll_back(1, actor="cyd", reason="harm at site 3")
    assert (version.version, version.rollback_to, version.seq, version.since) == (3, 1, 5, 5)
    assert campaign.policy().digest == version.digest == first
    assert (campaign.state.spent, campaign.state.left) == (1, 0)
    assert campaign.roll_back(2, actor="cyd", reason="it was not that").version == 4
    assert campaign.policy().digest == some_policy(0).digest
    check_budget_at_every_prefix(campaign)
    check_chains(campaign)


def test_a_rollback_is_never_blocked(campaign):
    """Not by a spent budget, a waiting candidate or a stop; only by going nowhere."""
    first = propose(campaign)
    campaign.approve(first.number, actor="ben", reason="yes")
    waits = propose(campaign, seed=1)
    assert campaign.roll_back(1, actor="cyd", reason="harm").version == 3
    assert campaign.state.candidate(waits.number).status == "void"
    with pytest.raises(MovedError, match=f"candidate {waits.number} is void"):
        campaign.approve(waits.number, actor="ben", reason="late")
    campaign.stop(actor="ana", reason="enough")
    assert campaign.roll_back(2, actor="cyd", reason="less harm").version == 4
    with pytest.raises(NotAllowedError, match="version 4 is in force"):
        campaign.roll_back(4, actor="cyd", reason="?")
    for wrong in (0, 5, -1):
        with pytest.raises(NotAllowedError, match="version must be from 1 to 4"):
            campaign.roll_back(wrong, actor="cyd", reason="?")


# Amendments


@pytest.mark.parametrize(
    "changes",
    [
        {"budget": {"deployments": 7}},
        {"episodes": 80},
        {"schedule": {"kind": "determinant-growth", "eta": 2.0}},
        {"approval": {"by": "schedule"}},
        {"intake": {"grace": 5}},
        {"stopping": [{"rule": "harm", "below": 0.1}]},
    ],
)
def test_an_amendment_is_a_new_revision(campaign, changes):
    fill(campaign, range(2))
    before = {name: chain(campaign, name) for name in ("episodes", "assignments", "refusals")}
    amended = campaign.amend(changes, actor="ana", reason="agreed on 3 May")
    state = campaign.state
    assert state.protocol == amended
    assert len(state.revisions) == 2
    assert state.revisions[0] != amended
    entry = campaign.entries[-1]
    assert (entry.kind, entry.reason) == ("amended", "agreed on 3 May")
    assert entry.payload["digest"] == amended.digest
    assert {name: chain(campaign, name) for name in before} == before
    check_chains(campaign)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, "must change something"),
        ({"budget": {"deployments": 5}}, "must change something"),
        ({"task": {"dim": 4}}, "only; got task"),
        ({"recipe": {"ridge": 2.0}}, "only; got recipe"),
        ({"name": "other"}, "only; got name"),
        ({"features": {"name": "x"}}, "only; got features"),
        ({"budget": {"deployments": -1}}, r"\[budget\] deployments must be"),
        ({"episodes": 0}, "episodes must be"),
        ({"approval": {"by": "nobody"}}, r"\[approval\] by must be"),
    ],
)
def test_an_amendment_that_cannot_be_is_none(campaign, changes, why):
    with pytest.raises(ValueError, match=why):
        campaign.amend(changes, actor="ana", reason="?")
    assert kinds(campaign) == ["created", "deployed"]


def test_the_budget_is_not_amended_below_what_is_spent(automatic):
    propose(automatic)
    with pytest.raises(NotAllowedError, match="1 deployments are spent already"):
        automatic.amend({"budget": {"deployments": 0}}, actor="ana", reason="?")


# The end


def test_after_the_end_nothing_begins_and_what_has_begun_may_finish(campaign):
    campaign.assign("p0")
    candidate = propose(campaign)
    campaign.stop(actor="ana", reason="enough")
    assert campaign.state.stopped.reason == "enough"
    with pytest.raises(NotAllowedError, match="no episode may begin"):
        campaign.assign("p1")
    with pytest.raises(NotAllowedError, match="only episodes that were assigned before"):
        campaign.take(report(1))
    with pytest.raises(NotAllowedError, match="no version is deployed any more"):
        campaign.approve(candidate.number, actor="ben", reason="?")
    with pytest.raises(NotAllowedError, match="the campaign has stopped"):
        campaign.amend({"budget": {"deployments": 9}}, actor="ana", reason="?")
    with pytest.raises(NotAllowedError, match="has stopped already"):
        campaign.stop(actor="ana", reason="again")
    assert campaign.assign("p0").new is False
    assert campaign.take(report(0)).seq == 1
    campaign.correct(report(0, rewards=[0.5, 0.5]), actor="ana", reason="typing error")
    assert campaign.version == 1
    check_chains(campaign)


def test_an_artifact_that_was_altered_is_noticed(campaign, store):
    digest = campaign.state.in_force.digest
    with store.writing("trial") as connection:
        connection.execute(artifacts.update().values(data=rs.Learner.__doc__.encode()))
    with pytest.raises(DamagedError, match=f"artifact {digest[:12]} was altered"):
        campaign.policy()
    with store.writing("trial") as connection:
        connection.execute(artifacts.delete())
    with (
        store.reading() as connection,
        pytest.raises(DamagedError, match=f"artifact {digest[:12]} is missing"),
    ):
        artifact_of(connection, "trial", digest)


def test_a_ledger_with_a_gap_is_noticed(campaign):
    entries = campaign.entries
    with pytest.raises(DamagedError, match="entry 1 of the ledger is missing"):
        State().after(entries[1:])


def test_a_candidate_has_the_sizes_of_the_task(campaign):
    other = rs.Policy(weights=np.zeros((3, 3)))
    with pytest.raises(NotAllowedError, match="horizon 2"):
        campaign.propose(other, seq=0, evidence={}, expected=1, actor="schedule", reason="a test")


def test_nobody_proposes_early_as_the_schedule(campaign):
    with Learning(campaign) as learning, pytest.raises(NotAllowedError, match="must be a person"):
        learning.propose_early(actor="Schedule", reason="and then I sign")


@pytest.mark.parametrize("name", ["engine", " Engine", "ENGINE "])
def test_nobody_creates_a_campaign_as_the_engine(store, name):
    with pytest.raises(NotAllowedError, match="actor must be a person; engine stops a campaign"):
        create(store, actor=name)
    assert campaigns_of(store) == []
    create(store)
    with pytest.raises(NotAllowedError, match="actor must be a person"):
        create(store, actor=name)
