"""Appending to the chains of a campaign, within one transaction."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.record.canonical import GENESIS, digest_of, linked
from rareswitch.campaigns.store.insert import insert_rows
from rareswitch.campaigns.store.tables import CHAINS, heads

# The columns that are linked, in the order of their names.
LINKED = {
    chain: sorted({column.name for column in table.columns} - {"campaign", "link"})
    for chain, (table, _) in CHAINS.items()
}


class Head(NamedTuple):
    """The length of a chain, and the link of its last row."""

    length: int
    link: str


_HEADS = sa.select(heads.c.chain, heads.c.length, heads.c.link).where(
    heads.c.campaign == sa.bindparam("of")
)
_MOVE = (
    heads.update()
    .where(heads.c.campaign == sa.bindparam("of"), heads.c.chain == sa.bindparam("moved"))
    .values(length=sa.bindparam("length"), link=sa.bindparam("link"))
)


def heads_of(connection: Connection, campaign: str) -> dict[str, Head]:
    """Return the heads of all chains of a campaign; none, if there is no such campaign."""
    found = connection.execute(_HEADS, {"of": campaign})
    return {chain: Head(length, link) for chain, length, link in found}


def linked_part(chain: str, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is linked of a row: all of it, a body by its digest."""
    part = {name: row[name] for name in LINKED[chain]}
    if chain == "episodes" and part["body"] is not None:
        part["body"] = digest_of(part["body"])
    return part


class Pen:
    """The next rows of the chains of one campaign; `write` puts them down, all at once."""

    def __init__(self, connection: Connection, campaign: str, heads: dict[str, Head]) -> None:
        self.connection, self.campaign = connection, campaign
        self.heads = dict(heads)
        self._rows: dict[str, list[dict[str, Any]]] = defaultdict(list)

    def add(self, chain: str, **row: Any) -> int:
        """Append a row, given by its columns; return its number."""
        _, number = CHAINS[chain]
        length, link = self.heads[chain]
        row[number] = length = length + 1
        row["link"] = link = linked(link, linked_part(chain, row))
        row["campaign"] = self.campaign
        self._rows[chain].append(row)
        self.heads[chain] = Head(length, link)
        return length

    @property
    def reached(self) -> dict[str, list[Any]]:
        """The heads of all chains but the ledger, as an entry of that keeps them."""
        return {chain: list(head) for chain, head in self.heads.items() if chain != "ledger"}

    def write(self) -> None:
        """Insert the rows, and move the heads."""
        for chain, rows in self._rows.items():
            insert_rows(self.connection, CHAINS[chain][0], rows)
            length, link = self.heads[chain]
            moved = {"of": self.campaign, "moved": chain, "length": length, "link": link}
            self.connection.execute(_MOVE, moved)
        self._rows.clear()


def begin_chains(connection: Connection, campaign: str) -> Pen:
    """Return the pen of a campaign that is just being created."""
    begun = {chain: Head(0, GENESIS) for chain in CHAINS}
    connection.execute(
        heads.insert(),
        [
            {"campaign": campaign, "chain": chain, "length": head.length, "link": head.link}
            for chain, head in begun.items()
        ],
    )
    return Pen(connection, campaign, begun)
