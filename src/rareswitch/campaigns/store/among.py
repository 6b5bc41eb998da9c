"""Asking for many names at once, in a statement that is the same for any number of them."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from rareswitch.campaigns.record.canonical import canonical


def among(dialect: str, column: sa.Column[Any]) -> Any:
    """Return the condition that a column is one of the `names` that the statement is given."""
    text = sa.bindparam("names", type_=sa.Text)
    if dialect == "sqlite":
        table = sa.func.json_each(text).table_valued("value")
        return column.in_(sa.select(table.c.value))
    listed = sa.func.json_array_elements_text(sa.cast(text, sa.JSON)).column_valued("name")
    return column.in_(sa.select(listed))


def names_given(names: Iterable[str]) -> str:
    """Return what such a statement is given: all names as one text.

    >>> names_given(["ben", "ada"])
    '["ada","ben"]'
    """
    return canonical(sorted(set(names)))
