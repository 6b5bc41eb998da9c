"""What is in force: a function of the ledger's entries, in their order, and of nothing else."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rareswitch.campaigns.errors import DamagedError, NotAllowedError
from rareswitch.campaigns.protocol import Protocol, protocol_of
from rareswitch.campaigns.record.canonical import canonical
from rareswitch.campaigns.record.ledger import KINDS, Entry
from rareswitch.core.policy import member_of


class Version(NamedTuple):
    """A policy that is or was in force.

    It was fitted on the log up to `seq`, and put in force when `since` episodes were recorded.
    `rollback_to` is the version whose policy it is, if it was a rollback.
    """

    version: int
    digest: str
    seq: int
    since: int
    members: int
    allocation: int | None
    rollback_to: int | None
    entry: Entry

    def member(self, episode_id: str) -> int:
        """Return the member that plays an episode."""
        return member_of(self.allocation or 0, episode_id, self.members)


@dataclass(kw_only=True)
class Candidate:
    """A policy fitted on the log up to `seq` that would be `version`, with its evidence.

    `number` is that of its entry. `status` is waiting, approved, rejected, deployed, or void if
    another version came into force meanwhile.
    """

    number: int
    version: int
    seq: int
    digest: str
    proposer: str
    planned: bool
    evidence: dict[str, Any]
    entry: Entry
    status: str = "waiting"
    approver: str | None = None


@dataclass(kw_only=True)
class State:
    """Where a campaign stands after some entries of its ledger."""

    entries: int = 0
    revisions: list[Protocol] = field(default_factory=list)
    versions: list[Version] = field(default_factory=list)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    stopped: Entry | None = None
    corrections: int = 0
    # The first row at which the schedule is asked after a rejection, or when there is budget again.
    asked_again: int = 0

    @property
    def protocol(self) -> Protocol:
        return self.revisions[-1]

    @property
    def in_force(self) -> Version:
        return self.versions[-1]

    @property
    def spent(self) -> int:
        """Deployments after the first, without rollbacks."""
        return sum(version.rollback_to is None for version in self.versions) - 1

    @property
    def left(self) -> int:
        return max(0, self.protocol.budget - self.spent)

    @property
    def waiting(self) -> Candidate | None:
        """The candidate that somebody has to decide about, or that is approved already."""
        for candidate in reversed(self.candidates.values()):
            if candidate.status in ("waiting", "approved"):
                return candidate
        return None

    @property
    def may_propose(self) -> bool:
        """Whether a candidate may be entered now, if one is due."""
        return self.waiting is None and not self.stopped and self.left > 0

    @property
    def watched(self) -> int:
        """The row of the log up to which the schedule was asked, or is not asked any more."""
        last = max((candidate.seq for candidate in self.candidates.values()), default=0)
        return max(last, self.asked_again - 1)

    def version(self, number: int) -> Version:
        if not 1 <= number <= len(self.versions):
            raise NotAllowedError(
                f"version must be from 1 to {len(self.versions)}, the one in force; got {number}"
            )
        return self.versions[number - 1]

    def candidate(self, number: int) -> Candidate:
        if number not in self.candidates:
            known = ", ".join(map(str, self.candidates)) or "none yet"
            raise NotAllowedError(f"there is no candidate {number}; there is {known}")
        return self.candidates[number]

    def after(self, entries: Iterable[Entry]) -> "State":
        """Go on to the state after these entries."""
        for entry in entries:
            if entry.number != self.entries + 1:
                raise DamagedError(f"entry {self.entries + 1} of the ledger is missing")
            self.entries += 1
            if entry.kind in KINDS:
                handle = getattr(self, f"_{entry.kind.replace('-', '_')}", None)
                if handle is not None:
                    handle(entry)
        return self

    def _created(self, entry: Entry) -> None:
        self.revisions.append(protocol_of(canonical(entry.payload["protocol"])))

    def _amended(self, entry: Entry) -> None:
        spent = not self.left
        self.revisions.append(protocol_of(canonical(entry.payload["protocol"])))
        if spent and self.left:  # nobody was asked at the rows before, whether a learner ran or not
            self.asked_again = max(self.asked_again, entry.position + 1)

    def _candidate(self, entry: Entry) -> None:
        payload = entry.payload
        self.candidates[entry.number] = Candidate(
            number=entry.number,
            version=payload["version"],
            seq=payload["seq"],
            digest=payload["digest"],
            proposer=entry.actor,
            planned=payload["planned"],
            evidence=payload["evidence"],
            entry=entry,
        )

    def _approved(self, entry: Entry) -> None:
        candidate = self.candidates[entry.payload["candidate"]]
        candidate.status, candidate.approver = "approved", entry.actor

    def _rejected(self, entry: Entry) -> None:
        self.candidates[entry.payload["candidate"]].status = "rejected"
        self.asked_again = entry.position + self.protocol.approval.retry_after

    def _deployed(self, entry: Entry) -> None:
        number = entry.payload["candidate"]
        if number is not None:
            self.candidates[number].status = "deployed"
        self._put_in_force(entry, rollback_to=None)

    def _rolled_back(self, entry: Entry) -> None:
        self._put_in_force(entry, rollback_to=entry.payload["to"])

    def _put_in_force(self, entry: Entry, *, rollback_to: int | None) -> None:
        payload = entry.payload
        for candidate in self.candidates.values():
            if candidate.status in ("waiting", "approved"):
                candidate.status = "void"
        self.versions.append(
            Version(
                version=payload["version"],
                digest=payload["digest"],
                seq=payload["seq"],
                since=entry.position,
                members=payload["members"],
                allocation=payload["allocation"],
                rollback_to=rollback_to,
                entry=entry,
            )
        )

    def _corrected(self, entry: Entry) -> None:
        self.corrections += 1

    def _stopped(self, entry: Entry) -> None:
        self.stopped = entry
