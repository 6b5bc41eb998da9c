"""The learner of a campaign, apart from recording: it folds the log, and proposes policies."""

import json
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import CampaignError, NotAllowedError
from rareswitch.campaigns.learning.evidence import evidence_of
from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.learning.lock import learner_lock
from rareswitch.campaigns.rulebook.names import SCHEDULE
from rareswitch.campaigns.rulebook.rows import Entry, canonical, digest_of
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.store.rows import StoredRecord
from rareswitch.campaigns.store.tables import progress, snapshots
from rareswitch.core.clock import Trigger

# A snapshot is kept after so many more episodes, and with every candidate.
SNAPSHOT_EVERY = 10_000


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
        person may propose it in place of the schedule, and another person has to approve.
        """
        campaign = self.campaign
        with campaign.store.reading() as connection:
            record = StoredRecord(connection, campaign.name)
            state = self._checked_state(connection)
            fold = self._following(record)
            if state.waiting is not None:
                return None
            found = fold.absorb_until_due(record, state, upto=record.heads["episodes"].length)
            if found:
                candidate = self._candidate(record, fold, state)
        self._keep(fold, always=found)
        if not found:
            return None
        observed = "; ".join(
            f"{one['quantity']} {one['value']:g} has reached {one['threshold']:g}"
            for one in candidate["evidence"]["triggers"]
            if one["reached"]
        )
        try:
            why = reason or observed or "the schedule asks for a policy"
            return campaign.propose(**candidate, by=by, reason=why)
        except NotAllowedError:  # something came between: the next step sees it
            self._fold = None
            return None

    def propose_early(self, *, by: str, reason: str) -> Candidate:
        """Propose a policy fitted on all recorded episodes before it is due: it is unplanned."""
        campaign = self.campaign
        with campaign.store.reading() as connection:
            record = StoredRecord(connection, campaign.name)
            state = self._checked_state(connection)
            if state.waiting is not None:
                raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
            fold = self._following(record)
            # Nobody asks the schedule on the way: the fold is kept only if a candidate is entered,
            # or rows at which a policy is due would be passed over.
            self._fold = None
            fold.absorb(record, upto=record.heads["episodes"].length)
            candidate = self._candidate(record, fold, state)
        entered = campaign.propose(**candidate, by=by, reason=reason, planned=False)
        self._fold = fold
        self._keep(fold, always=True)
        return entered

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """The triggers that the schedule watches, as of the last step."""
        return () if self._fold is None else self._fold.triggers

    def _checked_state(self, connection: Connection) -> State:
        state = self.campaign.state_at(connection)
        self.campaign.check_rehearsal(state)
        return state

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
        behind = [entry for entry in new if entry.kind in ("deployed", "rolled-back")]
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
            connection.execute(progress.delete().where(progress.c.campaign == name))
            connection.execute(
                progress.insert().values(campaign=name, seq=fold.seq, state=canonical(said))
            )
            if large:
                record = StoredRecord(connection, name)
                entries = self.campaign.entries_at(connection)[: fold.entries]
                data = fold.learner.snapshot()
                kept = {"campaign": name, "seq": fold.seq, "entries": fold.entries, "data": data}
                kept["link"] = _snapshot_link(record, fold.seq, entries, data)
                connection.execute(snapshots.delete().where(snapshots.c.campaign == name))
                connection.execute(snapshots.insert().values(**kept))
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
