"""The rows of the four chains, and the record that holds them.

Rows are only ever appended, numbered from 1 without a gap, and each is linked to the row before.
Whoever reads a record reads it through `Record`: an open store or the files of an export.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from rareswitch.campaigns.rulebook.canonical import digest_of, linked


class Head(NamedTuple):
    """The length of a chain, and the link of its last row."""

    length: int
    link: str


class EpisodeRow(NamedTuple):
    """A row of the log: a recorded episode, its correction, or its withdrawal (no `body`).

    `total` is the return. `claims` is JSON: site, begin and end as the actor tells them. `digest`
    is that of the report. `deviations` counts the steps at which another action was taken than the
    assigned member takes; None where the report does not tell enough.
    """

    seq: int
    episode_id: str
    revision: int  # 0, or the number of the correction
    version: int
    member: int
    assigned: bool  # before it began
    late: bool  # another version was in force already
    learn: bool  # fits use it
    total: float
    claims: str
    received: str
    digest: str
    body: bytes | None
    deviations: int | None
    link: str


class AssignmentRow(NamedTuple):
    """An episode that was about to begin; `salt` is part of its key where allocation is concealed.

    `assigned` is the time.
    """

    number: int
    episode_id: str
    version: int
    member: int
    assigned: str
    salt: str | None
    link: str


class RefusalRow(NamedTuple):
    """A report that was refused after row `seq` of the log."""

    number: int
    seq: int
    episode_id: str | None
    reason: str
    excerpt: str
    digest: str
    received: str
    link: str


class LedgerRow(NamedTuple):
    """An entry of the ledger as it is stored: `payload` is canonical JSON."""

    number: int
    kind: str
    actor: str
    reason: str
    at: str
    payload: str
    link: str


class Entry(NamedTuple):
    """An entry of the ledger: who decided what, when and why.

    `payload` says what it is about, and how long the other chains were then (`reached`).
    """

    number: int
    kind: str
    actor: str
    reason: str
    at: str
    payload: dict[str, Any]
    link: str

    @classmethod
    def of(cls, row: LedgerRow) -> "Entry":
        """Return the entry of a row of the ledger."""
        return cls(*row[:5], json.loads(row.payload), row.link)

    @property
    def position(self) -> int:
        """How many rows the log had when the entry was written."""
        return int(self.payload["reached"]["episodes"][0])


Row = EpisodeRow | AssignmentRow | RefusalRow | LedgerRow
CHAINS: dict[str, type[Any]] = {
    "ledger": LedgerRow,
    "assignments": AssignmentRow,
    "refusals": RefusalRow,
    "episodes": EpisodeRow,
}
# Each row is numbered by its first column. The link covers all others in the order of their names.
NUMBERS = {chain: str(row._fields[0]) for chain, row in CHAINS.items()}
LINKED = {chain: sorted({*row._fields} - {"link"}) for chain, row in CHAINS.items()}
OPTIONAL = ("deviations", "salt")  # no part of the link where they are None


class Record(Protocol):
    """One moment of a campaign, as a store or an export holds it."""

    campaign: str
    heads: Mapping[str, Head]

    def rows(self, chain: str, *, after: int = 0, upto: int | None = None) -> Iterator[Any]:
        """Yield the rows of a chain in their order, each a NamedTuple of `CHAINS`."""
        ...

    def artifact(self, digest: str) -> bytes:
        """Return the bytes that are kept under a digest: a policy, a feature map, a simulation."""
        ...


def link_of(chain: str, previous: str, row: Mapping[str, Any]) -> str:
    """Return the link of a row that follows the link `previous`; a body enters by its digest."""
    part = {
        name: value
        for name in LINKED[chain]
        if (value := row[name]) is not None or name not in OPTIONAL
    }
    if part.get("body") is not None:
        part["body"] = digest_of(part["body"])
    return linked(previous, part)
