"""Taking in reports and handing out assignments, many at once, in one transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.errors import CampaignError, ConflictError, NotAllowedError, RefusedError
from rareswitch.campaigns.record.canonical import canonical_row
from rareswitch.campaigns.record.cohorts import Cohorts
from rareswitch.campaigns.record.counting import INTAKE
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.record.people import People
from rareswitch.campaigns.record.task_check import all_of_task, check_of_task
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.state import State, Version
from rareswitch.campaigns.stopping.looking import look
from rareswitch.campaigns.store.among import among, names_given
from rareswitch.campaigns.store.prepared import rows_found
from rareswitch.campaigns.store.tables import assignments, episodes


class Recorded(NamedTuple):
    """Where an episode stands in the log. `new` is false if it was there already."""

    seq: int
    version: int
    member: int
    late: bool
    new: bool


class Assignment(NamedTuple):
    """Which version and member play an episode. `key` is what the policy draws the member by."""

    episode_id: str
    version: int
    member: int
    key: str
    digest: str
    new: bool


@dataclass(frozen=True)
class Assign:
    """An episode that is about to begin."""

    id: str


Asked = Report | Assign
Answer = Recorded | Assignment


class Recording:
    """A transaction of reports and assignments, answered one by one in their order."""

    def __init__(self, pen: Pen, state: State, *, now: str, asked: Sequence[Asked]) -> None:
        self._pen, self._state, self._now = pen, state, now
        self._cohorts = Cohorts(pen, state)
        names = names_given(one.id for one in asked)
        self._known = _recorded(pen.connection, pen.campaign, names)
        self._assigned: dict[str, tuple[int, int]] = {}
        if pen.heads["assignments"].length:
            self._assigned = _assigned(pen.connection, pen.campaign, names)
        reports = [one for one in asked if isinstance(one, Report)]
        self._all_of_task = all_of_task(reports, state.protocol)
        self._people = People(pen, names)
        self._stopped = state.stopped is not None

    def answer(self, one: Asked) -> Answer | CampaignError:
        """Return the answer, or why there is none; refusals are the caller's to register."""
        try:
            return self._record(one) if isinstance(one, Report) else self._assign(one.id)
        except CampaignError as error:
            return error

    def write(self) -> None:
        """Put down all that was answered."""
        self._pen.write()
        self._cohorts.write()
        self._people.write()

    def _assign(self, episode_id: str) -> Assignment:
        state = self._state
        if known := self._assigned.get(episode_id):
            version, member = known
            digest = state.version(version).digest
            return Assignment(episode_id, version, member, episode_id, digest, new=False)
        if episode_id in self._known:
            raise ConflictError(f"episode {episode_id} is recorded already, and cannot begin again")
        if self._stopped:
            raise NotAllowedError("the campaign has stopped; no episode may begin")
        planned = state.protocol.episodes
        if self._pen.heads["assignments"].length >= planned:
            raise NotAllowedError(
                f"all {planned} planned episodes have begun; an amendment may raise their number"
            )
        version = state.in_force.version
        member = state.in_force.member(episode_id)
        self._pen.add(
            "assignments",
            episode_id=episode_id,
            version=version,
            member=member,
            assigned=self._now,
        )
        self._assigned[episode_id] = version, member
        return Assignment(episode_id, version, member, episode_id, state.in_force.digest, new=True)

    def _record(self, report: Report) -> Recorded:
        if known := self._known.get(report.id):
            place, digest = known
            if digest != report.digest:
                raise ConflictError(
                    f"episode {report.id} is recorded already, as number {place.seq}, with another "
                    "content; what is recorded is never overwritten, but it can be corrected"
                )
            self._people.tell_again(report.id, report.participant)
            return place._replace(new=False)
        acted, protocol = self._attributed(report), self._state.protocol
        if not self._all_of_task:
            check_of_task([report], protocol)
        late, member = acted is not self._state.in_force, acted.member(report.id)
        total = report.total
        seq = self._pen.add(
            "episodes",
            episode_id=report.id,
            revision=0,
            version=acted.version,
            member=member,
            assigned=report.id in self._assigned,
            late=late,
            learn=not late or protocol.intake.late == "learn",
            total=total,
            claims=canonical_row(report.claims).decode(),
            received=self._now,
            digest=report.digest,
            body=report.body,
        )
        place = Recorded(seq, acted.version, member, late, new=True)
        self._known[report.id] = place, report.digest
        self._people.add(report.id, report.participant)
        cohorts = self._cohorts
        cohorts.add(acted.version, total / protocol.task.horizon)
        cohorts.add(INTAKE, 0.0)
        if not self._stopped:
            self._stopped = look(self._pen, protocol, cohorts, version=acted.version, now=self._now)
        return place

    def _attributed(self, report: Report) -> Version:
        """Return the version that acted, which must have been allowed to."""
        state, intake = self._state, self._state.protocol.intake
        assigned = self._assigned.get(report.id)
        if assigned is None:
            if intake.assigned:
                raise RefusedError(
                    f"episode {report.id} was not assigned, and the protocol asks so"
                )
            if self._stopped:
                raise NotAllowedError(
                    "the campaign has stopped; only episodes that were assigned before are taken"
                )
        in_force = state.in_force.version
        number = report.version
        if number is None:
            number = in_force if assigned is None else assigned[0]
        if number > in_force:
            raise RefusedError(f"version {number} never acted: {in_force} is in force")
        if assigned is not None and number != assigned[0]:
            raise RefusedError(
                f"episode {report.id} was assigned to version {assigned[0]}; got {number}"
            )
        acted = state.version(number)
        if assigned is None and number < in_force:
            since = self._pen.heads["episodes"].length - state.version(number + 1).since
            if since > intake.grace:
                raise RefusedError(
                    f"version {number} was replaced {since} episodes ago, and its grace is "
                    f"{intake.grace}"
                )
        if report.member is not None and report.member != acted.member(report.id):
            raise RefusedError(
                f"member {acted.member(report.id)} of version {number} plays episode {report.id}; "
                f"got {report.member}"
            )
        return acted


@lru_cache
def _recorded_statement(dialect: str) -> Any:
    columns = episodes.c
    return sa.select(
        columns.episode_id, columns.seq, columns.version, columns.member, columns.late,
        columns.digest,
    ).where(
        columns.campaign == sa.bindparam("of"),
        among(dialect, columns.episode_id),
        columns.revision == 0,
    )  # fmt: skip


@lru_cache
def _assigned_statement(dialect: str) -> Any:
    columns = assignments.c
    return sa.select(columns.episode_id, columns.version, columns.member).where(
        columns.campaign == sa.bindparam("of"), among(dialect, columns.episode_id)
    )


def _recorded(connection: Connection, campaign: str, names: str) -> dict[str, tuple[Recorded, str]]:
    """Return where these ids are recorded, and the digests of their reports."""
    statement = _recorded_statement(connection.dialect.name)
    rows = rows_found(connection, statement, {"of": campaign, "names": names})
    return {
        episode_id: (Recorded(seq, version, member, bool(late), new=False), digest)
        for episode_id, seq, version, member, late, digest in rows
    }


def _assigned(connection: Connection, campaign: str, names: str) -> dict[str, tuple[int, int]]:
    """Return the version and member that these ids were assigned to."""
    statement = _assigned_statement(connection.dialect.name)
    rows = rows_found(connection, statement, {"of": campaign, "names": names})
    return {episode_id: (version, member) for episode_id, version, member in rows}
