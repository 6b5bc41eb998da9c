"""Decisions: what may be entered into the ledger, when and by whom.

Each function looks at the state under the lock of its transaction, and enters or refuses.
"""

from collections.abc import Mapping
from typing import Any

from rareswitch.campaigns.errors import MovedError, NotAllowedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.artifacts import add_artifact
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.record.names import checked_text, same_person
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.state import Candidate, State
from rareswitch.core.policy import Policy

DEPLOYMENT = ("version", "seq", "digest", "members", "allocation")


def create(pen: Pen, protocol: Protocol, *, first: Policy, **signed: str) -> None:
    """Lock a protocol, and put version 1 in force, fitted on no data."""
    add_artifact(pen.connection, pen.campaign, "policy", first.to_bytes())
    enter(pen, "created", {"protocol": protocol.plain, "digest": protocol.digest}, **signed)
    deployed = deployment(first, version=1, seq=0) | {"candidate": None}
    enter(pen, "deployed", deployed, **signed | {"reason": "version 1, fitted on no data"})


def propose(
    pen: Pen,
    state: State,
    policy: Policy,
    *,
    seq: int,
    evidence: Mapping[str, Any],
    expected: int,
    planned: bool,
    **signed: str,
) -> int:
    """Enter a candidate; where the schedule alone decides, put it in force at once."""
    _may_deploy(state, expected)
    if state.waiting is not None:
        raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
    least = max(state.in_force.seq, state.asked_again if planned else 0)
    head = pen.heads["episodes"].length
    if not least <= seq <= head:
        raise NotAllowedError(
            f"a candidate must be fitted on the log up to a row from {least} to {head}; got {seq}"
        )
    task = state.protocol.task
    sizes = (policy.dim, policy.horizon, policy.one_hot)
    if sizes != (task.dim, task.horizon, task.one_hot):
        raise NotAllowedError(
            f"policy must have dim {task.dim}, horizon {task.horizon} and one_hot "
            f"{task.one_hot}; got {sizes}"
        )
    add_artifact(pen.connection, pen.campaign, "policy", policy.to_bytes())
    deployed = deployment(policy, version=expected + 1, seq=seq)
    payload = {**deployed, "planned": planned, "evidence": dict(evidence)}
    number = enter(pen, "candidate", payload, **signed)
    if planned and state.protocol.approval.by == "schedule":
        enter(pen, "deployed", deployed | {"candidate": number}, **signed)
    return number


def approve(pen: Pen, state: State, number: int, *, actor: str, **signed: str) -> int:
    """Sign for a candidate and put it in force; return its version."""
    checked_text("actor", actor, most=200)
    found = _waiting(state, number)
    _may_deploy(state, found.version - 1)
    if same_person(actor, found.proposer):
        raise NotAllowedError(
            f"candidate {number} was proposed by {actor}; another person has to approve"
        )
    meaning = f"approve version {found.version} for deployment"
    enter(pen, "approved", {"candidate": number, "meaning": meaning}, actor=actor, **signed)
    kept = {key: found.entry.payload[key] for key in DEPLOYMENT}
    enter(pen, "deployed", kept | {"candidate": number}, actor=actor, **signed)
    return found.version


def reject(pen: Pen, state: State, number: int, **signed: str) -> None:
    """Turn a candidate down."""
    _waiting(state, number)
    meaning = f"reject candidate {number}"
    enter(pen, "rejected", {"candidate": number, "meaning": meaning}, **signed)


def roll_back(pen: Pen, state: State, to: int, **signed: str) -> int:
    """Put the policy of an earlier version in force, as a new one; return its number."""
    earlier = state.version(to)
    if to == state.in_force.version:
        raise NotAllowedError(f"version {to} is in force")
    version = state.in_force.version + 1
    kept = {key: getattr(earlier, key) for key in ("digest", "members", "allocation")}
    seq = pen.heads["episodes"].length
    enter(pen, "rolled-back", kept | {"version": version, "to": to, "seq": seq}, **signed)
    return version


def amend(pen: Pen, state: State, changes: Mapping[str, Any], **signed: str) -> Protocol:
    """Enter a new revision of the protocol."""
    if state.stopped:
        raise NotAllowedError("the campaign has stopped")
    protocol = state.protocol.amended(changes)
    if protocol.budget < state.spent:
        raise NotAllowedError(
            f"{state.spent} deployments are spent already; got a budget of {protocol.budget}"
        )
    enter(pen, "amended", {"protocol": protocol.plain, "digest": protocol.digest}, **signed)
    return protocol


def stop(pen: Pen, state: State, **signed: str) -> None:
    """End the campaign."""
    if state.stopped:
        raise NotAllowedError("the campaign has stopped already")
    enter(pen, "stopped", {}, **signed)


def deployment(policy: Policy, *, version: int, seq: int) -> dict[str, Any]:
    """Return what an entry says of a policy that is put in force, or may be."""
    values = (version, seq, policy.digest, policy.members, policy.allocation)
    return dict(zip(DEPLOYMENT, values, strict=True))


def _may_deploy(state: State, expected: int) -> None:
    """Refuse a deployment that the state does not allow, or that is about another one."""
    if state.stopped:
        raise NotAllowedError("the campaign has stopped; no version is deployed any more")
    if state.in_force.version != expected:
        raise MovedError(
            f"version {state.in_force.version} is in force; this is about version {expected}"
        )
    if not state.left:
        raise NotAllowedError(
            f"the budget of {state.protocol.budget} deployments is spent; an amendment may raise it"
        )


def _waiting(state: State, number: int) -> Candidate:
    """Return a candidate that is still to be decided about."""
    found = state.candidate(number)
    if found.status == "void":
        raise MovedError(f"candidate {number} is void: another version came into force")
    if found.status != "waiting":
        raise NotAllowedError(f"candidate {number} is {found.status} already")
    return found
