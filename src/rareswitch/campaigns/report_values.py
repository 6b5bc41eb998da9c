"""Strict reading of reports from JSON values: nothing is converted or guessed."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain
from typing import Any

import numpy as np

from rareswitch.campaigns.report import MORE_ARRAYS, Report, pack_bodies
from rareswitch.campaigns.rulebook.claims import CLAIMS
from rareswitch.core.episode import Episode, are_finite
from rareswitch.support.arguments import Ints, Rows, all_within, short_repr

NUMBERS: set[type] = {int, float}
WHOLE: set[type] = {int}
JSON_FIELDS = (
    "id", "version", "member", "features", "rewards", "next_features", *MORE_ARRAYS, *CLAIMS,
    "participant",
)  # fmt: skip
WORDS = ("id", "version", "member", *CLAIMS, "participant")
NEEDED = ("id", "features", "rewards")
USUAL = {*WORDS, *NEEDED, "next_features", "first_features", "actions"}
_WRONG = (LookupError, TypeError, ValueError, OverflowError)  # errors of an invalid report


def report_from(values: Mapping[str, Any]) -> Report:
    """Return the report with these JSON fields; an error names the field."""
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
            pass  # reading it part by part finds the reason
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
    """Return the number of steps, of later offers and of first offers; None if unusual."""
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
    """Return reports of one shape, checked together; an error means that some are invalid."""
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
    """Return the actions (R, n), checked to be the indices of the features among the offers."""
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


def numbers(name: str, value: Any) -> Any:
    """Return a (nested) list of numbers as an array; refuse texts, booleans and null.

    Integers stay integers: they are the positions of one-hot features.
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
