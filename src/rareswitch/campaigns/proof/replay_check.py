"""Whether the log gives the policies that were in force, each fitted where it was first due."""

from collections.abc import Iterator, Sequence

import numpy as np
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learn.fold import Fold
from rareswitch.campaigns.proof.check import NONSENSE, Check, Said, words
from rareswitch.campaigns.proof.log_check import unsound
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.state import State
from rareswitch.core.policy import Policy

# Weights that differ by no more were rounded by another BLAS.
TOLERANCE = 1e-9
# The states in which policies that are not equal in bytes must act alike.
MOST_STATES = 5000
SAID_EVERY = 5000


def replay(
    connection: Connection, campaign: Campaign, entries: Sequence[Entry], progress: Said
) -> Check:
    """Fold the log again, ask the schedule after every row, and fit every candidate anew."""
    check = Check(name="replay")
    fold, state = Fold(campaign.name, campaign.artifact), State()
    last = heads_of(connection, campaign.name)["episodes"].length

    def until_due(upto: int) -> bool:
        while True:
            part = min(upto, fold.seq + SAID_EVERY)
            found = fold.absorb_until_due(connection, state, upto=part)
            progress("replay", fold.seq, last)
            if found or part == upto:
                return found

    def go_through(entry: Entry) -> None:
        if entry.kind == "candidate":
            seq = entry.payload["seq"]
            if entry.payload["planned"]:
                found = until_due(seq)
                while found and fold.seq < seq and _due_by_rounding(fold):
                    fold.absorb(connection, upto=fold.seq + 1)
                    found = until_due(seq)
                check.problems.extend(_not_first(fold, entry, found))
            fold.absorb(connection, upto=seq)
            _same_candidate(connection, campaign, fold, entry, check)
        fold.follow(connection, [entry])
        state.after([entry])
        if entry.kind == "created":
            first = fold.learner.policy
            _same_policy(connection, campaign, fold, first, entries[1], check)

    entry = entries[0]
    try:
        for entry in entries:
            go_through(entry)
        if state.may_propose and until_due(last):
            remark = f"a new policy is due since row {fold.seq}; nobody proposed it yet"
            check.remarks.append(remark)
        fold.absorb(connection, upto=last)
    except NONSENSE as error:
        check.problems += [*_unsound_rows(connection, campaign.name, state)] or [
            f"entry {entry.number} cannot be replayed, {words(error)}"
        ]
        return check
    check.rows = fold.seq
    return check


def _unsound_rows(connection: Connection, campaign: str, state: State) -> Iterator[str]:
    """Give the rows whose bodies no learner can take, once it is known that there may be some."""
    for row in rows_of(connection, "episodes", campaign, columns=("body",)):
        if row.body is not None:
            for what in unsound(row.body, state.protocol):
                yield f"episodes: row {row.seq}: {what}"


def _not_first(fold: Fold, entry: Entry, found: bool) -> Iterator[str]:
    """Give what is wrong if a planned candidate was not fitted where the first was due."""
    where, seq = _name(entry), entry.payload["seq"]
    if found and fold.seq < seq:
        yield f"{where}: a new policy was due at row {fold.seq} already, not first at row {seq}"
    elif not found and fold.due:
        yield f"{where}: the schedule was not to be asked at row {seq}"
    elif not found:
        yield f"{where}: no new policy was due at row {seq}"


def _due_by_rounding(fold: Fold) -> bool:
    """Return whether what has passed its threshold has done so by less than may be rounding."""
    return all(0.0 < one.margin <= TOLERANCE for one in fold.triggers if one.reached)


def _same_candidate(
    connection: Connection, campaign: Campaign, fold: Fold, entry: Entry, check: Check
) -> None:
    """Compare a candidate with what is fitted now, and its trigger with what is seen now."""
    told = entry.payload["evidence"].get("triggers", [])
    seen = [trigger.to_dict() for trigger in fold.triggers]
    alike = len(told) == len(seen) and all(
        (one["quantity"], one["reached"]) == (other["quantity"], other["reached"])
        and np.isclose(one["value"], other["value"], rtol=TOLERANCE, atol=TOLERANCE)
        and np.isclose(one["threshold"], other["threshold"], rtol=TOLERANCE, atol=TOLERANCE)
        for one, other in zip(told, seen, strict=True)
    )
    if not alike:
        check.problems.append(f"{_name(entry)}: the trigger was {told}, and the log says {seen}")
    _same_policy(connection, campaign, fold, fold.learner.fit(), entry, check)


def _name(entry: Entry) -> str:
    return f"entry {entry.number}, candidate for version {entry.payload['version']}"


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
