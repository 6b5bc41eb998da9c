"""Asking for many names at once, in a statement that is the same for any number of them."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.canonical import canonical


def among(connection: Connection, column: sa.Column[Any], names: Iterable[str]) -> Any:
    """Return the condition that a column is one of these names, which are sent as one JSON text."""
    text = sa.bindparam("names", canonical(sorted(set(names))), unique=True, type_=sa.Text)
    if connection.dialect.name == "sqlite":
        table = sa.func.json_each(text).table_valued("value")
        return column.in_(sa.select(table.c.value))
    listed = sa.func.json_array_elements_text(sa.cast(text, sa.JSON)).column_valued("name")
    return column.in_(sa.select(listed))
