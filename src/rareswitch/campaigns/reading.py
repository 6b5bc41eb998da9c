"""Reports from JSON, strictly: nothing is converted, guessed or silently ignored.

A report is an object with the names of a `Report`'s fields; arrays are nested lists, and fields
without a value are left out. docs/campaigns.md has an example.
"""

import json
import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any, NoReturn

import numpy as np
import orjson

from rareswitch.campaigns.errors import UnreadableError
from rareswitch.campaigns.report import MORE_ARRAYS, Report, pack_bodies
from rareswitch.campaigns.rulebook.claims import CLAIMS
from rareswitch.campaigns.rulebook.names import NAME
from rareswitch.campaigns.rulebook.terms import AnalysisTerms
from rareswitch.core.episode import Episode, are_finite
from rareswitch.support.arguments import Ints, Rows, all_within, short_repr

# A longer text is not a report.
MOST_BYTES = 16 * 2**20
NUMBERS: set[type] = {int, float}
WHOLE: set[type] = {int}
JSON_FIELDS = (
    "id", "version", "member", "features", "rewards", "next_features", *MORE_ARRAYS, *CLAIMS,
    "participant",
)  # fmt: skip
WORDS = ("id", "version", "member", *CLAIMS, "participant")
NEEDED = ("id", "features", "rewards")
USUAL = {*WORDS, *NEEDED, "next_features", "first_features", "actions"}
_WRONG = (LookupError, TypeError, ValueError, OverflowError)  # of a report that is not valid


def read_report(text: str | bytes) -> Report:
    """Return the report of a JSON text."""
    return report_from(read_values(text))


def report_from(values: Mapping[str, Any]) -> Report:
    """Return the report of its fields as JSON has them; an error names the field."""
    if unknown := [name for name in values if name not in JSON_FIELDS]:
        raise ValueError(
            f"a report may have only the fields {', '.join(JSON_FIELDS)}; got {unknown[0]!r}"
        )
    given = {name: value for name, value in values.items() if value is not None}
    if missing := [name for name in NEEDED if name not in given]:
        raise ValueError(f"a report needs {missing[0]}; got {', '.join(given) or 'nothing'}")
    if (shape := _shape(given)) is not None:
        try:
            return _read_together([given], *shape)[0]
        except _WRONG:
            pass  # read part by part, it says why
    given["episode"] = Episode(
        features=numbers("features", given.pop("features")),
        rewards=numbers("rewards", given.pop("rewards")),
        next_features=_following(given.pop("next_features", [])),
    )
    for name in MORE_ARRAYS:
        if name in given:
            given[name] = numbers(name, given[name])
    return Report(**given)


def reports_from(tables: Sequence[Mapping[str, Any]]) -> list[Report | Exception]:
    """Return the report of each table, or its error; reports of one shape are read together."""
    found: list[Report | Exception | None] = [None] * len(tables)
    alike: dict[Any, list[int]] = {}
    for place, table in enumerate(tables):
        if (shape := _shape(table)) is not None:
            alike.setdefault((tuple(table), *shape), []).append(place)
    for (_, *shape), places in alike.items():
        with suppress(*_WRONG):
            together = _read_together([tables[place] for place in places], *shape)
            for place, report in zip(places, together, strict=True):
                found[place] = report
    for place, table in enumerate(tables):
        if found[place] is None:
            try:
                found[place] = report_from(table)
            except (TypeError, ValueError) as error:
                found[place] = error
    return [report for report in found if report is not None]


def _shape(table: Mapping[str, Any]) -> tuple[int, tuple[int, ...], int] | None:
    """Return the steps, the offers after them and the first offer; None if it is unusual."""
    if not {*NEEDED} <= table.keys() <= USUAL:
        return None
    features, following = table["features"], table.get("next_features", [])
    first = table.get("first_features", [])
    if {type(features), type(following), type(first), *map(type, following)} != {list}:
        return None
    steps, lengths = len(features), tuple(map(len, following))
    usual = steps and steps - len(lengths) in (0, 1) and all(lengths)
    usual = usual and bool(first) == ("first_features" in table)
    return (steps, lengths, len(first)) if usual else None


def _read_together(
    tables: Sequence[Mapping[str, Any]], steps: int, lengths: Sequence[int], first: int
) -> list[Report]:
    """Return reports of one shape, checked together; any error means that one is not valid."""
    count, ends = len(tables), steps + sum(lengths)
    listed: list[Any] = []
    for table in tables:
        listed += table["features"]
        listed += chain.from_iterable(table.get("next_features", ()))
        listed += table.get("first_features", ())
    one_hot = type(listed[0]) is int
    flat = listed if one_hot else list(chain.from_iterable(listed))
    rewards = list(chain.from_iterable([table["rewards"] for table in tables]))
    if {*map(type, flat)} - (WHOLE if one_hot else NUMBERS) or {*map(type, rewards)} - NUMBERS:
        raise TypeError("rows and rewards must be numbers")
    if not one_hot and len({*map(len, listed)}) != 1:
        raise ValueError("rows must have one length")
    rows = np.array(flat, np.int64 if one_hot else np.float64)
    rows = rows.reshape((count, ends + first) if one_hot else (count, ends + first, -1))
    earned = np.array(rewards, np.float64).reshape(count, steps)
    if not are_finite(rows.reshape(-1, *rows.shape[2:])) or not all_within(
        earned.ravel(), 0.0, 1.0
    ):
        raise ValueError("rows must be finite, and rewards lie in [0, 1]")
    rows.flags.writeable = earned.flags.writeable = False
    arrays = {
        "features": rows[:, :steps],
        "rewards": earned,
        "next_features": rows[:, steps:ends],
        "lengths": np.tile(np.array(lengths, np.int64), (count, 1)),
    }
    more: dict[str, Any] = {}
    if first:
        more["first_features"] = rows[:, ends:]
    if "actions" in tables[0]:
        more["actions"] = _places_taken([table["actions"] for table in tables], rows, steps,
                                        lengths, first)  # fmt: skip
    bodies, totals = pack_bodies(arrays | more), np.add.reduce(earned, axis=1).tolist()
    words = [name for name in WORDS if name in tables[0]]
    return [
        Report.trusted(
            episode=Episode.trusted(rows[i, :steps], earned[i], rows[i, steps:ends], lengths),
            body=bodies[i],
            total=totals[i],
            **{name: part[i] for name, part in more.items()},
            **{name: table[name] for name in words},
        )
        for i, table in enumerate(tables)
    ]


def _places_taken(
    actions: list[Any], rows: Rows, steps: int, lengths: Sequence[int], first: int
) -> Ints:
    """Return the actions (R, n), which must be the places of the features among the offers."""
    places = np.array(actions)
    if places.dtype != np.int64 or places.shape != (len(rows), steps) or not first:
        raise ValueError("actions must be one for each step")
    if {*map(type, chain.from_iterable(actions))} != WHOLE:
        raise TypeError("actions must be whole numbers")
    sizes = np.array([first, *lengths][:steps])
    starts = np.array([steps + sum(lengths), *accumulate(lengths, initial=steps)][:steps])
    if places.min() < 0 or (places >= sizes).any():
        raise ValueError("actions must be places among the offers")
    chosen = rows[np.arange(len(rows))[:, None], starts + places]
    if not np.array_equal(chosen, rows[:, :steps]):
        raise ValueError("actions must be the places of the features")
    places.flags.writeable = False
    return places


def _following(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"next_features must be a list; got {short_repr(value)}")
    return [numbers(f"next_features[{t}]", rows) for t, rows in enumerate(value)]


def read_values(text: str | bytes) -> dict[str, Any]:
    """Return the fields of a report in JSON; a text that is not a report is an UnreadableError."""
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
    """Return whether a report, as JSON has it, holds observations in place of features."""
    return isinstance(values, Mapping) and "observations" in values


def split_reports(data: bytes) -> list[Any]:
    """Return the reports of a JSON document, an object or an array, or of lines of JSON.

    Each is a table of fields, or a line that is read later. Input that is neither is an
    UnreadableError: a wrong file is refused before any of its lines is.
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
    """Return the fields of a report in a row of a table, whose events are a struct or a map.

    A struct has a column for each kind, empty where there was no such event.

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
        values["events"] = counts if len(counts) == len(events) else events  # refused: kinds twice
    return values


def known_part(values: Mapping[str, Any], analysis: AnalysisTerms) -> dict[str, Any]:
    """Return the part of a refused report that the register keeps: numbers, and valid names.

    A text may be a person's name, wherever it stands, and so may an unknown field. The protocol's
    own names of subgroups and events are kept.
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
    """Return a value with "…" in place of all that no field of a report is, however deep it is."""
    if isinstance(value, list) and depth:
        return [_numbers_of(one, depth - 1) for one in value]
    number = isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    return value if value is None or number else "…"


def read_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; a key that comes twice is refused, and so are NaN and ∞."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_slowly(text)
    return values if _is_plain_table(values, text) else _read_slowly(text)


def _is_plain_table(values: Any, text: str | bytes) -> bool:
    """Return whether this surely is an object with different keys, as any `events` in it is.

    Each key has two quotes, and so has each value that is a text; of a key that comes twice there
    are more than is left of it.
    """
    if type(values) is not dict:
        return False
    texts = sum([type(value) is str for value in values.values()])
    kinds = len(events) if type(events := values.get("events")) is dict else 0
    quotes = text.count('"') if isinstance(text, str) else text.count(b'"')
    return quotes == 2 * (len(values) + texts + kinds)


def _read_slowly(text: str | bytes) -> Any:
    """Read the same with all that orjson does not look at, and say what is wrong where it is."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, parse_constant=_no_number, object_pairs_hook=_distinct)


def numbers(name: str, value: Any) -> Any:
    """Return a list of numbers, or of lists of them, as an array: neither texts nor true nor null.

    Whole numbers stay whole: they are the positions of one-hot features.
    """
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list; got {short_repr(value)}")
    rows = value if value and isinstance(value[0], list) else [value]
    kinds: set[type] = set()
    for row in rows:
        if not isinstance(row, list):
            raise TypeError(f"{name} must be a list of lists throughout; got {short_repr(row)}")
        kinds.update(map(type, row))
    if wrong := kinds - NUMBERS:
        raise TypeError(
            f"{name} must be numbers; got {', '.join(sorted(k.__name__ for k in wrong))}"
        )
    try:
        if rows is not value and kinds == WHOLE:
            return np.array(value, np.int64)
        return np.array(value, np.float64)
    except (ValueError, OverflowError) as error:
        raise ValueError(
            f"{name} must be rows of one length, of numbers in range; {error}"
        ) from None


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twice!r} is there twice")
    return values
