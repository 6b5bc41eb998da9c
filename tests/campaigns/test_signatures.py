"""Signatures on the ledger: no signature can be moved, altered, used twice or made for another."""

import copy
import hashlib
import json
import re
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest

from authenticator import SoftwarePasskey, by_password
from campaign_builders import check_chains, create, fill, propose
from forgery import Forgery
from rareswitch.campaigns import (
    Approval,
    Campaign,
    NotAllowedError,
    SignatureError,
    candidates,
    export,
    interim,
    open_store,
    status,
    verifier,
    verify,
)
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.campaigns.rulebook.signatures import (
    challenge_of,
    from_base64url,
    to_base64url,
)
from rareswitch.campaigns.rulebook.state import State
from signed_export import ANA, BEN, CYD, sign, signed_campaign
from two_proofs import of_folder, of_store

SECOND = Approval(by="second-person")


@pytest.fixture
def campaign(tmp_path):
    with open_store(tmp_path / "s.db", create=True) as store:
        yield create(store, approval=SECOND)


def kinds(campaign):
    return [entry.kind for entry in campaign.entries]


def approve(campaign, number, signature, by="ben"):
    return campaign.approve(number, by=by, reason="seen", signature=signature)


# --- the texts that are signed ------------------------------------------------------------------


def test_the_challenge_is_the_digest_of_four_texts_without_anything_between(campaign):
    candidate = propose(campaign)
    asked = campaign.to_sign("approve", candidate.number)
    assert asked.subject == candidate.digest
    assert asked.protocol == campaign.protocol.digest
    assert asked.head == campaign.entries[-1].link
    assert asked.meaning == "approve version 2 for deployment"
    text = asked.subject + asked.protocol + asked.head + asked.meaning
    assert asked.challenge == hashlib.sha256(text.encode()).digest()


def test_every_decision_tells_what_is_signed(campaign):
    candidate = propose(campaign).number
    meanings = {
        ("reject", candidate): f"reject candidate {candidate}",
        ("comment", candidate): f"comment on candidate {candidate}",
        ("stop", None): "stop the campaign",
    }
    for (decision, number), meaning in meanings.items():
        assert campaign.to_sign(decision, number).meaning == meaning
    reviewed = campaign.to_sign("comment", candidate, reviewed=True)
    assert reviewed.meaning == f"reviewed candidate {candidate}"
    more = {"budget": {"deployments": 9}}
    amend = campaign.to_sign("amend", changes=more)
    assert amend.subject == campaign.protocol.amended(more).digest
    assert amend.meaning == "propose an amendment of the protocol"
    number = campaign.amend(more, by="ana", reason="more").number
    assert campaign.to_sign("approve", number).subject == amend.subject
    assert campaign.to_sign("reject", number).meaning == f"reject amendment {number}"
    campaign.approve(candidate, by="ben", reason="fine")
    back = campaign.to_sign("rollback", 1)
    assert (back.subject, back.meaning) == (
        campaign.state.version(1).digest,
        "roll back to version 1 as version 3",
    )


@pytest.mark.parametrize(
    ("decision", "number", "why"),
    [
        ("forget", None, "decision must be approve, reject"),
        ("propose", None, "decision must be approve, reject"),
        ("approve", None, "number must be a whole number"),
        ("approve", 0, "number must be at least 1"),
    ],
)
def test_only_decisions_are_signed(campaign, decision, number, why):
    with pytest.raises((TypeError, ValueError), match=why):
        campaign.to_sign(decision, number)


def test_nothing_is_signed_that_does_not_wait(campaign):
    for decision, number in (("approve", 9), ("countersign", 1), ("reopen", None), ("rollback", 7)):
        with pytest.raises(NotAllowedError):
            campaign.to_sign(decision, number)


# --- entries ------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["ES256", "EdDSA"])
def test_a_passkey_is_registered_before_its_first_signature_only(campaign, algorithm):
    key = SoftwarePasskey(4, algorithm=algorithm)
    candidate = propose(campaign).number
    asked = campaign.to_sign("comment", candidate, reviewed=True)
    told = {"by": "ben", "reason": "looked at it", "reviewed": True}
    entry = campaign.comment(candidate, signature=key.sign(asked), **told)
    assert kinds(campaign)[3:] == ["registered", "commented"]
    registered = campaign.entries[3]
    assert registered.actor == "ben"
    assert {k: v for k, v in registered.payload.items() if k != "reached"} == {
        "credential": key.credential,
        "algorithm": algorithm,
        "public": to_base64url(key.public),
        "relying_party": "localhost",
    }
    assert {*entry.payload["signature"]} == {
        "method", "head", "credential", "authenticator_data", "client_data", "signature",
    }  # fmt: skip
    approve(campaign, candidate, key.sign(campaign.to_sign("approve", candidate)))
    assert kinds(campaign)[5:] == ["approved", "deployed"]
    fingerprint = campaign.state.passkeys[key.credential].fingerprint
    assert fingerprint == hashlib.sha256(key.public).hexdigest()
    check_chains(campaign)


def test_an_entry_without_a_signature_is_as_before(campaign):
    candidate = propose(campaign).number
    campaign.reject(candidate, by="ben", reason="no")
    campaign.stop(by="ben", reason="no")
    told = [{*entry.payload} - {"reached"} for entry in campaign.entries[-2:]]
    assert told == [{"candidate", "meaning"}, set()]


def test_a_person_may_have_several_passkeys_and_a_passkey_has_one_person(campaign):
    candidate = propose(campaign).number
    sign(campaign, "comment", candidate, by="ana")
    other = SoftwarePasskey(40)
    asked = campaign.to_sign("comment", candidate)
    campaign.comment(candidate, by="Ana", reason="again", signature=other.sign(asked))
    assert [key.person for key in campaign.state.passkeys.values()] == ["ana", "Ana"]
    asked = campaign.to_sign("approve", candidate)
    with pytest.raises(SignatureError, match="the passkey belongs to ana, by entry 4; got ben"):
        approve(campaign, candidate, ANA.sign(asked))
    renamed = ANA.sign(asked) | {"credential": to_base64url(b"another name")}
    with pytest.raises(SignatureError, match="belongs to ana already, by entry 4"):
        approve(campaign, candidate, renamed)
    twin = SoftwarePasskey(41)
    twin.credential = ANA.credential
    with pytest.raises(SignatureError, match="key must be the one that entry 4 registers"):
        approve(campaign, candidate, twin.sign(asked))
    assert campaign.version == 1


def test_a_decision_that_is_sent_again_is_answered_again(campaign):
    candidate = propose(campaign).number
    signature = BEN.sign(campaign.to_sign("approve", candidate))
    first = approve(campaign, candidate, signature)
    assert approve(campaign, candidate, signature) == first
    comment = CYD.sign(campaign.to_sign("comment", candidate))
    told = {"by": "cyd", "reason": "well"}
    entry = campaign.comment(candidate, signature=comment, **told)
    assert campaign.comment(candidate, signature=comment, **told) == entry
    back = ANA.sign(campaign.to_sign("rollback", 1))
    told = {"by": "ana", "reason": "harm", "signature": back}
    assert campaign.rollback(1, **told) == campaign.rollback(1, **told)
    stop = {"by": "ana", "reason": "end", "signature": ANA.sign(campaign.to_sign("stop"))}
    campaign.stop(**stop)
    campaign.stop(**stop)
    assert kinds(campaign)[3:] == [
        "registered", "approved", "deployed", "registered", "commented", "registered",
        "rolled-back", "stopped",
    ]  # fmt: skip


def test_a_refused_signature_leaves_nothing_behind(campaign):
    """Also not the registration of its passkey, and not for others who wait for the same commit."""
    candidate = propose(campaign).number
    asked = campaign.to_sign("approve", candidate)
    work = [campaign.work_of({"id": "x", "features": [[1, 0, 0]], "rewards": [0.5]})]
    future = campaign.submit(work[0])
    with pytest.raises(SignatureError):
        approve(campaign, candidate, BEN.sign(asked, flags=0))
    assert future.result().seq == 1
    assert kinds(campaign) == ["created", "deployed", "candidate"]
    check_chains(campaign)


# --- signatures that do not hold ----------------------------------------------------------------


def raw(asked, **changes):
    """Return client data in another spelling."""
    client = {"type": "webauthn.get", "challenge": to_base64url(asked.challenge)}
    client |= {"origin": "http://localhost:8000", "crossOrigin": False} | changes
    return json.dumps(client)


FORGED = {
    "another meaning": lambda a, o: BEN.sign(
        a, challenge=challenge_of(*a[:3], "reject candidate 3")),
    "another subject": lambda a, o: BEN.sign(a, challenge=challenge_of("0" * 64, *a[1:4])),
    "another protocol": lambda a, o: BEN.sign(a, challenge=challenge_of(a[0], "0" * 64, *a[2:4])),
    "another head": lambda a, o: BEN.sign(a, head=o[1]),
    "a head of no ledger": lambda a, o: BEN.sign(a, head="ab" * 32),
    "no head at all": lambda a, o: BEN.sign(a, head="the last"),
    "a comment": lambda a, o: BEN.sign(o[0]),
    "user not present": lambda a, o: BEN.sign(a, flags=0x04),
    "user not verified": lambda a, o: BEN.sign(a, flags=0x01),
    "attested data": lambda a, o: BEN.sign(a, flags=0x45),
    "extensions": lambda a, o: BEN.sign(a, flags=0x85, extra=b"\xa0"),
    "a byte more": lambda a, o: BEN.sign(a, extra=b"\x00"),
    "another relying party": lambda a, o: BEN.sign(a, rp="evil.example"),
    "another origin": lambda a, o: BEN.sign(a, origin="https://evil.example"),
    "a domain that ends alike": lambda a, o: BEN.sign(a, origin="https://evillocalhost"),
    "an origin with a path": lambda a, o: BEN.sign(a, origin="http://localhost:8000/x"),
    "an origin with a user": lambda a, o: BEN.sign(a, origin="http://me@localhost:8000"),
    "an origin that is none": lambda a, o: BEN.sign(a, origin="http://localhost:port"),
    "a page inside another": lambda a, o: BEN.sign(a, crossOrigin=True),
    "a page that may be inside another": lambda a, o: BEN.sign(a, crossOrigin="no"),
    "a registration": lambda a, o: BEN.sign(a, type="webauthn.create"),
    "no client data": lambda a, o: BEN.sign(a, raw=b"webauthn.get"),
    "client data in a list": lambda a, o: BEN.sign(a, raw=b'[["type","webauthn.get"]]'),
    "a type that comes twice": lambda a, o: BEN.sign(
        a, raw=('{"type":"webauthn.create",' + raw(a)[1:]).encode()
    ),
    "padding": lambda a, o: pad(BEN.sign(a)),
    "another key": lambda a, o: BEN.sign(a) | {"signature": CYD.sign(a)["signature"]},
    "an altered signature": lambda a, o: altered(BEN.sign(a), "signature"),
    "altered authenticator data": lambda a, o: altered(BEN.sign(a), "authenticator_data"),
    "altered client data": lambda a, o: BEN.sign(a) | {
        "client_data": to_base64url(raw(a, androidPackageName="x").encode())},
    "a key that is no point": lambda a, o: BEN.sign(a) | {
        "key": {"algorithm": "EdDSA", "public": to_base64url(bytes(32))}},
    "a key of another algorithm": lambda a, o: BEN.sign(a) | {
        "key": {"algorithm": "ES256", "public": to_base64url(BEN.public)}},
    "an unknown algorithm": lambda a, o: BEN.sign(a) | {
        "key": {"algorithm": "RS256", "public": to_base64url(BEN.public)}},
    "a relying party that is no domain": lambda a, o: BEN.sign(a) | {"relying_party": "LOCAL host"},
    "an origin other than signed": lambda a, o: BEN.sign(a) | {"origin": "https://localhost"},
}  # fmt: skip


def pad(signature):
    return signature | {"signature": signature["signature"] + "=="}


def altered(signature, name):
    data = bytearray(from_base64url(signature[name]))
    data[len(data) // 2] ^= 1
    return signature | {name: to_base64url(bytes(data))}


@pytest.mark.parametrize("forged", FORGED)
def test_a_signature_that_does_not_hold_is_refused(campaign, forged):
    fill(campaign, range(2))
    candidate = propose(campaign).number
    comment = campaign.to_sign("comment", candidate)
    asked = campaign.to_sign("approve", candidate)
    others = (comment, campaign.entries[0].link)
    with pytest.raises(SignatureError, match=r"^signature: "):
        approve(campaign, candidate, FORGED[forged](asked, others))
    assert kinds(campaign) == ["created", "deployed", "candidate"]
    assert approve(campaign, candidate, BEN.sign(asked)).version == 2


def test_a_page_below_the_relying_party_may_sign(campaign):
    key = SoftwarePasskey(relying_party="example.org", origin="https://trial.example.org")
    candidate = propose(campaign).number
    assert approve(campaign, candidate, key.sign(campaign.to_sign("approve", candidate))).version


@pytest.mark.parametrize(
    "origin", ["http://example.org", "https://notexample.org", "ftp://example.org"]
)
def test_an_insecure_or_strange_page_may_not(campaign, origin):
    key = SoftwarePasskey(relying_party="example.org", origin=origin)
    candidate = propose(campaign).number
    with pytest.raises(SignatureError, match=r"its origin must be a page of example\.org"):
        approve(campaign, candidate, key.sign(campaign.to_sign("approve", candidate)))


@pytest.mark.parametrize(
    "signature",
    [
        {}, [], "password", {"method": "fax", "head": "x"}, {"method": "password"},
        {"method": "password", "head": 7}, {"method": "password", "head": "x", "more": "y"},
        {"method": "passkey", "head": "x"},
        BEN.sign(SimpleNamespace(challenge=b"", head="x")) | {"key": "EdDSA"},
        BEN.sign(SimpleNamespace(challenge=b"", head="x")) | {"key": {"algorithm": "EdDSA"}},
        BEN.sign(SimpleNamespace(challenge=b"", head="x")) | {"client_data": None},
    ],
)  # fmt: skip
def test_input_that_is_no_signature_is_refused(campaign, signature):
    candidate = propose(campaign).number
    with pytest.raises((TypeError, ValueError), match=r"^signature"):
        approve(campaign, candidate, signature)
    assert kinds(campaign) == ["created", "deployed", "candidate"]


def test_a_signature_cannot_be_moved_to_a_later_candidate(campaign):
    """Not even to one with the same policy for the same version."""
    first = propose(campaign)
    early = BEN.sign(campaign.to_sign("approve", first.number))
    campaign.reject(first.number, by="cyd", reason="not yet")
    fill(campaign, range(2))
    second = propose(campaign)
    assert (second.digest, second.version) == (first.digest, first.version)
    with pytest.raises(SignatureError, match=f"head must be entry {second.number} or later"):
        approve(campaign, second.number, early)


def test_a_signature_cannot_be_moved_to_another_revision_or_campaign(campaign):
    candidate = propose(campaign).number
    asked = campaign.to_sign("approve", candidate)
    other = create(campaign.store, name="other", approval=SECOND)
    assert propose(other).number == candidate
    with pytest.raises(SignatureError, match="head must be the link of an entry of this ledger"):
        approve(other, candidate, BEN.sign(asked))
    amendment = campaign.amend({"intake": {"grace": 3}}, by="ana", reason="shorter").number
    campaign.approve(amendment, by="cyd", reason="agreed")
    with pytest.raises(SignatureError, match="it signs something else"):
        approve(campaign, candidate, BEN.sign(asked))


def test_a_signature_is_used_once(campaign):
    """A stop, a rollback or a comment that was signed cannot be entered again with it."""
    candidate = propose(campaign).number
    signature = BEN.sign(campaign.to_sign("comment", candidate))
    campaign.comment(candidate, by="ben", reason="first", signature=signature)
    with pytest.raises(SignatureError, match="entry 5 or later, which ben signed last"):
        campaign.comment(candidate, by="ben", reason="second", signature=signature)
    campaign.approve(candidate, by="cyd", reason="fine")
    signature = ANA.sign(campaign.to_sign("rollback", 1))
    campaign.rollback(1, by="ana", reason="harm", signature=signature)
    again = propose(campaign, seed=1).number
    campaign.approve(again, by="cyd", reason="fine")
    with pytest.raises(SignatureError, match="head must be entry"):
        campaign.rollback(1, by="ana", reason="harm", signature=signature)


def test_a_counter_that_does_not_grow_is_that_of_a_copy(campaign):
    """Authenticators without a counter always send 0; one that has counted must go on."""
    number, passkey, fresh = propose(campaign).number, SoftwarePasskey(), count()

    def comment(counter):
        asked = campaign.to_sign("comment", number)
        signature = passkey.sign(asked, counter=counter)
        reason = f"comment {next(fresh)}"
        return campaign.comment(number, by="ben", reason=reason, signature=signature)

    for counter in (0, 0, 5, 6):
        comment(counter)
    before = kinds(campaign)
    for counter in (6, 5, 0):
        why = f"the counter of the passkey must be above 6, .* got {counter}: .* copied"
        with pytest.raises(SignatureError, match=why):
            comment(counter)
    assert kinds(campaign) == before
    comment(2**32 - 1)
    check_chains(campaign)


def test_a_stop_is_signed_under_the_version_in_force(campaign):
    early = BEN.sign(campaign.to_sign("stop"))
    campaign.approve(propose(campaign).number, by="cyd", reason="fine")
    told = {"by": "ben", "reason": "end"}
    with pytest.raises(SignatureError, match="head must be entry 5 or later"):
        campaign.stop(signature=early, **told)
    campaign.stop(signature=BEN.sign(campaign.to_sign("stop")), **told)


def test_a_password_is_a_statement_about_the_same_head(campaign):
    first = propose(campaign).number
    asked = campaign.to_sign("approve", first)
    campaign.reject(first, by="cyd", reason="no")
    fill(campaign, range(2))
    second = propose(campaign).number
    with pytest.raises(SignatureError, match=f"head must be entry {second} or later"):
        approve(campaign, second, by_password(asked))
    approve(campaign, second, by_password(campaign.to_sign("approve", second)))
    assert campaign.entries[-2].payload["signature"]["method"] == "password"


@pytest.mark.parametrize(
    ("asked", "wrong"),
    [("password", [None]), ("passkey", [None, "password"]), ("any", [])],
)
def test_the_protocol_may_ask_for_signatures(tmp_path, asked, wrong):
    with open_store(tmp_path / "s.db", create=True) as store:
        campaign = create(store, approval=Approval(by="second-person", signature=asked))
        candidate = propose(campaign).number
        to_sign = campaign.to_sign("approve", candidate)
        given = {None: None, "password": by_password(to_sign)}
        for method in wrong:
            for decide in (campaign.approve, campaign.reject):
                with pytest.raises(SignatureError, match=r"^signature must be by pass"):
                    decide(candidate, by="ben", reason="x", signature=given[method])
            with pytest.raises(SignatureError, match=r"^signature must be by pass"):
                campaign.amend({"episodes": 90}, by="ben", reason="x", signature=given[method])
        assert approve(campaign, candidate, BEN.sign(to_sign)).version == 2
        campaign.rollback(1, by="cyd", reason="harm")  # safety needs no key at hand
        campaign.stop(by="cyd", reason="harm")


def test_a_person_may_sign_a_proposal_of_a_policy(campaign):
    from campaign_builders import some_policy

    policy = some_policy(3)
    asked = campaign.to_sign("propose", policy=policy)
    assert (asked.subject, asked.meaning) == (policy.digest, "propose version 2")
    told = {"seq": 0, "evidence": {"triggers": []}, "expected": 1, "reason": "early"}
    told |= {"planned": False, "by": "ana", "signature": ANA.sign(asked)}
    with pytest.raises(SignatureError, match="it signs something else"):
        campaign.propose(some_policy(4), **told)
    assert campaign.propose(policy, **told).status == "waiting"
    with pytest.raises(NotAllowedError, match="proposed by ana"):
        sign(campaign, "approve", campaign.state.waiting.number, by="ana")


# --- the record of a stranger -------------------------------------------------------------------


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    folder = tmp_path_factory.mktemp("signed")
    campaign = signed_campaign(folder / "s.db")
    export(campaign, folder / "out", by="zoe", reason="a proof")
    yield campaign, folder / "out"
    campaign.store.close()


@pytest.fixture
def forgery(original, tmp_path):
    return Forgery(original[1], tmp_path / "forged")


VERDICT = "proven, signed by three passkeys and two passwords (as the service recorded)"


def test_every_kind_of_signature_is_proven_in_a_store_and_in_an_export(original, tmp_path):
    campaign, folder = original
    methods = {e.kind for e in campaign.entries if "signature" in e.payload}
    assert methods == {
        "approved", "rejected", "rolled-back", "countersigned", "amendment", "stopped",
        "reopening", "reopened", "commented",
    }  # fmt: skip
    found = verify(campaign)
    assert (found.verdict, found.problems) == (VERDICT, [])
    (tmp_path / "verify_export.py").write_bytes(verifier())
    command = [sys.executable, "-I", tmp_path / "verify_export.py", folder]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(f"verdict        {VERDICT}\n")
    line = "signatures     16 rows: holds, signed by three passkeys"
    assert line in found.text
    assert line in done.stdout
    by_password = "by password, as the service recorded, without proof"
    told = re.findall(rf"{by_password}: (\w+), entr(?:y|ies) ([\d, ]+)", done.stdout)
    assert {
        (entry.actor, entry.number)
        for entry in campaign.entries
        if entry.payload.get("signature", {}).get("method") == "password"
    } == {(person, int(number)) for person, numbers in told for number in numbers.split(", ")}
    for key, person, algorithm in ((ANA, "ana", "ES256"), (BEN, "ben", "EdDSA")):
        fingerprint = hashlib.sha256(key.public).hexdigest()
        assert re.search(
            rf"{person}, passkey of localhost \({algorithm}\).*{fingerprint}", done.stdout
        )


def entry_of(forgery, kind, place=0):
    return forgery.entries(kind)[place]


def replace_signature(forgery, kind, place, *, by):
    """Put the signature of another entry in place of an entry's own."""
    target = entry_of(forgery, kind, place)
    target["payload"]["signature"] = copy.deepcopy(by["payload"]["signature"])
    return target["number"]


def change(forgery, kind, place=0, **fields):
    entry = entry_of(forgery, kind, place)
    entry["payload"]["signature"] |= fields
    return entry["number"]


def rename(forgery, kind, name, place=0):
    entry = entry_of(forgery, kind, place)
    entry["actor"] = name
    return entry["number"]


def reword(forgery, kind, place=0, **payload):
    entry = entry_of(forgery, kind, place)
    entry["payload"] |= payload
    return entry["number"]


def rekey(forgery):
    """Give a person's registered passkey to a forger, who can sign but not as the first key did."""
    forger = SoftwarePasskey(99)
    entry = entry_of(forgery, "registered")
    entry["payload"]["public"] = to_base64url(forger.public)
    return entry["number"] + 1


def stolen(forgery):
    """Enter an approval by dora with ben's passkey."""
    number = rename(forgery, "approved", "dora")
    return number


def add_unused(forgery):
    entry = copy.deepcopy(entry_of(forgery, "registered"))
    entry["actor"] = "dora"
    key = SoftwarePasskey(98)
    entry["payload"] |= {"credential": key.credential, "public": to_base64url(key.public)}
    forgery.chains["ledger"].append(
        entry | {"payload": entry["payload"] | {"reached": last_reached(forgery)}}
    )
    return len(forgery.chains["ledger"])


def last_reached(forgery):
    return copy.deepcopy(forgery.chains["ledger"][-1]["payload"]["reached"])


ALTERED = {
    "moved to another candidate": (
        lambda f: replace_signature(f, "approved", 3, by=entry_of(f, "approved", 0)), "head"),
    "moved from a comment": (
        lambda f: replace_signature(f, "rejected", 0, by=entry_of(f, "commented", 0)), "head"),
    "moved from another kind": (
        lambda f: replace_signature(f, "stopped", 1, by=entry_of(f, "approved", -1)), ""),
    "another person": (stolen, "the passkey belongs to ben"),
    "another key": (rekey, "it is not a signature by the passkey of ana"),
    "another meaning": (
        lambda f: reword(f, "commented", meaning="reviewed reopening 5", reviewed=True),
        "it signs something else"),
    "a meaning that does not fit": (
        lambda f: reword(f, "rolled-back", meaning="roll back to version 1 as version 4"),
        "signed with the meaning"),
    "another head": (
        lambda f: change(f, "countersigned", head=f.entry(1)["link"]), "head must be entry 24"),
    "an unknown passkey": (
        lambda f: change(f, "rejected", credential="abcd"), "credential must be a passkey"),
    "altered bytes": (
        lambda f: change(f, "amendment", signature=BEN.sign(
            SimpleNamespace(challenge=b"", head=""))["signature"]), "it is not a signature by"),
    "an unknown method": (
        lambda f: reword(f, "approved", 0, signature={"method": "fax"}), "method of a signature"),
    "no signature where one is asked": (
        lambda f: (lambda e: (e["payload"].pop("signature"), e["number"])[1])(
            entry_of(f, "rejected")), "signature must be by password or passkey"),
    "a signature of the engine": (
        lambda f: reword(f, "stopped", 0, meaning="stop the campaign", signature={
            "method": "password", "head": f.entry(2)["link"]}), "engine signs nothing"),
    "a signature of an entry without": (
        lambda f: reword(f, "deployed", 1, signature={
            "method": "password", "head": f.entry(2)["link"]}), "deployed carries no signature"),
    "two proposals": (
        lambda f: reword(f, "approved", -1, candidate=10), "about one proposal"),
    "a passkey that signs nothing": (add_unused, "the passkey signed nothing"),
    "a passkey that two persons have": (
        lambda f: reword(f, "registered", 1, public=entry_of(f, "registered")["payload"]["public"]),
        "belongs to ana already"),
    "a rollback countersigned by its maker": (
        lambda f: rename(f, "countersigned", "ana"), "another person has to countersign"),
    "the same approver twice": (
        lambda f: rename(f, "approved", "Ben", 1), "has approved 10 already"),
    "an expiry that comes too early": (
        lambda f: (f.amend(f.entry(1), approval={"expires_after": 26}), 19)[1],
        "expires at row 38"),
    "an expiry by a person": (lambda f: rename(f, "expired", "ana"), "engine alone lets"),
}  # fmt: skip


@pytest.mark.parametrize("alteration", ALTERED)
def test_an_altered_signature_is_named(original, forgery, alteration):
    campaign, _ = original
    alter, said = ALTERED[alteration]
    number = alter(forgery)
    forgery.cover_up()
    forgery.put_into(campaign)
    found = of_store(campaign)
    assert [one for one in found if re.search(rf"entry {number}\b", one) and said in one], found
    told = [one for problems in of_folder(forgery.folder).values() for one in problems]
    assert told == found


def test_a_signature_protects_all_entries_before_it(original, forgery):
    """The owner of a store can link all rows anew, but not sign the new head."""
    entry = forgery.entry(3)
    entry["reason"] = "data-quality: another reason"
    forgery.cover_up()
    forgery.put_into(original[0])
    found = of_store(original[0])
    assert any("entry 5: signature: head must be the link of an entry" in one for one in found)


def test_people_read_name_time_and_meaning(original):
    campaign, folder = original
    Forgery(folder, folder.parent / "again").cover_up().put_into(campaign)
    page = (folder / "report.html").read_text()
    section = page.partition("Signatures")[2]
    entry = next(e for e in campaign.entries if e.kind == "approved")
    for word in ("ben", entry.at, "approve version 2 for deployment", "approved", "passkey"):
        assert word in section
    for word in ("proposed", "reviewed", "responsible", hashlib.sha256(BEN.public).hexdigest()):
        assert word in page
    assert "dora says so" in page
    assert "dora says so" not in interim(campaign)
    assert "dora says so" in interim(campaign, closed=True)
    plain = candidates(campaign)[0]
    told = [(one["by"], one["sense"], one["method"]) for one in plain["signatures"]]
    assert told == [("ben", "approved", "passkey"), ("eve", "approved", "password")]
    assert plain["signatures"][0]["fingerprint"] == hashlib.sha256(BEN.public).hexdigest()
    assert [one["meaning"] for one in plain["comments"]] == ["reviewed candidate 10"]
    void = next(one for one in candidates(campaign) if one["status"] == "void")
    assert void["decision"]["by"] == "engine"
    assert status(campaign).uncountersigned == ()


def test_a_state_is_the_same_from_the_whole_ledger_and_step_by_step(original):
    campaign, folder = original
    Forgery(folder, folder.parent / "third").cover_up().put_into(campaign)
    again = Campaign(campaign.store, campaign.name)
    state = State()
    for entry in again.entries:
        state = state.after(entry)
    assert (state.last_signed, state.passkeys) == (again.state.last_signed, again.state.passkeys)
    assert canonical(list(state.links)) == canonical([e.link for e in again.entries])
