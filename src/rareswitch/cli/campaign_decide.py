"""Commands that decide: learn, propose, approve, reject, comment, rollback, stop…"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

import rareswitch as rs
from rareswitch.cli.campaign_look import approval_of, candidate_text, needed_approval
from rareswitch.cli.campaign_verb import Answer, verb, wants_json
from rareswitch.cli.interrupt import interruptible

if TYPE_CHECKING:
    from rareswitch.campaigns import Campaign

LONGEST_PAUSE = 30.0  # seconds between two tries to reach a store
NUMBER = click.IntRange(1)


@verb("learn", "learn --follow --store postgresql://ana@db/trial", code=True)
@click.option("--follow", is_flag=True, help="Continue until Ctrl-C.")
@click.option(
    "--every", type=click.FloatRange(0.01), default=1.0, help="--follow: seconds between looks."
)
def learn(campaign: Campaign, follow: bool, every: float) -> Answer | None:
    """Run the learner and propose due policies.

    The learner processes new episodes and proposes a policy when the schedule asks for one. If the
    protocol leaves decisions to the schedule, the policy is in force at once. A campaign has one
    learner at a time; if its process dies, another continues. With --follow, the learner waits
    while the store is unavailable, and --json prints a line for each event.
    """
    if follow:
        _follow(campaign, every)
        return None
    found = [candidate.plain for candidate in rs.campaigns.learn(campaign)]
    return _proposed(campaign, found, {"candidates": found})


@verb('propose --early --by ana --reason "new guideline"', signed=True, code=True)
@click.option("--early", is_flag=True, help="Propose before a policy is due; the ledger marks it.")
def propose(campaign: Campaign, early: bool, **signed: Any) -> Answer:
    """Propose a policy that is due, or early.

    You propose instead of the schedule, so another person must approve. An early proposal is fitted
    on all recorded episodes and always needs approval.
    """
    found = rs.campaigns.propose(campaign, **signed, early=early)
    plain = found and found.plain
    return _proposed(campaign, [plain] if plain else [], {"candidate": plain})


@verb('approve 7 --by ben --reason "reviewed on 12 May"', signed=True, rehearsal=True)
@click.argument("number", type=NUMBER)
def approve(campaign: Campaign, number: int, **signed: Any) -> Answer:
    """Sign a proposal and put it in force.

    `status` shows the NUMBER of the candidate, amendment or reopening. Its proposer cannot approve
    it. If the protocol asks for several signatures, the last signature puts it in force.
    """
    from rareswitch.campaigns.rulebook.decisions import owed_words
    from rareswitch.campaigns.rulebook.rows import Entry

    before = campaign.state.entries
    done = campaign.approve(number, **signed)
    state = campaign.state
    again = _again(before, state.entries)
    revision = len(state.revisions)
    waiting: Any = next(
        (one for one in (state.waiting, state.amendment) if one and one.number == number), None
    )
    if waiting is not None:
        owed = state.owed(waiting).signatures
        text = f"proposal {number} lacks {owed_words(state, waiting)}; approved by {signed['by']}"
        text += again
        return Answer({"approved": number, "owed": owed}, text)
    text = "the campaign runs again"
    if not isinstance(done, Entry):
        plain = {"version": done.version, "digest": done.digest}
        text = f"version {done.version} is in force"
    else:
        plain = {"kind": done.kind, "entry": done.number, "revision": revision}
        if done.kind == "amended":
            text = f"revision {revision} of the protocol is in force"
    return Answer(plain, f"{text}, approved by {signed['by']}{again}")


@verb('reject 7 --by ben --reason "too few patients on the new dose"', signed=True, rehearsal=True)
@click.argument("number", type=NUMBER)
def reject(campaign: Campaign, number: int, **signed: Any) -> Answer:
    """Reject a proposal.

    `status` shows the NUMBER of the candidate, amendment or reopening. Later fits do not depend on
    the rejection.
    """
    before = campaign.state.entries
    campaign.reject(number, **signed)
    again = _again(before, campaign.state.entries)
    return Answer({"rejected": number}, f"proposal {number} is rejected{again}")


@verb('comment 7 --reviewed --by cyd --reason "the dose is safe"', signed=True, rehearsal=True)
@click.argument("number", type=NUMBER)
@click.option("--reviewed", is_flag=True, help="Sign that you have reviewed the proposal.")
def comment(campaign: Campaign, number: int, reviewed: bool, **signed: Any) -> Answer:
    """Comment on a proposal, or review it.

    NUMBER is the number of a candidate, or of a pending amendment or reopening. --reason is the
    comment. A comment decides nothing.
    """
    entry = campaign.comment(number, reviewed=reviewed, **signed)
    meaning = entry.payload["meaning"]
    return Answer({"entry": entry.number, "meaning": meaning}, f"entry {entry.number}: {meaning}")


@verb('rollback 2 --by ben --reason "adverse events"', signed=True, rehearsal=True)
@click.argument("version", type=NUMBER)
def rollback(campaign: Campaign, version: int, **signed: Any) -> Answer:
    """Put an earlier policy in force again.

    The policy of VERSION becomes a new version. A rollback is possible at any time, also after a
    stop, and does not count against the budget.
    """
    done = campaign.rollback(version, **signed)
    plain = {"version": done.version, "to": version, "digest": done.digest}
    return Answer(plain, f"version {done.version} is in force, with the policy of {version}")


@verb('countersign 12 --by ana --reason "the harm was real"', signed=True, rehearsal=True)
@click.argument("number", type=NUMBER)
def countersign(campaign: Campaign, number: int, **signed: Any) -> Answer:
    """Sign a rollback that another person made.

    `status` shows the NUMBER of the rollback. If the protocol has countersign_rollbacks, no
    candidate is deployed before this signature.
    """
    entry = campaign.countersign(number, **signed)
    return Answer(
        {"entry": entry.number, "rollback": number}, f"rollback {number} is countersigned"
    )


@verb('stop --by ana --reason "the sponsor withdrew"', signed=True, rehearsal=True)
def stop(campaign: Campaign, **signed: Any) -> Answer:
    """Stop the campaign.

    No episode begins and no candidate is deployed after the stop. Assigned episodes can still be
    recorded, and a rollback stays possible.
    """
    campaign.stop(**signed)
    return Answer({"stopped": True}, "the campaign has stopped")


@verb('reopen --by ana --reason "a wrong file was sent twice"', signed=True, rehearsal=True)
def reopen(campaign: Campaign, **signed: Any) -> Answer:
    """Propose to lift a data-quality stop.

    The campaign runs again when another person approves it.
    """
    entry = campaign.reopen(**signed)
    needed = needed_approval(entry.number, entry.actor, approval_of(campaign).for_reopening)
    return Answer({"reopening": entry.number}, f"reopening {entry.number} {needed}")


def _again(before: int, after: int) -> str:
    """Return the words for a decision that was in the ledger already."""
    return ", as before" if after == before else ""


def _proposed(campaign: Campaign, found: list[dict[str, Any]], plain: dict[str, Any]) -> Answer:
    """Return the answer with proposed candidates and the triggers of the schedule."""
    from rareswitch.campaigns import status
    from rareswitch.campaigns.proof.export.words import trigger_line

    now = status(campaign)
    approval = approval_of(campaign)
    lines = [line for candidate in found for line in candidate_text(campaign, candidate)]
    if now.stopped:
        lines.append(f"the campaign has stopped: {now.stopped}")
    elif not found and now.waiting:
        waiting, signed = now.waiting, now.waiting["signatures"]
        approvers = [one["by"] for one in signed if one["kind"] == "approved"]
        needed = needed_approval(waiting["number"], waiting["proposer"], approval, approvers)
        lines.append(f"candidate {now.waiting['number']} {needed}")
    elif not found:
        later = now.asked_again
        wait = "" if later is None else f": after a rejection the schedule is asked at row {later}"
        lines += [f"no policy is due{wait}", *map(trigger_line, now.triggers)]
    return Answer(plain | {"triggers": list(now.triggers)}, "\n".join(lines))


def _follow(campaign: Campaign, every: float) -> None:
    """Run the learner until Ctrl-C; print each event."""
    from rareswitch.campaigns import Learning, UnavailableError

    outage, last_stop = 0.0, None
    with interruptible() as pressed:
        while not pressed():
            try:
                with Learning(campaign) as learning:  # after an outage its lock is taken again
                    while not pressed():
                        candidate = learning.step()
                        state = campaign.state
                        if outage:
                            outage = 0.0
                            _tell("available", "the store is available again")
                        if candidate is not None:
                            text = candidate_text(campaign, candidate.plain)
                            _tell("candidate", "\n".join(text), **candidate.plain)
                        if state.stopped not in (None, last_stop):
                            reason = state.stopped.reason
                            _tell("stopped", f"the campaign has stopped: {reason}", reason=reason)
                        last_stop = state.stopped
                        if candidate is None:
                            _pause(every, pressed)
            except UnavailableError as error:
                if not outage:
                    reason = " ".join(str(error).split())
                    _tell("unavailable", f"{reason}; trying again until Ctrl-C", **error.plain)
                outage = min(2 * outage or every, LONGEST_PAUSE)
                _pause(outage, pressed)


def _tell(event: str, text: str, **plain: Any) -> None:
    click.echo(json.dumps({"event": event} | plain) if wants_json() else text)


def _pause(seconds: float, pressed: Callable[[], bool]) -> None:
    """Wait; return early after Ctrl-C."""
    end = time.monotonic() + seconds
    while not pressed() and (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.2))
