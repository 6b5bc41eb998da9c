"""Whether the log gives the policies that were in force: every candidate is fitted again."""

from collections.abc import Sequence

import numpy as np
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learn.fold import Fold
from rareswitch.campaigns.proof.check import Check, Said
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.report import Report
from rareswitch.core.policy import Policy

# Weights that differ by no more were rounded by another BLAS.
TOLERANCE = 1e-9
# The states in which policies that are not equal in bytes must act alike.
MOST_STATES = 5000
SAID_EVERY = 5000


def replay(
    connection: Connection, campaign: Campaign, entries: Sequence[Entry], progress: Said
) -> Check:
    """Fold the log again, and fit every candidate where it was fitted."""
    check = Check(name="replay")
    fold = Fold(campaign.name, campaign.artifact)
    last = heads_of(connection, campaign.name)["episodes"].length

    def absorb(upto: int) -> None:
        while fold.seq < upto:
            fold.absorb(connection, upto=min(upto, fold.seq + SAID_EVERY))
            progress("replay", fold.seq, last)

    for entry in entries:
        if entry.kind == "candidate":
            absorb(entry.payload["seq"])
            _same_candidate(connection, campaign, fold, entry, check)
        fold.follow(connection, [entry])
        if entry.kind == "created":
            first = fold.learner.policy
            _same_policy(connection, campaign, fold, first, entries[1], check)
    check.rows = fold.seq
    return check


def _same_candidate(
    connection: Connection, campaign: Campaign, fold: Fold, entry: Entry, check: Check
) -> None:
    """Compare a candidate with what is fitted now, and its trigger with what is seen now."""
    learner = fold.learner
    where = f"entry {entry.number}, candidate for version {entry.payload['version']}"
    told = entry.payload["evidence"].get("triggers", [])
    seen = [trigger.plain for trigger in fold.triggers]
    alike = len(told) == len(seen) and all(
        (one["quantity"], one["reached"]) == (other["quantity"], other["reached"])
        and np.isclose(one["value"], other["value"], rtol=TOLERANCE, atol=TOLERANCE)
        and np.isclose(one["threshold"], other["threshold"], rtol=TOLERANCE, atol=TOLERANCE)
        for one, other in zip(told, seen, strict=True)
    )
    if not alike:
        check.problems.append(f"{where}: the trigger was {told}, and the log says {seen}")
    if entry.payload["planned"] and not fold.due:
        check.problems.append(f"{where}: no new policy was due")
    _same_policy(connection, campaign, fold, learner.fit(), entry, check)


def _same_policy(
    connection: Connection,
    campaign: Campaign,
    fold: Fold,
    fitted: Policy,
    entry: Entry,
    check: Check,
) -> None:
    where = f"entry {entry.number}, version {entry.payload['version']}"
    stored = campaign.artifact(entry.payload["digest"])
    if fitted.digest == stored.digest:
        check.remarks.append(f"{where}: equal bytes")
        return
    if not _close(fitted, stored):
        check.problems.append(f"{where}: the log gives another policy")
    elif differs := _acts_otherwise(connection, campaign, fold.seq, fitted, stored):
        check.problems.append(f"{where}: the log gives a policy that acts otherwise in {differs}")
    else:
        check.remarks.append(f"{where}: equal to {TOLERANCE:g}, and in every action looked at")


def _close(one: Policy, other: Policy) -> bool:
    """Return whether two policies have the same arrays but for rounding."""
    for name in ("weights", "whitener", "levels", "directions", "offsets"):
        a, b = getattr(one, name), getattr(other, name)
        if (a is None) != (b is None):
            return False
        if a is not None and (a.shape != b.shape or not np.allclose(a, b, TOLERANCE, TOLERANCE)):
            return False
    settings = ("beta", "clip", "allocation", "one_hot")
    return all(getattr(one, name) == getattr(other, name) for name in settings)


def _acts_otherwise(
    connection: Connection, campaign: Campaign, upto: int, one: Policy, other: Policy
) -> str | None:
    """Return the first episode of the log with a state in which two policies act differently."""
    states = 0
    for row in rows_of(
        connection, "episodes", campaign.name, upto=upto, columns=("episode_id", "body")
    ):
        if row.body is None:
            continue
        report = Report.from_body(row.body, id=row.episode_id)
        offered = [report.first_features, *report.episode.next_features]
        for h, rows in enumerate(offered[: one.horizon]):
            if rows is not None:
                states += 1
                if not np.array_equal(one.choices(h, rows), other.choices(h, rows)):
                    return f"episode {row.seq}, step {h}"
        if states >= MOST_STATES:
            break
    return None
