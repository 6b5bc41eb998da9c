"""Whether the entries of a ledger can be followed, and keep the rules at every prefix."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from rareswitch.campaigns.proof.check import NONSENSE, words
from rareswitch.campaigns.proof.decision_rules import broken_rules
from rareswitch.campaigns.proof.entry_shape import misshapen
from rareswitch.campaigns.record.ledger import Entry
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
        wrong: list[str] = []
        followed = False
        try:
            entry = Entry.of(row)
            wrong.extend(misshapen(entry))
            if not wrong:
                wrong.extend(broken_rules(state, entry, found.entries))
                followed = _go_on(state, entry, wrong)
        except NONSENSE as error:
            wrong.append(f"it cannot be read, {words(error)}")
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
