"""Verifying a campaign from its store; backup (also during writes) and restoration of stores."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.access.tables import KEPT
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError, UnavailableError
from rareswitch.campaigns.proof.checks import Progress, quiet
from rareswitch.campaigns.proof.verify import Verification, verify_record
from rareswitch.campaigns.rulebook.rows import Head
from rareswitch.campaigns.store import Store, open_store
from rareswitch.campaigns.store.rows import READ_TOGETHER, StoredRecord
from rareswitch.campaigns.store.store import unavailable
from rareswitch.campaigns.store.tables import campaigns, metadata


def verify(
    campaign: Campaign, *, anchors: Sequence[dict[str, Head]] = (), progress: Progress = quiet
) -> Verification:
    """Check a snapshot of a campaign; every problem names its row.

    `anchors` are heads of the chains kept elsewhere: the store must still contain them.
    """
    with campaign.store.reading() as connection:
        record = StoredRecord(connection, campaign.name)
        return verify_record(record, allow=campaign.allow, anchors=anchors, progress=progress)


def backup(store: Store, path: Path) -> list[str]:
    """Copy a snapshot of a store into a new SQLite file; return the names of its campaigns.

    The file also has accounts and tokens, with hashes of their secrets, and passkeys. It is on
    disk when this returns. A failed backup leaves no file.
    """
    if path.exists():
        raise FileExistsError(f"path must be a new file; {path} exists already")
    part = path.with_name(f"{path.name}.part")
    try:
        _remove(part)
        with open_store(part, create=True) as target:
            names = copy_campaigns(store, target)
            with target.plainly("written"), target.engine.connect() as connection:
                # The backup is one file, without a write-ahead log.
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
        _sync(part)
        part.rename(path)
        _sync(path.parent)
    except BaseException as error:
        with suppress(OSError):
            _remove(part)
        if isinstance(error, UnavailableError):
            raise UnavailableError(
                f"no backup {path} was made: {error}", full=error.full
            ) from error
        if isinstance(error, OSError):
            raise unavailable(error, f"no backup {path} was made") from error
        raise
    return names


def restore(path: Path, target: Store) -> list[str]:
    """Copy all campaigns of a backup into a store that has none of them; return their names.

    The file may be a store in use: all acknowledged rows are copied, and none of its bytes changes.
    Accounts and tokens are copied into a store that has no account.
    """
    with open_store(path, read_only=True) as source:
        return copy_campaigns(source, target)


def copy_campaigns(source: Store, target: Store) -> list[str]:
    """Copy all campaigns of a store into another that has none of them; return their names.

    Accounts, tokens and passkeys are copied only if the other store never had accounts: otherwise a
    person who lost access there would regain it.
    """
    with source.reading() as reading, target.creating("all") as writing:
        names = sorted(reading.execute(sa.select(campaigns.c.campaign)).scalars())
        there = set(writing.execute(sa.select(campaigns.c.campaign)).scalars())
        if taken := sorted(there & set(names)):
            raise NotAllowedError(f"there is a campaign {taken[0]} in {target.url} already")
        for table in metadata.sorted_tables:
            for name in names:
                _copy(reading, writing, table, name)
        if not any(writing.execute(sa.select(table).limit(1)).first() for table in KEPT):
            for table in KEPT:
                _copy(reading, writing, table, None)
    return names


def _copy(reading: Connection, writing: Connection, table: sa.Table, campaign: str | None) -> None:
    """Copy the rows of one campaign, or all rows, in batches, in the order of their key."""
    key = list(table.primary_key.columns)
    every = sa.select(table)
    if campaign is not None:
        every, key = every.where(table.c.campaign == campaign), key[1:]  # after the campaign
    last: tuple[Any, ...] | None = None
    while True:
        asked = every.order_by(*key)
        if last is not None:
            asked = asked.where(sa.tuple_(*key) > last)
        rows = [dict(row._mapping) for row in reading.execute(asked.limit(READ_TOGETHER))]
        if rows:
            writing.execute(table.insert(), rows)
            last = tuple(rows[-1][column.name] for column in key)
        if len(rows) < READ_TOGETHER or not key:
            return


def _remove(part: Path) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        part.with_name(f"{part.name}{end}").unlink(missing_ok=True)


def _sync(path: Path) -> None:
    """Force a file, or the names in a folder, to disk."""
    file = os.open(path, os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)
