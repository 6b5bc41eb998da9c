"""Several signatures: quorums, groups, candidates that expire, and rollbacks countersigned."""

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from authenticator import by_password
from campaign_builders import check_chains, create, fill, propose, protocol
from rareswitch.campaigns import (
    Approval,
    Campaign,
    DataQuality,
    Learning,
    MovedError,
    NotAllowedError,
    Protocol,
    candidates,
    open_store,
    status,
    verify,
)
from rareswitch.campaigns.rulebook.approval import Owed
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.terms import Terms

TWO = Approval(by="second-person", quorum=2)
GROUPS = {"clinic": ["ana", "ben"], "statistics": ["cyd"]}
OF_EACH = Approval(by="second-person", groups=GROUPS)
SHORT = Approval(by="second-person", expires_after=3)
QUALITY = DataQuality(most=0.5)
TWICE = Approval(by="second-person", countersign_rollbacks=True)


@pytest.fixture
def opened(tmp_path):
    with open_store(tmp_path / "s.db", create=True) as store:
        yield lambda approval, **more: create(store, approval=approval, **more)


def kinds(campaign):
    return [entry.kind for entry in campaign.entries]


# --- the protocol -------------------------------------------------------------------------------

FULL = Approval(
    by="second-person",
    signers=("ana", "ben", "cyd", "dora"),
    quorum=3,
    groups=GROUPS,
    expires_after=40,
    signature="passkey",
    countersign_rollbacks=True,
)


def test_the_keys_go_through_toml_and_are_absent_where_they_are_not_set():
    full = protocol(approval=FULL, public=True)
    again = Protocol.from_toml(full.to_toml())
    assert again == full
    assert again.digest == full.digest
    terms = Terms.of(full.plain)
    assert (terms.approval, terms.public) == (FULL, True)
    assert full.plain["access"] == {"public": True}
    plain = protocol(approval=Approval(by="second-person"), public=False).plain
    assert plain["approval"] == {"by": "second-person", "retry_after": 1}
    assert "access" not in plain
    assert Terms.of(plain).public is False


def test_public_is_amendable(opened):
    campaign = opened(Approval())
    campaign.amend({"access": {"public": True}}, by="ana", reason="transparency")
    assert campaign.terms.public
    assert campaign.protocol.public
    campaign.amend({"access": {"public": False}}, by="ana", reason="a mistake")
    assert not campaign.terms.public
    assert campaign.state.revisions[0].digest == campaign.state.revisions[2].digest


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"by": "schedule", "quorum": 2}, "quorum needs by"),
        ({"by": "schedule", "groups": GROUPS}, "groups needs by"),
        ({"by": "schedule", "countersign_rollbacks": True}, "countersign_rollbacks needs by"),
        ({"quorum": 0}, "quorum must be at least 1"),
        ({"quorum": 1.5}, "quorum must be a whole number"),
        ({"signers": ["ana", "ben"], "quorum": 2}, "quorum must be at most 1"),
        ({"signers": ["ana", "ben"], "groups": {"x": ["cyd"]}}, "cyd is not one"),
        ({"groups": []}, "groups must be a table"),
        ({"groups": {"x": "ana"}}, "groups: x must be a list"),
        ({"groups": {"x": []}}, "groups must not be empty; x is"),
        ({"groups": {"x": ["ana", "Ana"]}}, "groups: x must be different persons"),
        ({"groups": {"x": ["ana"], "y": ["Aná"]}}, "must not share a person"),
        ({"groups": {"x": ["engine"]}}, "must be a person"),
        ({"expires_after": 0}, "expires_after must be at least 1"),
        ({"signature": "fax"}, "signature must be one of"),
        ({"countersign_rollbacks": 1}, "countersign_rollbacks must be True or False"),
    ],
)
def test_terms_that_cannot_be_met_are_refused(given, why):
    with pytest.raises((TypeError, ValueError), match=why):
        Approval(**{"by": "second-person"} | given)


def test_a_key_in_the_wrong_place_is_named():
    plain = protocol().plain
    with pytest.raises(ValueError, match=r"\[access\] has no key 'publik'"):
        Protocol.from_plain(plain | {"access": {"publik": True}})
    with pytest.raises(TypeError, match=r"\[access\] public must be True or False"):
        Protocol.from_plain(plain | {"access": {"public": "yes"}})


def test_owed_counts_persons_and_groups():
    both = Approval(by="second-person", quorum=3, groups=GROUPS)
    assert both.owed([]) == Owed(3, ("clinic", "statistics"))
    assert both.owed(["ben", "Ben"]) == Owed(2, ("statistics",))
    assert both.owed(["dora", "eve", "fay"]) == Owed(2, ("clinic", "statistics"))
    assert both.owed(["ana", "cyd", "eve"]) == Owed(0, ())


# --- candidates ---------------------------------------------------------------------------------


def test_a_quorum_of_different_persons_deploys(opened):
    campaign = opened(TWO)
    number = propose(campaign).number
    first = campaign.approve(number, by="ben", reason="one")
    assert isinstance(first, Entry)
    assert (first.kind, campaign.version) == ("approved", 1)
    assert campaign.approve(number, by="Ben", reason="again") == first  # the same person
    assert status(campaign).waiting["owed"] == {"signatures": 1, "groups": {}}
    version = campaign.approve(number, by="cyd", reason="two")
    assert version.version == campaign.version == 2
    for person in ("ben", "cyd"):
        assert campaign.approve(number, by=person, reason="again") == version
    with pytest.raises(NotAllowedError, match="is deployed already"):
        campaign.approve(number, by="dora", reason="late")
    assert kinds(campaign)[2:] == ["candidate", "approved", "approved", "deployed"]
    assert [one["by"] for one in candidates(campaign)[0]["signatures"]] == ["ben", "cyd"]
    check_chains(campaign)


def test_the_proposer_is_none_of_the_quorum(opened):
    campaign = opened(TWO)
    number = propose(campaign, by="ana", planned=False).number
    campaign.approve(number, by="ben", reason="one")
    with pytest.raises(NotAllowedError, match="proposed by ana; another person has to approve"):
        campaign.approve(number, by="Ana", reason="two")
    assert campaign.version == 1


def test_each_group_signs(opened):
    campaign = opened(OF_EACH)
    number = propose(campaign).number
    with pytest.raises(NotAllowedError, match=r"lacks 2 signatures, of clinic \(ana or ben\)"):
        campaign.approve(number, by="eve", reason="I agree too")
    campaign.approve(number, by="ben", reason="for the clinic")
    with pytest.raises(NotAllowedError, match=r"lacks 1 signature, of statistics \(cyd\); got ana"):
        campaign.approve(number, by="ana", reason="for the clinic")
    owed = status(campaign).waiting["owed"]
    assert owed == {"signatures": 1, "groups": {"statistics": ["cyd"]}}
    assert campaign.approve(number, by="cyd", reason="for statistics").version == 2


def test_one_person_rejects(opened):
    campaign = opened(TWO)
    number = propose(campaign).number
    campaign.approve(number, by="ben", reason="yes")
    campaign.reject(number, by="cyd", reason="no")
    with pytest.raises(NotAllowedError, match="is rejected already"):
        campaign.approve(number, by="dora", reason="yes")


def test_the_budget_is_kept_by_the_last_signature(opened):
    campaign = opened(Approval(by="second-person", quorum=2), budget=5)
    number = propose(campaign).number
    campaign.approve(number, by="ben", reason="yes")
    amendment = campaign.amend({"budget": {"deployments": 0}}, by="ana", reason="enough").number
    campaign.approve(amendment, by="ben", reason="yes")
    campaign.approve(amendment, by="cyd", reason="yes")
    with pytest.raises(NotAllowedError, match="the budget of 0 deployments is spent"):
        campaign.approve(number, by="cyd", reason="yes")


PERSONS = ["ana", "ben", "cyd", "dora", "eve", "Ana", "b en"]


@settings(max_examples=60, deadline=None)
@given(
    quorum=st.integers(1, 4),
    groups=st.sampled_from([{}, {"a": ["ana"]}, {"a": ["ana", "ben"], "b": ["cyd"]}]),
    proposer=st.sampled_from(["schedule", "ana", "dora"]),
    signatures=st.lists(st.sampled_from(PERSONS), max_size=9),
)
def test_a_candidate_is_deployed_exactly_when_enough_have_signed(
    tmp_path_factory, quorum, groups, proposer, signatures
):
    """The rule is written out here a second time, over sets of persons."""
    approval = Approval(by="second-person", quorum=quorum, groups=groups)
    same = {"Ana": "ana", "b en": "ben"}
    with open_store(tmp_path_factory.mktemp("q") / "s.db", create=True) as store:
        campaign = create(store, approval=approval)
        number = propose(campaign, by=proposer, planned=proposer == "schedule").number
        signed, deployed = set(), False
        for name in signatures:
            person = same.get(name, name)
            try:
                campaign.approve(number, by=name, reason="x")
            except NotAllowedError:
                useless = signed and not lacking(signed | {person}, quorum, groups) < lacking(
                    signed, quorum, groups
                )
                first = not lacking({person}, quorum, groups) < lacking(set(), quorum, groups)
                late = deployed and person not in signed
                assert person == proposer or late or useless or (not signed and first)
                continue
            assert person != proposer
            signed.add(person)
            deployed = not lacking(signed, quorum, groups)
            assert (campaign.version == 2) is deployed
        actors = [one.actor for one in campaign.entries if one.kind == "approved"]
        assert {same.get(actor, actor) for actor in actors} == signed
        assert len(actors) == len(signed)


def lacking(signed, quorum, groups):
    """Return how many signatures are still needed."""
    return max(quorum - len(signed), sum(not signed & {*one} for one in groups.values()), 0)


def test_racing_signers_deploy_once(opened):
    campaign = opened(Approval(by="second-person", quorum=3))
    number = propose(campaign).number
    answers, barrier = [], threading.Barrier(8)

    def sign(person):
        barrier.wait()
        try:
            answers.append(campaign.approve(number, by=person, reason="now"))
        except NotAllowedError as error:
            answers.append(error)

    threads = [threading.Thread(target=sign, args=(f"person {n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert campaign.version == 2
    assert kinds(campaign)[3:] == ["approved"] * 3 + ["deployed"]
    assert sum(isinstance(answer, NotAllowedError) for answer in answers) == 5
    check_chains(campaign)


# --- amendments ---------------------------------------------------------------------------------


def test_a_quorum_cannot_be_amended_away_by_two_persons(opened):
    campaign = opened(Approval(by="second-person", quorum=3))
    weaker = {"approval": {"by": "second-person"}}
    number = campaign.amend(weaker, by="ana", reason="faster").number
    for count, person in enumerate(("ben", "cyd"), start=1):
        entry = campaign.approve(number, by=person, reason="agreed")
        assert (entry.kind, len(campaign.state.amendment_approvals)) == ("approved", count)
        assert campaign.approve(number, by=person, reason="again") == entry
    with pytest.raises(NotAllowedError, match="proposed by ana"):
        campaign.approve(number, by="ana", reason="me too")
    assert status(campaign).amendment["owed"] == {"signatures": 1, "groups": {}}
    entry = campaign.approve(number, by="dora", reason="agreed")
    assert (entry.kind, campaign.terms.approval.quorum) == ("amended", 1)
    assert campaign.approve(number, by="dora", reason="again") == entry
    assert kinds(campaign)[2:] == ["amendment", *["approved"] * 3, "amended"]
    fill(campaign, range(3))
    assert campaign.approve(propose(campaign).number, by="ben", reason="one").version == 2
    check_chains(campaign)


def test_a_rejected_amendment_takes_its_signatures_along(opened):
    campaign = opened(TWO)
    first = campaign.amend({"episodes": 90}, by="ana", reason="more").number
    campaign.approve(first, by="ben", reason="yes")
    campaign.reject(first, by="ben", reason="changed my mind")
    campaign.reject(first, by="ben", reason="changed my mind")
    second = campaign.amend({"episodes": 90}, by="ana", reason="more").number
    assert campaign.approve(second, by="cyd", reason="yes").kind == "approved"
    assert campaign.approve(second, by="ben", reason="yes").kind == "amended"


def test_signatures_for_a_candidate_hold_for_one_revision(opened):
    campaign = opened(TWO)
    number = propose(campaign).number
    campaign.approve(number, by="ben", reason="under the old terms")
    amendment = campaign.amend({"episodes": 90}, by="ana", reason="more").number
    for person in ("ben", "cyd"):
        campaign.approve(amendment, by=person, reason="yes")
    assert status(campaign).waiting["owed"]["signatures"] == 2
    assert campaign.approve(number, by="cyd", reason="yes").kind == "approved"
    assert campaign.approve(number, by="ben", reason="under the new terms").version == 2


def test_a_reopening_needs_one_other_person(tmp_path):
    from small_export import opened as open_small
    from small_export import protocol_of, refuse_until_stopped

    campaign = open_small(tmp_path / "s.db", protocol_of(approval=TWO))
    refuse_until_stopped(campaign)
    number = campaign.reopen(by="ana", reason="a wrong file").number
    assert status(campaign).reopening["owed"] == {"signatures": 1, "groups": {}}
    assert campaign.approve(number, by="ben", reason="right").kind == "reopened"
    campaign.store.close()


# --- expiry -------------------------------------------------------------------------------------


def test_a_candidate_expires_when_enough_rows_were_recorded(opened):
    campaign = opened(SHORT)
    fill(campaign, range(2))
    number = propose(campaign).number
    assert status(campaign).waiting["expires_at"] == 5
    fill(campaign, range(2, 4))
    assert campaign.state.waiting is not None
    fill(campaign, [4])
    last = campaign.entries[-1]
    assert (last.kind, last.actor, last.position) == ("expired", "engine", 5)
    void = candidates(campaign)[0]
    assert (void["status"], void["decision"]["by"]) == ("void", "engine")
    for decide in (campaign.approve, campaign.reject):
        with pytest.raises(MovedError, match=f"candidate {number} is void: it expired"):
            decide(number, by="ben", reason="late")
    assert campaign.version == 1
    with pytest.raises(NotAllowedError, match="seq must be a row from 6"):
        propose(campaign)
    fill(campaign, [5])
    again = propose(campaign).number
    assert campaign.approve(again, by="ben", reason="in time").version == 2
    check_chains(campaign)


def test_corrections_and_withdrawals_are_rows_too(opened):
    campaign = opened(SHORT)
    fill(campaign, range(3))
    propose(campaign)
    for name in ("p0", "p1"):
        campaign.withdraw(name, by="ana", reason="asked to")
    assert kinds(campaign)[-1] == "corrected"
    campaign.withdraw("p2", by="ana", reason="asked to")
    assert kinds(campaign)[-2:] == ["corrected", "expired"]


def test_an_amendment_may_let_a_candidate_expire(opened):
    campaign = opened(Approval(by="second-person"))
    number = propose(campaign).number
    fill(campaign, range(4))
    sooner = {"approval": {"by": "second-person", "expires_after": 3}}
    campaign.approve(campaign.amend(sooner, by="ana", reason="x").number, by="ben", reason="x")
    assert kinds(campaign)[-2:] == ["amended", "expired"]
    assert campaign.state.candidate(number).status == "void"


def test_the_last_of_a_batch_may_let_a_candidate_expire(opened):
    from campaign_builders import report

    campaign = opened(SHORT)
    propose(campaign)
    places = [one.seq for one in campaign.record_all([report(n) for n in range(7)])]
    assert places == [1, 2, 3, 4, 5, 6, 7]
    assert campaign.entries[-1].payload["reached"]["episodes"][0] == 3
    check_chains(campaign)


def test_the_schedule_is_asked_again_and_the_record_is_proven(tmp_path):
    """Candidates expire while people hesitate; the learner proposes anew, and verify agrees."""
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person", expires_after=4))
        with Learning(campaign) as learning:
            for number in range(40):
                fill(campaign, [number])
                learning.step()
                if number == 30:
                    campaign.approve(campaign.state.waiting.number, by="ben", reason="at last")
        found = kinds(campaign)
        assert found.count("expired") >= 3
        assert found.count("candidate") >= found.count("expired") + 1
        assert verify(Campaign(store, campaign.name)).problems == []


def test_a_stop_comes_before_an_expiry(opened):
    campaign = opened(SHORT, episodes=12, batches=2)
    fill(campaign, range(9))
    propose(campaign)
    fill(campaign, range(9, 12))
    assert kinds(campaign)[-1] == "stopped"
    assert "expired" not in kinds(campaign)


def test_a_reopened_campaign_lets_an_overdue_candidate_expire(tmp_path):
    from small_export import opened as open_small
    from small_export import protocol_of, refuse_until_stopped

    campaign = open_small(tmp_path / "s.db", protocol_of(approval=SHORT, stopping=(QUALITY,)))
    for number in range(3):
        campaign.assign(f"p{number}")
    waits = propose(campaign).number
    refuse_until_stopped(campaign)
    fill(campaign, range(3))  # assigned before the stop
    assert "expired" not in kinds(campaign)
    number = campaign.reopen(by="ana", reason="a wrong file").number
    campaign.approve(number, by="ben", reason="right")
    assert kinds(campaign)[-2:] == ["reopened", "expired"]
    assert campaign.state.candidate(waits).status == "void"
    campaign.store.close()


# --- rollbacks ----------------------------------------------------------------------------------


def test_a_rollback_is_in_force_at_once_and_waits_for_a_countersignature(opened):
    campaign = opened(TWICE)
    campaign.approve(propose(campaign).number, by="ben", reason="yes")
    rollback = campaign.rollback(1, by="ana", reason="harm").entry.number
    assert campaign.version == 3
    assert [one["number"] for one in status(campaign).uncountersigned] == [rollback]
    waits = propose(campaign, seed=2).number
    with pytest.raises(NotAllowedError, match=f"rollback {rollback} waits for a second person"):
        campaign.approve(waits, by="ben", reason="yes")
    with pytest.raises(NotAllowedError, match="signed by ana; another person has to countersign"):
        campaign.countersign(rollback, by="Ana", reason="mine")
    entry = campaign.countersign(rollback, by="ben", reason="right")
    assert campaign.countersign(rollback, by="ben", reason="right") == entry
    with pytest.raises(NotAllowedError, match="does not wait for a countersignature"):
        campaign.countersign(rollback, by="cyd", reason="me too")
    assert status(campaign).uncountersigned == ()
    assert campaign.approve(waits, by="ben", reason="yes").version == 4
    check_chains(campaign)


def test_a_second_rollback_is_never_blocked(opened):
    campaign = opened(TWICE)
    for seed in (1, 2):
        campaign.approve(propose(campaign, seed=seed).number, by="ben", reason="yes")
    first = campaign.rollback(2, by="ana", reason="harm").entry.number
    second = campaign.rollback(1, by="ana", reason="more harm").entry.number
    assert campaign.version == 5
    campaign.countersign(second, by="ben", reason="yes")
    candidate = propose(campaign, seed=3).number
    with pytest.raises(NotAllowedError, match=f"rollback {first} waits"):
        campaign.approve(candidate, by="ben", reason="yes")
    asked = campaign.to_sign("countersign", first)
    campaign.countersign(first, by="ben", reason="yes", signature=by_password(asked))
    assert campaign.approve(candidate, by="ben", reason="yes").version == 6


def test_where_the_protocol_does_not_ask_nothing_is_owed(opened):
    campaign = opened(Approval(by="second-person"))
    campaign.approve(propose(campaign).number, by="ben", reason="yes")
    rollback = campaign.rollback(1, by="ana", reason="harm").entry.number
    with pytest.raises(NotAllowedError, match="does not wait for a countersignature"):
        campaign.countersign(rollback, by="ben", reason="yes")


# --- comments -----------------------------------------------------------------------------------


def test_anybody_comments_at_any_time_and_nothing_is_decided(opened):
    campaign = opened(Approval(by="second-person", signers=("ana", "ben")))
    number = propose(campaign).number
    before = campaign.state
    entry = campaign.comment(number, by="zoe", reason="too few women")
    assert campaign.comment(number, by="Zoe", reason="too few women") == entry
    campaign.comment(number, by="zoe", reason="too few women", reviewed=True)
    state = campaign.state
    assert state.waiting == before.waiting
    meanings = [one.payload["meaning"] for one in state.comments]
    assert meanings == [f"comment on candidate {number}", f"reviewed candidate {number}"]
    amendment = campaign.amend({"episodes": 90}, by="ana", reason="more").number
    campaign.comment(amendment, by="zoe", reason="good")
    assert campaign.state.amendment is not None
    campaign.approve(number, by="ben", reason="yes")
    campaign.stop(by="ana", reason="end")
    campaign.comment(number, by="zoe", reason="as I said")
    with pytest.raises(NotAllowedError, match="must be an entry that proposes"):
        campaign.comment(1, by="zoe", reason="the protocol")
    with pytest.raises((TypeError, ValueError), match="reviewed must be"):
        campaign.comment(number, by="zoe", reason="x", reviewed="yes")
    check_chains(campaign)
