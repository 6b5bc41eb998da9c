"""Commands that prove and keep: verify, verifier, export, interim, backup, restore, migrate."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import rareswitch as rs
from rareswitch.cli.campaign_verb import FILE, NEW_FILE, Answer, verb, wants_json
from rareswitch.cli.progress import progress

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign, Store


@verb("verify", "verify --anchor /elsewhere/heads.jsonl --json", access="read", code=True)
@click.option("--anchor", type=FILE, help="File with earlier lines of `head`.")
def verify(campaign: Campaign, anchor: Path | None) -> Answer:
    """Verify the record of the campaign.

    It checks every chain and every rule, and fits every version again. It lists each altered,
    removed, added or moved row, and then ends with status 1. It does not change the store.
    """
    anchors = [] if anchor is None else _anchors(anchor, campaign.name)
    with progress("verify", 1, quiet=wants_json()) as report:
        found = rs.campaigns.verify(
            campaign, anchors=anchors, progress=lambda what, done, of: report(done, what, total=of)
        )
    return Answer(found.plain, found.text, ok=found.ok)


@verb("verifier --out verify_export.py", about="nothing")
@click.option("--out", type=NEW_FILE, help="File to write.  [default: standard output]")
def verifier(*, out: Path | None) -> Answer | None:
    """Write the one-file verifier for auditors.

    `python verify_export.py FOLDER` checks an export with only Python and NumPy; FOLDER may be a
    zip file. Take the verifier from the package, not from the person who made the export. Its
    SHA-256 is printed to standard error.
    """
    from rareswitch.campaigns.proof import one_file
    from rareswitch.support.archive import write_bytes

    data, digest = one_file.verifier(), one_file.verifier_digest()
    if out is None and (wants_json() or sys.stdout.isatty()):
        raise click.UsageError(
            "--out must name a file if standard output is a terminal or with --json"
        )
    click.echo(f"SHA-256 {digest}", err=True)
    if out is None:
        click.echo(data, nl=False)
        return None
    write_bytes(out, data)
    return Answer({"file": str(out), "sha256": digest}, f"written        {out}")


@verb('export final --by ana --reason "final report"', signed=True, rehearsal=True)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def export(campaign: Campaign, folder: Path, **signed: str) -> Answer:
    """Write the record and the final report.

    The new FOLDER has the protocol, episodes (JSON lines and Parquet), policies, ledger, refused
    reports, cohorts, sites, the comparison with the control, a data dictionary and the report
    (appendix.md, report.html). It has no names of participants.
    """
    with progress("export", 1, quiet=wants_json()) as report:
        found = rs.campaigns.export(
            campaign, folder, **signed, progress=lambda what, done, of: report(done, what, total=of)
        )
    return Answer(found.plain, f"written        {folder}\nmanifest       SHA-256 {found.digest}")


@verb("interim open.html", "interim closed.html --closed", access="read")
@click.argument("file", type=NEW_FILE)
@click.option("--closed", is_flag=True, help="Add returns by version and role.")
def interim(campaign: Campaign, file: Path, closed: bool) -> Answer:
    """Write an open or a closed interim report.

    FILE is one HTML page. The open report is for everybody: episodes, sites, refusals, decisions
    and adverse events over all roles, without returns. The closed report is for a data monitoring
    committee. It adds learned policies against the control, subgroups, actions, adverse events by
    role, the evidence for each candidate, and the stopping rules at this look.
    """
    from rareswitch.support.archive import write_bytes

    page = rs.campaigns.interim(campaign, closed=closed)
    write_bytes(file, page.encode(errors="backslashreplace"))
    return Answer({"file": str(file), "closed": closed}, f"written        {file}")


@verb("backup backup.db --store postgresql://ana@db/trial", about="store", access="read")
@click.argument("file", type=NEW_FILE)
def backup(store: Store, file: Path) -> Answer:
    """Copy the store into one new file.

    The new SQLite FILE has all campaigns, accounts and tokens at one moment. Others may write to
    the store meanwhile.
    """
    names = rs.campaigns.backup(store, file)
    return Answer({"file": str(file), "campaigns": names}, f"written        {file}")


@verb("restore backup.db --store sqlite:///trial.db", about="store", access="create")
@click.argument("file", type=FILE)
def restore(store: Store, file: Path) -> Answer:
    """Copy a backup into a store.

    The store must not contain a campaign of FILE. Accounts and tokens are copied only if the store
    has no account. FILE does not change.
    """
    names = rs.campaigns.restore(file, store)
    text = f"restored       {', '.join(names) or 'no campaign'} from {file} to {store.url}"
    return Answer({"file": str(file), "campaigns": names}, text)


@verb("migrate --store sqlite:///trial.db", about="address")
def migrate(address: str) -> Answer:
    """Upgrade a store to the current schema.

    Make a backup first: older versions of rareswitch cannot open the store afterwards.
    """
    from rareswitch.campaigns.store.schema import NEWEST, revision_before

    applied = rs.campaigns.migrate(address)
    before = revision_before(applied[0]) if applied else NEWEST
    text = f"the store went from revision {before} to revision {NEWEST}"
    return Answer({"from": before, "to": NEWEST}, text)


def _anchors(file: Path, name: str) -> list[dict[str, Any]]:
    """Read the kept heads of a campaign from a file."""
    from rareswitch.campaigns.proof.verifier import read_anchors

    try:
        found = read_anchors(file.read_text(encoding="utf-8"), name)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise click.UsageError(
            f"--anchor must be a file with only lines of `head`; {file} has other lines"
        ) from None
    if not found:
        raise click.UsageError(f"--anchor must have a head of the campaign {name}; {file} has none")
    return found
