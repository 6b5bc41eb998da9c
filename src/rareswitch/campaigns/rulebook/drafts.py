"""Drafts of decisions: the kind and the payload of the entry that a decision would make now.

A person signs a draft; the entry is then made from the same draft.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from rareswitch.campaigns.rulebook.signing import PROPOSALS
from rareswitch.campaigns.rulebook.state import State


class Draft(NamedTuple):
    """The kind of an entry, and its payload without the heads of the other chains."""

    kind: str
    payload: dict[str, Any]


def draft_approval(state: State, number: int) -> Draft:
    """Return the entry that approves a proposal; if one approval is enough, it also amends."""
    kind = _waiting(state, number)
    if kind == "candidate":
        version = state.candidate(number).version
        meaning = f"approve version {version} for deployment"
        return Draft("approved", {"candidate": number, "meaning": meaning})
    signed = {kind: number, "meaning": f"approve {kind} {number}"}
    if kind == "reopening":
        assert state.reopening is not None
        return Draft("reopened", {"stopped": state.reopening.payload["stopped"]} | signed)
    if state.terms.approval.several:
        return Draft("approved", signed)
    return Draft("amended", _proposed_protocol(state) | signed)


def draft_carrying_out(state: State, approval: Draft, names: tuple[str, ...]) -> Draft:
    """Return the entry that carries out a proposal after its last approval.

    `names` are the fields that a deployment copies from its candidate.
    """
    if "amendment" in approval.payload:
        return Draft("amended", _proposed_protocol(state) | approval.payload)
    number = approval.payload["candidate"]
    proposed = state.candidate(number).entry.payload
    kept = {name: proposed[name] for name in names if name in proposed}
    return Draft("deployed", kept | {"candidate": number})


def draft_rejection(state: State, number: int) -> Draft:
    kind = _waiting(state, number)
    return Draft("rejected", {kind: number, "meaning": f"reject {kind} {number}"})


def draft_comment(state: State, number: int, *, reviewed: bool) -> Draft:
    kind = _waiting(state, number)
    meaning = f"{'reviewed' if reviewed else 'comment on'} {kind} {number}"
    return Draft("commented", {kind: number, "reviewed": reviewed, "meaning": meaning})


def draft_rollback(state: State, to: int, *, rows: int) -> Draft:
    """Return the entry that puts an earlier policy in force; `rows` is the length of the log."""
    earlier = state.version(to)
    told: dict[str, Any] = {
        "digest": earlier.digest,
        "members": earlier.members,
        "allocation": earlier.allocation,
        "version": state.in_force.version + 1,
        "to": to,
        "seq": rows,
    }
    return Draft("rolled-back", told | ({"shares": earlier.shares} if earlier.shares else {}))


def draft_countersignature(number: int) -> Draft:
    meaning = f"countersign rollback {number}"
    return Draft("countersigned", {"rollback": number, "meaning": meaning})


def draft_amendment(state: State, protocol: Mapping[str, Any], digest: str) -> Draft:
    """Return the entry that amends the protocol, or proposes it if two persons must agree."""
    kind = "amendment" if state.terms.approval.two_persons else "amended"
    return Draft(kind, {"protocol": dict(protocol), "digest": digest})


def draft_reopening(state: State) -> Draft:
    return Draft("reopening", {"stopped": state.stopped.number if state.stopped else 0})


def draft_stop() -> Draft:
    return Draft("stopped", {})


def _waiting(state: State, number: int) -> str:
    """Return the kind of a proposal: a pending amendment or reopening, else a candidate."""
    for kind in PROPOSALS[1:]:
        if (waiting := getattr(state, kind)) is not None and waiting.number == number:
            return kind
    state.candidate(number)
    return "candidate"


def _proposed_protocol(state: State) -> dict[str, Any]:
    assert state.amendment is not None
    return {name: state.amendment.payload[name] for name in ("protocol", "digest")}
