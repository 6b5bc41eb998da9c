"""Decisions: who may put which version in force, and what an amendment may change."""

import math
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

import rareswitch as rs
from campaign_builders import (
    chain,
    check_chains,
    create,
    fill,
    mostly_in_files,
    propose,
    report,
    some_policy,
)
from rareswitch.campaigns import (
    Approval,
    DamagedError,
    Harm,
    Learning,
    MovedError,
    NotAllowedError,
    status,
    verify,
)
from rareswitch.campaigns.campaign import list_campaigns
from rareswitch.campaigns.rulebook.decisions import broken_rules
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.store.rows import StoredRecord
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
    assert candidate.evidence == {"triggers": [], "value": 0.5}
    check_chains(automatic)


def test_an_unplanned_candidate_waits_even_where_the_schedule_decides(automatic):
    candidate = propose(automatic, planned=False, by="ana")
    assert candidate.status == "waiting"
    assert automatic.version == 1
    automatic.approve(candidate.number, by="ben", reason="agreed")
    assert automatic.version == 2


def test_a_second_person_signs(campaign):
    fill(campaign, range(2))
    candidate = propose(campaign)
    assert campaign.version == 1
    fill(campaign, range(2, 5))
    version = campaign.approve(candidate.number, by="ben", reason="looks right")
    assert (version.version, version.seq, version.since) == (2, 2, 5)
    signed, deployed = campaign.entries[-2:]
    assert (signed.kind, signed.actor, signed.reason) == ("approved", "ben", "looks right")
    assert signed.payload["meaning"] == "approve version 2 for deployment"
    assert (deployed.kind, deployed.actor) == ("deployed", "ben")
    assert campaign.state.candidate(candidate.number).approver == "ben"
    check_chains(campaign)


SAME = ["ana", " ana", "Ana", "ANA ", "a na", "ana.", "an-a", "aná", "ａｎａ", "ᴀna", "ɑna",
        "anaʼ", "ana\u034f", "ana\ufe0f"]  # fmt: skip


@mostly_in_files("same", SAME, SAME[0])
def test_whoever_proposed_cannot_approve(campaign, same):
    candidate = propose(campaign, by="ana")
    with pytest.raises(NotAllowedError, match="another person has to approve"):
        campaign.approve(candidate.number, by=same, reason="mine")
    assert campaign.version == 1
    assert campaign.state.waiting.number == candidate.number


HIDDEN = [
    "\u200b",
    "\u00ad",
    "\u2060",
    "\u202e",
    "\u2066",
    "\ufeff",
    "\n",
    "\r",
    "\t",
    "\0",
    "\u2028",
    "\u3164",
    "\u1160",
    "\u2800",
]


@mostly_in_files(
    "by, reason",
    [
        ("", "x"), ("ben", " "), (None, "x"), ("...", "x"), ("ben", "x\ny"), ("b" * 201, "x"),
        *((f"ana{hidden}", "x") for hidden in HIDDEN),
        *((f"{hidden}ben", "x") for hidden in HIDDEN),
        *((name, "x") for name in ("engine", " Engine", "schedule", "SCHEDULE ", "ｅｎｇｉｎｅ",
                                   "en gine", "scheduIe".replace("I", "l"), "sсhedule", "engıne")),
        *((name, "x") for name in ("anа", "аnа", "Ꭺna", "ꓮna", "Ben аna")),  # two scripts
    ],
)  # fmt: skip
def test_a_signature_has_the_name_of_a_person_and_a_reason(campaign, by, reason):
    candidate = propose(campaign)
    signed = {"by": by, "reason": reason}
    for attempt in (
        lambda: campaign.approve(candidate.number, **signed),
        lambda: campaign.reject(candidate.number, **signed),
        lambda: campaign.rollback(1, **signed),
        lambda: campaign.amend({"budget": {"deployments": 9}}, **signed),
        lambda: campaign.stop(**signed),
        lambda: campaign.reopen(**signed),
        lambda: campaign.withdraw("p0", **signed),
        lambda: campaign.cancel("p0", **signed),
        lambda: campaign.forget("Ada", **signed),
        lambda: (
            create(campaign.store, name="other", by=by)
            if reason == "x"
            else campaign.stop(**signed)
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=r"(by|reason) must"):
            attempt()
    assert kinds(campaign) == ["created", "deployed", "candidate"]
    assert list_campaigns(campaign.store) == ["trial"]


def test_a_name_is_written_in_one_form(campaign):
    candidate = propose(campaign)
    campaign.approve(candidate.number, by="  Ｂｅｎ   Okri ", reason="ﬁne")
    assert [(e.actor, e.reason) for e in campaign.entries[-2:]] == [("Ben Okri", "fine")] * 2


def test_one_candidate_waits_at_a_time(campaign):
    first = propose(campaign)
    with pytest.raises(NotAllowedError, match=f"candidate {first.number} waits for a decision"):
        propose(campaign, seed=1)
    assert kinds(campaign) == ["created", "deployed", "candidate"]


def test_a_rejected_candidate_is_asked_for_again_after_some_episodes(campaign):
    fill(campaign, range(4))
    candidate = propose(campaign, seq=2)
    fill(campaign, [4])
    campaign.reject(candidate.number, by="ben", reason="too early")
    assert campaign.state.candidate(candidate.number).status == "rejected"
    assert campaign.version == 1
    assert campaign.state.spent == 0
    assert campaign.state.watched == 7  # five are recorded: the eighth is the third after them
    for seq in (2, 5):
        with pytest.raises(NotAllowedError, match="seq must be a row from 8"):
            propose(campaign, seq=seq)
    fill(campaign, range(5, 8))
    again = propose(campaign)
    assert campaign.approve(again.number, by="ben", reason="now").version == 2


@pytest.mark.parametrize("what", ["approve", "reject"])
def test_what_is_decided_is_not_decided_again(campaign, what):
    candidate = propose(campaign)
    campaign.reject(candidate.number, by="ben", reason="no")
    with pytest.raises(NotAllowedError, match=f"candidate {candidate.number} is rejected already"):
        getattr(campaign, what)(candidate.number, by="cyd", reason="?")
    other = propose(campaign, planned=False, seed=2, by="ana")
    campaign.approve(other.number, by="ben", reason="yes")
    with pytest.raises(NotAllowedError, match=f"candidate {other.number} is deployed already"):
        getattr(campaign, what)(other.number, by="cyd", reason="?")
    with pytest.raises(NotAllowedError, match="candidate must be an entry that proposes a policy"):
        getattr(campaign, what)(99, by="cyd", reason="?")


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
    with pytest.raises(MovedError, match="version 2 is in force; the decision is about version 1"):
        automatic.propose(
            some_policy(3), seq=0, evidence={"triggers": []}, expected=1, by="x", reason="y"
        )


# The budget


def test_the_budget_is_never_exceeded(store):
    campaign = create(store, budget=2)
    propose(campaign, seed=1)
    propose(campaign, seed=2)
    assert (campaign.state.spent, campaign.state.left) == (2, 0)
    with pytest.raises(NotAllowedError, match="the budget of 2 deployments is spent"):
        propose(campaign, seed=3)
    assert campaign.version == 3
    campaign.amend({"budget": {"deployments": 3}}, by="ana", reason="more was granted")
    fill(campaign, [0])
    propose(campaign, seed=3)
    with pytest.raises(NotAllowedError, match="the budget of 3 deployments is spent"):
        propose(campaign, seed=4)
    check_budget_at_every_prefix(campaign)


def test_an_approval_keeps_the_budget(store):
    campaign = create(store, budget=1, approval=SECOND)
    candidate = propose(campaign)
    agree(campaign, {"budget": {"deployments": 0}})
    with pytest.raises(NotAllowedError, match="the budget of 0 deployments is spent"):
        campaign.approve(candidate.number, by="ben", reason="too late")
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
        state = State().after(*campaign.entries[: entry.number])
        assert (len(state.versions), state.spent) == (version, max(spent, -1))


# Rollbacks


def test_a_rollback_is_a_new_version_counted_apart(store):
    campaign = create(store, budget=1)
    first = campaign.policy().digest
    fill(campaign, range(3))
    propose(campaign)
    fill(campaign, range(3, 5))
    version = campaign.rollback(1, by="cyd", reason="harm at site 3")
    assert (version.version, version.rollback_to, version.seq, version.since) == (3, 1, 5, 5)
    assert campaign.policy().digest == version.digest == first
    assert (campaign.state.spent, campaign.state.left) == (1, 0)
    again = campaign.rollback(1, by="Cyd", reason="harm at site 3")
    assert again == version
    for to in (1, 2, 3):  # the same policy, or one that was replaced
        with pytest.raises(NotAllowedError, match="a rollback goes back: version 3 has the policy"):
            campaign.rollback(to, by="ana", reason="it was not that")
    assert campaign.version == 3
    check_budget_at_every_prefix(campaign)
    check_chains(campaign)


def test_a_rollback_is_never_blocked(campaign):
    """Not by a spent budget, a waiting candidate or a stop; only by going nowhere."""
    first = propose(campaign)
    campaign.approve(first.number, by="ben", reason="yes")
    waits = propose(campaign, seed=1)
    assert campaign.rollback(1, by="cyd", reason="harm").version == 3
    assert campaign.state.candidate(waits.number).status == "void"
    with pytest.raises(MovedError, match=f"candidate {waits.number} is void"):
        campaign.approve(waits.number, by="ben", reason="late")
    for wrong in (0, 4, -1):
        with pytest.raises(NotAllowedError, match="version must be from 1 to 3"):
            campaign.rollback(wrong, by="cyd", reason="?")
    again = propose(campaign, seed=2)
    campaign.approve(again.number, by="ben", reason="yes")
    campaign.stop(by="ana", reason="enough")
    assert campaign.rollback(2, by="cyd", reason="less harm").version == 5
    assert campaign.rollback(1, by="cyd", reason="less harm").version == 6
    assert campaign.policy().digest == campaign.policy(1).digest


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
    amended = campaign.protocol.amended(changes)
    entry = agree(campaign, changes, reason="agreed on 3 May")
    state = campaign.state
    assert state.terms.digest == campaign.protocol.digest == amended.digest
    assert [terms.digest for terms in state.revisions][1:] == [amended.digest]
    assert entry == campaign.entries[-1]
    assert (entry.kind, entry.actor, entry.reason) == ("amended", "ben", "agreed on 3 May")
    assert entry.payload["digest"] == amended.digest
    assert {name: chain(campaign, name) for name in before} == before
    check_chains(campaign)


@mostly_in_files(
    "changes, why",
    [
        ({}, "must change something"),
        ({"episodes": 60, "stopping": [{"rule": "futility", "target": 1, "after": 61}]}, "after"),
        ({"stopping": [{"rule": "harm", "below": 2.5}]}, "below must be at most 2"),
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
        campaign.amend(changes, by="ana", reason="?")
    assert kinds(campaign) == ["created", "deployed"]


def test_the_budget_is_not_amended_below_what_is_spent(automatic):
    propose(automatic)
    with pytest.raises(
        NotAllowedError, match="deployments must be at least 1, which are spent; got 0"
    ):
        automatic.amend({"budget": {"deployments": 0}}, by="ana", reason="?")


# The end


def test_after_the_end_nothing_begins_and_what_has_begun_may_finish(campaign):
    campaign.assign("p0")
    candidate = propose(campaign)
    campaign.stop(by="ana", reason="enough")
    assert campaign.state.stopped.reason == "enough"
    with pytest.raises(NotAllowedError, match="no episode may begin"):
        campaign.assign("p1")
    with pytest.raises(NotAllowedError, match="only episodes that were assigned before"):
        campaign.record(report(1))
    with pytest.raises(NotAllowedError, match="the campaign has stopped"):
        campaign.approve(candidate.number, by="ben", reason="?")
    with pytest.raises(NotAllowedError, match="the campaign has stopped"):
        campaign.amend({"budget": {"deployments": 9}}, by="ana", reason="?")
    campaign.stop(by="Ana", reason="again")
    with pytest.raises(NotAllowedError, match="the campaign has stopped"):
        campaign.stop(by="ben", reason="again")
    assert kinds(campaign).count("stopped") == 1
    assert campaign.assign("p0").new is False
    assert campaign.record(report(0)).seq == 1
    campaign.correct(report(0, rewards=[0.5, 0.5]), by="ana", reason="typing error")
    assert campaign.version == 1
    check_chains(campaign)


def test_an_artifact_that_was_altered_is_noticed(campaign, store):
    digest = campaign.state.in_force.digest
    with store.writing("trial") as connection:
        connection.execute(artifacts.update().values(data=rs.Learner.__doc__.encode()))
    for read in (campaign.policy, campaign.policy_bytes):
        with pytest.raises(DamagedError, match=f"artifact {digest[:12]} was altered"):
            read()
    with store.writing("trial") as connection:
        connection.execute(artifacts.delete())
    with (
        store.reading() as connection,
        pytest.raises(DamagedError, match=f"artifact {digest[:12]} is missing"),
    ):
        StoredRecord(connection, "trial").artifact(digest)


def test_a_ledger_with_a_gap_is_noticed(campaign):
    entries = campaign.entries
    with pytest.raises(DamagedError, match="entry 1 of the ledger is missing"):
        State().after(*entries[1:])


def test_a_candidate_has_the_sizes_of_the_task(campaign):
    other = rs.Policy(weights=np.zeros((3, 3)))
    with pytest.raises(NotAllowedError, match="policy must fit the protocol's"):
        campaign.propose(
            other, seq=0, evidence={"triggers": []}, expected=1, by="schedule", reason="a test"
        )


def test_nobody_proposes_early_as_the_schedule(campaign):
    for name in ("schedule", "Schedule"):
        with Learning(campaign) as learning, pytest.raises(ValueError, match="must be a person"):
            learning.propose_early(by=name, reason="and then I sign")
    assert len(campaign.entries) == 2


# Two persons


def agree(campaign, changes, *, reason="agreed"):
    """Amend as ana, and approve as ben where a second person has to."""
    entry = campaign.amend(changes, by="ana", reason="please")
    if entry.kind == "amended":
        return entry
    return campaign.approve(entry.number, by="ben", reason=reason)


@pytest.mark.parametrize(
    "changes",
    [
        {"approval": {"by": "schedule"}},
        {"stopping": []},
        {"budget": {"deployments": 7}},
        {"episodes": 30},
    ],
)
def test_an_amendment_needs_two_persons_where_a_deployment_does(store, changes):
    campaign = create(store, approval=SECOND, stopping=(Harm(below=0.1),))
    before = campaign.terms
    entry = campaign.amend(changes, by="ana", reason="please")
    assert (entry.kind, campaign.terms) == ("amendment", before)
    assert campaign.amend(changes, by=" Ana", reason="please") == entry
    assert status(campaign).amendment["number"] == entry.number
    for same in SAME:
        with pytest.raises(NotAllowedError, match="was proposed by ana; another person"):
            campaign.approve(entry.number, by=same, reason="me too")
    campaign.reject(entry.number, by="ben", reason="no")
    campaign.reject(entry.number, by="ben", reason="no")
    assert campaign.terms == before
    with pytest.raises(NotAllowedError):
        campaign.approve(entry.number, by="cyd", reason="yes")
    entry = campaign.amend(changes, by="ana", reason="please")
    done = campaign.approve(entry.number, by="ben", reason="yes")
    assert campaign.approve(entry.number, by="Ben", reason="yes") == done
    assert campaign.terms.digest == entry.payload["digest"] != before.digest
    expected = ["amendment", "rejected", "amendment", "amended"]
    assert [kind for kind in kinds(campaign)[2:] if kind != "stopped"] == expected
    assert verify(campaign).problems == []


def test_an_amendment_that_is_sent_again_is_answered_with_its_entry(automatic):
    changes = {"budget": {"deployments": 7}}
    first = automatic.amend(changes, by="ana", reason="more")
    assert automatic.amend(changes, by="Ana", reason="more") == first
    with pytest.raises(NotAllowedError, match="must change something"):
        automatic.amend(changes, by="ben", reason="more")
    with pytest.raises(NotAllowedError, match="must change something"):
        automatic.amend({"intake": {}}, by="ben", reason="nothing")
    assert kinds(automatic) == ["created", "deployed", "amended"]


def test_only_signers_decide(store):
    signers = Approval(by="second-person", signers=("Ana", "Ben"))
    campaign = create(store, approval=signers, by="cyd")
    candidate = propose(campaign)
    signed = {"by": "cyd", "reason": "mine"}
    for attempt in (
        lambda: campaign.approve(candidate.number, **signed),
        lambda: campaign.reject(candidate.number, **signed),
        lambda: campaign.rollback(1, **signed),
        lambda: campaign.amend({"budget": {"deployments": 9}}, **signed),
        lambda: campaign.stop(**signed),
    ):
        with pytest.raises(NotAllowedError, match=r"by must be a signer .*\(Ana, Ben\); got cyd"):
            attempt()
    assert campaign.approve(candidate.number, by="BEN", reason="yes").version == 2
    entry = campaign.amend({"budget": {"deployments": 9}}, by="ana", reason="more")
    with pytest.raises(NotAllowedError, match="by must be a signer"):
        campaign.approve(entry.number, **signed)
    campaign.approve(entry.number, by="ben", reason="yes")


@pytest.mark.parametrize("names", [("Ana",), ("Ana", "ana."), ("Ana", "engine"), "Ana", ("Ana", 5)])
def test_signers_are_two_persons(names):
    with pytest.raises((TypeError, ValueError), match="signers must be"):
        Approval(by="second-person", signers=names)


def test_nobody_carries_out_the_approval_of_another(campaign):
    """The rulebook refuses it, so no forged entry passes either."""
    candidate = propose(campaign)
    entries = campaign.approve(candidate.number, by="ben", reason="yes") and campaign.entries
    state, deployed = State().after(*entries[:-1]), entries[-1]
    assert list(broken_rules(state, deployed)) == []
    for forged, why in (
        (deployed._replace(actor="cyd"), "was not approved by cyd"),
        (deployed._replace(actor="schedule"), "was not approved by schedule"),
        (entries[-2], "was not carried out"),
    ):
        assert any(why in str(error) for error in broken_rules(state, forged))
    before = State().after(*entries[:-2])
    assert any("was not approved" in str(e) for e in broken_rules(before, deployed))


def test_nobody_amends_alone_by_a_forged_entry(campaign):
    amended = agree(campaign, {"budget": {"deployments": 7}})
    waits, before = (State().after(*campaign.entries[:n]) for n in (3, 2))
    assert list(broken_rules(waits, amended)) == []
    alone = amended._replace(number=3, payload={
        key: value for key, value in amended.payload.items() if key != "amendment"
    })  # fmt: skip
    for state, forged, why in (
        (before, amended, "needs the approval of a second person"),
        (before, alone, "needs the approval of a second person"),
        (waits, amended._replace(actor="Ana"), "another person has to approve"),
    ):
        assert any(why in str(error) for error in broken_rules(state, forged))


# Decisions that are sent again


def test_decisions_that_are_sent_again_are_answered_as_before(campaign):
    first = propose(campaign)
    once, again = (campaign.approve(first.number, by=by, reason="yes") for by in ("ben", "Ben"))
    assert once == again
    with pytest.raises(NotAllowedError, match="is deployed already"):
        campaign.approve(first.number, by="cyd", reason="yes")
    second = propose(campaign, seed=1)
    for _ in range(2):
        campaign.reject(second.number, by="ben", reason="no")
    assert kinds(campaign)[2:] == ["candidate", "approved", "deployed", "candidate", "rejected"]


# Values


def test_states_and_errors_are_values(campaign):
    state = campaign.state
    with pytest.raises(FrozenInstanceError):
        state.stopped = None
    with pytest.raises(AttributeError):
        state.in_force.digest = "0" * 64
    with pytest.raises(FrozenInstanceError):
        state.terms.budget = 99
    candidate = propose(campaign)
    with pytest.raises(FrozenInstanceError):
        candidate.status = "deployed"
    with pytest.raises(MovedError) as caught:
        campaign.propose(
            some_policy(1), seq=0, evidence={"triggers": []}, expected=7, by="x", reason="y"
        )
    assert caught.value.plain == {"error": str(caught.value), "code": "moved", "version": 1}
    found = campaign.policy_bytes()
    assert found == (1, state.in_force.digest, campaign.policy().to_bytes())
    assert rs.Policy.from_bytes(campaign.policy_bytes(1).data).digest == found.digest
