"""Commands that prove and keep: verify, export, backup and restore."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from rareswitch.cli.campaign_options import (
    answer,
    campaign_options,
    json_option,
    opened_campaign,
    opened_store,
    signed_options,
    store_option,
)
from rareswitch.cli.progress import progress


@click.command()
@campaign_options
def verify(store: str, name: str | None, as_json: bool) -> None:
    """Prove the campaign: every chain, every rule, and every version fitted again.

    Whatever was altered, removed, added or put in another order is named. The command ends with
    status 1 if anything is wrong.

    \b
    Examples:
      rareswitch campaign verify
      rareswitch campaign verify --json
    """
    with opened_campaign(store, name) as campaign:
        from rareswitch.campaigns.proof.verify import verify as verified

        with progress("verify", 1, quiet=as_json) as report:
            found = verified(campaign, progress=lambda what, done, of: report(done, what, total=of))
    if as_json:
        plain: dict[str, Any] = {"ok": found.ok, "checks": [asdict(one) for one in found.checks]}
        click.echo(json.dumps(plain, indent=2))
    else:
        for check in found.checks:
            verdict = "ok" if not check.problems else f"{len(check.problems)} problems"
            click.echo(f"{check.name:<14} {check.rows} rows: {verdict}")
            for remark in check.remarks:
                click.echo(f"               {remark}")
            for problem in check.problems:
                click.echo(f"               {problem}")
        click.echo("verdict        " + ("proven" if found.ok else "NOT proven"))
    if not found.ok:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@signed_options
@campaign_options
def export(folder: Path, by: str, reason: str, store: str, name: str | None, as_json: bool) -> None:
    """Write the whole record into a new FOLDER, for readers, analysts and auditors.

    It holds the protocol, episodes (JSON lines and Parquet), policies, ledger, cohorts, refused
    input, an appendix, report.html, and a verifier that needs only NumPy. Names of participants
    stay in the store.

    \b
    Examples:
      rareswitch campaign export final --by ana --reason "final report"
    """
    with opened_campaign(store, name) as campaign:
        from rareswitch.campaigns.proof.export import export_campaign

        with progress("export", 1, quiet=as_json) as report:
            found = export_campaign(
                campaign,
                folder,
                actor=by,
                reason=reason,
                progress=lambda what, done, of: report(done, what, total=of),
            )
    answer(found.plain, f"written        {folder}, manifest {found.digest}", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@store_option
@json_option
def backup(file: Path, store: str, as_json: bool) -> None:
    """Copy all campaigns of the store into a new SQLite FILE, while others go on writing.

    \b
    Examples:
      rareswitch campaign backup backup.db
      rareswitch campaign backup backup.db --store postgresql://ana@db/trial
    """
    with opened_store(store) as opened:
        from rareswitch.campaigns.proof.backup import back_up

        names = back_up(opened, file)
    answer({"file": str(file), "campaigns": names}, f"written        {file}", as_json=as_json)


@click.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@store_option
@json_option
def restore(file: Path, store: str, as_json: bool) -> None:
    """Copy all campaigns of a backup FILE into a store that has none of them.

    \b
    Examples:
      rareswitch campaign restore backup.db --store sqlite:///trial.db
    """
    with opened_store(store, create=True) as target:
        from rareswitch.campaigns.proof.backup import restore as restored

        names = restored(file, target)
    answer({"campaigns": names}, f"restored       {', '.join(names)}", as_json=as_json)
