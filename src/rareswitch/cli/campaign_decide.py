"""Commands of those who decide: candidates, approvals, rollbacks, amendments, the end."""

from __future__ import annotations

import json
import threading
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_options import (
    answer,
    campaign_options,
    opened_campaign,
    signed_options,
)
from rareswitch.cli.interrupt import interruptible

if TYPE_CHECKING:
    from rareswitch.campaigns.state import Candidate


@click.command()
@click.option("--follow", is_flag=True, help="Go on until Ctrl-C, as the episodes come in.")
@click.option("--every", type=click.FloatRange(0.01), default=1.0, help="Seconds between looks.")
@campaign_options
def learn(follow: bool, every: float, store: str, name: str | None, as_json: bool) -> None:
    """Be the learner: fold what has come in, and propose the policies that are due.

    There is one learner of a campaign at a time; killed at any point, another goes on. Where the
    protocol leaves it to the schedule, what is proposed is in force at once.

    \b
    Examples:
      rareswitch campaign learn
      rareswitch campaign learn --follow --store postgresql://ana@db/trial
    """
    with opened_campaign(store, name) as campaign, interruptible() as pressed:
        from rareswitch.campaigns import Learning

        with Learning(campaign) as learning:
            pause = threading.Event()
            while not pressed():
                found = learning.step()
                if found is not None:
                    _show(found, as_json=as_json)
                elif not follow:
                    break
                else:
                    pause.wait(every)
            if not as_json:
                for trigger in learning.triggers:
                    click.echo(_trigger(trigger.to_dict()))


@click.command()
@click.option("--early", is_flag=True, help="Even if none is due: it is on record as unplanned.")
@signed_options
@campaign_options
def propose(early: bool, by: str, reason: str, store: str, name: str | None, as_json: bool) -> None:
    """Propose a policy fitted on all that is recorded, if one is due.

    An early proposal needs the approval of a second person, whatever the protocol says.

    \b
    Examples:
      rareswitch campaign propose --by ana --reason "quarterly look"
      rareswitch campaign propose --early --by ana --reason "new guideline"
    """
    with opened_campaign(store, name) as campaign:
        from rareswitch.campaigns import Learning

        with Learning(campaign) as learning:
            found = (
                learning.propose_early(actor=by, reason=reason)
                if early
                else learning.step(actor=by, reason=reason)
            )
            watched = learning.triggers
    if found is not None:
        _show(found, as_json=as_json)
        return
    text = "nothing is due\n" + "\n".join(_trigger(one.to_dict()) for one in watched)
    answer(
        {"candidate": None, "triggers": [one.to_dict() for one in watched]},
        text.strip(),
        as_json=as_json,
    )


@click.command()
@click.argument("candidate", type=click.IntRange(1))
@signed_options
@campaign_options
def approve(
    candidate: int, by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Sign for a CANDIDATE and put it in force; it must have been proposed by another person.

    \b
    Examples:
      rareswitch campaign approve 7 --by ben --reason "reviewed on 12 May"
    """
    with opened_campaign(store, name) as campaign:
        found = campaign.approve(candidate, actor=by, reason=reason)
    answer(
        {"version": found.version, "digest": found.digest},
        f"version {found.version} is in force, approved by {by}",
        as_json=as_json,
    )


@click.command()
@click.argument("candidate", type=click.IntRange(1))
@signed_options
@campaign_options
def reject(
    candidate: int, by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Turn a CANDIDATE down; it leaves no trace in what is fitted later.

    \b
    Examples:
      rareswitch campaign reject 7 --by ben --reason "too few patients on the new dose"
    """
    with opened_campaign(store, name) as campaign:
        campaign.reject(candidate, actor=by, reason=reason)
    answer({"rejected": candidate}, f"candidate {candidate} is rejected", as_json=as_json)


@click.command()
@click.argument("version", type=click.IntRange(1))
@signed_options
@campaign_options
def rollback(
    version: int, by: str, reason: str, store: str, name: str | None, as_json: bool
) -> None:
    """Put the policy of an earlier VERSION in force again, as a new version.

    It is never blocked, always on record, and counted apart from the budget.

    \b
    Examples:
      rareswitch campaign rollback 2 --by ben --reason "adverse events"
    """
    with opened_campaign(store, name) as campaign:
        found = campaign.roll_back(version, actor=by, reason=reason)
    answer(
        {"version": found.version, "to": version, "digest": found.digest},
        f"version {found.version} is in force, with the policy of version {version}",
        as_json=as_json,
    )


@click.command()
@click.argument("changes", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@signed_options
@campaign_options
def amend(changes: Path, by: str, reason: str, store: str, name: str | None, as_json: bool) -> None:
    """Amend the protocol: a TOML file with the tables that CHANGE, as they shall be.

    Amended may be episodes (a number), schedule, budget, approval, intake and stopping.

    \b
    Examples:
      rareswitch campaign amend more-episodes.toml --by ana --reason "slow recruitment"
    """
    with opened_campaign(store, name) as campaign:
        tables = tomllib.loads(changes.read_text(encoding="utf-8"))
        protocol = campaign.amend(tables, actor=by, reason=reason)
        revision = len(campaign.state.revisions)
    answer(
        {"revision": revision, "protocol": protocol.digest},
        f"revision {revision}, protocol {protocol.digest}",
        as_json=as_json,
    )


@click.command()
@signed_options
@campaign_options
def stop(by: str, reason: str, store: str, name: str | None, as_json: bool) -> None:
    """End the campaign: no episode begins and no version is deployed any more.

    Episodes that were assigned before may still be recorded.

    \b
    Examples:
      rareswitch campaign stop --by ana --reason "the sponsor withdrew"
    """
    with opened_campaign(store, name) as campaign:
        campaign.stop(actor=by, reason=reason)
    answer({"stopped": True}, "the campaign has stopped", as_json=as_json)


def _show(candidate: Candidate, *, as_json: bool) -> None:
    """Print a candidate with its evidence."""
    values: dict[str, Any] = {
        name: getattr(candidate, name)
        for name in ("number", "version", "seq", "digest", "proposer", "planned", "status")
    }
    if as_json:
        click.echo(json.dumps(values | {"evidence": candidate.evidence}, indent=2))
        return
    click.echo("\n".join(candidate_lines(values | {"evidence": candidate.evidence})))


def candidate_lines(candidate: dict[str, Any]) -> list[str]:
    """Return what people read of a candidate."""
    evidence = candidate["evidence"]
    number = candidate.get("number", candidate.get("candidate"))
    planned = "" if candidate["planned"] else ", unplanned"
    lines = [
        f"candidate      {number}, for version {candidate['version']}, fitted on "
        f"{evidence['episodes']} episodes; proposed by {candidate['proposer']}{planned}"
    ]
    if "status" in candidate:
        lines.append(f"status         {candidate['status']}")
    lines += [_trigger(trigger) for trigger in evidence["triggers"]]
    if evidence["disagreement"] is not None:
        share = f"{evidence['disagreement']:.0%}"
        lines.append(f"acts otherwise in {share} of the states of the log")
    if evidence["gain"] is not None:
        lines.append(f"expected       {evidence['gain']['verdict']}")
    lines += [f"note           {warning}" for warning in evidence["warnings"]]
    return lines


def _trigger(trigger: dict[str, Any]) -> str:
    reached = "reached" if trigger["reached"] else "not reached"
    return (
        f"trigger        {trigger['quantity']}: {trigger['value']:.6g} of "
        f"{trigger['threshold']:.6g}, {reached}"
    )
