"""Decisions: candidates, approvals, rollbacks, amendments and the end, each as work to commit.

A decision that is sent again by the same person is answered as it was the first time. Whether a
decision is allowed is the rulebook's matter: `Transaction.enter` asks it.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from rareswitch.campaigns.errors import MovedError, NotAllowedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.recording import Recording, Work, look
from rareswitch.campaigns.rulebook.decisions import DEPLOYMENT
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.rows import Entry, digest_of
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
    """Make a function that returns the decision with its arguments as work to commit."""

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
) -> Candidate:
    """Enter a candidate; the schedule alone puts it in force at once, or declines it."""
    state = transaction.state
    task, in_force = state.terms.plain["task"], state.in_force.version
    sizes = {name: getattr(policy, name) for name in ("dim", "horizon", "one_hot")}
    if any(task[name] != value for name, value in sizes.items()):
        raise NotAllowedError(f"policy must be of the protocol's [task]; got {sizes}")
    if in_force != expected:
        message = f"version {in_force} is in force; this is about version {expected}"
        raise MovedError(message, version=in_force)
    deployed = _deployment(policy, version=expected + 1, seq=seq)
    payload = {**deployed, "planned": planned, "evidence": dict(evidence)}
    declined = planned and not evidence.get("worth", {}).get("accepted", True)
    kind = "declined" if declined else "candidate"
    entry = transaction.enter(kind, payload, by=by, reason=reason)
    transaction.add_artifact("policy", policy.to_bytes(), policy.digest)
    if planned and not declined and not state.terms.approval.two_persons:
        told = deployed | {"candidate": entry.number}
        transaction.enter("deployed", told, by=by, reason=reason)
    return transaction.state.candidate(entry.number)


@_work
def approve(transaction: Recording, number: int, *, by: str, reason: str) -> Version | Entry:
    """Sign for a candidate, an amendment or a reopening, and carry it out.

    The answer is the version in force, or the entry.
    """
    state = transaction.state
    if state.amendment is not None and state.amendment.number == number:
        kept = {name: state.amendment.payload[name] for name in ("protocol", "digest")}
        signed = {"amendment": number, "meaning": f"approve amendment {number}"}
        return _amend(transaction, kept | signed, by=by, reason=reason)
    if state.reopening is not None and state.reopening.number == number:
        told = {"stopped": state.reopening.payload["stopped"], "reopening": number}
        told["meaning"] = f"approve reopening {number}"
        entry = transaction.enter("reopened", told, by=by, reason=reason)
        transaction.cohorts.reopen()
        return entry
    if (again := _decided(state, number, by)) is not None and again.kind != "rejected":
        return again
    found = state.candidate(number)
    if found.status == "deployed" and same_person(found.approver or "", by):
        return state.version(found.version)
    told = {"candidate": number, "meaning": f"approve version {found.version} for deployment"}
    transaction.enter("approved", told, by=by, reason=reason)
    proposed = found.entry.payload
    names = [key for key in (*DEPLOYMENT, "shares") if key in proposed]
    deployed = {key: proposed[key] for key in names} | {"candidate": number}
    transaction.enter("deployed", deployed, by=by, reason=reason)
    return transaction.state.in_force


@_work
def reject(transaction: Recording, number: int, *, by: str, reason: str) -> None:
    """Turn down a candidate, an amendment or a reopening."""
    state = transaction.state
    waiting = {"amendment": state.amendment, "reopening": state.reopening}
    kind = next((name for name, one in waiting.items() if one and one.number == number), "")
    if (again := _decided(state, number, by)) is not None and again.kind == "rejected":
        return
    if not kind:
        kind, found = "candidate", state.candidate(number)
        decision = found.decision if found.status == "rejected" else None
        if decision is not None and same_person(decision.actor, by):
            return
    told = {kind: number, "meaning": f"reject {kind} {number}"}
    transaction.enter("rejected", told, by=by, reason=reason)


@_work
def rollback(transaction: Recording, to: int, *, by: str, reason: str) -> Version:
    """Put the policy of an earlier version in force, as a new version."""
    state = transaction.state
    earlier, last = state.version(to), state.in_force
    if last.rollback_to == to and same_person(last.entry.actor, by):
        return last
    told = {key: getattr(earlier, key) for key in ("digest", "members", "allocation")}
    told |= {"shares": earlier.shares} if earlier.shares else {}
    told |= {"version": last.version + 1, "to": to, "seq": transaction.heads["episodes"].length}
    transaction.enter("rolled-back", told, by=by, reason=reason)
    return transaction.state.in_force


@_work
def amend(transaction: Recording, protocol: Protocol, *, by: str, reason: str) -> Entry:
    """Amend the protocol, or propose to where two persons must agree.

    The answer is the entry: "amended", or "amendment" if it waits for a second person.
    """
    state = transaction.state
    payload = {"protocol": protocol.plain, "digest": protocol.digest}
    amended = [one for one in state.decided if one.kind == "amended"]
    same = bool(amended) and protocol.digest == state.terms.digest
    if same and same_person(amended[-1].actor, by):
        return amended[-1]
    if not state.terms.approval.two_persons:
        return _amend(transaction, payload, by=by, reason=reason)
    waiting = state.amendment
    same = waiting is not None and waiting.payload["digest"] == protocol.digest
    if waiting is not None and same and same_person(waiting.actor, by):
        return waiting
    return transaction.enter("amendment", payload, by=by, reason=reason)


@_work
def stop(transaction: Recording, *, by: str, reason: str) -> None:
    """End the campaign."""
    stopped = transaction.state.stopped
    if stopped is None or not same_person(stopped.actor, by):
        transaction.enter("stopped", {}, by=by, reason=reason)


@_work
def reopen(transaction: Recording, *, by: str, reason: str) -> Entry:
    """Propose to reopen a campaign that data quality stopped."""
    state = transaction.state
    if state.reopening is not None and same_person(state.reopening.actor, by):
        return state.reopening
    number = state.stopped.number if state.stopped else 0
    return transaction.enter("reopening", {"stopped": number}, by=by, reason=reason)


@_work
def note_export(transaction: Recording, digest: str, *, by: str, reason: str) -> Entry:
    """Enter an export with the digest of its manifest."""
    return transaction.enter("exported", {"digest": digest}, by=by, reason=reason)


def _amend(transaction: Transaction, payload: dict[str, Any], *, by: str, reason: str) -> Entry:
    """Enter a revision of the protocol, and look: its stopping rules may be reached already."""
    entry = transaction.enter("amended", payload, by=by, reason=reason)
    look(transaction, *(version.version for version in transaction.state.versions))
    return entry


def _decided(state: State, number: int, by: str) -> Entry | None:
    """Return the decision of a person about an amendment or a reopening."""
    for entry in state.decided:
        about = (entry.payload.get("amendment"), entry.payload.get("reopening"))
        if number in about and same_person(entry.actor, by):
            return entry
    return None


def _deployment(policy: Policy, *, version: int, seq: int) -> dict[str, Any]:
    """Return the part of an entry that names a policy which is put in force, or may be."""
    values = (version, seq, policy.digest, policy.members, policy.allocation)
    shares = policy.split.shares
    return dict(zip(DEPLOYMENT, values, strict=True)) | ({"shares": shares} if shares else {})
