"""Signatures for people and programs to read: name, time, meaning and key."""

from collections.abc import Iterable, Iterator
from typing import Any

from rareswitch.campaigns.rulebook.names import NOBODY
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signatures import PASSKEY
from rareswitch.campaigns.rulebook.signing import SENSES, sense_of
from rareswitch.campaigns.rulebook.state import Candidate, State

FEW_DIGITS = 16  # of a fingerprint, enough for people to compare


def method_of(entry: Entry) -> str | None:
    """Return how an entry was signed, "passkey" or "password"; None for a typed name."""
    method: str | None = entry.payload.get("signature", {}).get("method")
    return method


def fingerprint_of(state: State, entry: Entry) -> str | None:
    """Return the SHA-256 of the public key that signed an entry."""
    if method_of(entry) != PASSKEY:
        return None
    return state.passkeys[entry.payload["signature"]["credential"]].fingerprint


def signed_plain(state: State, entry: Entry) -> dict[str, Any]:
    """Return an entry as a signature: who, when, and its sense and meaning."""
    return {
        "entry": entry.number,
        "kind": entry.kind,
        "by": entry.actor,
        "at": entry.at,
        "sense": sense_of(entry),
        "meaning": entry.payload.get("meaning"),
        "reason": entry.reason,
        "method": method_of(entry),
        "fingerprint": fingerprint_of(state, entry),
    }


def signed_line(signed: dict[str, Any]) -> str:
    """Describe a signature in words.

    >>> signed_line({"by": "ben", "at": "2026-05-12", "meaning": "reviewed candidate 7",
    ...     "method": "passkey", "fingerprint": "3f2a" * 16})
    'signed by ben at 2026-05-12: reviewed candidate 7 (passkey 3f2a3f2a3f2a3f2a…)'
    """
    how = {None: "name typed", "password": "password, as the service recorded"}
    known = signed["fingerprint"]
    by = f"passkey {known[:FEW_DIGITS]}…" if known else how[signed["method"]]
    return f"signed by {signed['by']} at {signed['at']}: {signed['meaning']} ({by})"


def decisions_of(candidate: Candidate) -> Iterator[Entry]:
    """Yield the entries of persons who proposed a candidate or decided about it."""
    found = [candidate.entry, *candidate.approvals, candidate.decision]
    numbers = set[int]()
    for entry in found:
        if entry is None or entry.number in numbers or entry.kind not in SENSES:
            continue
        numbers.add(entry.number)
        if entry.actor not in NOBODY:
            yield entry


def comments_on(state: State, number: int) -> list[Entry]:
    """Return the comments on a proposal."""
    about = ("candidate", "amendment", "reopening")
    return [one for one in state.comments if number in [one.payload.get(name) for name in about]]


def unsigned(entries: Iterable[Entry]) -> Iterator[Entry]:
    """Yield the decisions of persons without a signature."""
    before: Entry | None = None
    for entry in entries:
        carried_out = before is not None and before.kind == "approved" and entry.kind == "amended"
        if (
            entry.kind in SENSES
            and entry.actor not in NOBODY
            and method_of(entry) is None
            and not carried_out
        ):
            yield entry
        before = entry
