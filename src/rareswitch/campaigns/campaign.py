"""A campaign: a protocol, and everything that is recorded and decided under it."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns import decisions
from rareswitch.campaigns.errors import CampaignError, ConflictError, NotAllowedError, RefusedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.artifacts import add_artifact, artifact_of
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.record.cohorts import Cohorts
from rareswitch.campaigns.record.corrections import correct
from rareswitch.campaigns.record.group_commit import GroupCommit
from rareswitch.campaigns.record.ledger import Entry, enter, entries_after
from rareswitch.campaigns.record.names import checked_name, checked_text, same_person
from rareswitch.campaigns.record.pen import Head, Pen, begin_chains, heads_of
from rareswitch.campaigns.record.people import forget
from rareswitch.campaigns.record.recording import (
    Answer,
    Asked,
    Assign,
    Assignment,
    Recorded,
    Recording,
)
from rareswitch.campaigns.record.refusals import refuse
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.reports import reports_of
from rareswitch.campaigns.state import Candidate, State, Version
from rareswitch.campaigns.stopping.looking import ENGINE, look
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.tables import campaigns, ledger
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy

IMPORTED_TOGETHER = 1000


def server_time() -> str:
    """Return the time of day, for people to read: order is that of the chains."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Campaign:
    """One campaign of a store, open in this process; any number of threads may use it.

    State is a function of the log and the ledger, so several processes may have it open at once.
    `clock` tells the time that rows are stamped with.
    """

    def __init__(self, store: Store, name: str, *, clock: Callable[[], str] = server_time) -> None:
        self.store, self.name, self.clock = store, checked_name("name", name), clock
        self._known: tuple[tuple[Entry, ...], State] = (), State()
        self._policies: dict[str, Policy] = {}
        self._together: GroupCommit[Asked, Answer] = GroupCommit(self._commit)
        with store.reading() as connection:
            if not heads_of(connection, self.name):
                raise NotAllowedError(f"there is no campaign {self.name} in {store.url}")

    @classmethod
    def create(
        cls,
        store: Store,
        protocol: Protocol,
        *,
        actor: str,
        reason: str = "as agreed",
        simulation: bytes | None = None,
        clock: Callable[[], str] = server_time,
    ) -> "Campaign":
        """Lock a protocol and put version 1, fitted on no data, in force.

        `simulation` is the report whose digest the protocol has. The same protocol again is the
        campaign that is there.
        """
        if not isinstance(protocol, Protocol):
            raise TypeError(f"protocol must be a Protocol; got {type(protocol).__name__}")
        if (digest_of(simulation) if simulation is not None else "") != protocol.simulation:
            raise NotAllowedError(
                "simulation must be the report whose digest the protocol has, "
                f"{protocol.simulation or 'none'}"
            )
        name, actor = protocol.name, _person(actor)
        with store.creating(name) as connection:
            if heads_of(connection, name):
                found = connection.execute(
                    sa.select(ledger.c.payload).where(
                        ledger.c.campaign == name, ledger.c.number == 1
                    )
                ).scalar_one()
                if json.loads(found)["digest"] != protocol.digest:
                    raise ConflictError(f"there is a campaign {name} with another protocol already")
            else:
                now = clock()
                connection.execute(campaigns.insert().values(campaign=name, created=now))
                pen = begin_chains(connection, name)
                if simulation is not None:
                    add_artifact(connection, name, "simulation", simulation)
                first = protocol.learner().policy
                decisions.create(pen, protocol, first=first, actor=actor, reason=reason, now=now)
                pen.write()
        return cls(store, name, clock=clock)

    @property
    def state(self) -> State:
        """Where the campaign stands now."""
        with self.store.reading() as connection:
            return self.state_at(connection)

    @property
    def protocol(self) -> Protocol:
        """The revision of the protocol that is in force."""
        return self.state.protocol

    @property
    def version(self) -> int:
        """The number of the version in force."""
        return self.state.in_force.version

    @property
    def entries(self) -> Sequence[Entry]:
        """The whole ledger."""
        with self.store.reading() as connection:
            return self.entries_at(connection)

    def policy(self, version: int | None = None) -> Policy:
        """Return the policy of a version, the one in force if none is named."""
        state = self.state
        number = state.in_force.version if version is None else version
        return self.artifact(state.version(number).digest)

    def artifact(self, digest: str) -> Policy:
        """Return a policy by its digest."""
        if digest not in self._policies:
            with self.store.reading() as connection:
                data = artifact_of(connection, self.name, digest)
            self._policies[digest] = Policy.from_bytes(data)
        return self._policies[digest]

    def assign(self, episode_id: str) -> Assignment:
        """Say which version and member play an episode that is about to begin; always the same."""
        answer = self._together.ask(Assign(checked_name("episode_id", episode_id)))
        assert isinstance(answer, Assignment)
        return answer

    def record(self, episode_id: str, episode: Episode, **told: Any) -> Recorded:
        """Take in one finished episode; it is on disk when this returns.

        What may be told besides are the fields of a `Report`. The same again is answered with its
        place in the log, and its participant is kept if none is; another content under that id, or
        another participant, is a `ConflictError`. What cannot be taken is a `RefusedError`, and in
        the register of refusals.
        """
        try:
            report = Report(id=episode_id, episode=episode, **told)
        except (TypeError, ValueError) as error:
            said = f"{type(episode).__name__} with {', '.join(told) or 'nothing else'}"
            raise self._refused(episode_id, error, said) from None
        return self.take(report)

    def record_json(self, text: str | bytes) -> Recorded:
        """Take in one report in JSON, as `report.py` describes it."""
        return self.take(self._read(text))

    def take(self, report: Report) -> Recorded:
        """Take in one report."""
        report.digest  # noqa: B018 packed and hashed now, and not while others wait
        try:
            answer = self._together.ask(report)
        except RefusedError as error:
            raise self._refused(report.id, error, canonical(report.plain)) from None
        assert isinstance(answer, Recorded)
        return answer

    def take_all(
        self, reports: Iterable[Report | str | bytes]
    ) -> Iterator[Recorded | CampaignError]:
        """Take in many reports, or texts of them, a thousand to a commit; give each its answer.

        One that is refused does not hold up the others.
        """
        given = iter(reports)
        while group := list(islice(given, IMPORTED_TOGETHER)):
            yield from self._take_group(self._read_all(group))

    def correct(self, report: Report, *, actor: str, reason: str) -> Recorded:
        """Record an episode anew: what was recorded stays, and later fits use this instead."""
        try:
            with self._deciding() as (pen, state):
                return correct(pen, state, report.id, report, **self._signed(actor, reason))
        except RefusedError as error:
            raise self._refused(report.id, error, canonical(report.plain)) from None

    def correct_json(self, text: str | bytes, *, actor: str, reason: str) -> Recorded:
        """Record an episode anew from a report in JSON; what cannot be read is in the register."""
        return self.correct(self._read(text), actor=actor, reason=reason)

    def withdraw(self, episode_id: str, *, actor: str, reason: str) -> Recorded:
        """Take an episode out of all later fits, and of its cohort."""
        with self._deciding() as (pen, state):
            return correct(pen, state, episode_id, None, **self._signed(actor, reason))

    def forget(self, participant: str, *, actor: str, reason: str) -> int:
        """Remove who was behind episodes; return how many. The numbers stay, without a name.

        No later report of these episodes brings the name back.
        """
        checked_text("participant", participant, most=1000)
        with self._deciding() as (pen, _):
            gone = forget(pen, participant)
            enter(pen, "forgotten", {"episodes": gone}, **self._signed(actor, reason))
        return gone

    def propose(
        self,
        policy: Policy,
        *,
        seq: int,
        evidence: Mapping[str, Any],
        expected: int,
        actor: str,
        reason: str,
        planned: bool = True,
    ) -> Candidate:
        """Enter a candidate for the version after `expected`, fitted on the log up to `seq`.

        Where the schedule alone decides, it is in force at once. `Learning` calls this.
        """
        with self._deciding() as (pen, state):
            number = decisions.propose(
                pen,
                state,
                policy,
                seq=seq,
                evidence=evidence,
                expected=expected,
                planned=planned,
                **self._signed(actor, reason),
            )
        return self.state.candidate(number)

    def approve(self, candidate: int, *, actor: str, reason: str) -> Version:
        """Sign for a candidate and put it in force."""
        with self._deciding() as (pen, state):
            version = decisions.approve(pen, state, candidate, **self._signed(actor, reason))
        return self.state.version(version)

    def reject(self, candidate: int, *, actor: str, reason: str) -> None:
        """Turn a candidate down; it leaves no trace in what is fitted later."""
        with self._deciding() as (pen, state):
            decisions.reject(pen, state, candidate, **self._signed(actor, reason))

    def roll_back(self, to: int, *, actor: str, reason: str) -> Version:
        """Put the policy of an earlier version in force, as a new version: never blocked."""
        with self._deciding() as (pen, state):
            version = decisions.roll_back(pen, state, to, **self._signed(actor, reason))
        return self.state.version(version)

    def amend(self, changes: Mapping[str, Any], *, actor: str, reason: str) -> Protocol:
        """Make a new revision of the protocol; nothing that is recorded changes."""
        signed = self._signed(actor, reason)
        with self._deciding() as (pen, state):
            protocol = decisions.amend(pen, state, changes, **signed)
            cohorts = Cohorts(pen, state)
            for version in state.versions:  # what it says may be reached already
                if look(pen, protocol, cohorts, version=version.version, now=signed["now"]):
                    break
        return protocol

    def stop(self, *, actor: str, reason: str) -> None:
        """End the campaign: no episode begins and no version is deployed any more."""
        with self._deciding() as (pen, state):
            decisions.stop(pen, state, **self._signed(actor, reason))

    def note_export(self, digest: str, *, actor: str, reason: str) -> None:
        """Enter that the record was exported, with the digest of what was."""
        with self._deciding() as (pen, _):
            enter(pen, "exported", {"digest": digest}, **self._signed(actor, reason))

    @contextmanager
    def _deciding(self) -> Iterator[tuple[Pen, State]]:
        """Give the pen and the state under the lock; write what was entered."""
        with self.store.writing(self.name) as connection:
            heads = heads_of(connection, self.name)
            pen = Pen(connection, self.name, heads)
            yield pen, self._known_at(connection, heads["ledger"])[1]
            pen.write()

    def _signed(self, actor: str, reason: str) -> dict[str, str]:
        return {"actor": _person(actor), "reason": reason, "now": self.clock()}

    def entries_at(self, connection: Connection) -> Sequence[Entry]:
        """Return the whole ledger as a connection sees it."""
        return self._known_at(connection, heads_of(connection, self.name)["ledger"])[0]

    def state_at(self, connection: Connection) -> State:
        """Return the state as a connection sees it."""
        return self._known_at(connection, heads_of(connection, self.name)["ledger"])[1]

    def _known_at(self, connection: Connection, head: Head) -> tuple[tuple[Entry, ...], State]:
        """Return ledger and state of the moment that a connection sees, which may be an old one."""
        entries, state = self._known
        if entries and entries[-1].link == head.link:
            return entries, state
        if head.length < len(entries):
            entries = tuple(entries_after(connection, self.name, 0))
            return entries, State().after(entries)
        entries = (*entries, *entries_after(connection, self.name, len(entries)))
        state = State().after(entries)  # one that was handed out is never changed
        self._known = entries, state
        return entries, state

    def _commit(self, asked: list[Asked]) -> list[Answer | BaseException]:
        """Answer all that was asked in one transaction."""
        with self._deciding() as (pen, state):
            recording = Recording(pen, state, now=self.clock(), asked=asked)
            answers: list[Answer | BaseException] = [recording.answer(one) for one in asked]
            recording.write()
        return answers

    def _take_group(
        self, group: Sequence[Report | RefusedError]
    ) -> Iterator[Recorded | CampaignError]:
        answers = iter(self._commit([one for one in group if isinstance(one, Report)]))
        for one in group:
            answer = one if isinstance(one, RefusedError) else next(answers)
            if isinstance(answer, RefusedError) and isinstance(one, Report):
                answer = self._refused(one.id, answer, canonical(one.plain))
            assert isinstance(answer, Recorded | CampaignError)
            yield answer

    def _read(self, text: str | bytes) -> Report:
        (found,) = self._read_all([text])
        if isinstance(found, RefusedError):
            raise found
        return found

    def _read_all(self, group: Sequence[Report | str | bytes]) -> Sequence[Report | RefusedError]:
        """Read those that are texts; what cannot be read is in the register."""
        texts = [one for one in group if not isinstance(one, Report)]
        read = iter(reports_of(texts))
        found: list[Report | RefusedError] = []
        for one in group:
            report = one if isinstance(one, Report) else next(read)
            if isinstance(report, Exception):
                said = one.decode(errors="replace") if isinstance(one, bytes) else str(one)
                report = self._refused(None, report, said)
            found.append(report)
        return found

    def _refused(self, episode_id: Any, error: Exception, said: str) -> RefusedError:
        """Write a refusal into the register; return the error for whoever asked."""
        with self._deciding() as (pen, state):
            number = refuse(pen, state, episode_id, reason=str(error), said=said, now=self.clock())
        return RefusedError(f"{error} (refusal {number})")


def _person(actor: str) -> str:
    """Return who signs, if that is not the name that only the engine stops campaigns by."""
    if same_person(checked_text("actor", actor, most=200), ENGINE):
        raise NotAllowedError(f"actor must be a person; {ENGINE} stops a campaign by a rule")
    return actor


def campaigns_of(store: Store) -> list[str]:
    """Return the names of the campaigns of a store."""
    with store.reading() as connection:
        return sorted(connection.execute(sa.select(campaigns.c.campaign)).scalars())
