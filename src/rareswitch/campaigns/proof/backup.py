"""Copying campaigns from one store to another: a backup while others write, and its restoration."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.record.log import READ_TOGETHER
from rareswitch.campaigns.store import Store, open_store
from rareswitch.campaigns.store.tables import campaigns, metadata


def back_up(store: Store, path: Path) -> list[str]:
    """Copy one moment of a store into a new SQLite file; return the names of its campaigns."""
    if path.exists():
        raise FileExistsError(f"{path} is there already; a backup is a new file")
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    with open_store(part, create=True) as target:
        names = copy_campaigns(store, target)
        with target.engine.connect() as connection:  # one file, without a log beside it
            connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
            connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    part.rename(path)
    return names


def restore(path: Path, target: Store) -> list[str]:
    """Copy all campaigns of a backup into a store that has none of them; return their names.

    The file stays as it is: to open a store is to migrate it and to write beside it.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copy(path, Path(folder) / "backup.db")
        with open_store(Path(copy)) as source:
            return copy_campaigns(source, target)


def copy_campaigns(source: Store, target: Store) -> list[str]:
    """Copy all campaigns of a store into another that has none of them; return their names."""
    with source.reading() as reading, target.creating("all") as writing:
        names = sorted(reading.execute(sa.select(campaigns.c.campaign)).scalars())
        there = set(writing.execute(sa.select(campaigns.c.campaign)).scalars())
        if taken := sorted(there & set(names)):
            raise NotAllowedError(f"there is a campaign {taken[0]} in {target.url} already")
        for table in metadata.sorted_tables:
            for name in names:
                _copy(reading, writing, table, name)
    return names


def _copy(reading: Connection, writing: Connection, table: sa.Table, campaign: str) -> None:
    """Copy the rows of one campaign, some at a time, in the order of their key."""
    key = list(table.primary_key.columns)[1:]  # after the campaign
    last: tuple[Any, ...] | None = None
    while True:
        asked = sa.select(table).where(table.c.campaign == campaign).order_by(*key)
        if last is not None:
            asked = asked.where(sa.tuple_(*key) > last)
        rows = [dict(row._mapping) for row in reading.execute(asked.limit(READ_TOGETHER))]
        if rows:
            writing.execute(table.insert(), rows)
            last = tuple(rows[-1][column.name] for column in key)
        if len(rows) < READ_TOGETHER or not key:
            return
