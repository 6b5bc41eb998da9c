"""The form of entries: the fields and types of the payload of each kind."""

from collections.abc import Iterator, Mapping
from typing import Any

from rareswitch.campaigns.rulebook.rows import Entry
from rareswitch.campaigns.rulebook.signing import PROPOSALS, misshapen_signature

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
    "registered": dict.fromkeys(("credential", "algorithm", "public", "relying_party"), TEXT),
    "approved": {"meaning": TEXT},
    "rejected": {"meaning": TEXT},
    "expired": {"candidate": WHOLE},
    "commented": {"meaning": TEXT, "reviewed": FLAG},
    "deployed": _POLICY | {"candidate": WHOLE_OR_NONE},
    "rolled-back": _POLICY | {"to": WHOLE},
    "countersigned": {"rollback": WHOLE, "meaning": TEXT},
    "corrected": {"episode_id": TEXT, "seq": WHOLE, "corrects": WHOLE, "withdrawn": FLAG},
    "cancelled": {"episode_id": TEXT, "assignment": WHOLE},
    "forgotten": {"episodes": WHOLE},
    "exported": {"digest": TEXT},
    "stopped": {},
    "reopening": {"stopped": WHOLE},
    "reopened": {"stopped": WHOLE, "reopening": WHOLE, "meaning": TEXT},
}
_TRIGGER = {"quantity": TEXT, "value": (int, float), "threshold": (int, float), "reached": FLAG}


def misshapen(entry: Entry) -> Iterator[str]:
    """Yield the missing and malformed fields of an entry."""
    payload = entry.payload
    if entry.kind not in PAYLOADS:
        yield f"{entry.kind} is not a kind of entry"
        return
    if not isinstance(payload, dict):
        yield "it has no payload"
        return
    wanted = {"reached": TABLE, **PAYLOADS[entry.kind]}
    if entry.kind == "approved":
        wanted["amendment" if "amendment" in payload else "candidate"] = WHOLE
    yield from _lacking(payload, wanted)
    yield from misshapen_signature(entry)
    named = [name for name in PROPOSALS if payload.get(name) is not None]
    if entry.kind in ("approved", "amended", "reopened") and len(named) > 1:
        yield f"it must be about one proposal; got {' and '.join(named)}"
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
    """Return whether a table holds valid shares of a control and a floor."""
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
