"""Audit of a record: every rule is checked again, in the order of writing.

The rules do not change between two entries of the ledger, so assignments come first, then rows of
the log and refusals in order.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from rareswitch.campaigns.errors import CampaignError
from rareswitch.campaigns.proof.checks import ALTERED, Check, describe
from rareswitch.campaigns.protocol import task_of
from rareswitch.campaigns.report import Report, count_deviations, read_bodies, report_digest
from rareswitch.campaigns.rulebook import attribution
from rareswitch.campaigns.rulebook.attribution import Assigned, Attribution, LastRow
from rareswitch.campaigns.rulebook.claims import broken_claim
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.decisions import broken_rules
from rareswitch.campaigns.rulebook.names import ENGINE, same_person
from rareswitch.campaigns.rulebook.rows import (
    AssignmentRow,
    Entry,
    EpisodeRow,
    RefusalRow,
    canonical,
)
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import Watched, watch
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.policy import Policy
from rareswitch.statistics import history_of

READ_TOGETHER = 512


class Look(NamedTuple):
    """A check of the stopping rules: its row or entry, and the value of each rule."""

    chain: str
    number: int
    seen: Sequence[Watched]

    @property
    def where(self) -> str:
        return f"{self.chain} {self.number}"


class Audit:
    """A row-by-row audit of a record; `checks` collect the problems by chain.

    `policies(digest)` returns a policy.
    """

    def __init__(
        self,
        *,
        terms: Terms,
        corrected: set[str],
        policies: Callable[[str], Policy],
    ) -> None:
        self.state = State()
        self.cohorts = Cohorts(horizon=terms.horizon, control=terms.control_share)
        names = ("assignments", "refusals", "episodes", "rules", "stops", "deviations")
        self.checks = {name: Check(name=name) for name in names}
        self._history = history_of(task_of(terms.plain["task"]))
        self._corrected = corrected  # corrected episodes, whose rows are kept
        self._assigned: dict[str, Assigned] = {}
        self._numbers: dict[str, int] = {}  # of the assignments
        self._recorded: set[str] = set()
        self._last: dict[str, LastRow] = {}
        self._look: Look | None = None  # the last look, until the next event
        # A correction whose entry comes next, and the row that it corrects.
        self._unsigned: tuple[EpisodeRow, int] | None = None
        self._missed = False
        self._policies = policies
        self._unread: list[tuple[EpisodeRow, bytes]] = []  # rows whose bodies are read together
        self._counts_deviations = False

    def assignment(self, row: AssignmentRow) -> None:
        """Check an assignment."""
        check, name = self.checks["assignments"], row.episode_id
        check.rows += 1
        try:
            given = attribution.assign(
                self.state,
                name,
                salt=row.salt,
                recorded=name in self._recorded,
                begun=row.number - 1,
            )
            if name in self._assigned:
                check.fail(f"assignments: row {row.number}: {name} is assigned again")
            elif given != (row.version, row.member, row.salt):
                check.fail(
                    f"assignments: row {row.number}: version {given.version}, member "
                    f"{given.member} was next, not {row.version}, {row.member}"
                )
        except ALTERED as error:
            check.fail(f"assignments: row {row.number}: {error}")
        self._assigned[name] = Assigned(row.version, row.member, row.salt)
        self._numbers[name] = row.number

    def refusal(self, row: RefusalRow, rows: int) -> None:
        """Check a refusal; `rows` is the length of the log before it."""
        self._go_on()
        self.checks["refusals"].rows += 1
        if row.seq != rows:
            self.checks["refusals"].fail(
                f"refusals: row {row.number} names row {row.seq} of the log; it came after {rows}"
            )
        self.cohorts.refuse()
        self._watch("refusals: row", row.number, self.state.in_force.version)

    def episode(self, row: EpisodeRow) -> None:
        """Check a row of the log."""
        self._go_on()
        check = self.checks["episodes"]
        check.rows += 1
        problems: list[str] = []
        try:
            problems.extend(self._correction(row) if row.revision else self._first(row))
            if row.body is not None:
                problems.extend(self._claims(row))
                self._unread.append((row, row.body))
            elif (row.total, row.claims, row.digest, row.deviations) != (0.0, "{}", "", None):
                problems.append("a withdrawal has no content")
        except CampaignError as error:
            problems.append(str(error))
        except ALTERED as error:
            problems.append(f"it cannot be checked, {describe(error)}")
        if problems:
            check.problems += [f"episodes: row {row.seq}: {problem}" for problem in problems]
        if len(self._unread) == READ_TOGETHER:
            self.read_contents()

    def entry(self, entry: Entry) -> None:
        """Check an entry of the ledger, and move to the state after it."""
        where, unsigned, self._unsigned = f"ledger: entry {entry.number}", self._unsigned, None
        row, corrects = unsigned or (None, 0)
        problems = self.checks["rules"].problems
        self.checks["rules"].rows += 1
        signed = entry.kind == "corrected"
        if row is not None and not (signed and entry.payload.get("seq") == row.seq):
            self._not_signed(row)
        elif signed and row is None:
            problems.append(f"{where}: no row was corrected there")
        problems += [f"{where}: {broken}" for broken in broken_rules(self.state, entry)]
        if entry.kind == "corrected" and row is not None:
            told = [entry.payload.get(name) for name in ("episode_id", "corrects", "withdrawn")]
            if told != [row.episode_id, corrects, row.body is None]:
                problems.append(f"{where}: it signs for another correction than row {row.seq}")
        if entry.kind == "cancelled":
            name = entry.payload["episode_id"]
            number = entry.payload["assignment"]
            if name not in self._assigned or name in self._recorded:
                problems.append(f"{where}: episode {name} was not open")
            elif number != self._numbers[name]:
                problems.append(f"{where}: assignment {number} is not that of episode {name}")
        if entry.kind == "stopped" and same_person(entry.actor, ENGINE):
            self._check_warrant(where, entry)
        self._go_on()
        self.state = self.state.after(entry)
        if entry.kind == "reopened":
            self.cohorts.reopen()
        if entry.kind == "amended":
            versions = [version.version for version in self.state.versions]
            self._watch("ledger: entry", entry.number, *versions)
        elif signed and row is not None:
            self._watch("ledger: entry", entry.number, row.version)

    def end(self) -> None:
        """Finish the audit: close the last look and check for open approvals."""
        if self._unsigned is not None:
            self._not_signed(self._unsigned[0])
        if (approved := self.state.approved) is not None:
            self.checks["rules"].fail(
                f"ledger: entry {approved.number}: the approval was not carried out"
            )
        if (registered := self.state.registered) is not None:
            self.checks["rules"].fail(
                f"ledger: entry {registered.number}: the passkey signed nothing"
            )
        self._go_on()
        self.read_contents()

    def _first(self, row: EpisodeRow) -> Iterator[str]:
        """Yield the problems of the first row of an episode."""
        name = row.episode_id
        if name in self._recorded:
            yield f"episode {name} is recorded already"
        self._recorded.add(name)
        if row.body is None:
            yield "it has no content"
        given = attribution.attribute(
            self.state,
            name,
            version=row.version,
            member=row.member,
            assigned=self._assigned.get(name),
            rows=row.seq - 1,
        )
        if (told := _attribution(row)) != given:
            for column, was, due in zip(Attribution._fields, told, given, strict=True):
                if was != due:
                    yield f"{column} must be {due}, not {was}"
        role = self.state.role(row.version, row.member)
        place = self.cohorts.record(row.version, row.total, role)
        if name in self._corrected:
            self._last[name] = LastRow(
                row.seq, 0, given, row.total, row.digest, row.body is None, place
            )
        self._watch("episodes: row", row.seq, row.version)

    def _correction(self, row: EpisodeRow) -> Iterator[str]:
        """Yield the problems of a row that corrects or withdraws an episode."""
        last = self._last.get(row.episode_id)
        self._unsigned = row, last.seq if last else 0  # the engine looks at its entry
        kept = attribution.correct(last, row.episode_id, version=row.version, member=row.member)
        assert last is not None
        assert last.place is not None
        if row.revision != last.revision + 1:
            yield f"revision {row.revision} does not follow revision {last.revision}"
        if _attribution(row) != kept:
            yield "a correction must not change who played, and whether it was late"
        after = None if row.body is None else row.total
        role = self.state.role(row.version, row.member)
        self.cohorts.correct(row.version, last.place, last.total, after, role)
        self._last[row.episode_id] = last._replace(
            seq=row.seq, revision=row.revision, total=row.total, withdrawn=row.body is None
        )

    def _claims(self, row: EpisodeRow) -> Iterator[str]:
        """Yield the problems of a row's claims."""
        if row.claims == "{}":
            return
        claims = json.loads(row.claims)
        if canonical(claims) != row.claims:
            yield "its claims are not in canonical form"
        if (why := broken_claim(self.state.terms.analysis, claims)) is not None:
            yield why

    def read_contents(self) -> None:
        """Check the bodies of the rows so far: digests, returns, task and deviations."""
        unread, self._unread = self._unread, []
        check = self.checks["episodes"]
        try:
            reports = read_bodies([body for _, body in unread])
        except ALTERED:
            reports = []
        by_version: dict[int, list[tuple[EpisodeRow, Report]]] = {}
        for place, (row, body) in enumerate(unread):
            try:
                report = reports[place] if reports else Report.from_body(body)
                problems = [*self._content(row, body, report)]
            except ALTERED as error:
                problems = [f"it cannot be checked, {describe(error)}"]
            else:
                # Rows of an early store version have no count; after the first count, all rows do.
                self._counts_deviations |= row.deviations is not None
                if self._counts_deviations:
                    by_version.setdefault(row.version, []).append((row, report))
            if problems:
                check.problems += [f"episodes: row {row.seq}: {problem}" for problem in problems]
        for version, some in by_version.items():
            with suppress(*ALTERED):  # another check reports an unreadable policy
                self._count_deviations(version, *zip(*some, strict=True))

    def _content(self, row: EpisodeRow, body: bytes, report: Report) -> Iterator[str]:
        """Yield the problems of a row's body: its digest, its return and its task."""
        if row.digest not in _digests(row, body):
            yield "its digest is not that of the report that it holds"
        if report.total != row.total:
            yield f"its rewards add up to {report.total!r}, not {row.total!r}"
        if row.revision or not row.learn or row.episode_id in self._corrected:
            self._history.check(report.episode)  # the replay checks all others

    def _count_deviations(
        self, version: int, rows: Sequence[EpisodeRow], reports: Sequence[Report]
    ) -> None:
        """Recount the steps whose action differs from the member's action."""
        check = self.checks["deviations"]
        check.rows += len(rows)
        policy = self._policies(self.state.versions[version - 1].digest)
        members, keys = [row.member for row in rows], [self._key(row.episode_id) for row in rows]
        due = count_deviations(policy, members, reports, keys)
        check.problems += [
            f"episodes: row {row.seq}: deviations must be {count}, not {row.deviations}"
            for row, count in zip(rows, due, strict=True)
            if row.deviations != count
        ]

    def _key(self, episode_id: str) -> str:
        """Return the key that determines the member of an episode."""
        given = self._assigned.get(episode_id)
        return episode_id if given is None else given.key(episode_id)

    def _watch(self, chain: str, number: int, *versions: int) -> None:
        if not self.state.stopped:
            self.checks["stops"].rows += 1
            seen: list[Watched] = []
            for version in versions:
                seen += watch(self.state.terms, self.cohorts, version)
            self._look = Look(chain, number, seen)

    def _go_on(self) -> None:
        """Close the last look, at which the campaign was not stopped."""
        look, self._look = self._look, None
        if look is None or self._missed:
            return
        for one in look.seen:
            if one.passed and not one.near:
                self._missed = True  # do not repeat the problem at every later look
                self.checks["stops"].fail(
                    f"{look.where}: {_words(one)}, and the engine did not stop the campaign"
                )
                return

    def _check_warrant(self, where: str, entry: Entry) -> None:
        """Check that a stop by the engine names the first rule that was met."""
        look, self._look = self._look, None
        problems = self.checks["stops"].problems
        if look is None:
            problems.append(f"{where}: the engine stopped where it did not look")
            return
        for one in look.seen:
            if (one.passed or one.near) and one.is_told_by(entry.payload):
                return
            if one.passed and not one.near:
                break
        passed = next((one for one in look.seen if one.passed), None)
        told = {name: entry.payload.get(name) for name in ("rule", "value", "threshold")}
        problems.append(
            f"{where}: the engine stopped with {told}; at {look.where} "
            f"{'no rule was reached' if passed is None else _words(passed)}"
        )

    def _not_signed(self, row: EpisodeRow) -> None:
        self.checks["episodes"].fail(
            f"episodes: row {row.seq}: it corrects an episode, and no entry signs for it"
        )


def _attribution(row: EpisodeRow) -> Attribution:
    return Attribution(row.version, row.member, bool(row.assigned), bool(row.late), bool(row.learn))


def _digests(row: EpisodeRow, body: bytes) -> Iterator[str]:
    """Yield the digests that a report of this content may have.

    A report may omit version and member, and its digest covers only the given fields.
    """
    for version in (None, row.version):
        for member in (None, row.member):
            yield report_digest(body, row.claims, row.episode_id, version, member)


def _words(one: Watched) -> str:
    return f"{one.rule} was reached ({one.value!r} has passed {one.threshold!r})"
