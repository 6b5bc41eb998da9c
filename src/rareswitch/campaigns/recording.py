"""Recording: assignments, reports, corrections, withdrawals and refusals, each as work to commit.

A work is a function of the open `Transaction`. It checks the rules first and appends rows last, so
a work that raises changes nothing.
"""

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    NotAllowedError,
    RefusedError,
)
from rareswitch.campaigns.protocol import task_of
from rareswitch.campaigns.reading import known_part
from rareswitch.campaigns.report import Report, count_deviations
from rareswitch.campaigns.rulebook import attribution
from rareswitch.campaigns.rulebook.attribution import Assigned, Attribution, LastRow
from rareswitch.campaigns.rulebook.claims import broken_claim, undeclared_event
from rareswitch.campaigns.rulebook.names import ENGINE
from rareswitch.campaigns.rulebook.rows import canonical, digest_of
from rareswitch.campaigns.rulebook.running_mean import Place
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import watch
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.campaigns.store.transaction import Transaction, count_again, sealed_place
from rareswitch.core.control import LEARNED
from rareswitch.core.policy import Policy
from rareswitch.statistics import History, history_of

MOST_CHARACTERS = 2000  # in a refusal's reason and excerpt


class Work(NamedTuple):
    """A function to run in a transaction, the ids of its episodes, and the report to record."""

    run: Callable[["Recording"], Any]
    ids: tuple[str, ...] = ()
    report: Report | None = None


class Played(NamedTuple):
    """The player of a reported episode, and its number of deviating steps.

    It is valid while the state and the assignment are the same.
    """

    given: Attribution
    deviations: int | None
    state: State
    assigned: Assigned | None


class Recording(Transaction):
    """The transaction of a group of works; the rules for their reports are checked together.

    `policies(digest)` returns a policy.
    """

    def __init__(
        self, *args: Any, works: Sequence[Work], policies: Callable[[str], Policy], **named: Any
    ) -> None:
        super().__init__(*args, ids=[name for work in works for name in work.ids], **named)
        self._reports = [work.report for work in works if work.report is not None]
        self._policies = policies

    def played(self, report: Report) -> Played:
        """Return the player of a reported episode, or raise if it cannot be recorded."""
        assigned, known = self.assigned(report.id), self._played.get(id(report))
        if known is not None and known.state is self.state and known.assigned is assigned:
            return known
        given = self._attribute(report)
        check_terms(self.state.terms, [report])
        return Played(given, self.deviations(given, report), self.state, assigned)

    def deviations(self, given: Attribution, report: Report) -> int | None:
        """Count the steps whose action differs from the member's action."""
        return self._count_deviations(given.version, [(given, report)])[0]

    @cached_property
    def _played(self) -> dict[int, Played]:
        """The players of the group's reports for which no rule depends on the rows before."""
        try:
            check_terms(self.state.terms, self._reports)
        except RefusedError:
            return {}
        by_version: dict[int, list[tuple[Attribution, Report]]] = {}
        for report in self._reports:
            try:
                given = self._attribute(report)
            except CampaignError:
                continue  # the report is checked again in its turn
            if given.assigned or not given.late:  # else the grace depends on the number of rows
                by_version.setdefault(given.version, []).append((given, report))
        found: dict[int, Played] = {}
        for version, some in by_version.items():
            counts = self._count_deviations(version, some)
            for (given, report), count in zip(some, counts, strict=True):
                found[id(report)] = Played(given, count, self.state, self.assigned(report.id))
        return found

    def _attribute(self, report: Report) -> Attribution:
        return attribution.attribute(
            self.state,
            report.id,
            version=report.version,
            member=report.member,
            assigned=self.assigned(report.id),
            rows=self.heads["episodes"].length,
        )

    def _count_deviations(
        self, version: int, some: Sequence[tuple[Attribution, Report]]
    ) -> list[int | None]:
        policy = self._policies(self.state.version(version).digest)
        members, reports = [given.member for given, _ in some], [report for _, report in some]
        return count_deviations(policy, members, reports, [self._key(one.id) for one in reports])

    def _key(self, episode_id: str) -> str:
        """Return the key that determines the member of an episode."""
        given = self.assigned(episode_id)
        return episode_id if given is None else given.key(episode_id)


class Recorded(NamedTuple):
    """The place of an episode in the log. `new` is false if it was there already.

    `deviations` counts the steps whose action differs from the member's action; None if the report
    does not show it.
    """

    seq: int
    version: int
    member: int
    late: bool
    new: bool
    deviations: int | None = None


class Assignment(NamedTuple):
    """The version and member that play an episode; the policy draws the member by `key`.

    `role` is "learned", "control" or "floor".
    """

    episode_id: str
    version: int
    member: int
    key: str
    digest: str
    new: bool
    role: str = LEARNED


class Refusal(NamedTuple):
    """A report that cannot be recorded: the error, and the report's values."""

    error: Exception
    values: Mapping[str, Any]


def assign(episode_id: str) -> Work:
    """Return the work that assigns an episode; it is idempotent."""

    def run(transaction: Recording) -> Assignment:
        state, given = transaction.state, transaction.assigned(episode_id)
        new = given is None
        if episode_id in state.cancelled_ids:
            raise NotAllowedError(f"episode {episode_id} was cancelled")
        if given is None:
            given = attribution.assign(
                state,
                episode_id,
                salt=secrets.token_hex(16) if state.terms.intake.concealed else None,
                recorded=transaction.last_row(episode_id) is not None,
                begun=transaction.heads["assignments"].length,
            )
            transaction.assign(episode_id, given)
        version, key = state.version(given.version), given.key(episode_id)
        role = version.split.role(given.member)
        return Assignment(episode_id, given.version, given.member, key, version.digest, new, role)

    return Work(run, (episode_id,))


def record(report: Report) -> Work:
    """Return the work that records a report; the same report again returns its row."""
    report.digest, report.total  # noqa: B018 compute these before the transaction begins

    def run(transaction: Recording) -> Recorded | RefusedError | ConflictError:
        if (known := transaction.first_row(report.id)) is not None:
            return _answer_again(transaction, report, known)
        try:
            given, deviated, *_ = transaction.played(report)
        except RefusedError as error:
            return _refuse(transaction, Refusal(error, report.plain))
        role = transaction.state.role(given.version, given.member)
        place = transaction.cohorts.record(given.version, report.total, role)
        seq = _append(transaction, report, given, revision=0, place=place, deviations=deviated)
        if report.participant is not None:
            transaction.people.add(report.id, report.participant)
        look(transaction, given.version)
        return Recorded(seq, given.version, given.member, given.late, True, deviated)

    return Work(run, (report.id,), report)


def refuse(refusal: Refusal) -> Work:
    """Return the work that writes a refusal into the register."""
    return Work(lambda transaction: _refuse(transaction, refusal))


def correct(report: Report, *, by: str, reason: str) -> Work:
    """Return the work that corrects a recorded episode; the last correction again changes nothing.

    The first row stays; later fits use the correction.
    """

    def run(transaction: Recording) -> Recorded | RefusedError:
        last = transaction.last_row(report.id)
        given = attribution.correct(last, report.id, version=report.version, member=report.member)
        assert last is not None
        try:
            check_terms(transaction.state.terms, [report])
        except RefusedError as error:
            return _refuse(transaction, Refusal(error, report.plain))
        transaction.people.correct(report.id, report.participant)
        if last.digest == report.digest:
            return Recorded(last.seq, given.version, given.member, given.late, False)
        deviated = transaction.deviations(given, report)
        _replace(transaction, report.id, last, report, deviated, by=by, reason=reason)
        seq = transaction.heads["episodes"].length
        return Recorded(seq, given.version, given.member, given.late, True, deviated)

    return Work(run, (report.id,))


def withdraw(episode_id: str, *, by: str, reason: str) -> Work:
    """Return the work that removes an episode from all later fits; it is idempotent."""

    def run(transaction: Recording) -> Recorded:
        last = transaction.last_row(episode_id)
        if last is None and transaction.assigned(episode_id) is not None:
            raise NotAllowedError(
                f"episode {episode_id} has no report yet. If treatment began, leave it unreported: "
                "it counts as missing. If it never began, cancel it."
            )
        if last is not None and last.withdrawn:
            given, new, seq = last.attribution, False, last.seq
        else:
            given, new = attribution.correct(last, episode_id), True
            assert last is not None
            _replace(transaction, episode_id, last, None, None, by=by, reason=reason)
            seq = transaction.heads["episodes"].length
        return Recorded(seq, given.version, given.member, given.late, new)

    return Work(run, (episode_id,))


def cancel(episode_id: str, *, by: str, reason: str) -> Work:
    """Return the work that cancels an assigned episode that never began."""

    def run(transaction: Recording) -> bool:
        if episode_id in transaction.state.cancelled_ids:
            return False
        if transaction.assigned(episode_id) is None:
            raise NotAllowedError(f"episode {episode_id} is not assigned")
        if transaction.last_row(episode_id) is not None:
            raise NotAllowedError(f"episode {episode_id} is recorded; it can be withdrawn")
        number = transaction.assignment_number(episode_id)
        payload = {"episode_id": episode_id, "assignment": number}
        transaction.enter("cancelled", payload, by=by, reason=reason)
        return True

    return Work(run, (episode_id,))


def forget(participant: str, *, by: str, reason: str) -> Work:
    """Return the work that erases a participant's name; the data stay."""

    def run(transaction: Recording) -> int:
        gone = transaction.people.forget(participant)
        if gone:
            transaction.enter("forgotten", {"episodes": gone}, by=by, reason=reason)
        return gone

    return Work(run)


def look(transaction: Transaction, *versions: int) -> None:
    """Check every stopping rule for these versions; stop a running campaign if one is met.

    A candidate that has waited too long expires.
    """
    if transaction.state.stopped:
        return
    for version in versions:
        for seen in watch(transaction.state.terms, transaction.cohorts, version):
            if seen.passed:
                reason = f"{seen.rule}: {seen.reason}"
                transaction.enter("stopped", seen.plain, by=ENGINE, reason=reason)
                return
    expire(transaction)


def expire(transaction: Transaction) -> None:
    """Let the pending candidate expire if the protocol's number of rows was recorded since."""
    state = transaction.state
    end, waiting = state.expires_at, state.waiting
    if end is None or waiting is None or transaction.heads["episodes"].length < end:
        return
    after = state.terms.approval.expires_after
    reason = f"{after} episodes were recorded since candidate {waiting.number} was entered"
    transaction.enter("expired", {"candidate": waiting.number}, by=ENGINE, reason=reason)


def check_terms(terms: Terms, reports: Sequence[Report]) -> None:
    """Refuse the reports if one does not fit the task or makes an undeclared claim."""
    _check_task(terms, reports)
    for report in reports:
        if report.subgroup is None and report.events is None:
            continue
        kinds = undeclared_event(terms.analysis, report.events)
        if (why := kinds or broken_claim(terms.analysis, report.claimed)) is not None:
            raise RefusedError(why)


def _check_task(terms: Terms, reports: Sequence[Report]) -> None:
    history = _no_data(terms)
    try:
        history.check(*[report.episode for report in reports])
    except (TypeError, ValueError) as error:
        raise RefusedError(str(error)) from None
    task = history.task
    told = [first for report in reports if (first := report.first_features) is not None]
    if told:
        rows = np.concatenate(told)
        if history.one_hot and rows.max() >= task.dim:
            raise RefusedError(f"first_features must be below {task.dim}; got {rows.max()}")
        longest = 1.0 if history.one_hot else math.sqrt(np.vecdot(rows, rows).max())
        if not longest <= task.feature_norm * (1.0 + 1e-9):
            raise RefusedError(
                f"first_features must be no longer than {task.feature_norm:g}; got {longest:.6g}"
            )
    control = terms.control_action
    if terms.actions or control is not None:
        offered = [*map(len, told), *(most for r in reports for most in r.episode.lengths)]
        if control is not None and offered and (least := min(offered)) <= control:
            raise RefusedError(
                f"at least {control + 1} actions must be offered in a state, where the control "
                f"takes action {control}; got {least}"
            )
        if terms.actions and (most := max(offered, default=0)) > len(terms.actions):
            raise RefusedError(
                f"at most {len(terms.actions)} actions may be offered in a state; got {most}"
            )


@lru_cache(maxsize=64)
def _no_data(terms: Terms) -> History:
    """Return an empty history, which checks episodes against the task."""
    return history_of(task_of(terms.plain["task"]))


def _answer_again(
    transaction: Transaction, report: Report, known: LastRow
) -> Recorded | ConflictError:
    """Answer a report of a recorded episode; register different content as a refusal."""
    if known.digest != report.digest:
        conflict = ConflictError(
            f"episode {report.id} is recorded already, as row {known.seq}, with different content; "
            "a record is never overwritten, but it can be corrected",
            seq=known.seq,
        )
        refused = _refuse(transaction, Refusal(conflict, report.plain))
        conflict.fields["refusal"] = refused.fields["refusal"]
        return conflict
    transaction.people.tell_again(report.id, report.participant)
    given = known.attribution
    return Recorded(known.seq, given.version, given.member, given.late, False)


def _append(
    transaction: Transaction,
    report: Report | None,
    given: Attribution,
    *,
    revision: int,
    place: Place,
    deviations: int | None,
    episode_id: str = "",
) -> int:
    """Append a row to the log; a row without a report is a withdrawal."""
    name = episode_id if report is None else report.id
    total = 0.0 if report is None else report.total
    digest = "" if report is None else report.digest
    seq = transaction.add(
        "episodes",
        episode_id=name,
        revision=revision,
        version=given.version,
        member=given.member,
        assigned=given.assigned,
        late=given.late,
        learn=given.learn,
        total=total,
        claims="{}" if report is None else report.claims,
        received=transaction.now,
        digest=digest,
        body=None if report is None else report.body,
        deviations=deviations,
        place=sealed_place(name, given.version, place),
    )
    row = LastRow(seq, revision, given, total, digest, report is None, place)
    transaction.recorded(name, row)
    return seq


def _replace(
    transaction: Transaction,
    episode_id: str,
    last: LastRow,
    report: Report | None,
    deviations: int | None,
    *,
    by: str,
    reason: str,
) -> None:
    """Append the next revision of an episode and its ledger entry, then check stopping rules."""
    given, place = last.attribution, last.place
    if place is None:  # an old store did not keep places
        _, places = count_again(transaction.connection, transaction.campaign, transaction.state)
        place, _ = places[episode_id]
    payload = {"episode_id": episode_id, "corrects": last.seq, "withdrawn": report is None}
    payload["seq"] = transaction.heads["episodes"].length + 1
    after = None if report is None else report.total
    role = transaction.state.role(given.version, given.member)
    transaction.cohorts.correct(given.version, place, last.total, after, role)
    _append(
        transaction,
        report,
        given,
        revision=last.revision + 1,
        place=place,
        deviations=deviations,
        episode_id=episode_id,
    )
    transaction.enter("corrected", payload, by=by, reason=reason)
    look(transaction, given.version)


def _refuse(transaction: Transaction, refusal: Refusal) -> RefusedError:
    """Write a refusal into the register once; return the error for the caller."""
    kept = known_part(refusal.values, transaction.state.terms.analysis)
    # The given value may be a person's name, so only the sentence before it is kept.
    reason = _readable(str(refusal.error).partition("; got ")[0])
    digest = digest_of(canonical([kept, reason]))
    number = transaction.refusal_of(digest)
    if number is None:
        name = kept.get("id")
        number = transaction.add(
            "refusals",
            seq=transaction.heads["episodes"].length,
            episode_id=name if isinstance(name, str) and name != "…" else None,
            reason=reason,
            excerpt=_readable(canonical(kept)),
            digest=digest,
            received=transaction.now,
        )
        transaction.cohorts.refuse()
        look(transaction, transaction.state.in_force.version)
    return RefusedError(f"{refusal.error} (refusal {number})", refusal=number)


def _readable(text: str) -> str:
    r"""Return the beginning of a text with non-ASCII and invisible characters escaped.

    >>> _readable("a" + chr(0))
    'a\\x00'
    """
    escaped = text[:MOST_CHARACTERS].encode("ascii", "backslashreplace").decode()
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in escaped)
