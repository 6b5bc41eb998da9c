"""`rareswitch campaign status` and `ledger`: where a campaign stands, and how it got there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_decide import candidate_lines
from rareswitch.cli.campaign_options import campaign_options, opened_campaign

if TYPE_CHECKING:
    from rareswitch.campaigns.status import Status

BAR = 30


@click.command()
@campaign_options
def status(store: str, name: str | None, as_json: bool) -> None:
    """Show where the campaign stands: budget, trigger, returns per version, what waits for whom.

    \b
    Examples:
      rareswitch campaign status
      rareswitch campaign status --store sqlite:///trial.db --json
    """
    with opened_campaign(store, name) as campaign:
        from rareswitch.campaigns.status import status_of

        found = status_of(campaign)
    if as_json:
        click.echo(json.dumps(found.plain, indent=2))
        return
    click.echo("\n".join(_lines(found)))


@click.command()
@click.option("--last", type=click.IntRange(1), help="So many of the last entries.  [default: all]")
@campaign_options
def ledger(last: int | None, store: str, name: str | None, as_json: bool) -> None:
    """Show who decided what, when and why.

    \b
    Examples:
      rareswitch campaign ledger
      rareswitch campaign ledger --last 5 --json
    """
    with opened_campaign(store, name) as campaign:
        entries = campaign.entries
    shown = entries if last is None else entries[-last:]
    if as_json:
        click.echo(json.dumps([entry._asdict() for entry in shown], indent=2))
        return
    for entry in shown:
        click.echo(
            f"{entry.number:5}  {entry.at:29}  {entry.kind:11}  {entry.actor}: {entry.reason}"
        )


def _lines(found: Status) -> list[str]:
    state = f"stopped ({found.stopped})" if found.stopped else "running"
    lines = [
        f"campaign       {found.name}, {state}; revision {found.revision} of its protocol",
        f"episodes       {_bar(found.recorded, found.planned_episodes)} {found.recorded} of "
        f"{found.planned_episodes} recorded",
        f"               {found.open} open, {found.late} late, {found.refused} refused",
        f"budget         {_bar(found.spent, found.budget)} {found.spent} of {found.budget} "
        f"deployments spent, {found.left} left; {found.rollbacks} rollbacks",
    ]
    behind = found.rows - found.folded
    lines += [
        f"trigger        {_bar(trigger['value'], trigger['threshold'])} {trigger['quantity']} "
        f"{trigger['value']:.4g} of {trigger['threshold']:.4g}"
        for trigger in found.triggers
    ]
    if behind and not found.stopped:
        until = ", once somebody has decided" if found.waiting else ""
        lines.append(f"learner        {behind} rows of the log are still to be folded{until}")
    lines += ["", "version  since row  episodes  late  mean return [95%, at all looks]  by"]
    for one in found.versions:
        mean = "-" if one.mean is None else f"{one.mean:.4g} [{one.low:.4g}, {one.high:.4g}]"
        how = one.actor if one.rollback_to is None else f"{one.actor}, back to {one.rollback_to}"
        mark = "*" if one.version == found.version else " "
        counts = f"{one.since:9}  {one.episodes:8}  {one.late:4}"
        lines.append(f"{one.version:6}{mark}  {counts}  {mean:31}  {how}")
    lines.append("")
    if found.waiting and not found.stopped:
        lines += candidate_lines(found.waiting)
        lines.append(f"waits for      a decision by someone other than {found.waiting['proposer']}")
    else:
        lines.append("waits for      nobody")
    lines.append(f"ledger         {found.ledger} entries, {found.ledger_link}")
    return lines


def _bar(value: Any, of: Any) -> str:
    """Return how far something is, as a bar.

    >>> _bar(1, 2)
    '[###############...............]'
    """
    share = 0.0 if not of or value <= 0 else min(1.0, value / of)
    full = round(BAR * share)
    return f"[{'#' * full}{'.' * (BAR - full)}]"
