"""Exporting a campaign: everything on record, in files for people, analysts and auditors.

    manifest.json              SHA-256 of every other file, heads of the chains, software
    protocol/revision-1.json   every revision of the protocol, in the text whose digest is on record
    protocol/revision-1.toml   the same to read
    episodes.jsonl             the log: every row with all columns, exact, one canonical line each
    episodes.parquet           the log for analysts, one row each
    assignments.jsonl, refusals.jsonl, ledger.jsonl        the other chains
    policies/DIGEST.policy     every policy that was proposed or in force
    cohorts.csv, cohorts.json  how each version came into force, and how its episodes went
    simulation.*               the report of the simulation made beforehand, if there is one
    appendix.md                what reporting checklists ask for, in their order
    report.html                the same with pictures, in one file
    verify_export.py           checks all of this; needs NumPy alone

Who took part is not exported.
"""

import json
import platform
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rareswitch
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof import verify_export
from rareswitch.campaigns.proof.export.appendix import appendix
from rareswitch.campaigns.proof.export.cohort_table import CohortRow, Tally, as_csv, cohort_rows
from rareswitch.campaigns.proof.export.course import Course
from rareswitch.campaigns.proof.export.lines import line_of, report_of, write_lines
from rareswitch.campaigns.proof.export.moment import Moment
from rareswitch.campaigns.proof.export.new_folder import digest_of_file, new_folder
from rareswitch.campaigns.proof.export.page import page
from rareswitch.campaigns.proof.export.table import TableWriter
from rareswitch.campaigns.record.artifacts import artifact_of
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.record.names import checked_text

FORMAT = 1
REPORTED_EVERY = 1000
Tell = Callable[[str, int, int], None]  # what is done, how far, of how much


@dataclass(frozen=True, kw_only=True)
class ExportSummary:
    """What was exported: where, how many rows of each chain, and the digest of manifest.json."""

    folder: Path
    digest: str
    rows: dict[str, int]
    versions: int
    files: int

    @property
    def plain(self) -> dict[str, Any]:
        """What JSON holds of it."""
        return vars(self) | {"folder": str(self.folder)}


def export_campaign(
    campaign: Campaign,
    folder: Path | str,
    *,
    actor: str,
    reason: str,
    progress: Tell = lambda what, done, of: None,
) -> ExportSummary:
    """Write one moment of a campaign to a new folder, and enter that into its ledger.

    The folder must be empty or not there; it is filled once all of it is on disk. `progress` is
    told what is being written, how many rows of it, and of how many.
    """
    checked_text("actor", actor, most=200)
    checked_text("reason", reason)
    target = Path(folder)
    with new_folder(target) as part:
        with campaign.store.reading() as connection:
            moment = Moment(connection, campaign.name)
            _write_protocol(part, moment)
            _write_artifacts(part, moment)
            for chain in ("assignments", "refusals", "ledger"):
                write_lines(part / f"{chain}.jsonl", moment, chain)
            tally, course = _write_log(part, moment, progress)
            rows = cohort_rows(moment, tally)
            _write_cohorts(part, rows)
            text = appendix(moment, rows)
            (part / "appendix.md").write_text(text, encoding="utf-8")
            html = page(moment, rows, course)
            (part / "report.html").write_text(html, encoding="utf-8")
        verifier = Path(verify_export.__file__).read_bytes()
        (part / "verify_export.py").write_bytes(verifier)
        signed = {"exported": campaign.clock(), "actor": actor, "reason": reason}
        manifest = json.dumps(_manifest(part, moment) | signed, indent=2, ensure_ascii=False)
        (part / "manifest.json").write_text(manifest, encoding="utf-8")
        files = sum(path.is_file() for path in part.rglob("*"))
    digest = digest_of(manifest)
    campaign.note_export(digest, actor=actor, reason=reason)
    return ExportSummary(
        folder=target,
        digest=digest,
        rows={chain: head.length for chain, head in moment.heads.items()},
        versions=len(moment.state.versions),
        files=files,
    )


def _write_protocol(part: Path, moment: Moment) -> None:
    (part / "protocol").mkdir()
    for number, protocol in enumerate(moment.state.revisions, start=1):
        name = part / "protocol" / f"revision-{number}"
        name.with_suffix(".json").write_text(canonical(protocol.plain), encoding="utf-8")
        name.with_suffix(".toml").write_text(protocol.to_toml(), encoding="utf-8")


def _write_artifacts(part: Path, moment: Moment) -> None:
    state = moment.state
    (part / "policies").mkdir()
    digests = {one.digest for one in state.versions}
    digests |= {one.digest for one in state.candidates.values()}
    for digest in sorted(digests):
        data = artifact_of(moment.connection, moment.campaign, digest)
        (part / "policies" / f"{digest}.policy").write_bytes(data)
    if simulation := state.protocol.simulation:
        data = artifact_of(moment.connection, moment.campaign, simulation)
        kind = {b"{": "json", b"<": "html"}.get(data.lstrip()[:1], "txt")
        (part / f"simulation.{kind}").write_bytes(data)


def _write_log(part: Path, moment: Moment, progress: Tell) -> tuple[Tally, Course]:
    """Write the log in both forms, a row at a time; return what was counted on the way."""
    length = moment.heads["episodes"].length
    tally, course = Tally(), Course(length)
    one_hot = moment.state.protocol.task.one_hot
    with (
        open(part / "episodes.jsonl", "wb") as lines,
        TableWriter(part / "episodes.parquet", one_hot=one_hot) as table,
    ):
        for row in rows_of(moment.connection, "episodes", moment.campaign):
            report = report_of(row)
            last = row.revision == moment.corrected.get(row.episode_id, 0)
            lines.write(line_of(row, report))
            table.add(row, report, current=last and report is not None)
            tally.add(row, report, current=last, horizon=moment.horizon)
            course.add(row)
            if row.seq % REPORTED_EVERY == 0 or row.seq == length:
                progress("episodes", row.seq, length)
    return tally, course


def _write_cohorts(part: Path, rows: list[CohortRow]) -> None:
    (part / "cohorts.csv").write_text(as_csv(rows), encoding="utf-8")
    plain = json.dumps([asdict(row) for row in rows], indent=1, ensure_ascii=False)
    (part / "cohorts.json").write_text(plain, encoding="utf-8")


def _manifest(part: Path, moment: Moment) -> dict[str, Any]:
    paths = sorted(path for path in part.rglob("*") if path.is_file())
    return {
        "format": FORMAT,
        "campaign": moment.campaign,
        "heads": {chain: list(head) for chain, head in moment.heads.items()},
        "software": {
            "rareswitch": rareswitch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
        },
        "files": {path.relative_to(part).as_posix(): digest_of_file(path) for path in paths},
    }
