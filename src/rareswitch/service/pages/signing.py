"""The proposals that wait for a signature, and their signatures."""

from typing import Any, NamedTuple

from rareswitch.campaigns.conclusion import cost_of_amendment
from rareswitch.campaigns.proof.export.words import one_line
from rareswitch.campaigns.rulebook.approval import Owed
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.state import State
from rareswitch.service.pages.words import Difference, differences, meaning_of, who_signs

ABOUT_CANDIDATES = ("candidate", "declined", "approved", "rejected", "commented", "deployed")
METHODS = {"password": "signed with a password", "passkey": "signed with a passkey"}


class Proposal(NamedTuple):
    """An amendment or a reopening that waits for a second person."""

    kind: str
    entry: Entry
    changes: list[Difference]
    signs: str
    owed: Owed
    cost: str | None = None  # the conclusion that an amendment loses


class Signature(NamedTuple):
    """A signature under a proposal: its name, time, meaning and method."""

    name: str
    at: str
    meaning: str
    reason: str
    how: str
    entry: int


def proposals_of(state: State) -> list[Proposal]:
    """Return the pending amendment and the pending reopening."""
    found = []
    if state.amendment is not None and state.stopped is None:
        entry = state.amendment
        changes = differences(state.terms.plain, entry.payload["protocol"])
        signs = who_signs(state.terms, entry.actor)
        owed, cost = state.owed(entry), cost_of_amendment(state, entry)
        found.append(Proposal("amendment", entry, changes, signs, owed, cost))
    if state.reopening is not None:
        entry = state.reopening
        signs = who_signs(state.terms, entry.actor)
        found.append(Proposal("reopening", entry, [], signs, state.owed(entry)))
    return found


def signatures_of(entries: Any, number: int) -> list[Signature]:
    """Return the proposal, comments and decisions of a candidate, in their order."""
    found = []
    for entry in entries[number - 1 :]:
        if entry.kind not in ABOUT_CANDIDATES or entry.kind == "deployed":
            continue
        if entry.number == number or entry.payload.get("candidate") == number:
            found.append(_signature(entry))
    return found


def _signature(entry: Entry) -> Signature:
    told = entry.payload.get("signature")
    method = told.get("method") if isinstance(told, dict) else None
    how = METHODS.get(str(method), "")
    return Signature(
        one_line(entry.actor), entry.at, meaning_of(entry), one_line(entry.reason), how,
        entry.number,
    )  # fmt: skip
