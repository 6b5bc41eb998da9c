"""Reading the chains of a campaign, and the most frequent statements.

These statements are compiled once and run directly by the driver, without type conversion: SQLite
returns 0 and 1 for booleans.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import itemgetter
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import Dialect

from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.rulebook.rows import (
    CHAINS,
    NUMBERS,
    Entry,
    EpisodeRow,
    Head,
    canonical,
    digest_of,
)
from rareswitch.campaigns.store.tables import artifacts, episodes, heads, metadata

READ_TOGETHER = 1000
Values = dict[str, Any]
_HEADS = sa.select(heads.c.chain, heads.c.length, heads.c.link).where(
    heads.c.campaign == sa.bindparam("of")
)


def heads_of(connection: Connection, campaign: str) -> dict[str, Head]:
    """Return the heads of all chains of a campaign; empty if there is no such campaign."""
    found = rows_found(connection, _HEADS, {"of": campaign})
    known = {chain: Head(length, link) for chain, length, link in found if type(length) is int}
    if known and (missing := CHAINS.keys() - known.keys()):
        raise DamagedError(f"the head of {', '.join(sorted(missing))} is missing")
    return known


def rows_of(
    connection: Connection,
    chain: str,
    campaign: str,
    *,
    after: int = 0,
    upto: int | None = None,
    columns: Sequence[str | sa.Label[Any]] | None = None,
) -> Iterator[Any]:
    """Yield the rows of a chain in order: whole, or their number and some columns.

    With `after` 0, rows with forged numbers below 1 are included.
    """
    table, number, row = metadata.tables[chain], NUMBERS[chain], CHAINS[chain]
    names: Sequence[Any] = row._fields if columns is None else (number, *columns)
    chosen = [table.c[name] if isinstance(name, str) else name for name in names]
    last = after or None
    while upto is None or (last or 0) < upto:
        asked = (
            sa.select(*chosen)
            .where(table.c.campaign == campaign)
            .order_by(table.c[number])
            .limit(READ_TOGETHER)
        )
        if last is not None:
            asked = asked.where(table.c[number] > last)
        if upto is not None:
            asked = asked.where(table.c[number] <= upto)
        rows = connection.execute(asked).all()
        yield from rows if columns is not None else map(row._make, rows)
        if len(rows) < READ_TOGETHER:
            return
        last = getattr(rows[-1], number)


def entries_after(connection: Connection, campaign: str, number: int) -> list[Entry]:
    """Return the entries of a ledger after an entry."""
    return [Entry.of(row) for row in rows_of(connection, "ledger", campaign, after=number)]


class StoredRecord:
    """The record of a campaign in a connection's snapshot."""

    def __init__(self, connection: Connection, campaign: str) -> None:
        self.connection, self.campaign = connection, campaign
        self.heads: Mapping[str, Head] = heads_of(connection, campaign)

    def rows(self, chain: str, *, after: int = 0, upto: int | None = None) -> Iterator[Any]:
        """Yield the rows of a chain in their order."""
        return rows_of(self.connection, chain, self.campaign, after=after, upto=upto)

    def revision(self, episode_id: str, revision: int) -> EpisodeRow:
        """Return a row of the log by its episode and its revision."""
        columns = episodes.c
        found = self.connection.execute(
            sa.select(*(columns[name] for name in EpisodeRow._fields)).where(
                columns.campaign == self.campaign,
                columns.episode_id == episode_id,
                columns.revision == revision,
            )
        ).first()
        if found is None:
            raise DamagedError(f"episode {episode_id} has no revision {revision}")
        return EpisodeRow._make(found)

    def artifact(self, digest: str) -> bytes:
        """Return the bytes with a digest; raise if they are missing or altered."""
        columns = artifacts.c
        data = self.connection.execute(
            sa.select(columns.data).where(
                columns.campaign == self.campaign, columns.digest == digest
            )
        ).scalar()
        if data is None:
            raise DamagedError(f"artifact {digest[:12]} is missing")
        if not isinstance(data, bytes | memoryview) or digest_of(bytes(data)) != digest:
            raise DamagedError(f"artifact {digest[:12]} was altered")
        return bytes(data)


def rows_found(connection: Connection, statement: sa.Select[Any], values: Values) -> list[Any]:
    """Return the rows that a statement selects."""
    text, given = _compiled(connection.dialect, statement)
    with _cursor(connection) as cursor:
        cursor.execute(text, given(values))
        return cursor.fetchall()


def run_each(connection: Connection, statement: Any, values: Sequence[Values]) -> None:
    """Run a statement once for each of these values."""
    text, given = _compiled(connection.dialect, statement)
    with _cursor(connection) as cursor:
        cursor.executemany(text, list(map(given, values)))


@contextmanager
def _cursor(connection: Connection) -> Iterator[Any]:
    """Yield a cursor of the driver; invalidate the connection if it is lost."""
    driver = connection.connection.dbapi_connection
    cursor = connection.connection.cursor()
    try:
        yield cursor
    except connection.dialect.loaded_dbapi.Error as error:
        if connection.dialect.is_disconnect(error, driver, cursor):
            connection.invalidate(error)
        raise
    finally:
        cursor.close()


@lru_cache
def _compiled(dialect: Dialect, statement: Any) -> tuple[str, Callable[[Values], Any]]:
    """Return a statement in a driver's dialect, and a function that arranges its values."""
    compiled: Any = statement.compile(dialect=dialect)
    settled = {name: value for name, value in compiled.params.items() if value is not None}
    order: list[str] | None = compiled.positiontup
    if order is None:  # named parameters
        return str(compiled), lambda values: settled | values
    if not settled and len(order) > 1:
        return str(compiled), itemgetter(*order)
    return str(compiled), lambda values: tuple(map((settled | values).__getitem__, order))


def rows_of_episodes(
    connection: Connection, campaign: str, names: str, columns: Sequence[sa.ColumnElement[Any]]
) -> list[Any]:
    """Return columns of the rows of the episodes in `names_given`, in any order.

    With sorting, SQLite would scan every row of the campaign.
    """
    statement = _of_episodes(connection.dialect.name, tuple(columns))
    return rows_found(connection, statement, {"of": campaign, "names": names})


def names_given(names: Iterable[str]) -> str:
    """Return names as one text, so a statement is the same for any number of names.

    >>> names_given(["ben", "ada"])
    '["ada","ben"]'
    """
    return canonical(sorted(set(names)))


@lru_cache
def _of_episodes(dialect: str, columns: tuple[Any, ...]) -> sa.Select[Any]:
    table, text = columns[0].table, sa.bindparam("names", type_=sa.Text)
    if dialect == "sqlite":
        listed: Any = sa.func.json_each(text).table_valued("value").c.value
    else:
        names = sa.func.json_array_elements_text(sa.cast(text, sa.JSON))
        listed = names.column_valued("name")
    mine = (table.c.campaign == sa.bindparam("of"), table.c.episode_id.in_(sa.select(listed)))
    return sa.select(*columns).where(*mine)
