"""The learner of a campaign, apart from recording: it folds the log, and proposes what is due."""

import json
import threading
from contextlib import ExitStack
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.learn.evidence import evidence_of
from rareswitch.campaigns.learn.fold import Fold
from rareswitch.campaigns.learn.learner_lock import learner_lock
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.names import same_person
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.state import Candidate, State
from rareswitch.campaigns.store.tables import progress, snapshots
from rareswitch.core.clock import Trigger
from rareswitch.core.policy import Policy

SCHEDULE = "schedule"  # who proposes what the schedule asks for
# A snapshot is kept after so many more episodes, and with every candidate.
SNAPSHOT_EVERY = 10_000


class Learning:
    """The one learner of a campaign; a context that holds its lock.

    Killed at any point, another goes on from the log with the same result: what it enters is a
    function of the log and the ledger, and entering is one transaction.
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

    def step(self, *, actor: str = SCHEDULE, reason: str | None = None) -> Candidate | None:
        """Fold what has come in; if a new policy is due, propose the first that is.

        Where the schedule decides it is in force then, and the next step goes on from there. A
        person may propose it in place of the schedule, and somebody else has to approve.
        """
        campaign = self.campaign
        with campaign.store.reading() as connection:
            head = heads_of(connection, campaign.name)["episodes"].length
            state = campaign.state_at(connection)
            fold = self._following(connection)
            if state.waiting is not None:
                return None
            found = fold.absorb_until_due(connection, state, upto=head)
            self._keep(fold, always=found)
            if not found:
                return None
            candidate = fold.learner.fit()
            evidence = self._evidence(connection, fold, state, candidate)
        reached = [trigger for trigger in evidence["triggers"] if trigger["reached"]]
        observed = "; ".join(
            f"{one['quantity']} {one['value']:g} has reached {one['threshold']:g}"
            for one in reached
        )
        try:
            return self.campaign.propose(
                candidate,
                seq=fold.seq,
                evidence=evidence,
                expected=state.in_force.version,
                actor=actor,
                reason=reason or observed,
            )
        except NotAllowedError:  # something came between: the next step sees it
            self._fold = None
            return None

    def propose_early(self, *, actor: str, reason: str) -> Candidate:
        """Propose a policy fitted on all that is recorded, though none is due: it is unplanned."""
        if same_person(actor, SCHEDULE):
            raise NotAllowedError(f"actor must be a person; {SCHEDULE} proposes what is due")
        campaign = self.campaign
        with campaign.store.reading() as connection:
            head = heads_of(connection, campaign.name)["episodes"].length
            state = campaign.state_at(connection)
            if state.waiting is not None:
                raise NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
            fold = self._following(connection)
            # Nobody asks the schedule on the way: nothing of it may stay unless a candidate is
            # entered, or rows at which a policy is due would be passed over.
            self._fold = None
            fold.absorb(connection, upto=head)
            candidate = fold.learner.fit()
            evidence = self._evidence(connection, fold, state, candidate)
        entered = campaign.propose(
            candidate,
            seq=fold.seq,
            evidence=evidence,
            expected=state.in_force.version,
            actor=actor,
            reason=reason,
            planned=False,
        )
        self._fold = fold
        self._keep(fold, always=True)
        return entered

    def follow(self, ended: threading.Event, *, every: float = 1.0) -> None:
        """Go on step by step until told to end."""
        while not ended.is_set():
            if self.step() is None:
                ended.wait(every)

    @property
    def triggers(self) -> tuple[Trigger, ...]:
        """What the schedule watches, as of the last step."""
        return () if self._fold is None else self._fold.triggers

    def _evidence(
        self, connection: Connection, fold: Fold, state: State, candidate: Policy
    ) -> dict[str, Any]:
        return evidence_of(
            connection,
            fold,
            candidate=candidate,
            in_force=self.campaign.artifact(state.in_force.digest),
            policies=self.campaign.artifact,
            versions=state.versions,
        )

    def _following(self, connection: Connection) -> Fold:
        """Return the fold, gone on to the end of the ledger; from a snapshot if there is one."""
        campaign = self.campaign
        entries = campaign.entries_at(connection)
        if self._fold is None:
            self._fold = self._resumed(connection)
        fold = self._fold
        new = entries[fold.entries :]
        behind = [e for e in new if e.kind in ("deployed", "rolled-back")]
        if any(entry.payload["seq"] < fold.seq for entry in behind):  # it had looked too far ahead
            fold = self._fold = Fold(campaign.name, campaign.artifact)
            new = entries
        fold.follow(connection, new)
        return fold

    def _resumed(self, connection: Connection) -> Fold:
        campaign = self.campaign
        kept = connection.execute(
            sa.select(snapshots).where(snapshots.c.campaign == campaign.name)
        ).first()
        if kept is None:
            return Fold(campaign.name, campaign.artifact)
        self._kept = kept.seq
        return Fold.resumed(
            campaign.name,
            campaign.artifact,
            data=kept.data,
            seq=kept.seq,
            entries=campaign.entries_at(connection)[: kept.entries],
        )

    def _keep(self, fold: Fold, *, always: bool) -> None:
        """Keep how far the learner is, and now and then all that it knows."""
        name = self.campaign.name
        learner = fold.learner
        said = {
            "episodes": learner.episodes,
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
                connection.execute(snapshots.delete().where(snapshots.c.campaign == name))
                connection.execute(
                    snapshots.insert().values(
                        campaign=name, seq=fold.seq, entries=fold.entries, data=learner.snapshot()
                    )
                )
        self._said = fold.seq, fold.entries
        if large:
            self._kept = fold.seq


def progress_of(connection: Connection, campaign: str) -> tuple[int, dict[str, Any]] | None:
    """Return how far the learner was, and what it said, when it last looked."""
    kept = connection.execute(sa.select(progress).where(progress.c.campaign == campaign)).first()
    return None if kept is None else (kept.seq, json.loads(kept.state))
