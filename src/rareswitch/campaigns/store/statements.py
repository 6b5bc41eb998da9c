"""Statements of the busiest paths: compiled once, and run by the driver as they are.

What goes in and out are texts, bytes and numbers as the driver has them: of a column of truths it
gives 0 and 1 where the store has no others.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import Dialect

from rareswitch.campaigns.rulebook.rows import canonical

Values = dict[str, Any]


def rows_found(connection: Connection, statement: sa.Select[Any], values: Values) -> list[Any]:
    """Return the rows that a statement selects."""
    text, given = _compiled(connection.dialect, statement)
    with _cursor(connection) as cursor:
        cursor.execute(text, given(values))
        return cursor.fetchall()


def run_each(connection: Connection, statement: Any, values: Sequence[Values]) -> None:
    """Run a statement once with each of these values."""
    text, given = _compiled(connection.dialect, statement)
    with _cursor(connection) as cursor:
        cursor.executemany(text, list(map(given, values)))


@contextmanager
def _cursor(connection: Connection) -> Iterator[Any]:
    """Give a cursor of the driver; a connection that turns out to be lost is given up."""
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
    """Return a statement in the words of a driver, and how that wants its values."""
    compiled: Any = statement.compile(dialect=dialect)
    settled = {name: value for name, value in compiled.params.items() if value is not None}
    order: list[str] | None = compiled.positiontup
    if order is None:  # places have names
        return str(compiled), lambda values: settled | values
    return str(compiled), lambda values: tuple(map((settled | values).__getitem__, order))


def rows_of_episodes(
    connection: Connection, campaign: str, names: str, columns: Sequence[sa.ColumnElement[Any]]
) -> list[Any]:
    """Return columns of the rows of the episodes in `names_given`, in any order.

    To sort them by their number, SQLite would look at every row of the campaign.
    """
    statement = _of_episodes(connection.dialect.name, tuple(columns))
    return rows_found(connection, statement, {"of": campaign, "names": names})


def names_given(names: Iterable[str]) -> str:
    """Return names as one text: a statement is then the same for any number of them.

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
