"""Strict reading of reports from JSON: nothing is converted, guessed or silently ignored.

A report is an object with the fields of a `Report`; arrays are nested lists, and fields without a
value are left out. docs/campaigns/recording.md has an example.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, NoReturn

import orjson

from rareswitch.campaigns.errors import UnreadableError
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.report_values import JSON_FIELDS, report_from
from rareswitch.campaigns.rulebook.names import NAME
from rareswitch.campaigns.rulebook.terms import AnalysisTerms

# A longer text is not a report.
MOST_BYTES = 16 * 2**20


def read_report(text: str | bytes) -> Report:
    """Return the report of a JSON text."""
    return report_from(read_values(text))


def read_values(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a report in JSON; raise UnreadableError for any other text."""
    if len(text) > MOST_BYTES:
        raise UnreadableError(f"a report must have at most {MOST_BYTES} bytes; got {len(text)}")
    try:
        values = read_json(text)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"a report must be a JSON object; {error}") from None
    return checked_values(values)


def checked_values(values: Any) -> dict[str, Any]:
    """Return the fields of a report, if it has features, observations or rewards."""
    if not isinstance(values, dict) or not values.keys() & {"features", "observations", "rewards"}:
        kind = "an object without them" if isinstance(values, dict) else type(values).__name__
        raise UnreadableError(
            f"a report must be a JSON object with features, observations or rewards; got {kind}"
        )
    return values


def is_observed(values: Any) -> bool:
    """Return whether the values of a report hold observations instead of features."""
    return isinstance(values, Mapping) and "observations" in values


def split_reports(data: bytes) -> list[Any]:
    """Return the reports of a JSON document (an object or an array) or of JSON lines.

    Each is a table of fields, or a line to read later. Raise UnreadableError for other input, so a
    wrong file is refused before any of its lines.
    """
    try:
        values = read_json(data)
    except (ValueError, RecursionError):
        lines = [line for line in data.splitlines() if line.strip()]
        if len(lines) > 1 and all(line.lstrip().startswith(b"{") for line in lines):
            return [read_values(line) for line in lines]
        return [read_values(data)]
    return [checked_values(one) for one in (values if isinstance(values, list) else [values])]


def report_of_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a report from a row of a table; `events` is a struct or a map.

    A struct has a column for each kind of event; the value is empty if there was no such event.

    >>> report_of_columns({"id": "ada", "events": {"nausea": 2, "serious": None}})
    {'id': 'ada', 'events': {'nausea': 2}}
    >>> report_of_columns({"id": "ada", "events": [("nausea", 2)]})
    {'id': 'ada', 'events': {'nausea': 2}}
    """
    values, events = dict(row), row.get("events")
    if isinstance(events, dict):
        values["events"] = {kind: count for kind, count in events.items() if count is not None}
    elif isinstance(events, list) and all(isinstance(pair, tuple) for pair in events):
        counts = dict(events)
        values["events"] = counts if len(counts) == len(events) else events  # refused: duplicates
    return values


def known_part(values: Mapping[str, Any], analysis: AnalysisTerms) -> dict[str, Any]:
    """Return the part of a refused report that the register keeps: numbers and valid names.

    Any other text or unknown field may be a person's name. The protocol's own names of subgroups
    and events are kept.
    """
    kept = {name: _numbers_of(values[name]) for name in JSON_FIELDS if name in values}
    for name in ("id", "site"):
        if isinstance(text := values.get(name), str) and NAME.fullmatch(text):
            kept[name] = text[:200]
    names = () if analysis.subgroups is None else analysis.subgroups.names
    if isinstance(subgroup := values.get("subgroup"), str) and subgroup in names:
        kept["subgroup"] = subgroup
    if isinstance(events := values.get("events"), Mapping):
        declared = {kind: events[kind] for kind in analysis.events if kind in events}
        kept["events"] = {kind: _numbers_of(count, 0) for kind, count in declared.items()}
    kept.pop("participant", None)
    return kept


def _numbers_of(value: Any, depth: int = 3) -> Any:
    """Return a value with "…" in place of everything but null, numbers and shallow lists."""
    if isinstance(value, list) and depth:
        return [_numbers_of(one, depth - 1) for one in value]
    number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if value is None or number else "…"


def read_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; duplicate keys, NaN and infinity are errors."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_slowly(text)
    return values if _has_distinct_keys(values, text) else _read_slowly(text)


def _has_distinct_keys(values: Any, text: str | bytes) -> bool:
    """Return True only if no object in a JSON text has a duplicate key.

    Without escapes, each key and each text has two quotes, and there are no other quotes. Only the
    last value of a duplicate key is kept, so the values have fewer quotes when written again.
    """
    data = text.encode() if isinstance(text, str) else text
    if b"\\" in data:
        return False
    try:
        return data.count(b'"') == orjson.dumps(values).count(b'"')
    except orjson.JSONEncodeError:  # lists are nested too deeply
        return False


def _read_slowly(text: str | bytes) -> Any:
    """Read a JSON text with all checks that orjson lacks; an error names the position."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, parse_constant=_no_number, object_pairs_hook=_distinct)


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not allowed")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        seen = set[str]()
        for name, _ in pairs:
            if name in seen:
                raise ValueError(f"the key {name[:200]!r} occurs twice")
            seen.add(name)
    return values
