"""The state of a campaign: a function of the ledger's entries in their order, and nothing else."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

from rareswitch.campaigns.errors import DamagedError, NotAllowedError
from rareswitch.campaigns.rulebook.approval import Owed
from rareswitch.campaigns.rulebook.names import ENGINE, person_key, same_person
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signatures import (
    KEY_FIELDS,
    Passkey,
    counter_of,
    from_base64url,
)
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.control import Split
from rareswitch.support.persistent import PersistentList

# Errors from a malformed entry.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, AssertionError)


class Version(NamedTuple):
    """A policy that is or was in force.

    It was fitted on the log up to `seq`, and put in force when the log had `since` rows. A rollback
    has the policy of an earlier version, `rollback_to`; `origin` is the first version with that
    policy. `shares` are those of a control and a floor; None if there is neither.
    """

    version: int
    digest: str
    seq: int
    since: int
    members: int
    allocation: int | None
    rollback_to: int | None
    origin: int
    entry: Entry
    shares: dict[str, Any] | None = None

    @property
    def split(self) -> Split:
        """The split of the version's episodes between its players."""
        return Split(self.members, self.allocation, **self.shares or {})

    def member(self, key: str) -> int:
        return self.split.draw(key)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A policy fitted on the log up to `seq`, proposed as `version`, with its evidence.

    `number` is that of its entry. `status` is waiting, rejected, deployed, void (another version
    came into force or the candidate expired), or declined (the schedule found it not worth
    proposing). `approvals` are the persons' signatures under the protocol in force.
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
    decision: Entry | None = None  # the last approval, the rejection or the expiry
    approvals: tuple[Entry, ...] = ()

    @property
    def plain(self) -> dict[str, Any]:
        plain, decision = dict(vars(self)), self.decision
        del plain["entry"], plain["decision"], plain["approvals"]
        decided = decision and {"by": decision.actor, "at": decision.at, "reason": decision.reason}
        return plain | {"reason": self.entry.reason, "decision": decided}

    @property
    def approver(self) -> str | None:
        """The person who approved it."""
        decision = self.decision
        return decision.actor if decision is not None and decision.kind == "approved" else None


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a campaign after some entries of its ledger.

    At most one candidate, one amendment and one reopening wait for a second person. `approved` is
    the last approval of a proposal; the next entry carries the proposal out. `registered` is a
    passkey whose first signature is the next entry.
    """

    entries: int = 0
    rehearsal: bool = False
    reached: Mapping[str, int] = field(default_factory=dict)
    revisions: PersistentList[Terms] = field(default_factory=PersistentList)
    versions: PersistentList[Version] = field(default_factory=PersistentList)
    settled: PersistentList[Candidate] = field(default_factory=PersistentList)
    waiting: Candidate | None = None
    approved: Entry | None = None
    amendment: Entry | None = None
    amendment_approvals: tuple[Entry, ...] = ()
    reopening: Entry | None = None
    # The decisions about amendments and reopenings.
    decided: PersistentList[Entry] = field(default_factory=PersistentList)
    reopened: int = 0  # the entry of the last reopening
    stopped: Entry | None = None
    corrections: int = 0
    withdrawn: int = 0
    cancelled: PersistentList[str] = field(default_factory=PersistentList)
    # The first row at which the schedule is evaluated after a rejection or an increase of budget.
    asked_again: int = 0
    links: PersistentList[str] = field(default_factory=PersistentList)  # of all entries
    passkeys: Mapping[str, Passkey] = field(default_factory=dict)  # by credential
    registered: Entry | None = None
    last_signed: Mapping[str, int] = field(default_factory=dict)  # by person: the last signed entry
    counters: Mapping[str, int] = field(default_factory=dict)  # by credential: its last signature's
    comments: PersistentList[Entry] = field(default_factory=PersistentList)
    uncountersigned: tuple[Entry, ...] = ()  # rollbacks that wait for a second signature
    countersignatures: tuple[Entry, ...] = ()

    @cached_property
    def terms(self) -> Terms:
        """The revision of the protocol in force."""
        terms: Terms = self.revisions[-1]
        return terms

    @cached_property
    def in_force(self) -> Version:
        version: Version = self.versions[-1]
        return version

    @cached_property
    def spent(self) -> int:
        """The number of deployments after the first, without rollbacks."""
        return sum(version.rollback_to is None for version in self.versions) - 1

    @property
    def left(self) -> int:
        return max(0, self.terms.budget - self.spent)

    @cached_property
    def candidates(self) -> dict[int, Candidate]:
        """Every candidate by the number of its entry."""
        found = [*self.settled, *([self.waiting] if self.waiting else [])]
        return {candidate.number: candidate for candidate in found}

    @cached_property
    def cancelled_ids(self) -> frozenset[str]:
        return frozenset(self.cancelled)

    @property
    def declined(self) -> list[Candidate]:
        """The candidates that the schedule found not worth proposing."""
        return [candidate for candidate in self.settled if candidate.status == "declined"]

    @property
    def may_propose(self) -> bool:
        """Whether a candidate may be entered when a policy is due."""
        return self.waiting is None and not self.stopped and self.left > 0

    @property
    def expires_at(self) -> int | None:
        """The row of the log at which the pending candidate expires."""
        after = self.terms.approval.expires_after
        return None if after is None or not self.waiting else self.waiting.entry.position + after

    def owed(self, proposal: Candidate | Entry) -> Owed:
        """Return the missing signatures of a pending candidate, amendment or reopening."""
        approval = self.terms.approval
        if isinstance(proposal, Candidate):
            approvals = proposal.approvals
        elif proposal.kind == "reopening":
            return approval.for_reopening.owed(())
        else:
            approvals = self.amendment_approvals
        return approval.owed(entry.actor for entry in approvals)

    @property
    def watched(self) -> int:
        """The row of the log up to which the schedule needs no evaluation."""
        last = self.waiting or (self.settled[-1] if len(self.settled) else None)
        return max(last.seq if last else 0, self.asked_again - 1)

    @property
    def stopped_for_data(self) -> bool:
        """Whether the engine stopped the campaign because too many reports were refused."""
        if self.stopped is None or not same_person(self.stopped.actor, ENGINE):
            return False
        return bool(self.stopped.payload.get("rule") == "data-quality")

    def version(self, number: int) -> Version:
        if not 1 <= number <= len(self.versions):
            raise NotAllowedError(
                f"version must be from 1 to {len(self.versions)}, the version in force; got "
                f"{number}"
            )
        version: Version = self.versions[number - 1]
        return version

    def role(self, version: int, member: int) -> str:
        """Return the role of a version's member: learned, control or floor."""
        return self.version(version).split.role(member)

    def candidate(self, number: int) -> Candidate:
        if number not in self.candidates:
            known = ", ".join(map(str, self.candidates)) or "none yet"
            raise NotAllowedError(f"candidate must be an entry that proposes a policy ({known}); "
                                  f"got {number}")  # fmt: skip
        return self.candidates[number]

    def after(self, *entries: Entry) -> "State":
        """Return the state after these entries."""
        state = self
        for entry in entries:
            if entry.number != state.entries + 1:
                raise DamagedError(f"entry {state.entries + 1} of the ledger is missing")
            try:
                reached = {chain: head[0] for chain, head in entry.payload["reached"].items()}
                change = _CHANGES.get(entry.kind)
                changes = change(state, entry) if change is not None else {}
                about = {"amendment", "reopening"} & entry.payload.keys()
                if (about and entry.kind != "commented") or entry.kind == "amended":
                    changes["decided"] = state.decided.extend([entry])
                changes["links"] = state.links.extend([entry.link])
                if "signature" in entry.payload:
                    signed = {person_key(entry.actor): entry.number}
                    changes |= {"last_signed": {**state.last_signed, **signed}, "registered": None}
                    changes["counters"] = {
                        **state.counters,
                        **counter_of(entry.payload["signature"]),
                    }
            except (NotAllowedError, *UNFIT) as error:
                raise DamagedError(
                    f"entry {entry.number} of the ledger cannot be followed: "
                    f"{type(error).__name__}: {error}"
                ) from None
            state = replace(state, entries=entry.number, reached=reached, **changes)
        return state


Changes = dict[str, Any]


def _created(state: State, entry: Entry) -> Changes:
    revisions = state.revisions.extend([Terms.of(entry.payload["protocol"])])
    return {"revisions": revisions, "rehearsal": bool(entry.payload.get("rehearsal", False))}


def _amended(state: State, entry: Entry) -> Changes:
    terms = Terms.of(entry.payload["protocol"])
    changes: Changes = {"revisions": state.revisions.extend([terms]), "amendment": None}
    changes |= {"amendment_approvals": (), "approved": None}
    if state.waiting is not None:  # its signatures were for the earlier revision
        changes["waiting"] = replace(state.waiting, approvals=())
    if not state.left and terms.budget > state.spent:  # earlier rows are not evaluated
        changes["asked_again"] = max(state.asked_again, entry.position + 1)
    return changes


def _candidate(state: State, entry: Entry) -> Changes:
    names = ("version", "seq", "digest", "planned", "evidence")
    told = {name: entry.payload[name] for name in names}
    found = Candidate(number=entry.number, proposer=entry.actor, entry=entry, **told)
    if entry.kind == "declined":
        return {"settled": state.settled.extend([replace(found, status="declined")])}
    return {"waiting": found}


def _rejected(state: State, entry: Entry) -> Changes:
    for kind in ("amendment", "reopening"):
        if kind in entry.payload:
            return {kind: None} | ({"amendment_approvals": ()} if kind == "amendment" else {})
    assert state.waiting is not None
    rejected = replace(state.waiting, status="rejected", decision=entry)
    again = entry.position + state.terms.approval.retry_after
    return {"settled": state.settled.extend([rejected]), "waiting": None, "asked_again": again}


def _expired(state: State, entry: Entry) -> Changes:
    assert state.waiting is not None
    void = replace(state.waiting, status="void", decision=entry)
    again = entry.position + 1
    return {"settled": state.settled.extend([void]), "waiting": None, "asked_again": again}


def _approved(state: State, entry: Entry) -> Changes:
    changes: Changes = {}
    approvals: tuple[Entry, ...] = ()
    waiting = state.waiting
    if "amendment" in entry.payload:
        approvals = changes["amendment_approvals"] = (*state.amendment_approvals, entry)
    elif waiting is not None:
        approvals = (*waiting.approvals, entry)
        changes["waiting"] = replace(waiting, approvals=approvals)
    owed = state.terms.approval.owed(one.actor for one in approvals)
    return changes | {"approved": None if owed.signatures else entry}


def _registered(state: State, entry: Entry) -> Changes:
    told = {name: entry.payload[name] for name in KEY_FIELDS}
    key = Passkey(entry.actor, entry.number, **told | {"public": from_base64url(told["public"])})
    return {"passkeys": {**state.passkeys, key.credential: key}, "registered": entry}


def _rolled_back(state: State, entry: Entry) -> Changes:
    owed = (entry,) if state.terms.approval.countersign_rollbacks else ()
    return _put_in_force(state, entry) | {"uncountersigned": (*state.uncountersigned, *owed)}


def _countersigned(state: State, entry: Entry) -> Changes:
    number = entry.payload["rollback"]
    waiting = tuple(one for one in state.uncountersigned if one.number != number)
    return {
        "uncountersigned": waiting,
        "countersignatures": (*state.countersignatures, entry),
    }


def _put_in_force(state: State, entry: Entry) -> Changes:
    payload, settled = entry.payload, state.settled
    if state.waiting is not None:
        deployed = payload.get("candidate") == state.waiting.number
        status = "deployed" if deployed else "void"
        decision = state.approved if deployed else None
        settled = settled.extend([replace(state.waiting, status=status, decision=decision)])
    to = payload.get("to")
    number = len(state.versions) + 1  # not the entry's number: a rule compares the two
    told = {name: payload[name] for name in ("digest", "seq", "members", "allocation")}
    origin = number if to is None else state.version(to).origin
    told |= {"since": entry.position, "rollback_to": to, "origin": origin, "entry": entry}
    told["shares"] = payload.get("shares")
    versions = state.versions.extend([Version(version=number, **told)])
    return {"settled": settled, "waiting": None, "approved": None, "versions": versions}


def _corrected(state: State, entry: Entry) -> Changes:
    withdrawn = state.withdrawn + bool(entry.payload["withdrawn"])
    return {"corrections": state.corrections + 1, "withdrawn": withdrawn}


_CHANGES: dict[str, Callable[[State, Entry], Changes]] = {
    "created": _created,
    "amendment": lambda state, entry: {"amendment": entry},
    "amended": _amended,
    "candidate": _candidate,
    "declined": _candidate,
    "registered": _registered,
    "approved": _approved,
    "rejected": _rejected,
    "expired": _expired,
    "commented": lambda state, entry: {"comments": state.comments.extend([entry])},
    "deployed": _put_in_force,
    "rolled-back": _rolled_back,
    "countersigned": _countersigned,
    "corrected": _corrected,
    "cancelled": lambda s, entry: {"cancelled": s.cancelled.extend([entry.payload["episode_id"]])},
    "stopped": lambda state, entry: {"stopped": entry},
    "reopening": lambda state, entry: {"reopening": entry},
    "reopened": lambda _, entry: {"reopening": None, "stopped": None, "reopened": entry.number},
}
