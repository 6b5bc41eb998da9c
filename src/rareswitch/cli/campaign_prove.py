"""Verbs that prove and keep: verify, verifier, export, backup, restore and migrate."""

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
@click.option("--anchor", type=FILE, help="Lines that `head` printed earlier, kept elsewhere.")
def verify(campaign: Campaign, anchor: Path | None) -> Answer:
    """Prove the campaign from its record.

    It checks every chain and every rule, and fits every version again. Each row that was altered,
    removed, added or moved is named, and the command ends with status 1. No byte of the store
    changes.
    """
    anchors = [] if anchor is None else _anchors(anchor, campaign.name)
    with progress("verify", 1, quiet=wants_json()) as report:
        found = rs.campaigns.verify(
            campaign, anchors=anchors, progress=lambda what, done, of: report(done, what, total=of)
        )
    return Answer(found.plain, found.text, ok=found.ok)


@verb("verifier --out verify_export.py", about="nothing")
@click.option("--out", type=NEW_FILE, help="Write it here.  [default: standard output]")
def verifier(*, out: Path | None) -> Answer | None:
    """Write the one-file verifier for auditors.

    `python verify_export.py FOLDER` checks an export with Python and NumPy alone; the FOLDER may be
    a zip file. Take the verifier from the package and not from the person whose export it checks;
    its SHA-256 is printed to standard error.
    """
    from rareswitch.campaigns.proof import one_file
    from rareswitch.support.archive import write_bytes

    data, digest = one_file.verifier(), one_file.verifier_digest()
    if out is None and (wants_json() or sys.stdout.isatty()):
        raise click.UsageError("--out must name a file to write; standard output is not one")
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

    The new FOLDER holds the protocol, episodes (JSON lines and Parquet), policies, ledger, refused
    reports, cohorts, sites, the comparison with the control, a data dictionary and the report
    (appendix.md, report.html). Names of participants stay in the store.
    """
    with progress("export", 1, quiet=wants_json()) as report:
        found = rs.campaigns.export(
            campaign, folder, **signed, progress=lambda what, done, of: report(done, what, total=of)
        )
    return Answer(found.plain, f"written        {folder}\nmanifest       SHA-256 {found.digest}")


@verb("interim open.html", "interim closed.html --closed", access="read")
@click.argument("file", type=NEW_FILE)
@click.option("--closed", is_flag=True, help="With returns by version and role, for a committee.")
def interim(campaign: Campaign, file: Path, closed: bool) -> Answer:
    """Write an open or a closed interim report.

    The open report is for everybody: episodes, sites, refusals, decisions and adverse events of all
    roles together, and no return. The closed report is for a data monitoring committee: it adds
    learned policies against the control, subgroups, actions, adverse events by role, the evidence
    for each candidate, and the stopping rules at this look. FILE is one HTML page.
    """
    from rareswitch.support.archive import write_bytes

    page = rs.campaigns.interim(campaign, closed=closed)
    write_bytes(file, page.encode(errors="backslashreplace"))
    return Answer({"file": str(file), "closed": closed}, f"written        {file}")


@verb("backup backup.db --store postgresql://ana@db/trial", about="store", access="read")
@click.argument("file", type=NEW_FILE)
def backup(store: Store, file: Path) -> Answer:
    """Copy the store into one new file.

    Others may write meanwhile: the new SQLite FILE has all campaigns, accounts and tokens as of one
    moment.
    """
    names = rs.campaigns.backup(store, file)
    return Answer({"file": str(file), "campaigns": names}, f"written        {file}")


@verb("restore backup.db --store sqlite:///trial.db", about="store", access="create")
@click.argument("file", type=FILE)
def restore(store: Store, file: Path) -> Answer:
    """Copy a backup into a store.

    The store must have none of the campaigns of FILE. Accounts and tokens are copied into a store
    that has no account. No byte of FILE changes.
    """
    names = rs.campaigns.restore(file, store)
    text = f"restored       {', '.join(names) or 'no campaign'} from {file} to {store.url}"
    return Answer({"file": str(file), "campaigns": names}, text)


@verb("migrate --store sqlite:///trial.db", about="address")
def migrate(address: str) -> Answer:
    """Bring a store to this version's schema.

    Make a backup first: older versions of rareswitch cannot open the store afterwards.
    """
    from rareswitch.campaigns.store.schema import NEWEST, revision_before

    applied = rs.campaigns.migrate(address)
    before = revision_before(applied[0]) if applied else NEWEST
    text = f"the store went from revision {before} to revision {NEWEST}"
    return Answer({"from": before, "to": NEWEST}, text)


def _anchors(file: Path, name: str) -> list[dict[str, Any]]:
    """Return the heads of a campaign that were kept in a file."""
    from rareswitch.campaigns.proof.verifier import read_anchors

    try:
        found = read_anchors(file.read_text(encoding="utf-8"), name)
    except (LookupError, TypeError, ValueError, AttributeError):
        raise click.UsageError(
            f"--anchor must have lines of JSON that `head` printed; {file} has others"
        ) from None
    if not found:
        raise click.UsageError(f"--anchor must have a head of the campaign {name}; {file} has none")
    return found
