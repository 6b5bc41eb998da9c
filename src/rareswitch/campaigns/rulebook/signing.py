"""The rules of signatures on entries: their subject, meaning and signer.

A signature belongs to one entry. It names the head of the ledger that the signer has seen. This
head is no earlier than the signed proposal (or the version in force, if there is no proposal), and
no earlier than the signer's last signature.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rareswitch.campaigns.errors import CampaignError, DamagedError, NotAllowedError, SignatureError
from rareswitch.campaigns.rulebook.names import NOBODY, person_key, same_person
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signatures import (
    KEY_FIELDS,
    PASSKEY,
    PASSWORD,
    SIGNATURE_FIELDS,
    broken_assertion,
    broken_key,
    challenge_of,
    counter_of,
    from_base64url,
    origin_of,
)
from rareswitch.campaigns.rulebook.state import State
from rareswitch.support.arguments import short_repr

# The sense of a signature, for the kinds of entry that may carry one.
SENSES = {
    **dict.fromkeys(("candidate", "amendment", "reopening"), "proposed"),
    **dict.fromkeys(("approved", "reopened", "countersigned"), "approved"),
    **dict.fromkeys(("rolled-back", "stopped", "amended"), "responsible"),
    "rejected": "rejected",
    "commented": "commented",
}
# Entries that must be signed if the protocol requires signatures. A rollback and a stop protect
# participants, so both are possible without a passkey.
ASKED = (
    "approved", "rejected", "countersigned", "amendment", "amended", "reopening", "reopened",
)  # fmt: skip
PROPOSALS = ("candidate", "amendment", "reopening")


class About(NamedTuple):
    """The digest of an entry's subject, the entry that proposed it, and the meaning."""

    subject: str
    since: int
    meaning: str


class ToSign(NamedTuple):
    """The four signed texts, and the challenge for a passkey.

    `subject` and `protocol` are digests, and `head` is the link of the last entry of the ledger.
    """

    subject: str
    protocol: str
    head: str
    meaning: str
    challenge: bytes


def to_sign(state: State, kind: str, payload: Mapping[str, Any]) -> ToSign:
    """Return the texts to sign for the next entry."""
    about = about_entry(state, kind, payload)
    if about is None:
        raise NotAllowedError(f"there is nothing to sign: {proposal_named(payload)} does not wait")
    texts = about.subject, state.terms.digest, state.links[-1], about.meaning
    return ToSign(*texts, challenge_of(*texts))


def about_entry(state: State, kind: str, payload: Mapping[str, Any]) -> About | None:
    """Return the subject and meaning of an entry; None if its proposal does not exist."""
    last = state.in_force.entry.number
    match kind:
        case "candidate":
            return About(payload["digest"], last, f"propose version {payload['version']}")
        case "rolled-back":
            versions = f"version {payload['to']} as version {payload['version']}"
            return About(payload["digest"], last, f"roll back to {versions}")
        case "countersigned":
            number = payload["rollback"]
            found = [one for one in state.uncountersigned if one.number == number]
            digests = [one.payload["digest"] for one in found]
            meaning = f"countersign rollback {number}"
            return About(digests[0], number, meaning) if digests else None
        case "amendment":
            return About(payload["digest"], last, "propose an amendment of the protocol")
        case "amended" if payload.get("amendment") is None:
            return About(payload["digest"], last, "amend the protocol")
        case "stopped":
            return About(state.links[0], last, "stop the campaign")
        case "reopening":
            stop = state.stopped.number if state.stopped else 0
            meaning = "propose to reopen the campaign"
            return About(state.links[stop - 1], stop, meaning) if stop else None
    return _about_proposal(state, kind, payload)


def _about_proposal(state: State, kind: str, payload: Mapping[str, Any]) -> About | None:
    """Return the subject and meaning of a decision or a comment."""
    named = [name for name in PROPOSALS if payload.get(name) is not None]
    if len(named) != 1:
        return None
    what, number = named[0], payload[named[0]]
    approval = f"approve {what} {number}"
    if what == "candidate":
        candidate = state.candidates.get(number)
        if candidate is None:
            return None
        subject = candidate.digest
        approval = f"approve version {candidate.version} for deployment"
    elif (waiting := getattr(state, what)) is None or waiting.number != number:
        return None
    else:
        subject = waiting.payload["digest"] if what == "amendment" else waiting.link
    if kind == "commented":
        meaning = f"{'reviewed' if payload['reviewed'] else 'comment on'} {what} {number}"
    else:
        meaning = f"reject {what} {number}" if kind == "rejected" else approval
    return About(subject, number, meaning)


def proposal_named(payload: Mapping[str, Any]) -> str:
    """Describe the proposal that an entry names."""
    names = [*PROPOSALS, "rollback"]
    return next((f"{name} {payload[name]}" for name in names if name in payload), "the campaign")


def sense_of(entry: Entry) -> str:
    """Return the sense of an entry's signature: proposed, reviewed, approved or responsible."""
    if entry.kind == "commented" and entry.payload["reviewed"]:
        return "reviewed"
    if entry.kind == "amended" and entry.payload.get("amendment") is not None:
        return "approved"
    return SENSES[entry.kind]


def misshapen_signature(entry: Entry) -> Iterator[str]:
    """Yield the errors in the form of an entry's signature."""
    signature = entry.payload.get("signature")
    if "signature" not in entry.payload:
        return
    if entry.kind not in SENSES:
        yield f"{entry.kind} carries no signature"
    elif not isinstance(signature, dict) or signature.get("method") not in SIGNATURE_FIELDS:
        yield f"method of a signature must be {PASSWORD} or {PASSKEY}"
    elif {*signature} != {*SIGNATURE_FIELDS[signature["method"]]}:
        fields = ", ".join(SIGNATURE_FIELDS[signature["method"]])
        yield f"a signature by {signature['method']} must have {fields}"
    elif not all(isinstance(value, str) for value in signature.values()):
        yield "all fields of a signature must be texts"


def broken_signature(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield the rules of signing that an entry breaks."""
    kind, payload = entry.kind, entry.payload
    signature: dict[str, str] | None = payload.get("signature")
    if (new := state.registered) is not None and (
        signature is None or signature.get("credential") != new.payload["credential"]
    ):
        yield DamagedError(f"the passkey in entry {new.number} signed nothing")
    if kind not in SENSES:
        return
    about = about_entry(state, kind, payload)
    second = kind == "amended" and payload.get("amendment") is not None
    told = signature is not None or second or "meaning" in payload
    if about is not None and told and payload.get("meaning") != about.meaning:
        yield NotAllowedError(f"it must be signed with the meaning: {about.meaning}")
    if signature is None:
        yield from _unsigned(state, entry)
        return
    if person_key(entry.actor) in NOBODY:
        yield DamagedError(f"{entry.actor} signs nothing")
    if kind == "amended" and state.approved is not None:
        yield DamagedError("the approval before it is signed; it carries no signature")
    asked = state.terms.approval.signature
    if asked == PASSKEY and signature["method"] != PASSKEY and kind in ASKED:
        yield SignatureError("signature must be by passkey, as the protocol asks; got a password")
    if about is None:
        yield SignatureError(f"signature: {proposal_named(payload)} does not wait for one")
        return
    yield from _unseen_head(state, entry, about.since)
    if signature["method"] == PASSKEY:
        yield from _broken_passkey(state, entry, about)


def _unsigned(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield an error if an entry lacks a signature; a rehearsal needs no signatures."""
    asked = state.terms.approval.signature
    if asked == "any" or state.rehearsal or entry.kind not in ASKED:
        return
    if entry.kind == "amended" and state.approved is not None:
        return
    either = "by passkey" if asked == PASSKEY else "by password or passkey"
    yield SignatureError(
        f"signature must be {either}, as the protocol asks; got no signature (people sign on the "
        "pages of the service)"
    )


def _unseen_head(state: State, entry: Entry, since: int) -> Iterator[CampaignError]:
    """Yield an error if the signed head is too old or not in this ledger."""
    head = entry.payload["signature"]["head"]
    seen = next((n for n in range(len(state.links), 0, -1) if state.links[n - 1] == head), 0)
    last = state.last_signed.get(person_key(entry.actor), 0)
    if not seen:
        yield SignatureError("signature: head must be the link of an entry of this ledger")
    elif seen < since:
        yield SignatureError(
            f"signature: head must be entry {since} or later, which the decision is about; it is "
            f"entry {seen}: sign again"
        )
    elif seen < last:
        yield SignatureError(
            f"signature: head must be entry {last} or later, which {entry.actor} signed last; it "
            f"is entry {seen}: sign again"
        )


def _broken_passkey(state: State, entry: Entry, about: About) -> Iterator[CampaignError]:
    """Yield the reasons why a passkey's signature is invalid for an entry."""
    signature = entry.payload["signature"]
    key = state.passkeys.get(signature["credential"])
    if key is None:
        yield SignatureError("signature: credential must be a passkey that the ledger registers")
        return
    if not same_person(key.person, entry.actor):
        yield SignatureError(
            f"signature: the passkey belongs to {key.person}, by entry {key.number}; got "
            f"{entry.actor}"
        )
    try:
        challenge = challenge_of(
            about.subject, state.terms.digest, signature["head"], about.meaning
        )
    except ValueError as error:
        yield SignatureError(f"signature: {error}")
        return
    if (why := broken_assertion(key, signature, challenge)) is not None:
        yield SignatureError(f"signature: {why}")
    before, now = state.counters.get(key.credential, 0), counter_of(signature)[key.credential]
    if now <= before and before:
        yield SignatureError(
            f"signature: the counter of the passkey must be above {before}, that of its last "
            f"signature; got {now}: somebody may have copied the passkey. Register another"
        )


def broken_registration(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield why a passkey cannot be registered: it belongs to one person and is registered once."""
    table = {name: entry.payload[name] for name in KEY_FIELDS}
    if (why := broken_key(table)) is not None:
        yield SignatureError(f"signature: key: {why}")
        return
    public = from_base64url(table["public"])
    for known in state.passkeys.values():
        if known.credential == table["credential"] or known.public == public:
            yield SignatureError(
                f"signature: the passkey belongs to {known.person} already, by entry {known.number}"
            )


class Signature(NamedTuple):
    """A submitted signature: `stored` is the part that an entry keeps.

    `key` and `origin` are the public key and the page of a passkey.
    """

    stored: dict[str, str]
    key: dict[str, str] | None = None
    origin: str = ""

    @classmethod
    def of(cls, given: Any) -> "Signature":
        """Read a signature from plain values of a page or a client."""
        method = given.get("method") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or method not in SIGNATURE_FIELDS:
            raise ValueError(
                f"signature must be a table with method = {PASSWORD!r} or {PASSKEY!r}; got "
                f"{short_repr(given)}"
            )
        names = {*SIGNATURE_FIELDS[method]}
        names |= {"key", "relying_party", "origin"} if method == PASSKEY else set()
        if wrong := sorted(names ^ {*given}, key=str):
            has = "lacks" if wrong[0] in names else "has no field"
            raise ValueError(f"signature {has} {wrong[0]!r}; it takes {', '.join(sorted(names))}")
        key = given.get("key", {})
        fields = ("algorithm", "public")
        if not isinstance(key, Mapping) or (method == PASSKEY and {*key} != {*fields}):
            raise ValueError(f"signature: key must be a table of {' and '.join(fields)}")
        for name, value in [*given.items(), *key.items()]:
            if name != "key" and not isinstance(value, str):
                raise TypeError(f"signature: {name} must be a text; got {short_repr(value)}")
        stored = {name: given[name] for name in SIGNATURE_FIELDS[method]}
        if method == PASSWORD:
            return cls(stored)
        told = {"credential": given["credential"], "relying_party": given["relying_party"], **key}
        return cls(stored, told, given["origin"])

    def check(self, state: State) -> dict[str, str] | None:
        """Return the passkey to register; None if the ledger has it already.

        Refuse another key for a known credential, and an origin that differs from the client data.
        """
        if self.key is None:
            return None
        if origin_of(self.stored) != self.origin:
            raise SignatureError("signature: origin must be that of its client data")
        known = state.passkeys.get(self.key["credential"])
        if known is None:
            return self.key
        given = from_base64url(self.key["public"]), self.key["algorithm"], self.key["relying_party"]
        if given != (known.public, known.algorithm, known.relying_party):
            raise SignatureError(
                f"signature: key must be the one that entry {known.number} registers"
            )
        return None
