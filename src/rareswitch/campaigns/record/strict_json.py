"""Numbers from JSON, strictly: texts, true and null are none, and nothing is guessed."""

import json
from itertools import chain
from typing import Any, NoReturn

import numpy as np
import orjson

from rareswitch.support.arguments import Rows, short_repr

NUMBERS: set[type] = {int, float}
WHOLE: set[type] = {int}


def read_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; a key that comes twice is refused, and so are NaN and ∞."""
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _read_slowly(text)
    return values if _is_plain_table(values, text) else _read_slowly(text)


def _is_plain_table(values: Any, text: str | bytes) -> bool:
    """Return whether this surely is an object with different keys, and no others inside it.

    Each key has two quotes, and so has each value that is a text; of a key that comes twice there
    are more than is left of it.
    """
    if type(values) is not dict:
        return False
    texts = sum([type(value) is str for value in values.values()])
    quotes = text.count('"') if isinstance(text, str) else text.count(b'"')
    return quotes == 2 * (len(values) + texts)


def _read_slowly(text: str | bytes) -> Any:
    """Read the same with all that orjson does not look at, and say what is wrong where it is."""
    decoded = text.decode() if isinstance(text, bytes) else text
    return json.loads(decoded, parse_constant=_no_number, object_pairs_hook=_distinct)


def rows_at_once(states: list[Any]) -> Rows | None:
    """Return the rows of several states end to end, (n, d), or the positions of their ones, (n,).

    None, if something is no list of rows, or anything else is wrong: `numbers` says what.
    """
    if set(map(type, states)) != {list}:
        return None
    rows = list(chain.from_iterable(states))
    kinds = set(map(type, rows))
    if kinds == {list} and set(map(type, chain.from_iterable(rows))) <= NUMBERS:
        kind: Any = np.float64
    elif kinds == WHOLE:
        kind = np.int64
    else:
        return None
    try:
        return np.array(rows, kind)
    except (ValueError, OverflowError):
        return None


def array_of(lists: list[Any], kinds: set[type], kind: Any) -> Any:
    """Return lists of lists of numbers of these kinds as a read-only array, or raise an error.

    >>> array_of([[1, 2], [3, 4]], WHOLE, np.int64).shape
    (2, 2)
    """
    shape, level = [len(lists)], lists
    while set(map(type, level)) == {list}:
        (size,) = set(map(len, level))
        shape.append(size)
        level = list(chain.from_iterable(level))
    if not set(map(type, level)) <= kinds:
        raise TypeError(f"lists must be of numbers; got {set(map(type, level))}")
    array = np.array(level, kind)
    array.flags.writeable = False
    return array.reshape(shape)


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
