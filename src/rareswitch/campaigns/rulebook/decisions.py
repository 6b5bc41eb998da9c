"""The rules that every entry of the ledger obeys, given the state before it.

The writer checks a new entry with `broken_rules`; every verifier checks it again.
"""

from collections.abc import Iterator
from typing import Any

from rareswitch.campaigns.errors import CampaignError, DamagedError, MovedError, NotAllowedError
from rareswitch.campaigns.rulebook.names import (
    ENGINE,
    SCHEDULE,
    checked_person,
    checked_text,
    person_key,
    same_person,
)
from rareswitch.campaigns.rulebook.payloads import DEPLOYMENT, misshapen
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signing import (
    PROPOSALS,
    about_entry,
    broken_registration,
    broken_signature,
)
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.rulebook.terms import Terms

ENDED_BY_A_STOP = (
    "candidate", "declined", "approved", "deployed", "amendment", "amended", "stopped", "expired",
)  # fmt: skip
# The kinds of entry that only a signer may make.
SIGNED = (
    "approved", "rejected", "rolled-back", "countersigned", "amendment", "amended", "reopening",
    "reopened",
)  # fmt: skip
SIMULATION = "simulation"  # the actor who creates a rehearsal


def broken_rules(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield the rules that an entry breaks."""
    if wrong := [*misshapen(entry)]:
        yield from map(DamagedError, wrong)
        return
    kind = entry.kind
    begins = {1: "created", 2: "deployed"}.get(entry.number)
    if begins not in (None, kind) or (kind == "created" and entry.number > 1):
        yield DamagedError(f"{kind} is out of place: a ledger begins with a protocol and version 1")
        return
    yield from _signer(state, entry)
    yield from broken_signature(state, entry)
    if state.stopped and kind in ENDED_BY_A_STOP:
        yield NotAllowedError("the campaign has stopped")
    if state.approved is not None and not _carries_out(entry, state.approved):
        yield DamagedError(f"the approval in entry {state.approved.number} was not carried out")
    for chain, length in state.reached.items():
        if entry.payload["reached"][chain][0] < length:
            yield DamagedError(f"it saw fewer {chain} than the entry before")
    if kind in _RULES:
        yield from _RULES[kind](state, entry)


def _carries_out(entry: Entry, approved: Entry) -> bool:
    """Return whether an entry carries out the complete approval before it."""
    what = "amendment" if "amendment" in approved.payload else "candidate"
    done = {"candidate": "deployed", "amendment": "amended"}[what]
    return entry.kind == done and entry.payload.get(what) == approved.payload.get(what)


def _signer(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield the reasons why the actor may not make an entry."""
    kind, actor = entry.kind, entry.actor
    by_schedule = dict.fromkeys(("candidate", "declined", "deployed"), SCHEDULE)
    nobody = ({"stopped": ENGINE, "expired": ENGINE} | by_schedule).get(kind)
    planned = kind != "candidate" or entry.payload["planned"]
    try:
        checked_text("reason", entry.reason)
        if actor == nobody and planned:
            return
        if checked_person("by", actor) != actor:
            raise ValueError(f"by must be a name in its normal form; got {actor!r}")
    except (TypeError, ValueError) as error:
        yield NotAllowedError(str(error))
        return
    if kind == "created":
        if (person_key(actor) == SIMULATION) != bool(entry.payload.get("rehearsal", False)):
            yield NotAllowedError(f"{SIMULATION} creates rehearsals, and nobody else does")
    elif (kind in SIGNED or kind == "stopped") and not state.terms.approval.may_sign(actor):
        signers = ", ".join(state.terms.approval.signers)
        yield NotAllowedError(f"by must be a signer of the protocol ({signers}); got {actor}")


def _revision(state: State, entry: Entry) -> Iterator[CampaignError]:
    terms = Terms.of(entry.payload["protocol"])
    if terms.digest != entry.payload["digest"]:
        yield DamagedError("the digest of the protocol is another")
    if entry.kind == "created":
        return
    if terms.fixed != state.terms.fixed:
        yield NotAllowedError(
            "an amendment must not change [task] or [recipe]: recorded episodes depend on them"
        )
    elif terms.plain == state.terms.plain:
        yield NotAllowedError("an amendment must change something; this is the same protocol")
    if terms.budget < state.spent:
        yield NotAllowedError(
            f"deployments must be at least {state.spent}, which are spent; got {terms.budget}"
        )
    recorded = entry.position - state.corrections
    if terms.episodes != state.terms.episodes and terms.episodes <= recorded:
        yield NotAllowedError(
            f"episodes must be more than the {recorded} recorded; stop the campaign to end it; got "
            f"{terms.episodes}"
        )
    if entry.kind == "amendment":
        if not state.terms.approval.two_persons:
            yield NotAllowedError("an amendment waits only where a second person approves")
        if state.amendment is not None:
            yield NotAllowedError(f"amendment {state.amendment.number} waits for a decision")
        return
    told, waiting, approval = entry.payload.get("amendment"), state.amendment, state.terms.approval
    if not state.terms.approval.two_persons:
        if told is not None:
            yield NotAllowedError("an amendment waits only where a second person approves")
    elif waiting is None or told != waiting.number:
        yield NotAllowedError("an amendment needs the approval of a second person")
    else:
        if not approval.several:
            yield from _second_person(entry, waiting)
        elif state.approved is None or state.approved.actor != entry.actor:
            yield NotAllowedError(f"amendment {told} lacks {owed_words(state, waiting)}")
        if waiting.payload["protocol"] != entry.payload["protocol"]:
            yield NotAllowedError(f"it is not the amendment in entry {waiting.number}")


def _second_person(entry: Entry, proposal: Entry) -> Iterator[CampaignError]:
    if same_person(entry.actor, proposal.actor):
        yield NotAllowedError(
            f"entry {proposal.number} was proposed by {proposal.actor}; another person has to "
            "approve"
        )


def _not_next(state: State, entry: Entry) -> Iterator[CampaignError]:
    version, last = entry.payload["version"], len(state.versions)
    if version != last + 1:
        yield MovedError(
            f"version {last} is in force; the decision is about version {version}", version=last
        )


def _no_budget(state: State) -> Iterator[CampaignError]:
    if not state.left:
        yield NotAllowedError(
            f"the budget of {state.terms.budget} deployments is spent; an amendment may raise it"
        )


def _candidate(state: State, entry: Entry) -> Iterator[CampaignError]:
    yield from _not_next(state, entry)
    if state.waiting is not None:
        yield NotAllowedError(f"candidate {state.waiting.number} waits for a decision")
    yield from _no_budget(state)
    seq = entry.payload["seq"]
    least = max(state.in_force.seq, state.asked_again if entry.payload["planned"] else 0)
    if not least <= seq <= entry.position:
        yield NotAllowedError(
            f"seq must be a row from {least} to {entry.position} on which a candidate may be "
            f"fitted; got {seq}"
        )
    declined, planned = entry.kind == "declined", entry.payload["planned"]
    accepted = entry.payload["evidence"].get("worth", {}).get("accepted", True)
    if declined and not (planned and entry.actor == SCHEDULE):
        yield NotAllowedError("only the schedule declines a candidate, and only when it is due")
    elif planned and accepted is declined:
        worth = "is worth proposing" if declined else "is not worth proposing"
        yield NotAllowedError(f"by its evidence the candidate {worth}")


def _approved(state: State, entry: Entry) -> Iterator[CampaignError]:
    if "amendment" in entry.payload:
        number, amendment = entry.payload["amendment"], state.amendment
        if amendment is None or amendment.number != number:
            yield NotAllowedError(f"amendment {number} does not wait for a decision")
        elif not state.terms.approval.several:
            yield NotAllowedError("one approval is enough: it is the entry that amends")
        else:
            yield from _second_person(entry, amendment)
            yield from _adds_nothing(state, entry, amendment)
        return
    candidate = _find_waiting(state, entry.payload["candidate"])
    if isinstance(candidate, CampaignError):
        yield candidate
        return
    yield from _second_person(entry, candidate.entry)
    yield from _adds_nothing(state, entry, candidate)
    yield from _no_budget(state)
    if state.uncountersigned:
        number = state.uncountersigned[0].number
        yield NotAllowedError(f"rollback {number} waits for a second person to countersign it")
    if (end := state.expires_at) is not None and entry.position >= end:
        yield MovedError(f"candidate {candidate.number} expired at row {end}")


def _adds_nothing(
    state: State, entry: Entry, proposal: Candidate | Entry
) -> Iterator[CampaignError]:
    """Yield the reasons why a signature does not count towards a proposal's approval."""
    approval, lacks = state.terms.approval, state.owed(proposal)
    approvals = state.amendment_approvals if isinstance(proposal, Entry) else proposal.approvals
    signed = [one.actor for one in approvals]
    if any(same_person(name, entry.actor) for name in signed):
        yield NotAllowedError(f"{entry.actor} has approved {proposal.number} already")
    elif approval.owed([*signed, entry.actor]) == lacks:
        yield NotAllowedError(
            f"{proposal.number} lacks {owed_words(state, proposal)}; got {entry.actor}"
        )


def owed_words(state: State, proposal: Candidate | Entry) -> str:
    """Describe the missing signatures of a proposal in words."""
    signatures, groups = state.owed(proposal)
    persons = [f"{group} ({' or '.join(state.terms.approval.groups[group])})" for group in groups]
    many = "1 signature" if signatures == 1 else f"{signatures} signatures"
    return f"{many}, of {' and of '.join(persons)}" if persons else many


def _expired(state: State, entry: Entry) -> Iterator[CampaignError]:
    number, end = entry.payload["candidate"], state.expires_at
    found = _find_waiting(state, number)
    if isinstance(found, CampaignError):
        yield found
    elif end is None or entry.position < end:
        yield NotAllowedError(f"candidate {number} expires at row {end}")
    if entry.actor != ENGINE:
        yield NotAllowedError(f"{ENGINE} alone lets a candidate expire; got {entry.actor}")


def _commented(state: State, entry: Entry) -> Iterator[CampaignError]:
    kinds = [kind for kind in PROPOSALS if kind in entry.payload]
    if len(kinds) != 1:
        yield DamagedError("a comment must name one proposal")
    elif about_entry(state, entry.kind, entry.payload) is None:
        number = entry.payload[kinds[0]]
        yield NotAllowedError(f"{kinds[0]} {number} is not a proposal to comment on")


def _countersigned(state: State, entry: Entry) -> Iterator[CampaignError]:
    number = entry.payload["rollback"]
    found = [one for one in state.uncountersigned if one.number == number]
    if not found:
        yield NotAllowedError(f"rollback {number} does not wait for a countersignature")
    elif same_person(found[0].actor, entry.actor):
        yield NotAllowedError(
            f"entry {number} was signed by {found[0].actor}; another person has to countersign"
        )


def _rejected(state: State, entry: Entry) -> Iterator[CampaignError]:
    kinds = [kind for kind in ("candidate", "amendment", "reopening") if kind in entry.payload]
    if len(kinds) != 1:
        yield DamagedError("a rejection must name one proposal")
        return
    kind, number = kinds[0], entry.payload[kinds[0]]
    if kind == "candidate":
        found = _find_waiting(state, number)
        if isinstance(found, CampaignError):
            yield found
    elif (waiting := getattr(state, kind)) is None or waiting.number != number:
        yield NotAllowedError(f"{kind} {number} does not wait for a decision")


def _find_waiting(state: State, number: Any) -> Candidate | CampaignError:
    """Return the pending candidate with a number, or the error if it is not pending."""
    if state.waiting is not None and state.waiting.number == number:
        return state.waiting
    found = state.candidates.get(number)
    if found is None:
        return NotAllowedError(f"candidate must be an entry that waits; got {number}")
    if found.status == "void":
        why = "it expired" if found.decision else "another version came into force"
        return MovedError(f"candidate {number} is void: {why}")
    return NotAllowedError(f"candidate {number} is {found.status} already")


def _deployed(state: State, entry: Entry) -> Iterator[CampaignError]:
    payload, candidate = entry.payload, state.waiting
    yield from _not_next(state, entry)
    number = payload["candidate"]
    if not len(state.versions):
        if number is not None or payload["seq"]:
            yield DamagedError("version 1 is fitted on no data, and nobody proposes it")
        return
    if candidate is None or candidate.number != number:
        yield NotAllowedError(f"a version must come from a waiting candidate; got {number}")
        return
    yield from _no_budget(state)
    if state.approved is not None:
        signed = state.approved.actor == entry.actor
    else:  # the schedule alone, at once
        alone = not state.terms.approval.two_persons and candidate.planned
        signed = alone and entry.number == number + 1 and entry.actor == candidate.proposer
    if not signed:
        yield NotAllowedError(f"candidate {number} was not approved by {entry.actor}")
    proposed = candidate.entry.payload
    if any(proposed.get(key) != payload.get(key) for key in (*DEPLOYMENT, "shares")):
        yield NotAllowedError(f"it is not candidate {number} that was deployed")


def _rolled_back(state: State, entry: Entry) -> Iterator[CampaignError]:
    yield from _not_next(state, entry)
    payload, in_force = entry.payload, state.in_force
    to, kept = payload["to"], ("digest", "members", "allocation", "shares")
    if not 1 <= to <= len(state.versions):
        yield NotAllowedError(f"to must be from 1 to {len(state.versions)}; got {to}")
        return
    earlier = state.version(to)
    if earlier.origin >= in_force.origin:
        yield NotAllowedError(
            f"a rollback goes back: version {in_force.version} has the policy of version "
            f"{in_force.origin}; got version {to}"
        )
    if any(getattr(earlier, key) != payload.get(key) for key in kept):
        yield NotAllowedError(f"its policy is not that of version {to}")
    if payload["seq"] != entry.position:
        yield NotAllowedError(f"it counts from row {payload['seq']} of {entry.position} rows")


def _about_rows(state: State, entry: Entry) -> Iterator[CampaignError]:
    kind, payload = entry.kind, entry.payload
    if kind == "corrected" and payload["seq"] != entry.position:
        yield DamagedError(f"the last row then was {entry.position}, not {payload['seq']}")
    if kind == "cancelled" and (name := payload["episode_id"]) in state.cancelled_ids:
        yield NotAllowedError(f"episode {name} is cancelled already")
    if kind == "forgotten" and payload["episodes"] < 1:
        yield NotAllowedError("no episode has a participant of that name")


def _reopening(state: State, entry: Entry) -> Iterator[CampaignError]:
    stop = state.stopped
    if stop is None or not state.stopped_for_data:
        yield NotAllowedError("only a campaign that data-quality stopped can be reopened")
    elif entry.payload["stopped"] != stop.number:
        yield NotAllowedError(f"the campaign was stopped by entry {stop.number}")
    if entry.kind == "reopening":
        return
    waiting = state.reopening
    if waiting is None or entry.payload["reopening"] != waiting.number:
        yield NotAllowedError("a reopening needs the approval of a second person")
    else:
        yield from _second_person(entry, waiting)


_RULES = {
    **dict.fromkeys(("created", "amendment", "amended"), _revision),
    **dict.fromkeys(("corrected", "cancelled", "forgotten"), _about_rows),
    **dict.fromkeys(("reopening", "reopened"), _reopening),
    **dict.fromkeys(("candidate", "declined"), _candidate),
    "registered": broken_registration,
    "approved": _approved,
    "rejected": _rejected,
    "expired": _expired,
    "commented": _commented,
    "deployed": _deployed,
    "rolled-back": _rolled_back,
    "countersigned": _countersigned,
}
