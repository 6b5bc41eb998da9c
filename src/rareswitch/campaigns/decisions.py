"""Decisions: candidates, approvals, rollbacks, amendments and the end, each as work to commit.

The same decision by the same person again returns the first answer. The rulebook decides whether a
decision is allowed: `Transaction.enter` calls it.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from rareswitch.campaigns.errors import MovedError, NotAllowedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.recording import Recording, Work, expire, look
from rareswitch.campaigns.rulebook.drafts import (
    Draft,
    draft_amendment,
    draft_approval,
    draft_carrying_out,
    draft_comment,
    draft_countersignature,
    draft_rejection,
    draft_reopening,
    draft_rollback,
    draft_stop,
)
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.payloads import DEPLOYMENT
from rareswitch.campaigns.rulebook.rows import Entry, digest_of
from rareswitch.campaigns.rulebook.signing import Signature, about_entry
from rareswitch.campaigns.rulebook.state import Candidate, State, Version
from rareswitch.campaigns.store.transaction import Transaction
from rareswitch.core.policy import Policy

P = ParamSpec("P")


def create(
    transaction: Transaction,
    protocol: Protocol,
    artifacts: Mapping[str, bytes],
    *,
    rehearsal: bool,
    by: str,
    reason: str,
) -> None:
    """Lock a protocol, and put version 1 in force, fitted on no data."""
    first = protocol.learner().policy
    for kind, data in ({"policy": first.to_bytes()} | dict(artifacts)).items():
        transaction.add_artifact(kind, data, digest_of(data))
    payload: dict[str, Any] = {"protocol": protocol.plain, "digest": protocol.digest}
    if rehearsal:
        payload["rehearsal"] = True
    transaction.enter("created", payload, by=by, reason=reason)
    deployed = _deployment(first, version=1, seq=0) | {"candidate": None}
    transaction.enter("deployed", deployed, by=by, reason="version 1, fitted on no data")


def _work(decide: Callable[Concatenate[Recording, P], Any]) -> Callable[P, Work]:
    """Turn a decision into a function that returns it as work to commit."""

    @wraps(decide)
    def make(*args: P.args, **named: P.kwargs) -> Work:
        return Work(lambda transaction: decide(transaction, *args, **named))

    return make


@_work
def propose(
    transaction: Recording,
    policy: Policy,
    *,
    seq: int,
    evidence: Mapping[str, Any],
    expected: int,
    planned: bool,
    by: str,
    reason: str,
    signature: Signature | None = None,
) -> Candidate:
    """Enter a candidate; if the schedule alone approves, deploy or decline it at once."""
    state = transaction.state
    task, in_force = state.terms.plain["task"], state.in_force.version
    sizes = {name: getattr(policy, name) for name in ("dim", "horizon", "one_hot")}
    if any(task[name] != value for name, value in sizes.items()):
        raise NotAllowedError(f"policy must fit the protocol's [task]; got {sizes}")
    if in_force != expected:
        message = f"version {in_force} is in force; the decision is about version {expected}"
        raise MovedError(message, version=in_force)
    deployed = _deployment(policy, version=expected + 1, seq=seq)
    payload = {**deployed, "planned": planned, "evidence": dict(evidence)}
    declined = planned and not evidence.get("worth", {}).get("accepted", True)
    draft = Draft("declined" if declined else "candidate", payload)
    entry = _enter(transaction, draft, signature, by=by, reason=reason)[-1]
    transaction.add_artifact("policy", policy.to_bytes(), policy.digest)
    if planned and not declined and not state.terms.approval.two_persons:
        told = deployed | {"candidate": entry.number}
        transaction.enter("deployed", told, by=by, reason=reason)
    return transaction.state.candidate(entry.number)


@_work
def approve(
    transaction: Recording, number: int, *, by: str, reason: str, signature: Signature | None = None
) -> Version | Entry:
    """Sign for a candidate, an amendment or a reopening; carry it out if no signature is missing.

    Return the version in force, or the entry.
    """
    state = transaction.state
    if (again := _approved_before(state, number, by)) is not None:
        return again
    draft = draft_approval(state, number)
    then: tuple[Draft, ...] = ()
    if draft.kind == "approved" and not _owed_after(state, draft, by):
        then = (draft_carrying_out(state, draft, (*DEPLOYMENT, "shares")),)
    entries = _enter(transaction, draft, signature, *then, by=by, reason=reason)
    last = entries[-1]
    if last.kind == "reopened":
        transaction.cohorts.reopen()
        expire(transaction)
    elif last.kind == "amended":
        look(transaction, *(version.version for version in transaction.state.versions))
    return transaction.state.in_force if last.kind == "deployed" else last


@_work
def reject(
    transaction: Recording, number: int, *, by: str, reason: str, signature: Signature | None = None
) -> None:
    """Reject a candidate, an amendment or a reopening."""
    state = transaction.state
    if (again := _decided(state, number, by)) is not None and again.kind == "rejected":
        return
    found = state.candidates.get(number)
    decision = found.decision if found is not None and found.status == "rejected" else None
    if decision is not None and same_person(decision.actor, by):
        return
    _enter(transaction, draft_rejection(state, number), signature, by=by, reason=reason)


@_work
def comment(
    transaction: Recording,
    number: int,
    *,
    by: str,
    reason: str,
    reviewed: bool = False,
    signature: Signature | None = None,
) -> Entry:
    """Enter a comment on a proposal or a review of it."""
    draft = draft_comment(transaction.state, number, reviewed=reviewed)
    for entry in transaction.state.comments:
        told = draft.payload.items() <= entry.payload.items()
        if told and entry.reason == reason and same_person(entry.actor, by):
            return entry
    return _enter(transaction, draft, signature, by=by, reason=reason)[-1]


@_work
def rollback(
    transaction: Recording, to: int, *, by: str, reason: str, signature: Signature | None = None
) -> Version:
    """Put the policy of an earlier version in force, as a new version."""
    last = transaction.state.in_force
    if last.rollback_to == to and same_person(last.entry.actor, by):
        return last
    draft = draft_rollback(transaction.state, to, rows=transaction.heads["episodes"].length)
    _enter(transaction, draft, signature, by=by, reason=reason)
    return transaction.state.in_force


@_work
def countersign(
    transaction: Recording, number: int, *, by: str, reason: str, signature: Signature | None = None
) -> Entry:
    """Sign for another person's rollback."""
    for entry in transaction.state.countersignatures:
        if entry.payload["rollback"] == number and same_person(entry.actor, by):
            return entry
    return _enter(transaction, draft_countersignature(number), signature, by=by, reason=reason)[-1]


@_work
def amend(
    transaction: Recording,
    protocol: Protocol,
    *,
    before: str,
    by: str,
    reason: str,
    signature: Signature | None = None,
) -> Entry:
    """Amend the protocol, or propose an amendment if two persons must agree.

    `before` is the digest of the revision that the changes apply to.
    Return the entry: "amended", or "amendment" if it waits for a second person.
    """
    state, waiting = transaction.state, transaction.state.amendment
    amended = [one for one in state.decided if one.kind == "amended"]
    same = bool(amended) and protocol.digest == state.terms.digest
    if same and same_person(amended[-1].actor, by):
        return amended[-1]
    same = waiting is not None and waiting.payload["digest"] == protocol.digest
    if waiting is not None and same and same_person(waiting.actor, by):
        return waiting
    if state.terms.digest != before:
        raise MovedError("the protocol was amended meanwhile: read it again")
    draft = draft_amendment(state, protocol.plain, protocol.digest)
    entry = _enter(transaction, draft, signature, by=by, reason=reason)[-1]
    if entry.kind == "amended":  # its stopping rules may be reached already
        look(transaction, *(version.version for version in transaction.state.versions))
    return entry


@_work
def stop(
    transaction: Recording, *, by: str, reason: str, signature: Signature | None = None
) -> None:
    """End the campaign."""
    stopped = transaction.state.stopped
    if stopped is None or not same_person(stopped.actor, by):
        _enter(transaction, draft_stop(), signature, by=by, reason=reason)


@_work
def reopen(
    transaction: Recording, *, by: str, reason: str, signature: Signature | None = None
) -> Entry:
    """Propose to reopen a campaign that data quality stopped."""
    state = transaction.state
    if state.reopening is not None and same_person(state.reopening.actor, by):
        return state.reopening
    return _enter(transaction, draft_reopening(state), signature, by=by, reason=reason)[-1]


@_work
def note_export(transaction: Recording, digest: str, *, by: str, reason: str) -> Entry:
    """Enter an export with the digest of its manifest."""
    return transaction.enter("exported", {"digest": digest}, by=by, reason=reason)


def _enter(
    transaction: Recording,
    draft: Draft,
    signature: Signature | None,
    *then: Draft,
    by: str,
    reason: str,
) -> list[Entry]:
    """Enter a decision with its signature, then the entries that carry it out.

    A new passkey is registered first.
    """
    state, drafts = transaction.state, list[Draft]()
    if signature is not None:
        if (key := signature.check(state)) is not None:
            drafts.append(Draft("registered", key))
        about = about_entry(state, draft.kind, draft.payload)
        meaning = {} if about is None else {"meaning": about.meaning}
        draft = Draft(draft.kind, draft.payload | meaning | {"signature": signature.stored})
    return transaction.enter_all([*drafts, draft, *then], by=by, reason=reason)


def _owed_after(state: State, draft: Draft, by: str) -> int:
    """Return the number of missing signatures after a person's approval."""
    if "amendment" in draft.payload:
        approvals = state.amendment_approvals
    else:
        approvals = state.candidate(draft.payload["candidate"]).approvals
    return state.terms.approval.owed([*(one.actor for one in approvals), by]).signatures


def _approved_before(state: State, number: int, by: str) -> Version | Entry | None:
    """Return the earlier answer to a person who approves a proposal again."""
    if (again := _decided(state, number, by)) is not None and again.kind != "rejected":
        return again
    found = state.candidates.get(number)
    if found is None or not any(same_person(one.actor, by) for one in found.approvals):
        return None
    if found.status == "deployed":
        return state.version(found.version)
    mine = [one for one in found.approvals if same_person(one.actor, by)]
    return mine[-1] if found.status == "waiting" else None


def _decided(state: State, number: int, by: str) -> Entry | None:
    """Return a person's decision about an amendment or a reopening."""
    for entry in reversed(state.decided):
        about = (entry.payload.get("amendment"), entry.payload.get("reopening"))
        if number in about and same_person(entry.actor, by):
            return entry
    return None


def _deployment(policy: Policy, *, version: int, seq: int) -> dict[str, Any]:
    """Return the part of an entry that names a deployed or proposed policy."""
    values = (version, seq, policy.digest, policy.members, policy.allocation)
    shares = policy.split.shares
    return dict(zip(DEPLOYMENT, values, strict=True)) | ({"shares": shares} if shares else {})
