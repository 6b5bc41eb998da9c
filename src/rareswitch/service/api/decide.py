"""Endpoints for decisions: candidates, signatures, rollbacks, amendments and the stop."""

import base64
import tomllib
from typing import Annotated, Any, Literal

import msgspec
from starlette.concurrency import run_in_threadpool

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learning.requests import ask_for_proposal, request_of
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signatures import to_base64url
from rareswitch.campaigns.rulebook.signing import ToSign
from rareswitch.campaigns.rulebook.state import Version
from rareswitch.campaigns.status import candidates
from rareswitch.service.api.look import Summary, not_found, summary_of
from rareswitch.service.endpoint import (
    LARGE_BODY,
    LARGEST,
    Call,
    Endpoints,
    Number,
    Struct,
    Text,
)
from rareswitch.service.problems import Problem
from rareswitch.service.signing import Signature, person_of, signature_of

decide = Endpoints()
PlainTable = dict[str, Any]
Artifact = Annotated[str, msgspec.Meta(max_length=LARGE_BODY)]


class Decision(Struct):
    """The reason and the signature."""

    reason: Text
    signature: Signature | None = None


class Comment(Decision, kw_only=True):
    """A comment, or a signed review."""

    reviewed: bool = False


class Rollback(Decision, kw_only=True):
    """The earlier version that comes into force again."""

    to: Number


class Amendment(Decision, kw_only=True):
    """Tables of the protocol with their changed keys."""

    changes: PlainTable


class Proposal(Struct):
    """The reason to propose a policy; `early` allows it before it is due."""

    reason: Text
    early: bool = False


class NewCampaign(Struct):
    """A protocol in TOML or as JSON, and the files whose digests it has, in base64."""

    protocol: Text | PlainTable
    reason: Text = "as agreed"
    features: Artifact | None = None
    simulation: Artifact | None = None


class InForce(msgspec.Struct, kw_only=True):
    """The version in force after a decision; `deployed` is false if signatures are missing."""

    version: int
    digest: str
    deployed: bool


class Signing(msgspec.Struct, kw_only=True):
    """The bytes for a passkey to sign, in base64url, and their four parts."""

    subject: str
    protocol: str
    head: str
    meaning: str
    challenge: str


class SigningQuery(Struct, kw_only=True):
    """The decision to sign, and the number of its entry or version."""

    decision: Literal["approve", "reject", "comment", "countersign", "rollback", "stop", "reopen"]
    number: Annotated[int, msgspec.Meta(ge=0, le=LARGEST)] = 0
    reviewed: bool = False


class SigningChanges(Struct):
    """The changes of the amendment to sign."""

    changes: PlainTable


@decide.post(
    "/v1/campaigns", action="create", body=NewCampaign, answers={201: Summary}, largest=LARGE_BODY
)
def create_campaign(body: NewCampaign, call: Call) -> Summary:
    """Lock a protocol and put version 1, fitted on no data, in force."""
    service, by = call.service, person_of(call)
    plain: Any = body.protocol
    if isinstance(plain, str):
        try:
            plain = tomllib.loads(plain)
        except (tomllib.TOMLDecodeError, RecursionError) as error:
            raise ValueError(f"protocol must be TOML; {error}") from None
    try:
        protocol = Protocol.from_plain(plain, allow=service.settings.allow)
    except (LookupError, AttributeError) as error:
        raise ValueError(f"protocol must have its tables; {error!r}") from None
    given = {"features": body.features, "simulation": body.simulation}
    artifacts: Any = {name: _bytes(name, text) for name, text in given.items() if text is not None}
    made = Campaign.create(
        service.store, protocol, by=by, reason=body.reason, rehearsal=service.settings.rehearsal,
        **artifacts,
    )  # fmt: skip
    found = service.find_campaign(made.name)
    assert found is not None
    return summary_of(found)


def _bytes(name: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise ValueError(f"{name} must be bytes in base64") from None


@decide.get(
    "/v1/campaigns/{campaign}/candidates", action="unblinded", answers={200: list[PlainTable]}
)
def read_candidates(campaign: Campaign) -> list[PlainTable]:
    """Return every candidate with its evidence and its decision."""
    return candidates(campaign)


@decide.get("/v1/campaigns/{campaign}/candidates/{number:int}", action="unblinded")
def read_candidate(campaign: Campaign, number: int) -> PlainTable:
    """Return a candidate with its evidence and its decision."""
    return _candidate(campaign, number).plain


@decide.post(
    "/v1/campaigns/{campaign}/candidates",
    action="propose",
    body=Proposal,
    answers={202: PlainTable},
)
def propose(campaign: Campaign, body: Proposal, call: Call) -> PlainTable:
    """Ask the learner to propose a policy in your name; it enters the ledger after the fit."""
    by = person_of(call)
    return ask_for_proposal(campaign, by=by, reason=body.reason, early=body.early)


@decide.get("/v1/campaigns/{campaign}/proposal", action="unblinded")
def read_proposal(campaign: Campaign) -> PlainTable:
    """Return the last request for a proposal; its outcome is null until the learner is done."""
    if (found := request_of(campaign)) is None:
        raise Problem(404, "no proposal was requested", code="not-found")
    return found


@decide.get(
    "/v1/campaigns/{campaign}/signing", action="unblinded", query=SigningQuery,
    answers={200: Signing},
)  # fmt: skip
def read_signing(campaign: Campaign, query: SigningQuery, call: Call) -> Signing:
    """Return the bytes that your passkey must sign for a decision."""
    person_of(call)
    number = query.number or None
    return _signing(campaign.to_sign(query.decision, number, reviewed=query.reviewed))


@decide.post(
    "/v1/campaigns/{campaign}/signing", action="amend", body=SigningChanges, answers={200: Signing}
)
def read_amendment_signing(campaign: Campaign, body: SigningChanges, call: Call) -> Signing:
    """Return the bytes that your passkey must sign for an amendment."""
    person_of(call)
    return _signing(campaign.to_sign("amend", changes=body.changes))


def _signing(found: ToSign) -> Signing:
    texts = {name: getattr(found, name) for name in ("subject", "protocol", "head", "meaning")}
    return Signing(challenge=to_base64url(found.challenge), **texts)


def _candidate(campaign: Campaign, number: int) -> Any:
    if (found := campaign.state.candidates.get(number)) is None:
        raise not_found("candidate", number)
    return found


def _signed(campaign: Campaign, body: Decision, call: Call) -> dict[str, Any]:
    """Return the person, the reason and the signature of a decision."""
    head = campaign.entries[-1].link
    signature = signature_of(call, body.signature, head)
    return {"by": person_of(call), "reason": body.reason, "signature": signature}


@decide.put(
    "/v1/campaigns/{campaign}/candidates/{number:int}/approval", action="approve", body=Decision,
    answers={200: InForce},
)  # fmt: skip
def approve(campaign: Campaign, number: int, body: Decision, call: Call) -> InForce:
    """Sign a candidate; the last required signature puts it in force.

    If-Match must be the digest of the candidate that you reviewed.
    """
    found = _candidate(campaign, number)
    _check_digest(call, found.digest)
    return _in_force(campaign, campaign.approve(number, **_signed(campaign, body, call)))


def _in_force(campaign: Campaign, done: Version | Entry) -> InForce:
    last = campaign.state.in_force
    return InForce(version=last.version, digest=last.digest, deployed=not isinstance(done, Entry))


def _check_digest(call: Call, digest: str) -> None:
    """Raise unless If-Match is the candidate's digest: the person reviewed this policy."""
    told = call.request.headers.get("if-match", "").strip()
    if not told:
        raise Problem(
            412, "if-match must be the digest of the candidate", code="precondition",
            field="if-match", digest=digest,
        )  # fmt: skip
    if told.strip('"') != digest:
        raise Problem(
            412, "if-match is not the digest of this candidate", code="precondition",
            field="if-match", digest=digest,
        )  # fmt: skip


@decide.put(
    "/v1/campaigns/{campaign}/candidates/{number:int}/rejection", action="approve", body=Decision
)
def reject(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Reject a candidate; later fits do not depend on the rejection."""
    found = _candidate(campaign, number)
    _check_digest(call, found.digest)
    campaign.reject(number, **_signed(campaign, body, call))
    return {"rejected": number}


@decide.post(
    "/v1/campaigns/{campaign}/candidates/{number:int}/comments", action="comment", body=Comment,
    answers={201: PlainTable},
)  # fmt: skip
def comment(campaign: Campaign, number: int, body: Comment, call: Call) -> PlainTable:
    """Comment on a candidate, or sign a review of it; a comment needs no signature."""
    _candidate(campaign, number)
    signature = None
    if body.reviewed or body.signature is not None:
        signature = signature_of(call, body.signature, campaign.entries[-1].link)
    entry = campaign.comment(
        number, by=person_of(call), reason=body.reason, reviewed=body.reviewed, signature=signature
    )
    return entry._asdict()


@decide.post(
    "/v1/campaigns/{campaign}/rollbacks", action="rollback", body=Rollback, answers={200: InForce}
)
def roll_back(campaign: Campaign, body: Rollback, call: Call) -> InForce:
    """Put the policy of an earlier version in force, as a new version."""
    if body.to > campaign.version:
        raise not_found("version", body.to)
    campaign.rollback(body.to, **_signed(campaign, body, call))
    last = campaign.state.in_force
    return InForce(version=last.version, digest=last.digest, deployed=True)


@decide.put(
    "/v1/campaigns/{campaign}/rollbacks/{number:int}/countersignature", action="approve",
    body=Decision,
)  # fmt: skip
def countersign(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Sign a rollback of another person, if the protocol requires a second signature."""
    return campaign.countersign(number, **_signed(campaign, body, call))._asdict()


@decide.post("/v1/campaigns/{campaign}/amendments", action="amend", body=Amendment)
def amend(campaign: Campaign, body: Amendment, call: Call) -> PlainTable:
    """Amend the protocol, or propose the amendment if others must sign too."""
    return campaign.amend(body.changes, **_signed(campaign, body, call))._asdict()


@decide.put(
    "/v1/campaigns/{campaign}/amendments/{number:int}/approval", action="approve", body=Decision
)
def approve_amendment(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Sign an amendment."""
    return _about_waiting(campaign, "amendment", number, body, call)


@decide.put(
    "/v1/campaigns/{campaign}/amendments/{number:int}/rejection", action="approve", body=Decision
)
def reject_amendment(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Reject an amendment."""
    return _reject_waiting(campaign, "amendment", number, body, call)


@decide.post("/v1/campaigns/{campaign}/reopenings", action="reopen", body=Decision)
def reopen(campaign: Campaign, body: Decision, call: Call) -> PlainTable:
    """Propose to reopen a campaign that stopped for data quality."""
    return campaign.reopen(**_signed(campaign, body, call))._asdict()


@decide.put(
    "/v1/campaigns/{campaign}/reopenings/{number:int}/approval", action="approve", body=Decision
)
def approve_reopening(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Sign a reopening."""
    return _about_waiting(campaign, "reopening", number, body, call)


@decide.put(
    "/v1/campaigns/{campaign}/reopenings/{number:int}/rejection", action="approve", body=Decision
)
def reject_reopening(campaign: Campaign, number: int, body: Decision, call: Call) -> PlainTable:
    """Reject a reopening."""
    return _reject_waiting(campaign, "reopening", number, body, call)


def _reject_waiting(
    campaign: Campaign, kind: str, number: int, body: Decision, call: Call
) -> PlainTable:
    if number in campaign.state.candidates:
        raise not_found(kind, number)
    campaign.reject(number, **_signed(campaign, body, call))
    return {"rejected": number}


def _about_waiting(
    campaign: Campaign, kind: str, number: int, body: Decision, call: Call
) -> PlainTable:
    """Approve an amendment or a reopening; a candidate needs the check of its digest."""
    if number in campaign.state.candidates:
        raise not_found(kind, number)
    done = campaign.approve(number, **_signed(campaign, body, call))
    return done._asdict() if isinstance(done, Entry) else {"version": done.version}


@decide.post("/v1/campaigns/{campaign}/stop", action="stop", body=Decision)
async def stop(campaign: Campaign, body: Decision, call: Call) -> PlainTable:
    """Stop the campaign: no episode begins and no candidate is deployed afterwards."""
    signed = await run_in_threadpool(_signed, campaign, body, call)
    await run_in_threadpool(lambda: campaign.stop(**signed))
    return {"stopped": True}
