"""The rules that every entry of the ledger keeps, given the state before it.

The writer asks `broken_rules` about an entry before it is written; every verifier asks it again.
"""

from collections.abc import Iterator, Mapping
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
from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.rulebook.terms import Terms

ENDED_BY_A_STOP = (
    "candidate", "declined", "approved", "deployed", "amendment", "amended", "stopped",
)  # fmt: skip
# The entries that only a person who may sign enters.
SIGNED = (
    "approved", "rejected", "rolled-back", "amendment", "amended", "reopening", "reopened",
)  # fmt: skip
SIMULATION = "simulation"  # who creates a rehearsal

Types = tuple[type, ...]
WHOLE: Types = (int,)
TEXT: Types = (str,)
FLAG: Types = (bool,)
TABLE: Types = (dict,)
WHOLE_OR_NONE: Types = (int, type(None))
_POLICY = {"version": WHOLE, "seq": WHOLE, "digest": TEXT, "members": WHOLE}
_POLICY |= {"allocation": WHOLE_OR_NONE}
DEPLOYMENT = tuple(_POLICY)
_REVISION = {"protocol": TABLE, "digest": TEXT}
PAYLOADS: Mapping[str, Mapping[str, Types]] = {
    **dict.fromkeys(("created", "amendment", "amended"), _REVISION),
    **dict.fromkeys(("candidate", "declined"), _POLICY | {"planned": FLAG, "evidence": TABLE}),
    "approved": {"candidate": WHOLE, "meaning": TEXT},
    "rejected": {"meaning": TEXT},
    "deployed": _POLICY | {"candidate": WHOLE_OR_NONE},
    "rolled-back": _POLICY | {"to": WHOLE},
    "corrected": {"episode_id": TEXT, "seq": WHOLE, "corrects": WHOLE, "withdrawn": FLAG},
    "cancelled": {"episode_id": TEXT, "assignment": WHOLE},
    "forgotten": {"episodes": WHOLE},
    "exported": {"digest": TEXT},
    "stopped": {},
    "reopening": {"stopped": WHOLE},
    "reopened": {"stopped": WHOLE, "reopening": WHOLE, "meaning": TEXT},
}
_TRIGGER = {"quantity": TEXT, "value": (int, float), "threshold": (int, float), "reached": FLAG}


def broken_rules(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield the rules that an entry breaks."""
    if wrong := [*_misshapen(entry)]:
        yield from map(DamagedError, wrong)
        return
    kind = entry.kind
    begins = {1: "created", 2: "deployed"}.get(entry.number)
    if begins not in (None, kind) or (kind == "created" and entry.number > 1):
        yield DamagedError(f"{kind} is out of place: a ledger begins with a protocol and version 1")
        return
    yield from _signature(state, entry)
    if state.stopped and kind in ENDED_BY_A_STOP:
        yield NotAllowedError("the campaign has stopped")
    if state.approved and (kind, entry.payload.get("candidate")) != (
        "deployed", state.approved.payload["candidate"],
    ):  # fmt: skip
        yield DamagedError(f"the approval in entry {state.approved.number} was not carried out")
    for chain, length in state.reached.items():
        if entry.payload["reached"][chain][0] < length:
            yield DamagedError(f"it saw fewer {chain} than the entry before")
    if kind in _RULES:
        yield from _RULES[kind](state, entry)


def _misshapen(entry: Entry) -> Iterator[str]:
    """Yield the fields that an entry lacks, or holds in another form than its kind has."""
    payload = entry.payload
    if entry.kind not in PAYLOADS:
        yield f"{entry.kind} is not a kind of entry"
        return
    if not isinstance(payload, dict):
        yield "it has no payload"
        return
    yield from _lacking(payload, {"reached": TABLE, **PAYLOADS[entry.kind]})
    reached = payload.get("reached")
    for chain in ("episodes", "assignments", "refusals"):
        match reached.get(chain) if isinstance(reached, dict) else None:
            case [int(length), str()] if length >= 0:
                continue
        yield f"reached has no head of {chain}"
    if "shares" in payload and not _are_shares(payload["shares"]):
        yield f"shares cannot be {payload['shares']!r}"
    evidence: Any = payload.get("evidence")
    if not isinstance(evidence, dict):
        return
    watched = {"triggers": evidence.get("triggers", [])}
    if "worth" in evidence:
        worth = evidence["worth"] if isinstance(evidence["worth"], dict) else {}
        yield from _lacking(worth, {"accepted": FLAG})
        watched["reasons"] = worth.get("reasons")
    for name, triggers in watched.items():
        if not isinstance(triggers, list):
            yield f"{name} must be a list; got {triggers!r}"
            continue
        for trigger in triggers:
            yield from _lacking(trigger if isinstance(trigger, dict) else {}, _TRIGGER)


def _are_shares(shares: Any) -> bool:
    """Return whether a table holds the shares of a control and a floor."""
    if not isinstance(shares, dict) or {*shares} != {"control", "controls", "floor"}:
        return False
    control, controls, floor = (shares[name] for name in ("control", "controls", "floor"))
    if not type(control) is type(floor) is float or type(controls) is not int:
        return False
    possible = control >= 0.0 and floor >= 0.0 and 0.0 < control + floor <= 1.0
    return possible and controls >= 0 and (control > 0.0) == (controls > 0)


def _lacking(table: Mapping[str, Any], wanted: Mapping[str, Types]) -> Iterator[str]:
    for name, types in wanted.items():
        if name not in table:
            yield f"{name} is missing"
        elif type(table[name]) not in types:  # True is not a number here
            yield f"{name} cannot be {table[name]!r}"


def _signature(state: State, entry: Entry) -> Iterator[CampaignError]:
    """Yield why an entry cannot be signed by its actor."""
    kind, actor = entry.kind, entry.actor
    by_schedule = dict.fromkeys(("candidate", "declined", "deployed"), SCHEDULE)
    nobody = ({"stopped": ENGINE} | by_schedule).get(kind)
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
    told, waiting = entry.payload.get("amendment"), state.amendment
    if not state.terms.approval.two_persons:
        if told is not None:
            yield NotAllowedError("an amendment waits only where a second person approves")
    elif waiting is None or told != waiting.number:
        yield NotAllowedError("an amendment needs the approval of a second person")
    else:
        yield from _second_person(entry, waiting, f"approve amendment {waiting.number}")
        if waiting.payload["protocol"] != entry.payload["protocol"]:
            yield NotAllowedError(f"it is not the amendment in entry {waiting.number}")


def _second_person(entry: Entry, proposal: Entry, meaning: str) -> Iterator[CampaignError]:
    if same_person(entry.actor, proposal.actor):
        yield NotAllowedError(
            f"entry {proposal.number} was proposed by {proposal.actor}; another person has to "
            "approve"
        )
    if entry.payload.get("meaning") != meaning:
        yield NotAllowedError(f"it must be signed with the meaning: {meaning}")


def _not_next(state: State, entry: Entry) -> Iterator[CampaignError]:
    version, last = entry.payload["version"], len(state.versions)
    if version != last + 1:
        yield MovedError(
            f"version {last} is in force; this is about version {version}", version=last
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
    candidate = _find_waiting(state, entry.payload["candidate"])
    if isinstance(candidate, CampaignError):
        yield candidate
        return
    meaning = f"approve version {candidate.version} for deployment"
    yield from _second_person(entry, candidate.entry, meaning)
    yield from _no_budget(state)


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
    meaning = f"reject {kind} {number}"
    if entry.payload["meaning"] != meaning:
        yield NotAllowedError(f"it must be signed with the meaning: {meaning}")


def _find_waiting(state: State, number: Any) -> Candidate | CampaignError:
    """Return the candidate that waits under a number, or why it does not."""
    if state.waiting is not None and state.waiting.number == number:
        return state.waiting
    found = state.candidates.get(number)
    if found is None:
        return NotAllowedError(f"candidate must be an entry that waits; got {number}")
    if found.status == "void":
        return MovedError(f"candidate {number} is void: another version came into force")
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
        yield from _second_person(entry, waiting, f"approve reopening {waiting.number}")


_RULES = {
    **dict.fromkeys(("created", "amendment", "amended"), _revision),
    **dict.fromkeys(("corrected", "cancelled", "forgotten"), _about_rows),
    **dict.fromkeys(("reopening", "reopened"), _reopening),
    **dict.fromkeys(("candidate", "declined"), _candidate),
    "approved": _approved,
    "rejected": _rejected,
    "deployed": _deployed,
    "rolled-back": _rolled_back,
}
