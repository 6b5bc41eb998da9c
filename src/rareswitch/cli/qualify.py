"""`rareswitch qualify`: check an installation and write a report to sign."""

from __future__ import annotations

from pathlib import Path

import click

from rareswitch.cli.campaign_verb import Answer, json_option, plain_errors, show
from rareswitch.cli.experiments import need
from rareswitch.cli.progress import progress


@click.command()
@click.option(
    "--out",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for the report; the drills use its disk.",
)
@click.option(
    "--store",
    metavar="URL",
    envvar=None,
    help="Empty PostgreSQL database for the drills; it keeps their rows.  [default: SQLite]",
)
@json_option
def qualify(out: Path, store: str | None, as_json: bool) -> None:
    """Check an installation and write a report to sign.

    The command compares every installed file with the wheel, fits golden learners and replays a
    golden campaign. It alters a record and checks that the proofs detect it, kills a process that
    records, fills the disk of a process, and restores a backup. The report, qualification.html and
    qualification.json, lists each requirement with its tests. The command ends with status 1 if a
    check fails.

    \b
    Examples:
      rareswitch qualify --out qualification
      rareswitch qualify --out qualification --store postgresql://ana@db/empty --json
    """
    need("campaigns")
    if store is not None:
        need("postgres")
    from rareswitch.campaigns.qualification.qualify import PAGE, REPORT
    from rareswitch.campaigns.qualification.qualify import qualify as run

    with plain_errors(), progress("qualify", 1, quiet=as_json) as report:
        found = run(out, store=store, progress=lambda what, done, of: report(done, what, total=of))
    written = f"{'written':<24} {out / PAGE}, {out / REPORT}"
    show(Answer(found.plain, f"{found.text}\n{written}", ok=found.ok), as_json=as_json)
