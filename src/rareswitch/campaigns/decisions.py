"""Decisions: candidates, approvals, rollbacks, amendments and the end, each as work to commit.

A decision that is sent again by the same person is answered as it was the first time. Whether a
decision is allowed is the rulebook's matter: `Transaction.enter` asks it.
"""

from collections.abc import Mapping
from typing import Any

from rareswitch.campaigns.errors import MovedError, NotAllowedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.recording import Recording, Work, look
from rareswitch.campaigns.rulebook.decisions import DEPLOYMENT
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.rows import Entry, digest_of
from rareswitch.campaigns.rulebook.state import Candidate, State, Version
from rareswitch.campaigns.store.transaction import Transaction
from rareswitch.core.policy import Policy


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


def propose(
    policy: Policy,
    *,
    seq: int,
    evidence: Mapping[str, Any],
    expected: int,
    planned: bool,
    by: str,
    reason: str,
) -> Work:
    """Return the work that enters a candidate; the schedule alone puts it in force at once."""

    def run(transaction: Recording) -> Candidate:
        state = transaction.state
        task = state.terms.plain["task"]
        sizes = {name: getattr(policy, name) for name in ("dim", "horizon", "one_hot")}
        if any(task[name] != value for name, value in sizes.items()):
            raise NotAllowedError(f"policy must be of the protocol's [task]; got {sizes}")
        if state.in_force.version != expected:
            raise MovedError(
                f"version {state.in_force.version} is in force; this is about version {expected}",
                version=state.in_force.version,
            )
        deployed = _deployment(policy, version=expected + 1, seq=seq)
        payload = {**deployed, "planned": planned, "evidence": dict(evidence)}
        entry = transaction.enter("candidate", payload, by=by, reason=reason)
        transaction.add_artifact("policy", policy.to_bytes(), policy.digest)
        if planned and not state.terms.approval.two_persons:
            told = deployed | {"candidate": entry.number}
            transaction.enter("deployed", told, by=by, reason=reason)
        return transaction.state.candidate(entry.number)

    return Work(run)


def approve(number: int, *, by: str, reason: str) -> Work:
    """Return the work that signs for a candidate, an amendment or a reopening, and carries it out.

    The answer is the version in force, or the entry.
    """

    def run(transaction: Recording) -> Version | Entry:
        state = transaction.state
        if state.amendment is not None and state.amendment.number == number:
            kept = {name: state.amendment.payload[name] for name in ("protocol", "digest")}
            signed = {"amendment": number, "meaning": f"approve amendment {number}"}
            return _amend(transaction, kept | signed, by=by, reason=reason)
        if state.reopening is not None and state.reopening.number == number:
            stopped = state.reopening.payload["stopped"]
            signed = {"reopening": number, "meaning": f"approve reopening {number}"}
            told = {"stopped": stopped} | signed
            entry = transaction.enter("reopened", told, by=by, reason=reason)
            transaction.cohorts.reopen()
            return entry
        if (again := _decided(state, number, by)) is not None and again.kind != "rejected":
            return again
        found = state.candidate(number)
        if found.status == "deployed" and same_person(found.approver or "", by):
            return next(one for one in state.versions if one.version == found.version)
        meaning = f"approve version {found.version} for deployment"
        told = {"candidate": number, "meaning": meaning}
        transaction.enter("approved", told, by=by, reason=reason)
        deployed = {key: found.entry.payload[key] for key in DEPLOYMENT} | {"candidate": number}
        transaction.enter("deployed", deployed, by=by, reason=reason)
        return transaction.state.in_force

    return Work(run)


def reject(number: int, *, by: str, reason: str) -> Work:
    """Return the work that turns down a candidate, an amendment or a reopening."""

    def run(transaction: Recording) -> None:
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

    return Work(run)


def rollback(to: int, *, by: str, reason: str) -> Work:
    """Return the work that puts the policy of an earlier version in force, as a new version."""

    def run(transaction: Recording) -> Version:
        state = transaction.state
        earlier, last = state.version(to), state.in_force
        if last.rollback_to == to and same_person(last.entry.actor, by):
            return last
        kept = {key: getattr(earlier, key) for key in ("digest", "members", "allocation")}
        told = kept | {"version": last.version + 1, "to": to}
        told["seq"] = transaction.heads["episodes"].length
        transaction.enter("rolled-back", told, by=by, reason=reason)
        return transaction.state.in_force

    return Work(run)


def amend(protocol: Protocol, *, by: str, reason: str) -> Work:
    """Return the work that amends the protocol, or proposes to where two persons must agree.

    The answer is the entry: "amended", or "amendment" if it waits for a second person.
    """

    def run(transaction: Recording) -> Entry:
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

    return Work(run)


def stop(*, by: str, reason: str) -> Work:
    """Return the work that ends the campaign."""

    def run(transaction: Recording) -> None:
        stopped = transaction.state.stopped
        if stopped is None or not same_person(stopped.actor, by):
            transaction.enter("stopped", {}, by=by, reason=reason)

    return Work(run)


def reopen(*, by: str, reason: str) -> Work:
    """Return the work that proposes to reopen a campaign that data quality stopped."""

    def run(transaction: Recording) -> Entry:
        state = transaction.state
        if state.reopening is not None and same_person(state.reopening.actor, by):
            return state.reopening
        number = state.stopped.number if state.stopped else 0
        return transaction.enter("reopening", {"stopped": number}, by=by, reason=reason)

    return Work(run)


def note_export(digest: str, *, by: str, reason: str) -> Work:
    """Return the work that enters an export with the digest of its manifest."""
    return Work(lambda t: t.enter("exported", {"digest": digest}, by=by, reason=reason))


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
    return dict(zip(DEPLOYMENT, values, strict=True))
