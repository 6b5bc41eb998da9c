"""Many reports read together: what is asked of each is asked of all that are of one shape.

Their numbers go into one array of each kind, and what `Report` and `Episode` ask of one costs
hardly more for a thousand. If anything is wrong with any, they are read one by one, and that one is
told what it is.
"""

from collections.abc import Sequence
from itertools import accumulate, chain
from typing import Any

import numpy as np

from rareswitch.campaigns.record.strict_json import NUMBERS, WHOLE, array_of
from rareswitch.campaigns.report import CLAIMS, Report, values_of
from rareswitch.core.episode import Episode, are_finite
from rareswitch.support.arguments import Ints, Rows, all_within

WORDS = ("id", "version", "member", *CLAIMS, "participant")
NEEDED = {"id", "features", "rewards"}
# What may be told of choices besides is seldom, and read one by one.
FIELDS = {*WORDS, *NEEDED, "next_features", "first_features", "actions"}
# More would hold so many lists at once that collecting garbage costs more than reading.
READ_TOGETHER = 64
# What is raised of something that is not as it should be, before anybody says why.
WRONG = (LookupError, TypeError, ValueError, OverflowError)
Table = dict[str, Any]


def reports_of(texts: Sequence[str | bytes]) -> list[Report | Exception]:
    """Return the report of each text in JSON, or why it is none."""
    found: list[Report | Exception] = []
    for start in range(0, len(texts), READ_TOGETHER):
        found += _some(texts[start : start + READ_TOGETHER])
        for report in found[start:]:
            if isinstance(report, Report):
                report.digest  # noqa: B018 packed and hashed while its numbers are at hand
    return found


def _some(texts: Sequence[str | bytes]) -> list[Report | Exception]:
    found: dict[int, Report | Exception] = {}
    alike: dict[Any, list[tuple[int, Table]]] = {}
    for place, text in enumerate(texts):
        try:
            table = _table(text)
            alike.setdefault(_shape(table), []).append((place, table))
        except WRONG:
            found[place] = _read(text)
    for group in alike.values():
        places, tables = zip(*group, strict=True)
        try:
            found |= zip(places, _read_together(tables), strict=True)
        except WRONG:
            found |= {place: _read(texts[place]) for place in places}
    return [found[place] for place in range(len(texts))]


def _read(text: str | bytes) -> Report | Exception:
    try:
        return Report.from_json(text)
    except (TypeError, ValueError) as error:
        return error


def _table(text: str | bytes) -> Table:
    """Return the fields of a report, if it tells no others than can be read together."""
    table = values_of(text)
    if type(table) is not dict or not NEEDED <= table.keys() <= FIELDS:
        raise LookupError("it is no table, or tells more")
    return table


def _shape(table: Table) -> tuple[Any, ...]:
    """Return what reports have in common that are read together: names, and how many rows."""
    lengths = tuple(map(len, table.get("next_features", ())))
    return tuple(table), len(table["features"]), lengths, len(table.get("first_features", ()))


def _read_together(tables: Sequence[Table]) -> list[Report]:
    """Return the reports of tables of one shape; an error says that one of them is wrong."""
    names, steps, lengths, first_length = _shape(tables[0])
    if steps - len(lengths) not in (0, 1) or not steps or not all(lengths):
        raise ValueError("there must be an offer after every step, but for the last")
    if ("first_features" in names) > (first_length > 0):
        raise ValueError("first_features must have rows")
    if "next_features" in names and {type(table["next_features"]) for table in tables} != {list}:
        raise TypeError("next_features must be a list")
    one_hot = type(tables[0]["features"][0]) is int
    kinds, kind = (WHOLE, np.int64) if one_hot else (NUMBERS, np.float64)
    rewards = array_of([table["rewards"] for table in tables], NUMBERS, np.float64)
    # Features, then the offers after each step end to end, then the first offer: (R, N[, d]).
    rows = array_of(list(map(_rows, tables)), kinds, kind)
    if rows.ndim != (2 if one_hot else 3) or not are_finite(rows.reshape(-1, *rows.shape[2:])):
        raise ValueError("something is no row of numbers")
    if rewards.shape != (len(tables), steps) or not all_within(rewards.ravel(), 0.0, 1.0):
        raise ValueError("rewards must be one for each step, and lie in [0, 1]")
    more: dict[str, Rows] = {}
    if first_length:
        more["first_features"] = rows[:, -first_length:]
    if "actions" in names:
        more["actions"] = array_of([table["actions"] for table in tables], WHOLE, np.int64)
        starts = list(accumulate(lengths, initial=steps))
        offers = list(zip(starts, lengths[: steps - 1], strict=False))
        if first_length:
            offers.insert(0, (starts[-1], first_length))
        _check_choices(rows, more["actions"], offers, steps)
    ends = slice(steps, steps + sum(lengths))
    words = [name for name in WORDS if name in names]
    return [
        Report.of_checked(
            episode=Episode.trusted(rows[i, :steps], rewards[i], rows[i, ends], lengths),
            **{name: array[i] for name, array in more.items()},
            **{name: table[name] for name in words},
        )
        for i, table in enumerate(tables)
    ]


def _rows(table: Table) -> list[Any]:
    following, first = table.get("next_features", ()), table.get("first_features", ())
    return [*table["features"], *chain.from_iterable(following), *first]


def _check_choices(
    rows: Rows, actions: Ints, offers: Sequence[tuple[int, int]], steps: int
) -> None:
    """Refuse actions that are not the places of the features among what was offered.

    `offers` are the row where each offer begins and how many it has, for the last steps: the first
    offer need not be told.
    """
    if actions.shape != (len(rows), steps):
        raise ValueError("actions must be one for each step")
    told = actions[:, steps - len(offers) :]
    starts, lengths = np.array(offers, np.int64).reshape(-1, 2).T
    if actions.min() < 0 or actions.max() >= 2**31 or (told >= lengths).any():
        raise ValueError("actions must be places among what was offered")
    chosen = rows[np.arange(len(rows))[:, None], starts + told]
    if not np.array_equal(chosen, rows[:, steps - len(offers) : steps]):
        raise ValueError("actions must be the places of the features")
