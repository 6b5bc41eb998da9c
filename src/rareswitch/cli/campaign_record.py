"""Commands of those who act: assignments, reports, and the policy itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_options import (
    answer,
    campaign_options,
    opened_campaign,
    signed_options,
)
from rareswitch.cli.interrupt import interruptible
from rareswitch.cli.progress import progress

if TYPE_CHECKING:
    from rareswitch.campaigns import Report


@click.command()
@click.argument("episode_ids", nargs=-1, required=True, metavar="EPISODE_ID...")
@campaign_options
def assign(episode_ids: tuple[str, ...], store: str, name: str | None, as_json: bool) -> None:
    """Say which version and member play episodes that are about to begin.

    Asked again for the same id, the answer is the same. Episodes that were assigned and not yet
    recorded are counted as open.

    \b
    Examples:
      rareswitch campaign assign site-3:0042
      rareswitch campaign assign site-3:0042 site-3:0043 --json
    """
    with opened_campaign(store, name) as campaign:
        found = [campaign.assign(one) for one in episode_ids]
    if as_json:
        click.echo(json.dumps([one._asdict() for one in found], indent=2))
        return
    for one in found:
        known = "" if one.new else ", as before"
        click.echo(f"{one.episode_id}  version {one.version}  member {one.member}{known}")


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@campaign_options
def record(file: IO[bytes], store: str, name: str | None, as_json: bool) -> None:
    """Record finished episodes: reports in JSON, one a line, from FILE or standard input.

    An answer is printed when the episode is on disk. The same report again is answered with its
    place; another under the same id is a conflict. What is refused goes to the register of
    refusals, and the command ends with status 1. docs/campaigns.md describes the fields.

    \b
    Examples:
      rareswitch campaign record report.json
      echo '{"id": "ada", "features": [[1, 0]], "rewards": [1]}' | rareswitch campaign record
    """
    from rareswitch.campaigns import CampaignError

    failed = 0
    with opened_campaign(store, name) as campaign:
        for line in filter(bytes.strip, file):
            try:
                found = campaign.record_json(line)
            except CampaignError as error:
                failed += 1
                said = json.dumps({"error": str(error)}) if as_json else f"refused: {error}"
                click.echo(said, err=not as_json)
                continue
            late = ", late" if found.late else ""
            known = "" if found.new else ", as before"
            answer(
                found._asdict(),
                f"row {found.seq}  version {found.version}  member {found.member}{late}{known}",
                as_json=as_json,
            )
    if failed:
        raise click.exceptions.Exit(1)


@click.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@campaign_options
def import_(file: Path, store: str, name: str | None, as_json: bool) -> None:
    """Record many episodes: reports as JSON lines (.jsonl), or a Parquet file (.parquet).

    A thousand are committed at a time. Interrupted or run twice, it goes on where it was: what is
    recorded is known by its id.

    \b
    Examples:
      rareswitch campaign import reports.jsonl
      rareswitch campaign import reports.parquet --json
    """
    from rareswitch.campaigns import CampaignError, ConflictError, RefusedError

    counts = {"recorded": 0, "known": 0, "refused": 0, "conflicts": 0, "not_allowed": 0}
    errors: list[str] = []
    with opened_campaign(store, name) as campaign, interruptible() as pressed:
        reports, total = _reports(file)
        with progress("import", total, quiet=as_json) as report:
            for done, found in enumerate(campaign.take_all(reports), start=1):
                if isinstance(found, CampaignError):
                    kind = {RefusedError: "refused", ConflictError: "conflicts"}
                    counts[kind.get(type(found), "not_allowed")] += 1
                    errors.append(f"report {done}: {found}")
                else:
                    counts["recorded" if found.new else "known"] += 1
                report(done)
                if pressed():
                    raise click.ClickException(f"interrupted after {done} reports; run it again")
    said = ", ".join(f"{count} {what.replace('_', ' ')}" for what, count in counts.items() if count)
    for error in errors[:20]:
        click.echo(error, err=True)
    if len(errors) > 20:
        click.echo(f"… and {len(errors) - 20} more; the register of refusals has them", err=True)
    answer(counts, said or "nothing to record", as_json=as_json)
    if errors:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("file", type=click.File("rb"), default="-")
@signed_options
@campaign_options
def correct(
    file: IO[bytes], by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Record an episode anew: a report in JSON under an id that is recorded already.

    What was recorded stays on record; later fits use the correction.

    \b
    Examples:
      rareswitch campaign correct corrected.json --by ana --reason "dose was misread"
    """
    with opened_campaign(store, name) as campaign:
        found = campaign.correct_json(file.read(), actor=by, reason=reason)
    answer(found._asdict(), f"row {found.seq}", as_json=as_json)


@click.command()
@click.argument("episode_id")
@signed_options
@campaign_options
def withdraw(
    episode_id: str, by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Take an episode out of all later fits and of its cohort; it stays on record.

    \b
    Examples:
      rareswitch campaign withdraw site-3:0042 --by ana --reason "consent withdrawn"
    """
    with opened_campaign(store, name) as campaign:
        found = campaign.withdraw(episode_id, actor=by, reason=reason)
    answer(found._asdict(), f"row {found.seq}", as_json=as_json)


@click.command()
@click.argument("participant")
@signed_options
@campaign_options
def forget(
    participant: str, by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Remove who was behind episodes; the numbers stay, without a name.

    \b
    Examples:
      rareswitch campaign forget "Ada Lovelace" --by ana --reason "asked to be forgotten"
    """
    with opened_campaign(store, name) as campaign:
        gone = campaign.forget(participant, actor=by, reason=reason)
    answer({"episodes": gone}, f"forgotten in {gone} episodes", as_json=as_json)


@click.command()
@click.option("--version", type=click.IntRange(1), help="Which one.  [default: the one in force]")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write its bytes here, for `rareswitch.Policy.from_bytes`.",
)
@campaign_options
def policy(
    version: int | None, out: Path | None, store: str, name: str | None, as_json: bool
) -> None:
    """Fetch the policy of a version, for those who act.

    \b
    Examples:
      rareswitch campaign policy --out policy.bin
      rareswitch campaign policy --version 3
    """
    from rareswitch.support.archive import write_bytes

    with opened_campaign(store, name) as campaign:
        found = campaign.policy(version)
        number = campaign.version if version is None else version
    if out is not None:
        write_bytes(out, found.to_bytes())
    values = {"version": number, "digest": found.digest, "members": found.members}
    written = "" if out is None else f"\nwritten        {out}"
    answer(
        values,
        f"version        {number}\ndigest         {found.digest}\n"
        f"members        {found.members}{written}",
        as_json=as_json,
    )


def _reports(file: Path) -> tuple[Iterator[Report | bytes], int]:
    """Return the reports of a file one by one, and how many there are."""
    if file.suffix != ".parquet":
        with open(file, "rb") as lines:
            count = sum(1 for line in lines if line.strip())
        return _lines(file), count
    import pyarrow.parquet as parquet

    opened = parquet.ParquetFile(file)
    return _rows(opened), opened.metadata.num_rows


def _lines(file: Path) -> Iterator[bytes]:
    with open(file, "rb") as lines:
        yield from filter(bytes.strip, lines)


def _rows(opened: Any) -> Iterator[bytes]:
    for batch in opened.iter_batches(batch_size=1000):
        for row in batch.to_pylist():
            yield json.dumps(row).encode()
