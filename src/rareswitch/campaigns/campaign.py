"""A campaign: a protocol, and everything that is recorded and decided under it."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns import decisions, recording
from rareswitch.campaigns.acting import (
    Act,
    Acting,
    Earlier,
    acting_on_features,
    acting_on_observation,
)
from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    NotAllowedError,
    UnavailableError,
    UnreadableError,
)
from rareswitch.campaigns.observations import Observer
from rareswitch.campaigns.observations.observer import without_values
from rareswitch.campaigns.protocol import Protocol, task_of
from rareswitch.campaigns.reading import checked_values, is_observed, read_values
from rareswitch.campaigns.recording import Assignment, Recorded, Recording, Refusal, Work
from rareswitch.campaigns.report import Report, checked_participant
from rareswitch.campaigns.report_values import reports_from
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.drafts import (
    Draft,
    draft_amendment,
    draft_approval,
    draft_comment,
    draft_countersignature,
    draft_rejection,
    draft_reopening,
    draft_rollback,
    draft_stop,
)
from rareswitch.campaigns.rulebook.names import SCHEDULE, checked_name, checked_person, checked_text
from rareswitch.campaigns.rulebook.rows import Entry, Head
from rareswitch.campaigns.rulebook.signing import Signature, ToSign, to_sign
from rareswitch.campaigns.rulebook.state import Candidate, State, Version
from rareswitch.campaigns.rulebook.terms import FeatureTerms, Terms
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.rows import StoredRecord, entries_after, heads_of
from rareswitch.campaigns.store.tables import campaigns
from rareswitch.campaigns.store.transaction import begin_chains
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import flag, whole
from rareswitch.support.persistent import PersistentList
from rareswitch.support.words import plural

IMPORTED_TOGETHER = 1000
# With more reports at once, garbage collection costs more than reading.
READ_TOGETHER = 64
MOST_POLICIES = 32  # in memory
NUMBERED = ("approve", "reject", "comment", "rollback", "countersign")  # decisions about a number
Counted = tuple[Head, Head, int]


def server_time() -> str:
    """Return the time for people to read; the chains define the order of rows."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class PolicyBytes(NamedTuple):
    """The bytes of a version's policy, and their digest."""

    version: int
    digest: str
    data: bytes


class Campaign:
    """One campaign of a store, open in this process; it is thread-safe.

    State is a function of the log and the ledger, so several processes may open a campaign at once.
    The protocol may name code of your own; it is imported only if its module is in `allow`. A
    rehearsal accepts records only if it is opened with `rehearsal`. `clock` returns the time stamp
    of rows.
    """

    def __init__(
        self,
        store: Store,
        name: str,
        *,
        allow: Sequence[str] = (),
        rehearsal: bool = False,
        clock: Callable[[], str] = server_time,
    ) -> None:
        self.store, self.name, self.clock = store, checked_name("name", name), clock
        self.allow, self._rehearsal = tuple(allow), rehearsal
        self._lock = threading.Lock()  # guards the state that was read last
        self._known: tuple[PersistentList[Entry], State] = PersistentList(), State()
        self._counted: tuple[Counted, Cohorts] | None = None  # after the last commit
        self._observer: Observer | None = None
        self._policies: dict[str, Policy] = {}
        with store.reading() as connection:
            if not heads_of(connection, self.name):
                raise NotAllowedError(f"there is no campaign {self.name} in {store.url}")

    @classmethod
    def create(
        cls,
        store: Store,
        protocol: Protocol,
        *,
        by: str,
        reason: str = "as agreed",
        simulation: bytes | None = None,
        features: bytes | None = None,
        rehearsal: bool = False,
        clock: Callable[[], str] = server_time,
    ) -> "Campaign":
        """Lock a protocol and put version 1, fitted on no data, in force.

        `simulation` and `features` are the report and the feature map; the protocol holds their
        digests. The same protocol again returns the existing campaign.
        """
        if not isinstance(protocol, Protocol):
            raise TypeError(f"protocol must be a Protocol; got {type(protocol).__name__}")
        given = {"simulation": simulation, "features": features}
        artifacts = {kind: data for kind, data in given.items() if data is not None}
        protocol.check_artifacts(artifacts)
        if features is not None:
            check_feature_map(protocol, features)
        name, signed = protocol.name, _signed(by, reason)
        with store.creating(name) as connection:
            if heads_of(connection, name):
                first = entries_after(connection, name, 0)[0].payload
                if bool(first.get("rehearsal", False)) != rehearsal:
                    found = "a rehearsal" if first.get("rehearsal") else "a campaign"
                    raise ConflictError(f"{name} is {found} in {store.url}; use another store")
                if first["digest"] != protocol.digest:
                    raise ConflictError(f"campaign {name} exists already, with another protocol")
            else:
                now = clock()
                connection.execute(campaigns.insert().values(campaign=name, created=now))
                transaction = begin_chains(connection, name, now=now)
                decisions.create(transaction, protocol, artifacts, rehearsal=rehearsal, **signed)
                transaction.write()
        return cls(store, name, allow=protocol.modules, rehearsal=rehearsal, clock=clock)

    # Where it stands

    @property
    def state(self) -> State:
        """Where the campaign stands now."""
        with self.store.reading() as connection:
            return self.state_at(connection)

    @property
    def terms(self) -> Terms:
        """The terms of the protocol in force, without its schedule."""
        return self.state.terms

    @property
    def protocol(self) -> Protocol:
        """The revision of the protocol in force; a schedule of your own must be in `allow`."""
        return Protocol.from_plain(self.state.terms.plain, allow=self.allow)

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
        """Return the policy of a version, by default of the version in force."""
        state = self.state
        number = state.in_force.version if version is None else version
        return self.artifact(state.version(number).digest)

    def policy_bytes(self, version: int | None = None) -> PolicyBytes:
        """Return the bytes of a version's policy, by default of the version in force."""
        with self.store.reading() as connection:
            state = self.state_at(connection)
            found = state.in_force if version is None else state.version(version)
            data = StoredRecord(connection, self.name).artifact(found.digest)
        return PolicyBytes(found.version, found.digest, data)

    def artifact(self, digest: str) -> Policy:
        """Return a policy by its digest."""
        if (found := self._policies.get(digest)) is None:
            with self.store.reading() as connection:
                data = StoredRecord(connection, self.name).artifact(digest)
            found = Policy.from_bytes(data)
            while len(self._policies) >= MOST_POLICIES:
                self._policies.pop(next(iter(self._policies)), None)
            self._policies[digest] = found
        return found

    # Recording

    def assign(self, episode_id: str) -> Assignment:
        """Assign a new episode to a version and a member; this call is idempotent."""
        assigned: Assignment = self._do(recording.assign(_id(episode_id)))
        return assigned

    def act(
        self,
        episode_id: str,
        observation: Mapping[str, Any],
        *,
        earlier: Earlier = (),
    ) -> Act:
        """Assign an episode, and return the action to take for a raw observation.

        `earlier` has the observations and actions of earlier stages. The protocol must name the
        columns of an observation and the actions.
        """
        step = self.acting(observation, earlier=earlier)
        assigned = self.assign(episode_id)
        return step.choose(self.artifact(assigned.digest), assigned)

    def acting(
        self,
        observation: Mapping[str, Any] | None = None,
        *,
        features: Sequence[Any] | None = None,
        earlier: Earlier = (),
    ) -> Acting:
        """Check a raw observation or feature rows and return their step; assign nothing."""
        if (observation is None) == (features is None):
            raise ValueError("observation or features must be given, and not both")
        if observation is None:
            return acting_on_features(self._agreed, features, earlier)
        return acting_on_observation(self.observer, observation, earlier)

    @property
    def observer(self) -> Observer:
        """The reader of raw observations by the protocol's feature map; it is never amended."""
        if self._observer is None:
            terms = self._agreed
            features = FeatureTerms(**terms.plain.get("features", {"name": "rows"}))
            if not features.columns:
                raise NotAllowedError(
                    "the protocol's [features] has no columns: reports hold rows of features"
                )
            with self.store.reading() as connection:
                data = StoredRecord(connection, self.name).artifact(features.digest)
            self._observer = Observer(
                features=features,
                data=data,
                actions=terms.actions,
                task=task_of(terms.plain["task"]),
                subgroups=terms.analysis.subgroups,
            )
        return self._observer

    @property
    def _agreed(self) -> Terms:
        """The terms of a known revision, perhaps an old one; the store is read once.

        Use it only for terms that no amendment may change: task except length, actions, features.
        """
        entries, state = self._known
        return state.terms if len(entries) else self.terms

    def record(
        self,
        report: Report | Mapping[str, Any] | str | bytes,
        episode: Episode | None = None,
        **fields: Any,
    ) -> Recorded:
        """Record one finished episode; it is on disk when this returns.

        Give a `Report`, its JSON, or the id and the episode with further fields of a `Report`. The
        same report again returns its row, and adds its participant if the row has none. Other
        content under the same id, or another participant, raises `ConflictError`. An invalid report
        raises `RefusedError` and enters the register of refusals. Input that is not a report raises
        `UnreadableError` and does not enter the register.
        """
        recorded: Recorded = self._do(self._work(self._read(report, episode, fields)))
        return recorded

    def record_all(
        self, reports: Iterable[Report | Mapping[str, Any] | str | bytes]
    ) -> Iterator[Recorded | CampaignError]:
        """Record many reports, a thousand in each commit; yield the answer to each.

        A refused report does not stop the others.
        """
        given = iter(reports)
        while group := list(islice(given, IMPORTED_TOGETHER)):
            works = [
                one if isinstance(one, CampaignError) else self._work(one)
                for start in range(0, len(group), READ_TOGETHER)
                for one in self._reports(group[start : start + READ_TOGETHER])
            ]
            ready = [work for work in works if isinstance(work, Work)]
            answers = iter(self.store.writer.ask(self._commit_all, ready))
            for work in works:
                yield next(answers) if isinstance(work, Work) else work

    def correct(
        self, report: Report | Mapping[str, Any] | str | bytes, *, by: str, reason: str
    ) -> Recorded:
        """Correct a recorded episode: the first row stays, and later fits use the correction."""
        signed = _signed(by, reason)
        found = self._read(report)
        if isinstance(found, Report):
            work = recording.correct(found, **signed)
        else:
            work = recording.refuse(found)
        corrected: Recorded = self._do(work)
        return corrected

    def withdraw(self, episode_id: str, *, by: str, reason: str) -> Recorded:
        """Remove an episode from all later fits and from its cohort, permanently."""
        work = recording.withdraw(_id(episode_id), **_signed(by, reason))
        withdrawn: Recorded = self._do(work)
        return withdrawn

    def cancel(self, episode_id: str, *, by: str, reason: str) -> bool:
        """Cancel an assigned episode that never began; return False if it was cancelled before."""
        work = recording.cancel(_id(episode_id), **_signed(by, reason))
        return bool(self._do(work))

    def forget(self, participant: str, *, by: str, reason: str) -> int:
        """Erase a participant's name; return the number of episodes that had it. The data stay.

        No later report of these episodes restores the name. The name is also erased from the files
        of the store. If another reader prevents this, `UnavailableError` is raised: call again.
        """
        name = checked_participant(participant)
        gone: int = self._do(recording.forget(name, **_signed(by, reason)))
        if not self.store.purge():
            raise UnavailableError(
                f"the name is erased from {plural(gone, 'episode')}, but another reader keeps old "
                "pages of the store; forget it again later to erase these too"
            )
        if not gone:
            raise NotAllowedError(
                "no episode has a participant of that name, and no file of the store holds an "
                "erased name"
            )
        return gone

    # Decisions

    def propose(
        self,
        policy: Policy,
        *,
        seq: int,
        evidence: Mapping[str, Any],
        expected: int,
        by: str,
        reason: str,
        planned: bool = True,
        signature: Mapping[str, Any] | None = None,
    ) -> Candidate:
        """Enter a candidate for the version after `expected`, fitted on the log up to `seq`.

        If the schedule alone approves, it is in force at once. `Learning` calls this method.
        """
        signed = _signed(by, reason, schedule=planned) | _given(signature)
        work = decisions.propose(
            policy, seq=seq, evidence=evidence, expected=expected, planned=planned, **signed
        )
        candidate: Candidate = self._do(work)
        return candidate

    def to_sign(
        self,
        decision: str,
        number: int | None = None,
        *,
        reviewed: bool = False,
        changes: Mapping[str, Any] | None = None,
        policy: Policy | None = None,
    ) -> ToSign:
        """Return the texts to sign for a decision, given the present ledger.

        `decision` is the name of a method: approve, reject, comment, countersign, rollback, amend,
        stop, reopen or propose. `number` is its first argument: a proposal, a rollback, or the
        version to roll back to. `reviewed` belongs to a comment, `changes` to an amendment, and
        `policy` to a candidate.
        """
        with self.store.reading() as connection:
            state = self.state_at(connection)
            rows = heads_of(connection, self.name)["episodes"].length
        if decision in NUMBERED:
            number = whole("number", number, least=1)
        match decision:
            case "approve":
                draft = draft_approval(state, number)  # type: ignore[arg-type]
            case "reject":
                draft = draft_rejection(state, number)  # type: ignore[arg-type]
            case "comment":
                draft = draft_comment(state, number, reviewed=reviewed)  # type: ignore[arg-type]
            case "rollback":
                draft = draft_rollback(state, number, rows=rows)  # type: ignore[arg-type]
            case "countersign":
                draft = draft_countersignature(number)  # type: ignore[arg-type]
            case "amend":
                protocol = self.protocol.amended(changes or {}, allow=self.allow)
                draft = draft_amendment(state, protocol.plain, protocol.digest)
            case "stop":
                draft = draft_stop()
            case "reopen":
                draft = draft_reopening(state)
            case "propose" if policy is not None:
                version = state.in_force.version + 1
                draft = Draft("candidate", {"digest": policy.digest, "version": version})
            case _:
                raise ValueError(
                    f"decision must be {', '.join(NUMBERED)}, amend, stop, reopen or, with a "
                    f"policy, propose; got {decision!r}"
                )
        return to_sign(state, *draft)

    def approve(
        self, number: int, *, by: str, reason: str, signature: Mapping[str, Any] | None = None
    ) -> Version | Entry:
        """Sign for a candidate, an amendment or a reopening by its entry.

        The last signature that is needed carries it out; until then the answer is the entry of the
        approval.
        """
        signed = _signed(by, reason) | _given(signature)
        found: Version | Entry = self._do(decisions.approve(number, **signed))
        return found

    def reject(
        self, number: int, *, by: str, reason: str, signature: Mapping[str, Any] | None = None
    ) -> None:
        """Reject a candidate, an amendment or a reopening; fits do not depend on it."""
        self._do(decisions.reject(number, **_signed(by, reason), **_given(signature)))

    def comment(
        self,
        number: int,
        *,
        by: str,
        reason: str,
        reviewed: bool = False,
        signature: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Comment on a candidate, or on a pending amendment or reopening; `reason` is the comment.

        `reviewed` states that the person has reviewed the proposal.
        """
        signed = _signed(by, reason) | _given(signature)
        work = decisions.comment(number, reviewed=flag("reviewed", reviewed), **signed)
        entry: Entry = self._do(work)
        return entry

    def rollback(
        self, to: int, *, by: str, reason: str, signature: Mapping[str, Any] | None = None
    ) -> Version:
        """Put the policy of an earlier version in force, as a new version."""
        work = decisions.rollback(to, **_signed(by, reason), **_given(signature))
        version: Version = self._do(work)
        return version

    def countersign(
        self, number: int, *, by: str, reason: str, signature: Mapping[str, Any] | None = None
    ) -> Entry:
        """Sign for another person's rollback, by the number of its entry."""
        work = decisions.countersign(number, **_signed(by, reason), **_given(signature))
        entry: Entry = self._do(work)
        return entry

    def amend(
        self,
        changes: Mapping[str, Any],
        *,
        by: str,
        reason: str,
        signature: Mapping[str, Any] | None = None,
    ) -> Entry:
        """Amend the protocol, or propose an amendment if two persons must agree; return the entry.

        If another person has amended the protocol meanwhile, raise `MovedError`.
        """
        before = self.protocol
        protocol = before.amended(changes, allow=self.allow)
        told = {**_signed(by, reason), **_given(signature)}
        work = decisions.amend(protocol, before=before.digest, **told)
        entry: Entry = self._do(work)
        return entry

    def stop(self, *, by: str, reason: str, signature: Mapping[str, Any] | None = None) -> None:
        """End the campaign: no more episodes begin, and no candidate is deployed."""
        self._do(decisions.stop(**_signed(by, reason), **_given(signature)))

    def reopen(self, *, by: str, reason: str, signature: Mapping[str, Any] | None = None) -> Entry:
        """Propose to reopen a campaign that data quality stopped; a second person approves it."""
        entry: Entry = self._do(decisions.reopen(**_signed(by, reason), **_given(signature)))
        return entry

    def note_export(self, digest: str, *, by: str, reason: str) -> None:
        """Enter an export into the ledger, with the digest of its manifest."""
        self._do(decisions.note_export(digest, **_signed(by, reason)))

    # How it works

    def submit(self, work: Work) -> "Future[Any]":
        """Queue work for the writer thread; the future is done when the work is on disk."""
        return self.store.writer.submit(self._commit, work)

    def _do(self, work: Work) -> Any:
        """Run work on the writer thread; return or raise its answer."""
        return self.store.writer.ask(self._commit, work)

    def work_of(self, report: Report | Mapping[str, Any] | str | bytes) -> Work:
        """Return the work that records a report, for `submit`."""
        return self._work(self._read(report))

    def check_rehearsal(self, state: State) -> None:
        """Refuse to record or learn in a rehearsal unless it was opened with `rehearsal`."""
        if state.rehearsal and not self._rehearsal:
            raise NotAllowedError(f"{self.name} is a rehearsal: nobody is treated in it")

    def entries_at(self, connection: Connection) -> Sequence[Entry]:
        """Return the whole ledger in a connection's snapshot."""
        return self._known_at(connection, heads_of(connection, self.name)["ledger"])[0]

    def state_at(self, connection: Connection) -> State:
        """Return the state in a connection's snapshot."""
        return self._known_at(connection, heads_of(connection, self.name)["ledger"])[1]

    def _known_at(self, connection: Connection, head: Head) -> tuple[PersistentList[Entry], State]:
        """Return ledger and state in a connection's snapshot, which may be old."""
        with self._lock:
            entries, state = self._known
            if len(entries) and entries[-1].link == head.link:
                return entries, state
            if head.length < len(entries):
                entries, state = PersistentList(), State()
            new = entries_after(connection, self.name, len(entries))
            entries, state = entries.extend(new), state.after(*new)
            if len(entries) >= len(self._known[0]):
                self._known = entries, state
            return entries, state

    def _commit_all(self, groups: Sequence[Sequence[Work]]) -> list[list[Any]]:
        return [self._commit(group) for group in groups]

    def _commit(self, group: Sequence[Work]) -> list[Any]:
        """Run all work of a group in one transaction; return an answer or an error for each."""
        with self.store.writing(self.name) as connection:
            heads = heads_of(connection, self.name)
            entries, state = self._known_at(connection, heads["ledger"])
            self.check_rehearsal(state)
            counted, self._counted = self._counted, None
            cohorts = None
            if counted is not None and counted[0] == _counted(heads, state):
                cohorts = counted[1]
            transaction = Recording(
                connection,
                self.name,
                state=state,
                heads=heads,
                now=self.clock(),
                cohorts=cohorts,
                works=group,
                policies=self.artifact,
            )
            answers = []
            for work in group:
                added = transaction.added
                try:
                    answers.append(work.run(transaction))
                except (CampaignError, TypeError, ValueError) as error:
                    if transaction.added != added:
                        raise
                    answers.append(error)
            cohorts = transaction.write()
        heads = transaction.heads
        with self._lock:
            if transaction.entries and self._known[0] is entries:
                self._known = entries.extend(transaction.entries), transaction.state
        if cohorts is not None:
            self._counted = _counted(heads, transaction.state), cohorts
        return answers

    def _read(
        self,
        report: Report | Mapping[str, Any] | str | bytes,
        episode: Episode | None = None,
        fields: Mapping[str, Any] = MappingProxyType({}),
    ) -> Report | Refusal:
        """Return a report from any of its forms, or the reason why it is invalid."""
        if episode is not None or fields:
            try:
                return Report(id=report, episode=episode, **fields)  # type: ignore[arg-type]
            except (TypeError, ValueError) as error:
                return Refusal(error, {"id": report})
        found = self._reports([report])[0]
        if isinstance(found, CampaignError):
            raise found
        return found

    def _reports(
        self, given: Sequence[Report | Mapping[str, Any] | str | bytes | ValueError]
    ) -> list[Report | Refusal | CampaignError]:
        """Return reports from any of their forms, or the reason why each is invalid."""
        found: dict[int, Report | Refusal | CampaignError] = {}
        tables: dict[int, dict[str, Any]] = {}
        raw: dict[int, dict[str, Any]] = {}  # reports with observations instead of rows
        for place, one in enumerate(given):
            if isinstance(one, Report):
                found[place] = one
                continue
            try:
                if isinstance(one, ValueError):
                    raise UnreadableError(str(one))
                is_text = isinstance(one, str | bytes)
                values = read_values(one) if is_text else checked_values(one)  # type: ignore[arg-type]
            except UnreadableError as error:
                found[place] = error
                continue
            if not is_observed(values):
                tables[place] = values
                continue
            try:
                tables[place], raw[place] = self.observer.with_rows(values), values
            except NotAllowedError as refused:  # the protocol has no columns
                found[place] = refused
            except (TypeError, ValueError) as error:
                found[place] = Refusal(error, values)
        for (place, values), read in zip(
            tables.items(), reports_from([*tables.values()]), strict=True
        ):
            if isinstance(read, Report):
                found[place] = read
            elif place in raw:
                found[place] = Refusal(without_values(read), raw[place])
            else:
                found[place] = Refusal(read, values)
        return [found[place] for place in range(len(given))]

    def _work(self, found: Report | Refusal) -> Work:
        """Return the work that records a report or registers its refusal."""
        is_refusal = isinstance(found, Refusal)
        return recording.refuse(found) if is_refusal else recording.record(found)  # type: ignore[arg-type]


def _counted(heads: Mapping[str, Head], state: State) -> Counted:
    """Return everything that cohorts depend on; a reopening restarts the intake."""
    return heads["episodes"], heads["refusals"], state.reopened


def _id(episode_id: str) -> str:
    return checked_name("episode_id", episode_id)


def _given(signature: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the signature of a decision as a keyword argument, if one is given."""
    return {} if signature is None else {"signature": Signature.of(signature)}


def _signed(by: str, reason: str, *, schedule: bool = False) -> dict[str, Any]:
    """Return the signer and the reason; the schedule signs its own proposals only."""
    name = by if schedule and by == SCHEDULE else checked_person("by", by)
    return {"by": name, "reason": checked_text("reason", reason)}


def list_campaigns(store: Store) -> list[str]:
    """Return the names of the campaigns of a store."""
    with store.reading() as connection:
        return sorted(connection.execute(sa.select(campaigns.c.campaign)).scalars())


def check_feature_map(protocol: Protocol, data: bytes) -> None:
    """Refuse a feature map that does not fit the task: such a protocol would be unusable."""
    if protocol.features is not None:
        Observer(
            features=protocol.features,
            data=data,
            actions=protocol.actions,
            task=protocol.task,
            subgroups=None if protocol.analysis is None else protocol.analysis.subgroups,
        )
