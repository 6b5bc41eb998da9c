"""Exporting a campaign: the whole record as files for people, analysts and auditors.

docs/campaigns/proof.md lists the files. The names of participants are not exported.
"""

import json
import os
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import tomli_w
from pyarrow.parquet import ParquetWriter

import rareswitch
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.checks import Progress, quiet
from rareswitch.campaigns.proof.export.derived import derived_files, facts_of, interim_page
from rareswitch.campaigns.proof.export.rows import (
    FORMAT,
    PARQUET_COLUMNS,
    TableRows,
    file_digest,
    line_of,
    report_of,
)
from rareswitch.campaigns.proof.one_file import verifier_digest
from rareswitch.campaigns.rulebook.names import checked_person, checked_text
from rareswitch.campaigns.rulebook.rows import Entry, Record, canonical, digest_of, without_none
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.store.rows import StoredRecord

REPORTED_EVERY = 1000
WRITTEN_TOGETHER = 5000
NUMBERS = pa.list_(pa.float64())
PLACES = pa.list_(pa.int64())
TYPES = {  # of the columns of episodes.parquet
    pa.int64(): "seq revision version member deviations steps overridden",
    pa.bool_(): "current assigned late learn cut_off",
    pa.string(): "episode_id role site began ended subgroup events received link",
    pa.float64(): "total",
    NUMBERS: "rewards propensities",
    PLACES: "offered actions recommended",
}


@dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """An export: its folder, the rows of each chain, and the digest of manifest.json."""

    folder: Path
    digest: str
    rows: dict[str, int]
    versions: int
    files: int

    @property
    def plain(self) -> dict[str, Any]:
        return vars(self) | {"folder": str(self.folder)}


def export(
    campaign: Campaign, folder: Path | str, *, by: str, reason: str, progress: Progress = quiet
) -> ExportSummary:
    """Write a snapshot of a campaign to a new folder, and enter the export into its ledger.

    `folder` must be empty or new; it appears once all its files are on disk. `progress` is called
    with a file, its finished rows, and all its rows.
    """
    signed = {"by": checked_person("by", by), "reason": checked_text("reason", reason)}
    target = Path(folder)
    with _new_folder(target) as part:
        with campaign.store.reading() as connection:
            record = StoredRecord(connection, campaign.name)
            entries = [Entry.of(row) for row in record.rows("ledger")]
            state = State().after(*entries)
            _write_protocol(part, state)
            _write_artifacts(part, record, state)
            for chain in ("assignments", "refusals", "ledger"):
                with open(part / f"{chain}.jsonl", "wb") as file:
                    file.writelines(map(line_of, record.rows(chain)))
            _write_log(part, record, entries, state, progress)
            for name, data in derived_files(record, entries, state).items():
                (part / name).write_bytes(data)
        made = {"exported": campaign.clock(), **signed, "verifier": verifier_digest()}
        manifest = json.dumps(_manifest(part, record) | made, indent=2, ensure_ascii=False)
        (part / "manifest.json").write_text(manifest, encoding="utf-8")
        files = sum(path.is_file() for path in part.rglob("*"))
    digest = digest_of(manifest)
    campaign.note_export(digest, **signed)
    return ExportSummary(
        folder=target,
        digest=digest,
        rows={chain: head.length for chain, head in record.heads.items()},
        versions=len(state.versions),
        files=files,
    )


def interim(campaign: Campaign, *, closed: bool = False) -> str:
    """Return an interim report as one HTML page.

    The open report is for everybody: it shows no returns by version, role or site. The closed
    report is for an unblinded committee: it compares learned policies with the control, and shows
    subgroups, adverse events by role, the evidence for candidates, and the stopping rules.
    """
    with campaign.store.reading() as connection:
        record = StoredRecord(connection, campaign.name)
        entries = [Entry.of(row) for row in record.rows("ledger")]
        return interim_page(facts_of(record, entries, State().after(*entries)), closed=closed)


def _write_protocol(part: Path, state: State) -> None:
    (part / "protocol").mkdir()
    for number, terms in enumerate(state.revisions, start=1):
        name = part / "protocol" / f"revision-{number}"
        name.with_suffix(".json").write_text(canonical(terms.plain), encoding="utf-8")
        toml = tomli_w.dumps(without_none(terms.plain))
        name.with_suffix(".toml").write_text(toml, encoding="utf-8")


def _write_artifacts(part: Path, record: Record, state: State) -> None:
    (part / "policies").mkdir()
    found = {one.digest for one in state.versions}
    for digest in sorted(found | {one.digest for one in state.candidates.values()}):
        (part / "policies" / f"{digest}.policy").write_bytes(record.artifact(digest))
    if state.terms.features:
        (part / "features.bin").write_bytes(record.artifact(state.terms.features))
    if simulation := state.revisions[0].simulation:
        data = record.artifact(simulation)
        kind = {b"{": "json", b"<": "html"}.get(data.lstrip()[:1], "txt")
        (part / f"simulation.{kind}").write_bytes(data)


def _write_log(
    part: Path, record: Record, entries: Sequence[Entry], state: State, progress: Progress
) -> None:
    """Write the log as JSON lines and as Parquet, row by row."""
    length, table_rows = record.heads["episodes"].length, TableRows(record, entries, state)
    schema = _schema(one_hot=state.terms.plain["task"]["one_hot"])

    def written() -> Iterator[dict[str, Any]]:
        for row in record.rows("episodes"):
            report = report_of(row)
            lines.write(line_of(row, report))
            yield table_rows.make(row, report)
            if row.seq % REPORTED_EVERY == 0 or row.seq == length:
                progress("episodes", row.seq, length)

    kept = {"compression": "zstd", "write_page_checksum": True}
    with (
        open(part / "episodes.jsonl", "wb") as lines,
        ParquetWriter(part / "episodes.parquet", schema, **kept) as table,
    ):
        rows = written()
        while block := list(islice(rows, WRITTEN_TOGETHER)):
            table.write_table(pa.Table.from_pylist(block, schema=schema))


def _schema(*, one_hot: bool) -> Any:
    types = {name: kind for kind, names in TYPES.items() for name in names.split()}
    types["features"] = PLACES if one_hot else pa.list_(NUMBERS)
    return pa.schema([(name, types[name]) for name in PARQUET_COLUMNS])


def _manifest(part: Path, record: Record) -> dict[str, Any]:
    paths = sorted(path for path in part.rglob("*") if path.is_file())
    return {
        "format": FORMAT,
        "campaign": record.campaign,
        "heads": {chain: list(head) for chain, head in record.heads.items()},
        "software": {
            "rareswitch": rareswitch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "files": {path.relative_to(part).as_posix(): file_digest(path) for path in paths},
    }


@contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder; on success it replaces `target` atomically.

    `target` must be empty or missing, and stays so after a failure. A killed process leaves a
    folder beside it whose name ends in .incomplete.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"folder must be empty or new; {target} is not")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(
        tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".incomplete", dir=target.parent)
    )
    try:
        part.chmod(0o755)
        yield part
        for path in part.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        if target.exists():
            target.rmdir()  # only POSIX replaces an existing folder
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
