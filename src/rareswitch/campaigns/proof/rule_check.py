"""Whether the entries of a ledger keep the rules of its protocol, at every prefix."""

from collections.abc import Iterator, Sequence

from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.names import same_person
from rareswitch.campaigns.state import State


def broken_rules(entries: Sequence[Entry]) -> Iterator[str]:
    """Give what is wrong with each entry, given those before it."""
    state = State()
    if [entry.kind for entry in entries[:2]] != ["created", "deployed"]:
        yield "ledger: it must begin with the protocol and version 1"
        return
    for entry in entries:
        for what in _broken(state, entry):
            yield f"ledger: entry {entry.number}: {what}"
        state.after([entry])
        if entry.number > 1 and state.spent > state.protocol.budget:
            yield (
                f"ledger: entry {entry.number}: {state.spent} deployments of a budget of "
                f"{state.protocol.budget}"
            )


def _broken(state: State, entry: Entry) -> Iterator[str]:
    payload, kind = entry.payload, entry.kind
    if kind in ("created", "amended"):
        if digest_of(canonical(payload["protocol"])) != payload["digest"]:
            yield "the digest of the protocol is another"
        return
    if kind in ("deployed", "rolled-back") and payload["version"] != len(state.versions) + 1:
        yield f"version {payload['version']} follows version {len(state.versions)}"
    if state.stopped and kind in ("candidate", "approved", "deployed", "amended", "stopped"):
        yield f"{kind} after the campaign had stopped"
    if kind == "candidate" and payload["version"] != len(state.versions) + 1:
        yield f"a candidate for version {payload['version']} after version {len(state.versions)}"
    if kind in ("approved", "rejected", "deployed") and payload["candidate"] is not None:
        candidate = state.candidates.get(payload["candidate"])
        if candidate is None:
            yield f"there is no candidate {payload['candidate']}"
            return
        if kind == "approved" and same_person(entry.actor, candidate.proposer):
            yield f"{entry.actor} approved what he or she had proposed"
        if kind == "deployed":
            by_schedule = state.protocol.approval.by == "schedule" and candidate.planned
            if candidate.status != "approved" and not by_schedule:
                yield f"candidate {candidate.number} was {candidate.status}, and not approved"
            if (candidate.digest, candidate.seq) != (payload["digest"], payload["seq"]):
                yield f"it is not candidate {candidate.number} that was deployed"
    if kind == "deployed" and payload["candidate"] is None and state.versions:
        yield "a version without a candidate"
    if kind == "rolled-back":
        earlier = (
            state.versions[payload["to"] - 1] if payload["to"] <= len(state.versions) else None
        )
        if earlier is None or earlier.digest != payload["digest"]:
            yield f"its policy is not that of version {payload['to']}"
