"""The rules that every entry of a ledger keeps, given those before it.

The verifier of one file has the same rules in words of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from rareswitch.campaigns.decisions import DEPLOYMENT
from rareswitch.campaigns.protocol import AMENDABLE
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.ledger import KINDS, Entry
from rareswitch.campaigns.record.names import same_person
from rareswitch.campaigns.state import Candidate, State
from rareswitch.campaigns.stopping.looking import ENGINE

ENDED_BY_A_STOP = ("candidate", "approved", "deployed", "amended", "stopped")


def broken_rules(state: State, entry: Entry, before: Sequence[Entry]) -> Iterator[str]:
    """Give the rules that an entry breaks; it says all that its kind must say."""
    kind = entry.kind
    if kind not in KINDS:
        yield f"{kind} is no kind of entry"
    begins = {1: "created", 2: "deployed"}.get(entry.number)
    if begins not in (None, kind) or (kind == "created" and entry.number > 1):
        yield f"{kind} is out of its place: a ledger begins with the protocol and version 1"
        return
    if same_person(entry.actor, ENGINE) and kind != "stopped":
        yield f"{kind} by {ENGINE}, which does nothing but stop a campaign by a rule"
    if state.stopped and kind in ENDED_BY_A_STOP:
        yield f"{kind} after the campaign had stopped"
    yield from _moved_back(entry, before)
    if kind in ("created", "amended"):
        yield from _revision(entry, before)
    elif kind == "candidate":
        yield from _candidate(state, entry)
    elif kind in ("approved", "rejected"):
        yield from _signature(state, entry)
    elif kind == "deployed":
        yield from _deployed(state, entry)
    elif kind == "rolled-back":
        yield from _rolled_back(state, entry)


def _moved_back(entry: Entry, before: Sequence[Entry]) -> Iterator[str]:
    """Give the chains that were longer when the entry before was written."""
    for chain, (length, _) in entry.payload["reached"].items():
        if before and length < before[-1].payload["reached"][chain][0]:
            yield f"it saw fewer {chain} than the entry before"


def _revision(entry: Entry, before: Sequence[Entry]) -> Iterator[str]:
    protocol = entry.payload["protocol"]
    if digest_of(canonical(protocol)) != entry.payload["digest"]:
        yield "the digest of the protocol is another"
    revisions = [e.payload["protocol"] for e in before if e.kind in ("created", "amended")]
    if not revisions:
        return
    last = revisions[-1]
    if _settled(protocol) != _settled(last):
        yield "it amends what recorded episodes were counted by"
    elif protocol == last:
        yield "it amends nothing"


def _settled(protocol: dict[str, Any]) -> dict[str, Any]:
    """Return what no amendment may change."""
    kept = {name: table for name, table in protocol.items() if name not in AMENDABLE}
    return kept | {"task": protocol["task"] | {"episodes": None}}


def _not_next(state: State, entry: Entry) -> Iterator[str]:
    version, last = entry.payload["version"], len(state.versions)
    if version != last + 1:
        yield f"it is about version {version}, which does not follow version {last}"


def _candidate(state: State, entry: Entry) -> Iterator[str]:
    yield from _not_next(state, entry)
    if state.waiting is not None:
        yield f"a candidate while candidate {state.waiting.number} waits"
    if not state.left:
        yield "a candidate when no deployment is left"
    seq = entry.payload["seq"]
    if not state.in_force.seq <= seq <= entry.position:
        yield (
            f"it cannot be fitted on the log up to row {seq}: version {state.in_force.version} was "
            f"on {state.in_force.seq}, and {entry.position} were recorded"
        )


def _signature(state: State, entry: Entry) -> Iterator[str]:
    number = entry.payload["candidate"]
    candidate = state.candidates.get(number)
    if candidate is None:
        yield f"there is no candidate {number}"
        return
    if candidate.status != "waiting":
        yield f"{entry.kind} is candidate {number}, which was {candidate.status} already"
    meaning = f"reject candidate {number}"
    if entry.kind == "approved":
        meaning = f"approve version {candidate.version} for deployment"
        if same_person(entry.actor, candidate.proposer):
            yield f"{entry.actor} approved what he or she had proposed"
    if entry.payload["meaning"] != meaning:
        yield f"it was signed with another meaning than to {meaning}"


def _deployed(state: State, entry: Entry) -> Iterator[str]:
    yield from _not_next(state, entry)
    payload = entry.payload
    number, first = payload["candidate"], not state.versions
    if first and (number is not None or payload["seq"]):
        yield "version 1 is fitted on no data, and nobody proposes it"
    elif not first and number is None:
        yield "a version without a candidate"
    elif not first:
        candidate = state.candidates.get(number)
        if candidate is None:
            yield f"there is no candidate {number}"
            return
        if candidate.status != "approved" and not _by_schedule(state, candidate, entry):
            yield f"candidate {number} was {candidate.status}, and not approved"
        if any(candidate.entry.payload[key] != payload[key] for key in DEPLOYMENT):
            yield f"it is not candidate {number} that was deployed"


def _by_schedule(state: State, candidate: Candidate, entry: Entry) -> bool:
    """Return whether the schedule alone put a candidate in force, which it does at once."""
    alone = state.protocol.approval.by == "schedule" and candidate.planned
    return alone and candidate.status == "waiting" and entry.number == candidate.number + 1


def _rolled_back(state: State, entry: Entry) -> Iterator[str]:
    yield from _not_next(state, entry)
    payload = entry.payload
    to, kept = payload["to"], ("digest", "members", "allocation")
    earlier = state.versions[to - 1] if 1 <= to < len(state.versions) else None
    if earlier is None or any(getattr(earlier, key) != payload[key] for key in kept):
        yield f"its policy is not that of version {to}, before the one in force"
    if payload["seq"] != entry.position:
        yield f"it counts from row {payload['seq']}, and {entry.position} were recorded"
