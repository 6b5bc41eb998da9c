"""Whether an entry of a ledger has all that its kind must say, in values of the right type."""

from collections.abc import Iterator, Mapping
from typing import Any

from rareswitch.campaigns.record.ledger import Entry

Types = tuple[type, ...]

WHOLE: Types = (int,)
NUMBER: Types = (int, float)
TEXT: Types = (str,)
FLAG: Types = (bool,)
TABLE: Types = (dict,)
LIST: Types = (list,)
WHOLE_OR_NONE: Types = (int, type(None))

DEPLOYMENT = {
    "version": WHOLE,
    "seq": WHOLE,
    "digest": TEXT,
    "members": WHOLE,
    "allocation": WHOLE_OR_NONE,
}
REVISION = {"protocol": TABLE, "digest": TEXT}
SIGNATURE = {"candidate": WHOLE, "meaning": TEXT}
PAYLOADS: Mapping[str, Mapping[str, Types]] = {
    "created": REVISION,
    "amended": REVISION,
    "candidate": DEPLOYMENT | {"planned": FLAG, "evidence": TABLE},
    "approved": SIGNATURE,
    "rejected": SIGNATURE,
    "deployed": DEPLOYMENT | {"candidate": WHOLE_OR_NONE},
    "rolled-back": DEPLOYMENT | {"to": WHOLE},
    "corrected": {"episode_id": TEXT, "seq": WHOLE, "corrects": WHOLE, "withdrawn": FLAG},
    "forgotten": {"episodes": WHOLE},
    "exported": {"digest": TEXT},
    "stopped": {},
}
TRIGGER = {"quantity": TEXT, "value": NUMBER, "threshold": NUMBER, "reached": FLAG}


def misshapen(entry: Entry) -> Iterator[str]:
    """Give what an entry does not say, or says in another form than its kind has."""
    payload = entry.payload
    if not isinstance(payload, dict):
        yield "it says nothing"
        return
    wanted = PAYLOADS.get(entry.kind, {})
    yield from (f"its {what}" for what in _lacking(payload, {"reached": TABLE} | dict(wanted)))
    for chain in ("episodes", "assignments", "refusals"):
        match payload.get("reached"):
            case {**reached} if not _is_head(reached.get(chain)):
                yield f"its reached has no head of {chain}"
    match payload.get("evidence"):
        case {"triggers": list(triggers)}:
            for trigger in triggers:
                table = trigger if isinstance(trigger, dict) else {}
                yield from (f"its trigger's {what}" for what in _lacking(table, TRIGGER))
        case {"triggers": _}:
            yield "its triggers are no list"


def _lacking(table: Mapping[str, Any], wanted: Mapping[str, Types]) -> Iterator[str]:
    for name, types in wanted.items():
        if name not in table:
            yield f"{name} is missing"
        elif type(table[name]) not in types:  # True is no number here
            yield f"{name} cannot be {table[name]!r}"


def _is_head(value: Any) -> bool:
    match value:
        case [int(length), str()]:
            return length >= 0
    return False
