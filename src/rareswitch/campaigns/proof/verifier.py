"""Verifying an export: the files, the record, and everything derived from it.

files      every file against its SHA-256 in manifest.json, and manifest.json against --manifest
chains     every row against its link; altered, removed, added and moved rows are named
rules      attribution, decisions, signatures, budget and stops, checked again by the rulebook
replay     every policy, fitted again where the schedule first asked for it, with its evidence
derived    cohorts, tables and reports, made again from the chains and compared byte for byte
"""

import argparse
import json
import re
import sys
import tempfile
import tomllib
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rareswitch.campaigns.errors import CampaignError
from rareswitch.campaigns.proof.checks import ALTERED, Check, describe
from rareswitch.campaigns.proof.export.derived import derived_files
from rareswitch.campaigns.proof.export.rows import (
    PARQUET_COLUMNS,
    TableRows,
    file_digest,
    report_of,
)
from rareswitch.campaigns.proof.exported import ExportedRecord, SecondGram
from rareswitch.campaigns.proof.replay import alike
from rareswitch.campaigns.proof.verify import Verification, verify_record
from rareswitch.campaigns.rulebook.rows import CHAINS, Entry, Head, digest_of, without_none
from rareswitch.campaigns.rulebook.state import State

READ_TOGETHER = 1000
_QUOTED = re.compile(r'"(?:[^"\\\n]|\\.)*"')
SIMULATION_KINDS = ("json", "html", "txt")
JUNK = (".DS_Store", "Thumbs.db", "desktop.ini")  # files that operating systems create
MOST_BYTES = 8 << 30  # in all files of a zip file together
# Errors of a zip file that is damaged, encrypted, or compressed in an unknown way.
BAD_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)


def verify_export(
    folder: Path,
    *,
    manifest: str | None = None,
    anchors: Sequence[dict[str, Head]] = (),
    allow: Sequence[str] = (),
) -> Verification:
    """Check an export. `manifest` is the digest of manifest.json from a trusted source."""
    record = ExportedRecord(folder)
    files = Check(name="files", rows=len(record.manifest["files"]))
    files.problems += _files(record, manifest)
    found = verify_record(record, allow=allow, anchors=anchors, second=SecondGram)
    files.problems += record.problems
    found.checks.insert(0, files)
    if found.ok:
        found.checks.append(_derived(record))
    return found


@contextmanager
def opened_export(path: Path) -> Iterator[Path]:
    """Yield the folder of an export; unpack a zip file into a temporary folder."""
    if not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory() as unpacked, zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        names = [member.filename for member in members]
        for name in names:
            parts = name.replace("\\", "/").split("/")
            if parts[0] == "" or ":" in parts[0] or ".." in parts:
                raise ValueError(f"the zip file must have only files of its own folder; got {name}")
        if len({*names}) != len(names):
            raise ValueError("the zip file must have each file once")
        if (size := sum(member.file_size for member in members)) > MOST_BYTES:
            raise ValueError(f"the zip file must have at most {MOST_BYTES} bytes; it has {size}")
        archive.extractall(unpacked)
        found = [one.parent for one in Path(unpacked).rglob("manifest.json")]
        if len(found) != 1:
            raise ValueError(
                f"the zip file must have one folder with a manifest.json; it has {len(found)}"
            )
        yield found[0]


def read_anchors(text: str, campaign: str | None = None) -> list[dict[str, Head]]:
    """Return a campaign's heads from JSON lines that `rareswitch campaign head` printed."""
    lines = [json.loads(line) for line in filter(str.strip, text.splitlines())]
    return [
        {name: Head(int(n), str(link)) for name, (n, link) in line["heads"].items()}
        for line in lines
        if campaign is None or line["campaign"] == campaign
    ]


def _files(record: ExportedRecord, manifest: str | None) -> Iterable[str]:
    """Yield the missing, altered and unknown files."""
    folder, files = record.folder, record.manifest["files"]
    if manifest not in (None, record.digest):
        yield f"manifest.json is {record.digest}, not {manifest}"
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    for name, digest in files.items():
        if name not in there:
            yield f"{name} is missing"
        elif file_digest(folder / name) != digest:
            yield f"{name} was altered"
    for name in sorted(there - {*files} - {"manifest.json"}):
        if Path(name).name not in JUNK:
            yield f"{name} is not part of the export"


def _derived(record: ExportedRecord) -> Check:
    """Derive files again from the chains, and compare; all files already match the manifest.

    A TOML file is read instead, because the library that writes TOML is not available.
    """
    check, files = Check(name="derived"), record.manifest["files"]
    try:
        entries = [Entry.of(row) for row in record.rows("ledger")]
        state = State().after(*entries)
        made = derived_files(record, entries, state)
        due = {name: digest_of(data) for name, data in made.items()}
        for number, terms in enumerate(state.revisions, start=1):
            due[f"protocol/revision-{number}.json"] = terms.digest
            name = f"protocol/revision-{number}.toml"
            text = (record.folder / name).read_text(encoding="utf-8")
            told = "#" in _QUOTED.sub("", text)  # a comment; an export has none
            if told or tomllib.loads(text) != without_none(terms.plain):
                check.fail(f"{name} is not the protocol that the record has")
        check.rows = len(due) + len(state.revisions)
        wrong = [name for name, digest in due.items() if files.get(name) != digest]
        check.problems += [f"{name} is not the file that the record gives" for name in wrong]
        known = _others(state) | due
        check.problems += [
            f"{name} is not a file that the record gives"
            for name, digest in sorted(files.items())
            if name not in wrong and known.get(name, "") not in (None, digest)
        ]
        _table(check, record, TableRows(record, entries, state))
    except (OSError, *ALTERED) as error:
        check.fail(f"it cannot be derived, {describe(error)}")
    return check


def _others(state: State) -> dict[str, str | None]:
    """Return the names of the other files of an export, with their digests in the ledger."""
    names: dict[str, str | None] = dict.fromkeys(f"{chain}.jsonl" for chain in CHAINS)
    names["episodes.parquet"] = None
    for number in range(1, len(state.revisions) + 1):
        names[f"protocol/revision-{number}.toml"] = None
    digests = [one.digest for one in state.versions]
    digests += [one.digest for one in state.candidates.values()]
    names |= {f"policies/{digest}.policy": digest for digest in digests}
    if state.terms.features:
        names["features.bin"] = state.terms.features
    if simulation := state.revisions[0].simulation:
        names |= dict.fromkeys([f"simulation.{kind}" for kind in SIMULATION_KINDS], simulation)
    return names


def _table(check: Check, record: ExportedRecord, rows: TableRows) -> None:
    """Compare episodes.parquet with the rows from the log, if pyarrow is installed."""
    name = "episodes.parquet"
    try:
        import pyarrow
        from pyarrow.parquet import ParquetFile
    except ImportError:
        check.unchecked.append(f"{name}, which pyarrow reads; episodes.jsonl is exact")
        return
    length = record.heads["episodes"].length
    try:
        with ParquetFile(record.folder / name, page_checksum_verification=True) as file:
            columns = {*file.schema_arrow.names}
            if (columns, file.metadata.num_rows) != ({*PARQUET_COLUMNS}, length):
                check.fail(f"{name} has other columns, or not {length} rows")
                return
            batches = file.iter_batches(READ_TOGETHER)
            told = (row for batch in batches for row in batch.to_pylist())
            for row in record.rows("episodes"):
                check.rows += 1
                made = rows.make(row, report_of(row))
                if not _told_as_made(next(told, {}), made):
                    check.fail(f"{name}: row {row.seq} is not the row of the log")
                    return
    except pyarrow.ArrowException as error:
        check.fail(f"{name} cannot be read, {describe(error)}")


def _told_as_made(told: dict[str, Any], made: dict[str, Any]) -> bool:
    """Return whether a row is exact; computed probabilities may differ by rounding."""
    return told.keys() == made.keys() and all(
        alike(told[name], value)
        if name == "propensities"
        else told[name] == value and type(told[name]) is type(value)
        for name, value in made.items()
    )


def main() -> int:
    """Verify the export named on the command line."""
    parser = argparse.ArgumentParser(description="Verify the export of a rareswitch campaign.")
    parser.add_argument("folder", type=Path, help="the folder of the export, or its zip file")
    parser.add_argument("--manifest", help="SHA-256 of manifest.json, as the ledger has it")
    parser.add_argument("--anchor", type=Path, help="heads that were kept elsewhere, in JSON lines")
    parser.add_argument(
        "--allow", action="append", default=[], help="a module of the schedule's code"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    given = parser.parse_args()
    try:
        anchors = read_anchors(given.anchor.read_text(encoding="utf-8")) if given.anchor else []
        with opened_export(given.folder) as folder:
            found = verify_export(
                folder, manifest=given.manifest, anchors=anchors, allow=given.allow
            )
    except (OSError, CampaignError, *BAD_ZIP, *ALTERED) as error:
        print(f"{given.folder} is not an export that can be read: {error!r}", file=sys.stderr)
        return 2
    print(json.dumps(found.plain) if given.json else found.text)
    return int(not found.ok)
