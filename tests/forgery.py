"""Copies of an export that were altered, by somebody who may know how rows are linked."""

import json
import shutil
from pathlib import Path
from typing import Any

from rareswitch.campaigns import Report
from rareswitch.campaigns.record.canonical import GENESIS, canonical, digest_of, linked
from rareswitch.campaigns.record.pen import linked_part

NUMBERS = {"episodes": "seq", "assignments": "number", "refusals": "number", "ledger": "number"}
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

    def row(self, seq: int) -> Row:
        return self.chains["episodes"][seq - 1]

    def retell(self, row: Row) -> None:
        """Give a row the return and the digest of the report that it holds now."""
        report = _report(row)
        row["total"], row["digest"] = report.total, report.digest

    def write(self) -> None:
        """Write the rows as they are."""
        for chain, rows in self.chains.items():
            text = "".join(canonical(row) + "\n" for row in rows)
            (self.folder / f"{chain}.jsonl").write_text(text, encoding="utf-8")

    def cover_up(self) -> None:
        """Link all rows anew, let the ledger have seen them so, and write a manifest for that."""
        links = {chain: self.relink(chain) for chain in NUMBERS if chain != "ledger"}
        for entry in self.chains["ledger"]:
            for chain, head in entry["payload"]["reached"].items():
                if 0 <= head[0] < len(links[chain]):
                    head[1] = links[chain][head[0]]
        links["ledger"] = self.relink("ledger")
        self.write()
        manifest = json.loads((self.folder / "manifest.json").read_text())
        manifest["heads"] = {chain: [len(found) - 1, found[-1]] for chain, found in links.items()}
        revisions = [e for e in self.chains["ledger"] if e["kind"] in ("created", "amended")]
        for number, entry in enumerate(revisions, start=1):
            path = self.folder / f"protocol/revision-{number}.json"
            path.write_text(canonical(entry["payload"]["protocol"]))
        files = (path for path in self.folder.rglob("*") if path.is_file())
        manifest["files"] = {
            path.relative_to(self.folder).as_posix(): digest_of(path.read_bytes())
            for path in files
            if path.name != "manifest.json"
        }
        (self.folder / "manifest.json").write_text(json.dumps(manifest))

    def relink(self, chain: str) -> list[str]:
        """Number and link the rows of a chain anew; return the links."""
        links = [GENESIS]
        for number, row in enumerate(self.chains[chain], start=1):
            row[NUMBERS[chain]] = number
            stored = {name: value for name, value in row.items() if name != "link"}
            for name in ("claims", "payload"):
                if name in stored:
                    stored[name] = canonical(stored[name])
            if stored.get("body") is not None:
                stored["body"] = _report(row).body
            row["link"] = linked(links[-1], linked_part(chain, stored))
            links.append(row["link"])
        return links


def _report(row: Row) -> Report:
    return Report.from_plain({"id": row["episode_id"], **row["body"], **row["claims"]})


def amend(entry: Row, **tables: Any) -> None:
    """Change tables of the protocol in an entry, and its digest."""
    protocol = entry["payload"]["protocol"]
    for name, values in tables.items():
        protocol[name] = protocol[name] | values
    entry["payload"]["digest"] = digest_of(canonical(protocol))
