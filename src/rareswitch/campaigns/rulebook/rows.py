"""The rows of the four chains, their links, and the record that holds them.

Chains are append-only, and rows are numbered from 1 without gaps. The link of a row is the SHA-256
of its canonical text and of the link before.
A `Record` is read from an open store or from the files of an export.
"""

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from rareswitch.campaigns.errors import DamagedError

_ENCODER = json.JSONEncoder(
    sort_keys=True, ensure_ascii=False, allow_nan=False, separators=(",", ":")
)
GENESIS = "0" * 64  # the link before the first row of a chain


def canonical(value: Any) -> str:
    """Return a value as JSON with sorted keys and without spaces; NaN and infinity are refused.

    >>> canonical({"b": 0.1, "a": [1, True]})
    '{"a":[1,true],"b":0.1}'
    """
    return _ENCODER.encode(value)


def digest_of(data: bytes | str) -> str:
    """Return the SHA-256 of bytes, or of a text in UTF-8, in hexadecimal."""
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()


def without_none(table: Any) -> Any:
    """Return a table without keys whose value is None, because TOML has no null.

    >>> without_none({"a": {"b": None, "c": 1}, "d": None})
    {'a': {'c': 1}}
    """
    if not isinstance(table, dict):
        return table
    return {key: without_none(value) for key, value in table.items() if value is not None}


class Head(NamedTuple):
    """The length of a chain, and the link of its last row."""

    length: int
    link: str


class EpisodeRow(NamedTuple):
    """A row of the log: a recorded episode, its correction, or its withdrawal (no `body`).

    `total` is the return. `claims` is JSON: site, begin, end, subgroup and adverse events as the
    actor reports them. `digest` is that of the report. `deviations` counts the steps whose action
    differs from the assigned member's action; None if the report does not show it.
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
    """An assignment of a new episode; `salt` is part of its key if allocation is concealed.

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

    `payload` holds the details, and the heads of the other chains at that time (`reached`).
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
        try:
            return cls(*row[:5], json.loads(row.payload), row.link)
        except (TypeError, ValueError, RecursionError) as error:
            raise DamagedError(
                f"entry {row.number} of the ledger cannot be read: {type(error).__name__}: {error}"
            ) from None

    @property
    def position(self) -> int:
        """The length of the log when the entry was written."""
        return int(self.payload["reached"]["episodes"][0])


Row = EpisodeRow | AssignmentRow | RefusalRow | LedgerRow
CHAINS: dict[str, type[Any]] = {
    "ledger": LedgerRow,
    "assignments": AssignmentRow,
    "refusals": RefusalRow,
    "episodes": EpisodeRow,
}
# The first column is the number of a row. The link covers all others in the order of their names.
NUMBERS = {chain: str(row._fields[0]) for chain, row in CHAINS.items()}
_LINKED = {
    chain: [(name, f'"{name}":') for name in sorted({*row._fields} - {"link"})]
    for chain, row in CHAINS.items()
}
OPTIONAL = ("deviations", "salt")  # not part of the link if None


class Record(Protocol):
    """A snapshot of a campaign from a store or an export."""

    campaign: str
    heads: Mapping[str, Head]

    def rows(self, chain: str, *, after: int = 0, upto: int | None = None) -> Iterator[Any]:
        """Yield the rows of a chain in their order, each a NamedTuple of `CHAINS`."""
        ...

    def revision(self, episode_id: str, revision: int) -> EpisodeRow:
        """Return a row of the log by its episode and its revision."""
        ...

    def artifact(self, digest: str) -> bytes:
        """Return the bytes with a digest: a policy, a feature map or a simulation."""
        ...


def link_of(chain: str, previous: str, row: Mapping[str, Any]) -> str:
    """Return the link of a row: the SHA-256 of the link `previous` and of its canonical text.

    A body enters by its digest.
    """
    written = []
    for name, start in _LINKED[chain]:
        value = row[name]
        if value is None and name in OPTIONAL:
            continue
        if name == "body" and value is not None:
            value = digest_of(value)
        written.append(start + _WRITERS.get(type(value), canonical)(value))
    return digest_of(f"{previous}{{{','.join(written)}}}")


# Reused encoders are faster, because a chain has very many rows of numbers and short texts.
_WRITERS: dict[type, Callable[[Any], str]] = {
    str: json.encoder.encode_basestring,
    int: int.__repr__,
    float: lambda number: repr(number) if math.isfinite(number) else canonical(number),
    bool: lambda truth: "true" if truth else "false",
}
