"""Numbers from JSON, strictly: texts, true and null are none, and nothing is guessed."""

import json
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from rareswitch.core.arguments import Rows, shown

NUMBERS = {int, float}


def read_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; a key that comes twice is refused, and so are NaN and ∞."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, parse_constant=_no_number, object_pairs_hook=_distinct)


def states(name: str, value: Any) -> list[Rows]:
    """Return the rows of several states: all at once, where they are as many in each."""
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list; got {shown(value)}")
    together = _alike(value)
    if together is not None:
        return list(together)
    return [numbers(f"{name}[{step}]", rows) for step, rows in enumerate(value)]


def _alike(value: list[Any]) -> Rows | None:
    """Return the rows of states that have as many actions each, (n, A, d) or (n, A), if they do."""
    if set(map(type, value)) != {list} or len(set(map(len, value))) > 1:
        return None
    rows = list(chain.from_iterable(value))
    kinds = set(map(type, rows))
    if kinds == {int}:
        kind: Any = np.int64
    elif kinds == {list} and set(map(type, chain.from_iterable(rows))) <= NUMBERS:
        kind = np.float64
    else:
        return None
    try:
        found = np.array(rows, kind)
    except (ValueError, OverflowError):
        return None
    return found.reshape(len(value), -1, *found.shape[1:]) if found.size else None


def numbers(name: str, value: Any) -> Any:
    """Return a list of numbers, or of lists of them, as an array: neither texts nor true nor null.

    Whole numbers stay whole: they are the positions of one-hot features.
    """
    if not isinstance(value, list):
        raise TypeError(f"{name} must be a list; got {shown(value)}")
    rows = value if value and isinstance(value[0], list) else [value]
    kinds: set[type] = set()
    for row in rows:
        if not isinstance(row, list):
            raise TypeError(f"{name} must be a list of lists throughout; got {shown(row)}")
        kinds.update(map(type, row))
    if wrong := kinds - NUMBERS:
        raise TypeError(
            f"{name} must be numbers; got {', '.join(sorted(k.__name__ for k in wrong))}"
        )
    try:
        if rows is not value and kinds == {int}:
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
