"""Inserting many rows: the statement is compiled once, and rows go to the driver as they are."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.engine.interfaces import Dialect


def insert_rows(connection: Connection, table: sa.Table, rows: Sequence[dict[str, Any]]) -> None:
    """Insert rows, each with all columns of the table, of types that every driver knows."""
    statement, order = _compiled(connection.dialect, table)
    given: Any = rows if order is None else [tuple(map(row.__getitem__, order)) for row in rows]
    connection.exec_driver_sql(statement, given)


@lru_cache
def _compiled(dialect: Dialect, table: sa.Table) -> tuple[str, list[str] | None]:
    """Return the statement, and the order of its places where they have no names."""
    compiled: Any = table.insert().compile(dialect=dialect)
    return str(compiled), compiled.positiontup
