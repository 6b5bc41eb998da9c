"""Reading the log of a campaign, a thousand rows at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.store.tables import CHAINS, episodes

READ_TOGETHER = 1000


def rows_of(
    connection: Connection,
    chain: str,
    campaign: str,
    *,
    after: int = 0,
    upto: int | None = None,
    columns: Sequence[str | sa.Label[Any]] | None = None,
) -> Iterator[Any]:
    """Give the rows of a chain in their order: all columns, or some and what they say."""
    table, number = CHAINS[chain]
    chosen: list[Any] = [table]
    if columns is not None:
        chosen = [table.c[one] if isinstance(one, str) else one for one in (number, *columns)]
    while upto is None or after < upto:
        asked = (
            sa.select(*chosen)
            .where(table.c.campaign == campaign, table.c[number] > after)
            .order_by(table.c[number])
            .limit(READ_TOGETHER)
        )
        if upto is not None:
            asked = asked.where(table.c[number] <= upto)
        rows = connection.execute(asked).all()
        yield from rows
        if len(rows) < READ_TOGETHER:
            return
        after = getattr(rows[-1], number)


def corrections_of(connection: Connection, campaign: str, *, upto: int) -> dict[str, bytes | None]:
    """Return what the episodes were corrected to, by their ids; None for those withdrawn."""
    columns = episodes.c
    rows = connection.execute(
        sa.select(columns.episode_id, columns.body)
        .where(columns.campaign == campaign, columns.revision > 0, columns.seq <= upto)
        .order_by(columns.seq)
    )
    return dict(map(tuple, rows))
