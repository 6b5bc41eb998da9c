"""Commands of the field: assignments, treatments, reports, corrections, and the policy."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_verb import FILE, NEW_FILE, Answer, verb, wants_json
from rareswitch.cli.interrupt import interruptible
from rareswitch.cli.progress import progress
from rareswitch.support.words import plural

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign
    from rareswitch.campaigns.recording import Recorded

SHOWN = 20  # errors that an import prints
# The words for an error of a report, by its code.
LABELS = {"refused": "refused", "conflict": "conflict", "unreadable": "not a report"}
COUNTS = {"refused": "refused", "conflict": "conflicts", "unreadable": "unreadable"}
COUNTED = ("recorded", "known", "refused", "conflicts", "not_allowed", "unreadable")
AGAIN = ("", ", as before")


@verb("assign site-3:0042", "assign site-3:0042 site-3:0043 --json")
@click.argument("episode_ids", nargs=-1, required=True, metavar="EPISODE_ID...")
def assign(campaign: Campaign, episode_ids: tuple[str, ...]) -> Answer:
    """Assign episodes to the version in force.

    It prints the version and the member that acts. The same id always gets the same answer. An
    episode is open until it is recorded or cancelled.
    """
    found = [campaign.assign(one) for one in episode_ids]
    lines = [
        f"{one.episode_id}  version {one.version}  member {one.member}"
        f"{'' if one.role == 'learned' else f', {one.role}'}{AGAIN[not one.new]}"
        for one in found
    ]
    return Answer([one._asdict() for one in found], "\n".join(lines))


@verb(
    "act site-3:0042 --observation '{\"age\": 63}'",
    'act site-3:0042 --observation \'{"age": 64}\' --earlier \'[[{"age": 63}, "low"]]\'',
)
@click.argument("episode_id")
@click.option("--observation", required=True, metavar="JSON", help="Names and values.")
@click.option("--earlier", metavar="JSON", default="[]", help="[[observation, action], …].")
def act(campaign: Campaign, episode_id: str, observation: str, earlier: str) -> Answer:
    """Assign an episode and print its treatment.

    The protocol must name the actions and the columns of an observation. --earlier takes the
    observations and actions of earlier stages.
    """
    seen, before = _json("--observation", observation), _json("--earlier", earlier)
    if not isinstance(before, list) or not all(
        isinstance(pair, list) and len(pair) == 2 for pair in before
    ):
        raise ValueError("--earlier must be a list of pairs [observation, action]")
    done = campaign.act(episode_id, seen, earlier=[(one, action) for one, action in before])
    who = f"version {done.version}, member {done.member}"
    return Answer(done._asdict(), f"{done.action}\n{who}, probability {done.probability:.4g}")


@verb("record report.json", "record reports.jsonl")
@click.argument("file", type=click.File("rb"), default="-")
def record(campaign: Campaign, file: IO[bytes]) -> Answer:
    """Record reports of finished episodes.

    FILE, or standard input, has a report in JSON, an array of reports, or a report on each line;
    docs/campaigns/recording.md describes the fields. The reports are on disk when the command
    prints its answer. A repeated report gets the row of the first; different content under the same
    id is a conflict. `refusals` lists refused reports. After a conflict or a refusal the exit
    status is 1. If the input cannot be read as reports, nothing is recorded.
    """
    from rareswitch.campaigns.reading import split_reports

    plain: list[dict[str, Any]] = []
    lines, problems = [], []
    for found in campaign.record_all(split_reports(file.read())):
        if isinstance(found, Exception):
            plain.append(getattr(found, "plain", {"error": str(found)}))
            problems.append(f"{LABELS.get(_code(found), 'not allowed')}: {found}")
        else:
            plain.append(found._asdict())
            lines.append(_recorded(found))
    one = plain[0] if len(plain) == 1 else plain
    return Answer(one, "\n".join(lines), problems, ok=not problems)


@verb("import reports.jsonl", "import visits.csv --json", name="import")
@click.argument("file", type=FILE)
def import_(campaign: Campaign, file: Path) -> Answer:
    """Record a file of many reports.

    FILE is .jsonl or .json (an object, an array or lines), .parquet, or .csv with the protocol's
    raw columns. The command commits a thousand reports at a time. After an interruption, run it
    again: it skips recorded reports.
    """
    counts = dict.fromkeys(COUNTED, 0)
    problems: list[str] = []
    labels: deque[str] = deque()  # of the reports without an answer yet
    reports, total = _reports(campaign, file)

    def labelled() -> Iterator[Any]:
        for number, report in enumerate(reports, start=1):
            if isinstance(report, Exception):  # a row of CSV that is not a report
                counts["unreadable"] += 1
                problems.append(str(report))
                continue
            labels.append(f"episode {report.id}" if hasattr(report, "id") else f"report {number}")
            yield report

    with interruptible() as pressed, progress("import", total, quiet=wants_json()) as tell:
        for done, found in enumerate(campaign.record_all(labelled()), start=1):
            label = labels.popleft()
            if isinstance(found, Exception):
                counts[COUNTS.get(_code(found), "not_allowed")] += 1
                problems.append(f"{label}: {found}")
            else:
                counts["recorded" if found.new else "known"] += 1
            tell(done)
            if pressed():
                many = plural(done, "report")
                raise click.ClickException(f"interrupted after {many}; run it again")
    said = [f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count]
    said = ["1 conflict" if one == "1 conflicts" else one for one in said]
    shown = problems[:SHOWN]
    if len(problems) > SHOWN:
        shown.append(f"… and {len(problems) - SHOWN} more; `refusals` lists the refused reports")
    text = ", ".join(said) or "nothing to record"
    return Answer(counts | {"problems": problems}, text, shown, ok=not problems)


@verb('correct corrected.json --by ana --reason "dose was misread"', signed=True)
@click.argument("file", type=click.File("rb"), default="-")
def correct(campaign: Campaign, file: IO[bytes], **signed: str) -> Answer:
    """Correct the report of a recorded episode.

    FILE, or standard input, has the complete corrected report in JSON, under the same id. The first
    report stays in the record; later fits use the correction.
    """
    found = campaign.correct(file.read(), **signed)
    return Answer(found._asdict(), _recorded(found))


@verb('withdraw site-3:0042 --by ana --reason "consent withdrawn"', signed=True)
@click.argument("episode_id")
def withdraw(campaign: Campaign, episode_id: str, **signed: str) -> Answer:
    """Exclude an episode from all later fits.

    The episode also leaves its cohort for good. Its rows stay in the record.
    """
    found = campaign.withdraw(episode_id, **signed)
    return Answer(found._asdict(), f"withdrew {episode_id}: {_recorded(found)}")


@verb('cancel site-3:0042 --by ana --reason "did not come"', signed=True)
@click.argument("episode_id")
def cancel(campaign: Campaign, episode_id: str, **signed: str) -> Answer:
    """Cancel an assigned episode that never began."""
    new = campaign.cancel(episode_id, **signed)
    return Answer({"cancelled": episode_id, "new": new}, f"cancelled {episode_id}{AGAIN[not new]}")


@verb('forget "Ada Lovelace" --by ana --reason "asked to be forgotten"', signed=True)
@click.argument("participant")
def forget(campaign: Campaign, participant: str, **signed: str) -> Answer:
    """Erase a participant's name; keep the data.

    Earlier backups still contain the name.
    """
    gone = campaign.forget(participant, **signed)
    return Answer({"episodes": gone}, f"the name is erased from {plural(gone, 'episode')}")


@verb("policy --out policy.bin", "policy --version 3", access="read")
@click.option("--version", type=click.IntRange(1), help="Version to print.  [default: in force]")
@click.option("--out", type=NEW_FILE, help="File for the bytes of `rareswitch.Policy.from_bytes`.")
def policy(campaign: Campaign, version: int | None, out: Path | None) -> Answer:
    """Print the digest of a policy, or save it."""
    from rareswitch.support.archive import write_bytes

    found = campaign.policy_bytes(version)
    members = campaign.policy(found.version).members
    plain = {"version": found.version, "digest": found.digest, "members": members}
    shown = {"version": found.version, "SHA-256": found.digest, "members": members}
    if out is not None:
        write_bytes(out, found.data)
        shown["written"] = out
    return Answer(plain, "\n".join(f"{name:<14} {value}" for name, value in shown.items()))


def _recorded(found: Recorded) -> str:
    late = ", from a replaced version" if found.late else ""
    deviating = f", deviating steps: {found.deviations}" if found.deviations else ""
    place = f"row {found.seq}  version {found.version}  member {found.member}"
    return f"{place}{late}{deviating}{AGAIN[not found.new]}"


def _code(error: Exception) -> str:
    return getattr(error, "code", "")


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"{option} must be JSON; {error}") from None


def _reports(campaign: Campaign, file: Path) -> tuple[Iterator[Any], int]:
    """Return the reports of a file one by one, and their number or the number of lines."""
    from rareswitch.campaigns import UnreadableError, read_csv
    from rareswitch.campaigns.reading import (
        checked_values,
        read_values,
        report_of_columns,
        split_reports,
    )

    suffix = file.suffix.lower()
    if suffix == ".csv":
        return read_csv(file, campaign.observer), sum(1 for _ in _lines(file))
    if suffix == ".parquet":
        import pyarrow.parquet as parquet

        opened = parquet.ParquetFile(file)
        checked_values(dict.fromkeys(opened.schema_arrow.names))
        rows = (row for batch in opened.iter_batches(1000) for row in batch.to_pylist())
        return map(report_of_columns, rows), opened.metadata.num_rows
    if suffix not in (".json", ".jsonl"):
        raise ValueError(f"FILE must end in .jsonl, .json, .parquet or .csv; got {file.name}")
    try:  # if the first line is a report, each line is one
        read_values(next(_lines(file), b""))
    except UnreadableError:
        reports = split_reports(file.read_bytes())
        return iter(reports), len(reports)
    return _lines(file), sum(1 for _ in _lines(file))


def _lines(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as lines:
        yield from filter(bytes.strip, lines)
