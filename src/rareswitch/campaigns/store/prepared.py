"""Statements of the busiest paths: compiled once, and run by the driver as they are.

What goes in and out are texts, bytes and numbers as the driver has them: of a column of truths it
gives 0 and 1 where the store has no others.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import Dialect

Values = dict[str, Any]


def rows_found(connection: Connection, statement: sa.Select[Any], values: Values) -> list[Any]:
    """Return the rows that a statement selects."""
    text, given = _compiled(connection.dialect, statement)
    cursor = connection.connection.cursor()
    cursor.execute(text, given(values))
    rows = list(cursor.fetchall())
    cursor.close()
    return rows


def run_each(connection: Connection, statement: Any, values: Sequence[Values]) -> None:
    """Run a statement once with each of these values."""
    text, given = _compiled(connection.dialect, statement)
    cursor = connection.connection.cursor()
    cursor.executemany(text, list(map(given, values)))
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
