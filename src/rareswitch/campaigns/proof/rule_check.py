"""Whether the entries of a ledger keep the rules of its protocol, at every prefix."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from rareswitch.campaigns.proof.check import NONSENSE, words
from rareswitch.campaigns.proof.entry_shape import misshapen
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.ledger import KINDS, Entry
from rareswitch.campaigns.record.names import same_person
from rareswitch.campaigns.state import State


class Followed(NamedTuple):
    """The entries of a ledger up to the first that is nonsense, and what is wrong with each.

    `state` is that after all of them; there is none if one of them cannot be followed.
    """

    entries: list[Entry]
    state: State | None
    problems: list[str]


def follow(rows: Iterable[Any]) -> Followed:
    """Go through the rows of a ledger, and hold each entry against those before it."""
    state, found = State(), Followed([], None, [])
    for row in rows:
        try:
            entry = Entry.of(row)
            wrong = list(misshapen(entry))
            followed = not wrong
            if followed:
                wrong += _broken(state, entry)
                followed = _go_on(state, entry, wrong)
        except NONSENSE as error:
            wrong, followed = [f"it cannot be read, {words(error)}"], False
        found.problems.extend(f"ledger: entry {row.number}: {what}" for what in wrong)
        if not followed:
            return found
        found.entries.append(entry)
    if [entry.kind for entry in found.entries[:2]] != ["created", "deployed"]:
        found.problems.append("ledger: it must begin with the protocol and version 1")
        return found
    return found._replace(state=state)


def _go_on(state: State, entry: Entry, wrong: list[str]) -> bool:
    """Go on to the state after an entry, and look at the budget; return whether that is possible.

    Why an entry cannot be followed is said by the rule that it breaks, if it breaks one.
    """
    try:
        state.after([entry])
    except NONSENSE as error:
        if not wrong:
            wrong.append(f"it cannot be followed, {words(error)}")
        return False
    if state.spent > state.protocol.budget:
        wrong.append(f"{state.spent} deployments of a budget of {state.protocol.budget}")
    return True


def _broken(state: State, entry: Entry) -> Iterator[str]:
    payload, kind = entry.payload, entry.kind
    if kind not in KINDS:
        yield f"{kind} is no kind of entry"
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
