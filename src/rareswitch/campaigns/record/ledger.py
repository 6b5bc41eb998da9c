"""The entries of a campaign's ledger: who decided what, when and why."""

import json
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.names import checked_text
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.store.tables import ledger

KINDS = (
    "created", "candidate", "approved", "rejected", "deployed", "rolled-back", "amended",
    "corrected", "forgotten", "stopped", "exported",
)  # fmt: skip


class Entry(NamedTuple):
    """One entry. `payload` says what it is about, and how far the other chains were then."""

    number: int
    kind: str
    actor: str
    reason: str
    at: str
    payload: dict[str, Any]
    link: str

    @classmethod
    def of(cls, row: Any) -> "Entry":
        """Return the entry of a row of the ledger."""
        return cls(
            row.number, row.kind, row.actor, row.reason, row.at, json.loads(row.payload), row.link
        )

    @property
    def position(self) -> int:
        """How many episodes were recorded when it was written."""
        length, _ = self.payload["reached"]["episodes"]
        return int(length)


def enter(
    pen: Pen, kind: str, payload: dict[str, Any], *, actor: str, reason: str, now: str
) -> int:
    """Append an entry to the ledger; return its number."""
    checked_text("actor", actor, most=200)
    checked_text("reason", reason)
    text = canonical(payload | {"reached": pen.reached})
    return pen.add("ledger", kind=kind, actor=actor, reason=reason, at=now, payload=text)


def entries_after(connection: Connection, campaign: str, number: int) -> list[Entry]:
    """Return the entries of a ledger after one of them."""
    rows = connection.execute(
        sa.select(ledger)
        .where(ledger.c.campaign == campaign, ledger.c.number > number)
        .order_by(ledger.c.number)
    )
    return [Entry.of(row) for row in rows]
