"""Replay: each policy is fitted again from the log, at the row where it was first due."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rareswitch.campaigns.learning.evidence import evidence_of
from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.proof.checks import ALTERED, Check, Progress, describe
from rareswitch.campaigns.proof.exported import SecondGram
from rareswitch.campaigns.protocol import schedule_of, task_of
from rareswitch.campaigns.report import Report, episode_of
from rareswitch.campaigns.rulebook.rows import Entry, Record
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.clock import Clock, Schedule
from rareswitch.core.policy import Policy
from rareswitch.statistics import history_of
from rareswitch.support.imports import ForbiddenImportError

# Smaller differences are rounding by another BLAS.
TOLERANCE = 1e-9
# The number of states in which policies with different bytes must act the same.
MOST_STATES = 5000
SAID_EVERY = 5000
Policies = Callable[[str], Policy]


class UnknownRule:
    """A placeholder for a user's schedule that is not in `allow`; it is never evaluated."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def due(self, clock: Clock) -> bool:
        return False


class Replay:
    """A second run of the learner through log and ledger, which compares every candidate."""

    def __init__(
        self,
        record: Record,
        *,
        allow: Sequence[str],
        progress: Progress,
        policies: Policies,
        second: SecondGram | None = None,
    ) -> None:
        self._record, self._allow, self._progress = record, allow, progress
        self._policies, self._second = policies, second
        self._last = record.heads["episodes"].length
        self.fold, self.state = Fold(policies, self._schedule, allow=allow), State()
        self.check = Check(name="replay")

    def run(self, entries: Sequence[Entry]) -> Check:
        """Absorb the log, evaluate the schedule after every episode, and refit every candidate."""
        entry, fold = entries[0], self.fold
        try:
            for entry in entries:
                self._go_through(entry)
            if self.state.may_propose and self._until_due(self._last):
                self.check.remarks.append(
                    f"a new policy is due since row {fold.seq}; nobody proposed it yet"
                )
            fold.absorb(self._record, upto=self._last)
        except ForbiddenImportError as error:
            self.check.unchecked.append(f"whether the log gives the policies: {error}")
        except ALTERED as error:
            unsound = [*unsound_rows(self._record, entries[0].payload["protocol"]["task"])]
            self.check.problems += unsound or [
                f"entry {entry.number} cannot be replayed, {describe(error)}"
            ]
        self.check.rows = fold.seq
        return self.check

    def _schedule(self, terms: Terms) -> Schedule:
        try:
            return schedule_of(terms.plain, allow=self._allow)
        except ForbiddenImportError as error:
            said = f"when the schedule asked for a policy: {error}"
            if said not in self.check.unchecked:
                self.check.unchecked.append(said)
            return UnknownRule(terms.plain["schedule"]["kind"])

    def _go_through(self, entry: Entry) -> None:
        fold, record = self.fold, self._record
        if entry.kind in ("candidate", "declined"):
            seq = entry.payload["seq"]
            if entry.payload["planned"] and not isinstance(fold.learner.schedule, UnknownRule):
                found = self._until_due(seq)
                while found and fold.seq < seq and _due_by_rounding(fold):
                    fold.absorb(record, upto=fold.seq + 1)
                    found = self._until_due(seq)
                self.check.problems.extend(_not_first(fold, entry, found))
            fold.absorb(record, upto=seq)
            self._compare_candidate(entry)
        fold.follow(record, [entry])
        self.state = self.state.after(entry)
        if entry.kind == "deployed" and entry.payload["version"] == 1:
            self._compare_policy(fold.learner.policy, entry)

    def _until_due(self, upto: int) -> bool:
        fold = self.fold
        while True:
            part = min(upto, fold.seq + SAID_EVERY)
            found = fold.absorb_until_due(self._record, self.state, upto=part)
            self._progress("replay", fold.seq, self._last)
            if found or part == upto:
                return found

    def _compare_candidate(self, entry: Entry) -> None:
        """Compare a candidate and its evidence with those of the log."""
        fold, state = self.fold, self.state
        self._compare_policy(fold.learner.fit(), entry)
        if self._second is not None:
            self._second.go_to(self._record, fold.seq)
            if differs := self._second.differs(fold.learner.clock):
                self.check.fail(f"{_name(entry)}: {differs}")
        found = evidence_of(
            self._record,
            fold,
            candidate=self._policies(entry.payload["digest"]),
            in_force=self._policies(state.in_force.digest),
            versions=state.versions,
            policies=self._policies,
        )
        told = dict(entry.payload["evidence"])
        if isinstance(fold.learner.schedule, UnknownRule):
            for part in ("triggers", "worth"):
                told.pop(part, None)
                found.pop(part, None)
        for key in sorted({*told, *found}):
            if key in ("changes", "treatments") and key not in told:
                continue  # older records have none
            if key == "warnings" and _as_many(told.get(key), found.get(key)):
                continue  # their wording may depend on the library's version
            if key == "worth" and key in found and _decided_by_rounding(found[key]):
                told[key], found[key] = (_undecided(side.get(key)) for side in (told, found))
            if not alike(told.get(key), found.get(key)):
                self.check.fail(
                    f"{_name(entry)}: its evidence has {key} {told.get(key)}; the log gives "
                    f"{found.get(key)}"
                )

    def _compare_policy(self, fitted: Policy, entry: Entry) -> None:
        where = f"entry {entry.number}, version {entry.payload['version']}"
        stored, remarks = self._policies(entry.payload["digest"]), self.check.remarks
        if fitted.digest == stored.digest:
            remarks.append(f"{where}: equal bytes")
        elif not nearly_equal(fitted, stored):
            self.check.fail(f"{where}: the log gives another policy")
        elif differs := _acts_otherwise(self._record, self.fold.seq, fitted, stored):
            self.check.fail(f"{where}: the policy of the log differs in {differs}")
        else:
            remarks.append(f"{where}: equal to {TOLERANCE:g}, and in every action compared")


def unsound_rows(record: Record, task: dict[str, Any]) -> Iterator[str]:
    """Yield the rows whose bodies no learner can absorb."""
    history = history_of(task_of(task))
    for row in record.rows("episodes"):
        if row.body is not None:
            try:
                history.check(episode_of(row.body))
            except ALTERED as error:
                yield f"episodes: row {row.seq}: {error}"


def _not_first(fold: Fold, entry: Entry, found: bool) -> Iterator[str]:
    """Yield a problem if a planned candidate was not fitted at the first due row."""
    where, seq = _name(entry), entry.payload["seq"]
    if found and fold.seq < seq:
        yield f"{where}: a new policy was due at row {fold.seq} already, not first at row {seq}"
    elif not found and fold.due:
        yield f"{where}: the schedule was not to be asked at row {seq}"
    elif not found:
        yield f"{where}: no new policy was due at row {seq}"


def _due_by_rounding(fold: Fold) -> bool:
    """Return whether all reached triggers passed their thresholds only within rounding."""
    return all(0.0 < one.margin <= TOLERANCE for one in fold.triggers if one.reached)


def _decided_by_rounding(worth: dict[str, Any]) -> bool:
    """Return whether a reason for or against a candidate is within rounding of its threshold."""
    return any(abs(reason["margin"]) <= TOLERANCE for reason in worth["reasons"])


def _undecided(worth: Any) -> Any:
    """Return the worth of a candidate without the decision, if it has the form of a worth."""
    if not isinstance(worth, dict):
        return worth
    reasons = [one | {"reached": None} for one in worth["reasons"]]
    return worth | {"accepted": None, "reasons": reasons}


def _name(entry: Entry) -> str:
    return f"entry {entry.number}, candidate for version {entry.payload['version']}"


def _as_many(told: Any, found: Any) -> bool:
    return isinstance(told, list) and isinstance(found, list) and len(told) == len(found)


def alike(told: Any, found: Any) -> bool:
    """Return whether two plain values are equal up to rounding."""
    if isinstance(found, float) and isinstance(told, int | float) and not isinstance(told, bool):
        return math.isclose(told, found, rel_tol=TOLERANCE, abs_tol=TOLERANCE)
    if isinstance(found, dict) and isinstance(told, dict):
        return told.keys() == found.keys() and all(alike(told[key], found[key]) for key in found)
    if isinstance(found, list) and isinstance(told, list):
        return len(told) == len(found) and all(map(alike, told, found))
    return type(told) is type(found) and bool(told == found)


def nearly_equal(one: Policy, other: Policy) -> bool:
    """Return whether two policies have the same arrays up to rounding."""
    for name in ("weights", "whitener", "levels", "directions", "offsets"):
        a, b = getattr(one, name), getattr(other, name)
        if (a is None) != (b is None):
            return False
        if a is not None and (a.shape != b.shape or not np.allclose(a, b, TOLERANCE, TOLERANCE)):
            return False
    settings = ("beta", "clip", "allocation", "one_hot", "table", "control", "floor")
    return all(getattr(one, name) == getattr(other, name) for name in settings)


def _acts_otherwise(record: Record, upto: int, one: Policy, other: Policy) -> str | None:
    """Return the first state of the log in which two policies act differently."""
    states = 0
    for row in record.rows("episodes", upto=upto):
        if row.body is None:
            continue
        report = Report.from_body(row.body, id=row.episode_id)
        offered = [report.first_features, *report.episode.next_features]
        for h, rows in enumerate(offered[: one.horizon]):
            if rows is not None:
                states += 1
                if not np.array_equal(one.choices(h, rows), other.choices(h, rows)):
                    return f"row {row.seq}, step {h}"
        if states >= MOST_STATES:
            break
    return None
