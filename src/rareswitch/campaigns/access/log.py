"""The log of access: all changes of accounts, roles, tokens and sessions, numbered without gaps."""

import json
from datetime import UTC, datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access.roles import Principal
from rareswitch.campaigns.access.tables import access_log
from rareswitch.campaigns.rulebook.rows import canonical


class LogEntry(NamedTuple):
    """A change of access: who did it, how they were signed in, and the account or token."""

    number: int
    at: str
    by: str
    via: str
    action: str
    about: str
    details: dict[str, Any]

    @property
    def plain(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        return self._asdict()


def append_entry(
    connection: Connection,
    now: float,
    by: Principal,
    action: str,
    about: str,
    details: dict[str, Any],
) -> None:
    """Append an entry; the caller holds the lock on access, so numbers have no gaps."""
    last = connection.execute(sa.select(sa.func.max(access_log.c.number))).scalar()
    connection.execute(
        access_log.insert().values(
            number=(last or 0) + 1,
            at=time_text(now),
            by=by.name,
            via=by.via,
            action=action,
            about=about,
            details=canonical(details),
        )
    )


def entries_after(connection: Connection, after: int, limit: int) -> list[LogEntry]:
    """Return entries in order."""
    asked = sa.select(access_log).where(access_log.c.number > after)
    return _entries(connection, asked.order_by(access_log.c.number).limit(limit))


def latest_entries(connection: Connection, limit: int) -> list[LogEntry]:
    """Return the last entries, the newest first."""
    asked = sa.select(access_log).order_by(access_log.c.number.desc())
    return _entries(connection, asked.limit(limit))


def _entries(connection: Connection, asked: sa.Select[Any]) -> list[LogEntry]:
    rows = connection.execute(asked)
    return [LogEntry._make((*row[:-1], json.loads(row.details))) for row in rows]


def time_text(seconds: float) -> str:
    """Return a time as UTC in ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
