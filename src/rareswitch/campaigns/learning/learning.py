"""The learner of a campaign, apart from recording: it folds the log, and proposes policies."""

import fcntl
import json
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
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

# A snapshot is kept after so many more episodes, and with every candidate.
SNAPSHOT_EVERY = 10_000
# How long a server may need to notice that the process of the last learner is dead, in seconds.
NOTICED = 5.0


class Learning:
    """The learner of a campaign; a context that holds its lock.

    Killed at any point, another learner continues from the log with the same result: a candidate is
    a function of the log and the ledger, and entering it is one transaction.
    """

    def __init__(self, campaign: Campaign) -> None:
        self.campaign = campaign
        self._fold: Fold | None = None
        self._kept = 0  # how far the snapshot goes
        self._said: tuple[int, int] | None = None  # rows and entries that progress was kept of
        self._held = ExitStack()

    def __enter__(self) -> "Learning":
        self._held.enter_context(learner_lock(self.campaign.store, self.campaign.name))
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()

    def step(self, *, by: str = SCHEDULE, reason: str | None = None) -> Candidate | None:
        """Process new episodes; if the schedule asks for a policy, propose the first.

        Where the schedule decides it is in force then, and the next step continues from there. A
        person may propose it in place of the schedule, and another person has to approve. If the
        schedule finds it not worth proposing, it is declined on record, and nobody is asked.
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
        except NotAllowedError:  # something came between: the next step sees it
            self._fold = None
            return None

    def propose_early(self, *, by: str, reason: str) -> Candidate:
        """Propose a policy fitted on all recorded episodes before it is due: it is unplanned."""
        with self._looking() as (record, state):
            if state.waiting is not None:
                raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
            fold = self._following(record)
            # Nobody asks the schedule on the way: the fold is kept only if a candidate is entered,
            # or rows at which a policy is due would be passed over.
            self._fold = None
            fold.absorb(record, upto=record.heads["episodes"].length)
            candidate = self._candidate(record, fold, state)
        entered = self.campaign.propose(**candidate, by=by, reason=reason, planned=False)
        self._fold = fold
        self._keep(fold, always=True)
        return entered

    @contextmanager
    def _looking(self) -> Iterator[tuple[StoredRecord, State]]:
        """Give one moment of the record, and its state, unless it is a rehearsal by mistake."""
        with self.campaign.store.reading() as connection:
            state = self.campaign.state_at(connection)
            self.campaign.check_rehearsal(state)
            yield StoredRecord(connection, self.campaign.name), state

    def _candidate(self, record: StoredRecord, fold: Fold, state: State) -> dict[str, Any]:
        """Return the policy that is fitted where the fold is, as `Campaign.propose` takes it."""
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
        """Return the fold after the whole ledger; from a snapshot if there is a sound one."""
        entries = self.campaign.entries_at(record.connection)
        if self._fold is None:
            self._fold = self._resumed(record, entries[:])
        fold = self._fold
        new = entries[fold.entries :]
        behind = [entry for entry in new if entry.kind in ("deployed", "declined", "rolled-back")]
        if any(entry.payload["seq"] < fold.seq for entry in behind):  # it had looked too far ahead
            fold = self._fold = self._new_fold()
            new = entries[:]
        fold.follow(record, new)
        return fold

    def _new_fold(self) -> Fold:
        return Fold(self.campaign.artifact, allow=self.campaign.allow)

    def _resumed(self, record: StoredRecord, entries: Sequence[Entry]) -> Fold:
        """Return the fold of the snapshot, or a new one if it is damaged or of other rows."""
        kept = record.connection.execute(
            sa.select(snapshots).where(snapshots.c.campaign == record.campaign)
        ).first()
        if kept is not None:
            try:
                after = entries[: kept.entries]
                if kept.link == _snapshot_link(record, kept.seq, after, bytes(kept.data)):
                    fold = self._new_fold()
                    fold.resume(bytes(kept.data), seq=kept.seq, entries=after)
                    self._kept = kept.seq
                    return fold
            except (LookupError, TypeError, ValueError, CampaignError):
                pass  # a damaged cache is made again
        return self._new_fold()

    def _keep(self, fold: Fold, *, always: bool) -> None:
        """Keep how far the learner is, and now and then all that it knows."""
        name = self.campaign.name
        said = {
            "episodes": fold.learner.episodes,
            "entries": fold.entries,
            "triggers": [trigger.to_dict() for trigger in fold.triggers],
        }
        large = always or fold.seq - self._kept >= SNAPSHOT_EVERY
        if not large and self._said == (fold.seq, fold.entries):
            return  # a learner that waits writes nothing
        with self.campaign.store.writing(name) as connection:
            kept: dict[Any, dict[str, Any]] = {progress: {"state": canonical(said)}}
            if large:
                record, data = StoredRecord(connection, name), fold.learner.snapshot()
                entries = self.campaign.entries_at(connection)[: fold.entries]
                link = _snapshot_link(record, fold.seq, entries, data)
                kept[snapshots] = {"entries": fold.entries, "data": data, "link": link}
            for table, row in kept.items():
                connection.execute(table.delete().where(table.c.campaign == name))
                connection.execute(table.insert().values(campaign=name, seq=fold.seq, **row))
        self._said = fold.seq, fold.entries
        if large:
            self._kept = fold.seq


def _snapshot_link(record: StoredRecord, seq: int, entries: Sequence[Entry], data: bytes) -> str:
    """Return a digest of a snapshot with the row and the entry that it was taken after."""
    rows = [row.link for row in record.rows("episodes", after=seq - 1, upto=seq)] if seq else [""]
    return digest_of(" ".join([rows[0], entries[-1].link, digest_of(data)]))


def progress_of(connection: Connection, campaign: str) -> tuple[int, dict[str, Any]]:
    """Return the row that the learner has seen, and its triggers then; a damaged cache is empty."""
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
    """Propose a policy that is due in place of the schedule, or, if `early`, before it is due."""
    with Learning(campaign) as learning:
        if early:
            return learning.propose_early(by=by, reason=reason)
        return learning.step(by=by, reason=reason)


def learner_lock(store: Store, campaign: str) -> AbstractContextManager[None]:
    """Hold the lock of a campaign's learner, which the system takes back from a dead process."""
    store.check_writable()
    return (_lock_of_file if store.is_sqlite else _lock_of_server)(store, campaign)


@contextmanager
def _lock_of_file(store: Store, campaign: str) -> Iterator[None]:
    assert store.path is not None
    # Two paths to one file, such as symbolic links, share one lock.
    path = f"{store.path.resolve()}.{campaign}.learner"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise unavailable(error, f"the lock file {path} cannot be opened") from error
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(file)
        raise _taken(campaign) from None
    try:
        yield
    finally:
        os.close(file)


@contextmanager
def _lock_of_server(store: Store, campaign: str) -> Iterator[None]:
    key = sa.func.hashtext(f"learner of {campaign}")
    with store.plainly("opened"):
        connection = store.engine.connect().execution_options(isolation_level="AUTOCOMMIT")
    try:
        asked, end = sa.select(sa.func.pg_try_advisory_lock(key)), time.monotonic() + NOTICED
        with store.plainly("read"):
            while not connection.execute(asked).scalar():
                if time.monotonic() > end:
                    raise _taken(campaign)
                time.sleep(NOTICED / 50)
        try:
            yield
        finally:
            with suppress(sa.exc.DBAPIError):  # a server that is gone has no locks
                connection.execute(sa.select(sa.func.pg_advisory_unlock(key)))
    finally:
        connection.close()


def _taken(campaign: str) -> NotAllowedError:
    return NotAllowedError(
        f"another process is the learner of {campaign}, such as `rareswitch campaign learn "
        "--follow`; it proposes policies that are due, and must end before another learns"
    )
