"""Copies of an export that were altered, by somebody who may know how rows are linked."""

import json
import shutil
from pathlib import Path
from typing import Any

from rareswitch.campaigns import Campaign
from rareswitch.campaigns.proof.exported import _pack
from rareswitch.campaigns.report_values import report_from
from rareswitch.campaigns.rulebook.rows import (
    CHAINS,
    GENESIS,
    NUMBERS,
    canonical,
    digest_of,
    link_of,
)
from rareswitch.campaigns.store.tables import heads, metadata

Row = dict[str, Any]


class Forgery:
    """A copy of an export: `chains` are its rows, to be altered and written."""

    def __init__(self, original: Path, folder: Path) -> None:
        shutil.copytree(original, folder)
        self.folder = folder
        self.chains = {chain: self._read(chain) for chain in NUMBERS}

    def _read(self, chain: str) -> list[Row]:
        data = (self.folder / f"{chain}.jsonl").read_bytes()
        return [json.loads(line) for line in data.splitlines()]

    def entries(self, kind: str) -> list[Row]:
        return [entry for entry in self.chains["ledger"] if entry["kind"] == kind]

    def entry(self, number: int) -> Row:
        return self.chains["ledger"][number - 1]

    def row(self, seq: int) -> Row:
        return self.chains["episodes"][seq - 1]

    def retell(self, row: Row) -> None:
        """Give a row the return and the digest of the report that it holds now."""
        report = report_from({"id": row["episode_id"], **row["body"], **row["claims"]})
        row["total"], row["digest"] = report.total, report.digest

    def amend(self, *entries: Row, **tables: Any) -> None:
        """Change tables of the protocol in entries, and its digest; by default in all."""
        for entry in entries or [e for e in self.chains["ledger"] if "protocol" in e["payload"]]:
            protocol = entry["payload"]["protocol"]
            for name, values in tables.items():
                merged = isinstance(values, dict) and "kind" not in values
                protocol[name] = protocol[name] | values if merged else values
            entry["payload"]["digest"] = digest_of(canonical(protocol))

    def write(self) -> None:
        """Write the rows as they are."""
        for chain, rows in self.chains.items():
            text = "".join(canonical(row) + "\n" for row in rows)
            (self.folder / f"{chain}.jsonl").write_text(text, encoding="utf-8")

    def cover_up(self) -> "Forgery":
        """Link all rows anew, let the ledger have seen them so, and write a manifest for that."""
        links = {chain: self.relink(chain) for chain in NUMBERS if chain != "ledger"}
        for entry in self.chains["ledger"]:
            reached = entry["payload"].get("reached") if isinstance(entry["payload"], dict) else {}
            for chain, head in reached.items() if isinstance(reached, dict) else ():
                if isinstance(head, list) and head and head[0] in range(len(links[chain])):
                    head[1] = links[chain][head[0]]
        links["ledger"] = self.relink("ledger")
        self.write()
        self.heads = {chain: [len(found) - 1, found[-1]] for chain, found in links.items()}
        self.rehash(heads=self.heads)
        return self

    def rehash(self, **changes: Any) -> None:
        """Write a manifest of the files as they are."""
        path = self.folder / "manifest.json"
        manifest = json.loads(path.read_text()) | changes
        files = (path for path in self.folder.rglob("*") if path.is_file())
        manifest["files"] = {
            path.relative_to(self.folder).as_posix(): digest_of(path.read_bytes())
            for path in files
            if path.name != "manifest.json"
        }
        path.write_text(json.dumps(manifest))

    def relink(self, chain: str) -> list[str]:
        """Number and link the rows of a chain anew; return the links."""
        links = [GENESIS]
        for number, row in enumerate(self.chains[chain], start=1):
            row[NUMBERS[chain]] = number
            row["link"] = link_of(chain, links[-1], _stored(chain, row))
            links.append(row["link"])
        return links

    def put_into(self, campaign: Campaign) -> None:
        """Write the rows to a store, in place of all that it has."""
        with campaign.store.writing(campaign.name) as connection:
            for chain, rows in self.chains.items():
                table = metadata.tables[chain]
                connection.execute(table.delete())
                stored = [_stored(chain, row) | {"campaign": campaign.name} for row in rows]
                if stored:
                    connection.execute(table.insert(), stored)
                length, link = self.heads[chain]
                moved = heads.update().where(heads.c.chain == chain)
                connection.execute(moved.values(length=length, link=link))


def _stored(chain: str, row: Row) -> Row:
    """Return the columns of a row as a store has them."""
    stored = dict.fromkeys(CHAINS[chain]._fields) | row
    for name in ("claims", "payload"):
        if name in stored and not isinstance(stored[name], str):
            stored[name] = canonical(stored[name])
    if stored.get("body") is not None:
        stored["body"] = _pack(stored["body"])[0]
    return stored
