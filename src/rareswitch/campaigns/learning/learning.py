"""The learner of a campaign: it processes the log and proposes policies."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import CampaignError, NotAllowedError
from rareswitch.campaigns.learning.evidence import declined_because, evidence_of
from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.rulebook.names import SCHEDULE
from rareswitch.campaigns.rulebook.rows import Entry, canonical, digest_of
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.store import Store
from rareswitch.campaigns.store.rows import StoredRecord
from rareswitch.campaigns.store.store import unavailable
from rareswitch.campaigns.store.tables import progress, snapshots

# A snapshot is stored after this number of new episodes, and with every candidate.
SNAPSHOT_EVERY = 10_000
# The bytes of a snapshot in one transaction, so that reports do not wait long.
PART = 2**20
# Seconds that a server may need to notice that the last learner's process is dead.
NOTICED = 5.0


class Learning:
    """The learner of a campaign; a context manager that holds its lock.

    If it is killed at any point, another learner continues from the log with the same result: a
    candidate is a function of the log and the ledger, and entering it is one transaction. `wait` is
    the time limit for the lock in seconds. A server that restarts loses the lock; each step in the
    context then takes it again. Outside the context, a step takes no lock.
    """

    def __init__(self, campaign: Campaign, *, wait: float = NOTICED) -> None:
        self.campaign = campaign
        self._lock = learner_lock(campaign.store, campaign.name, wait=wait)
        self._locked = False  # whether the context was entered, even if a server lost the lock
        self._fold: Fold | None = None
        self._kept = 0  # the last row of the snapshot
        self._said: tuple[int, int] | None = None  # rows and entries of the stored progress

    def __enter__(self) -> "Learning":
        self._lock.take()
        self._locked = True
        return self

    def __exit__(self, *_: object) -> None:
        self._locked = False
        self._lock.release()

    def keep_lock(self) -> None:
        """Take the lock again if the server lost it; raise NotAllowedError if it is taken."""
        if self._locked:
            self._lock.keep()

    def step(self, *, by: str = SCHEDULE, reason: str | None = None) -> Candidate | None:
        """Process new episodes; propose the first policy that is due.

        If the schedule approves alone, the policy is then in force, and the next step continues
        from there. A person may propose instead of the schedule; another person must approve. If
        the schedule finds the policy not worth proposing, the ledger records it as declined.
        """
        with self._looking() as (record, state):
            fold = self._following(record)
            if state.waiting is not None:
                return None
            found = fold.absorb_until_due(record, state, upto=record.heads["episodes"].length)
            if found:
                candidate = self._candidate(record, fold, state)
        self._keep(fold, always=found)
        if not found:
            return None
        evidence = candidate["evidence"]
        observed = "; ".join(
            f"{one['quantity']} {one['value']:g} has reached {one['threshold']:g}"
            for one in evidence["triggers"]
            if one["reached"]
        )
        why = reason or observed or "the schedule asks for a policy"
        if "worth" in evidence and not evidence["worth"]["accepted"]:
            by, why = SCHEDULE, declined_because(evidence["worth"])
        try:
            return self.campaign.propose(**candidate, by=by, reason=why)
        except NotAllowedError:  # the campaign changed meanwhile; the next step sees it
            self._fold = None
            return None

    def propose_early(self, *, by: str, reason: str) -> Candidate:
        """Propose an unplanned policy, fitted on all recorded episodes, before one is due."""
        with self._looking() as (record, state):
            if state.waiting is not None:
                raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
            fold = self._following(record)
            # The schedule is not evaluated here. So the fold is kept only if a candidate is
            # entered: otherwise rows at which a policy is due would be skipped.
            self._fold = None
            fold.absorb(record, upto=record.heads["episodes"].length)
            candidate = self._candidate(record, fold, state)
        entered = self.campaign.propose(**candidate, by=by, reason=reason, planned=False)
        self._fold = fold
        self._keep(fold, always=True)
        return entered

    @contextmanager
    def _looking(self) -> Iterator[tuple[StoredRecord, State]]:
        """Yield a snapshot of the record and its state; refuse a rehearsal opened by mistake."""
        self.keep_lock()
        with self.campaign.store.reading() as connection:
            state = self.campaign.state_at(connection)
            self.campaign.check_rehearsal(state)
            yield StoredRecord(connection, self.campaign.name), state

    def _candidate(self, record: StoredRecord, fold: Fold, state: State) -> dict[str, Any]:
        """Return the policy fitted at the fold's row, as arguments of `Campaign.propose`."""
        policy, in_force = fold.learner.fit(), state.in_force
        evidence = evidence_of(
            record,
            fold,
            candidate=policy,
            in_force=self.campaign.artifact(in_force.digest),
            policies=self.campaign.artifact,
            versions=state.versions,
        )
        expected = in_force.version
        return {"policy": policy, "seq": fold.seq, "evidence": evidence, "expected": expected}

    def _following(self, record: StoredRecord) -> Fold:
        """Return the fold after the whole ledger, from a valid snapshot if there is one."""
        entries = self.campaign.entries_at(record.connection)
        if self._fold is None:
            self._fold = self._resumed(record, entries[:])
        fold = self._fold
        new = entries[fold.entries :]
        behind = [entry for entry in new if entry.kind in ("deployed", "declined", "rolled-back")]
        ahead = any(entry.payload["seq"] < fold.seq for entry in behind)
        # The schedule is not evaluated while a campaign is stopped; after a reopening, it is
        # evaluated on all rows since the last candidate.
        if ahead or any(entry.kind == "reopened" for entry in new):
            fold = self._fold = self._new_fold()
            new = entries[:]
        fold.follow(record, new)
        return fold

    def _new_fold(self) -> Fold:
        return Fold(self.campaign.artifact, allow=self.campaign.allow)

    def _resumed(self, record: StoredRecord, entries: Sequence[Entry]) -> Fold:
        """Return the fold of the snapshot, or a new fold if the snapshot is damaged or outdated."""
        mine = snapshots.c.campaign == record.campaign
        asked = sa.select(snapshots).where(mine).order_by(snapshots.c.part)
        parts = record.connection.execute(asked).all()
        if parts:
            kept, data = parts[-1], b"".join(bytes(part.data) for part in parts)
            try:
                after = entries[: kept.entries]
                if kept.link == _snapshot_link(record, kept.seq, after, data):
                    fold = self._new_fold()
                    fold.resume(data, seq=kept.seq, entries=after)
                    self._kept = kept.seq
                    return fold
            except (LookupError, TypeError, ValueError, CampaignError):
                pass  # a damaged cache is rebuilt
        return self._new_fold()

    def _keep(self, fold: Fold, *, always: bool) -> None:
        """Store the learner's progress and, from time to time, a snapshot."""
        name = self.campaign.name
        said = {
            "episodes": fold.learner.episodes,
            "entries": fold.entries,
            "triggers": [trigger.to_dict() for trigger in fold.triggers],
        }
        large = always or fold.seq - self._kept >= SNAPSHOT_EVERY
        if not large and self._said == (fold.seq, fold.entries):
            return  # an idle learner writes nothing
        with self.campaign.store.writing(name) as connection:
            connection.execute(progress.delete().where(progress.c.campaign == name))
            row = {"campaign": name, "seq": fold.seq, "state": canonical(said)}
            connection.execute(progress.insert().values(row))
        self._said = fold.seq, fold.entries
        if large:
            self._keep_snapshot(fold)

    def _keep_snapshot(self, fold: Fold) -> None:
        """Replace the snapshot part by part; the link proves that all parts are of one snapshot.

        The learner is packed before anything is written. Each part is a separate transaction, so
        reports can be recorded in between.
        """
        name, data = self.campaign.name, fold.learner.snapshot()
        with self.campaign.store.reading() as connection:
            entries = self.campaign.entries_at(connection)[: fold.entries]
            link = _snapshot_link(StoredRecord(connection, name), fold.seq, entries, data)
        row = {"campaign": name, "seq": fold.seq, "entries": fold.entries, "link": link}
        mine, parts = snapshots.c.campaign == name, range(-(-len(data) // PART))
        for part in parts:
            with self.campaign.store.writing(name) as connection:
                began = time.monotonic()
                number, last = snapshots.c.part, part == parts[-1]
                replaced = number >= part if last else number == part
                connection.execute(snapshots.delete().where(mine, replaced))
                values = row | {"part": part, "data": data[part * PART : (part + 1) * PART]}
                connection.execute(snapshots.insert().values(values))
            if not last:  # SQLite has no queue: an immediate retry would win
                time.sleep(time.monotonic() - began)
        self._kept = fold.seq


def _snapshot_link(record: StoredRecord, seq: int, entries: Sequence[Entry], data: bytes) -> str:
    """Return a digest of a snapshot and of its last row and entry."""
    rows = [row.link for row in record.rows("episodes", after=seq - 1, upto=seq)] if seq else [""]
    return digest_of(" ".join([rows[0], entries[-1].link, digest_of(data)]))


def progress_of(connection: Connection, campaign: str) -> tuple[int, dict[str, Any]]:
    """Return the learner's last row and its triggers there; a damaged cache counts as empty."""
    kept = connection.execute(sa.select(progress).where(progress.c.campaign == campaign)).first()
    try:
        said = json.loads(kept.state) if kept is not None else {}
        triggers = [dict(one, value=float(one["value"])) for one in said.get("triggers", [])]
        said = {"entries": int(said.get("entries", 0)), "triggers": triggers}
        return (int(kept.seq) if kept is not None else 0), said
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return 0, {"entries": 0, "triggers": []}


def learn(campaign: Campaign) -> list[Candidate]:
    """Run the learner once: process new episodes and propose each policy that is due."""
    found: list[Candidate] = []
    with Learning(campaign) as learning:
        while (candidate := learning.step()) is not None:
            found.append(candidate)
    return found


def propose(campaign: Campaign, *, by: str, reason: str, early: bool = False) -> Candidate | None:
    """Propose a due policy instead of the schedule, or, if `early`, before it is due."""
    with Learning(campaign) as learning:
        if early:
            return learning.propose_early(by=by, reason=reason)
        return learning.step(by=by, reason=reason)


def learner_lock(store: Store, campaign: str, *, wait: float) -> "_LockOfFile | _LockOfServer":
    """Return the lock of a campaign's learner; the system releases it if the process dies."""
    if store.is_sqlite:
        return _LockOfFile(store, campaign)
    return _LockOfServer(store, campaign, wait)


class _LockOfFile:
    def __init__(self, store: Store, campaign: str) -> None:
        self._store, self._campaign = store, campaign
        self._file: int | None = None

    def take(self) -> None:
        """Take the lock; raise NotAllowedError if another process has it."""
        self._store.check_writable()
        assert self._store.path is not None
        # Two paths to one file, for example symbolic links, share one lock.
        path = f"{self._store.path.resolve()}.{self._campaign}.learner"
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise unavailable(error, f"the lock file {path} cannot be opened") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise _taken(self._campaign) from None
        self._file = file

    def keep(self) -> None:
        """Do nothing: the system releases the lock only when the process ends."""

    def release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class _LockOfServer:
    def __init__(self, store: Store, campaign: str, wait: float) -> None:
        self._store, self._campaign, self._wait = store, campaign, wait
        self._key = sa.func.hashtext(f"learner of {campaign}")
        self._connection: Connection | None = None

    def take(self) -> None:
        """Take the lock; raise NotAllowedError if another process has it."""
        self._store.check_writable()
        with self._store.plainly("read"):
            connection = self._store.engine.connect()
            connection = connection.execution_options(isolation_level="AUTOCOMMIT")
        try:
            asked, end = sa.select(sa.func.pg_try_advisory_lock(self._key)), _in(self._wait)
            with self._store.plainly("read"):
                while not connection.execute(asked).scalar():
                    if time.monotonic() >= end:
                        raise _taken(self._campaign)
                    time.sleep(NOTICED / 50)
        except BaseException:
            connection.close()
            raise
        self._connection = connection

    def keep(self) -> None:
        """Take the lock again if its connection is lost; another process may have it now."""
        if self._connection is not None:
            try:
                self._connection.execute(sa.select(1))
                return
            except sa.exc.DBAPIError:
                self._connection.close()
                self._connection = None
        self.take()

    def release(self) -> None:
        if self._connection is not None:
            with suppress(sa.exc.DBAPIError):  # a lost server has no locks
                self._connection.execute(sa.select(sa.func.pg_advisory_unlock(self._key)))
            self._connection.close()
            self._connection = None


def _in(seconds: float) -> float:
    return time.monotonic() + seconds


def _taken(campaign: str) -> NotAllowedError:
    return NotAllowedError(
        f"another process is the learner of {campaign}, such as `rareswitch campaign learn "
        "--follow`; it proposes policies that are due, and must end before another learns"
    )
