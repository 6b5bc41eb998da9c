"""Rows of a store that somebody altered who knows how rows are linked."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns import Campaign
from rareswitch.campaigns.record.canonical import GENESIS, canonical, linked
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.record.pen import linked_part
from rareswitch.campaigns.store.tables import CHAINS, heads, ledger

Row = dict[str, Any]


def forge_ledger(campaign: Campaign, alter: Callable[[list[Row]], None]) -> None:
    """Let somebody alter the entries, number and link them anew, and move the head."""
    entries = _entries(campaign)
    for entry in entries:
        entry["payload"] = json.loads(entry["payload"])
    alter(entries)
    link = GENESIS
    for number, entry in enumerate(entries, start=1):
        said = entry["payload"]
        entry["payload"] = said if isinstance(said, str) else canonical(said)
        entry["number"] = number
        entry["link"] = link = linked(link, linked_part("ledger", entry))
    _put(campaign, entries)


def write_again(campaign: Campaign, chain: str, number: int, **values: Any) -> None:
    """Write a row of a chain otherwise, and link what comes after it anew, as the ledger does."""
    table, column = CHAINS[chain]
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(table.update().where(table.c[column] == number).values(**values))
        links = {name: relinked(connection, name) for name in CHAINS if name != "ledger"}
        for row in connection.execute(sa.select(ledger).order_by(ledger.c.number)).all():
            payload = json.loads(row.payload)
            for name, head in payload["reached"].items():
                head[1] = links[name][head[0]]
            where = ledger.c.number == row.number
            connection.execute(ledger.update().where(where).values(payload=canonical(payload)))
        relinked(connection, "ledger")


def relinked(connection: Connection, chain: str) -> list[str]:
    """Link the rows of a chain anew; return all links."""
    table, column = CHAINS[chain]
    links = [GENESIS]
    for row in connection.execute(sa.select(table).order_by(table.c[column])).all():
        links.append(linked(links[-1], linked_part(chain, row._asdict())))
        where = table.c[column] == getattr(row, column)
        connection.execute(table.update().where(where).values(link=links[-1]))
    connection.execute(heads.update().where(heads.c.chain == chain).values(link=links[-1]))
    return links


def first(entries: list[Row], kind: str, place: int = 0) -> Row:
    return [entry for entry in entries if entry["kind"] == kind][place]


@contextmanager
def kept(campaign: Campaign) -> Iterator[None]:
    """Put the ledger back as it was, whatever is done to it meanwhile."""
    before = _entries(campaign)
    try:
        yield
    finally:
        _put(campaign, before)


def _entries(campaign: Campaign) -> list[Row]:
    with campaign.store.reading() as connection:
        return [row._asdict() for row in rows_of(connection, "ledger", campaign.name)]


def _put(campaign: Campaign, entries: list[Row]) -> None:
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(ledger.delete().where(ledger.c.campaign == campaign.name))
        if entries:
            connection.execute(ledger.insert(), entries)
        connection.execute(
            heads.update()
            .where(heads.c.campaign == campaign.name, heads.c.chain == "ledger")
            .values(length=len(entries), link=entries[-1]["link"] if entries else GENESIS)
        )
