"""Observations: a number, a text, an array of numbers, or a tuple or dict of them.

Numbers are stored as float64, int64 and bool, so an observation gives the same results before it is
written to a log and after it is read.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import FLOAT64, LARGEST_COUNT, frozen, short_repr

# A log writes a tuple as a dict with these keys, which no dict of an environment may have.
PLACE = re.compile(r"\((\d+)\)")


def settled_observations(observations: Any) -> npt.NDArray[Any] | tuple[Any, ...]:
    """Return observations as one read-only array along time, or as a tuple if shapes differ."""
    if not isinstance(observations, Iterable) or isinstance(observations, str | bytes | Mapping):
        raise TypeError(f"observations must be a list or an array; got {short_repr(observations)}")
    if isinstance(observations, np.ndarray) and observations.dtype.kind in "fiub":
        return _numbers("observations", observations)
    given = list(observations)
    if given and isinstance(given[0], list | int | float | np.number):
        try:
            together = np.asarray(given)
        except ValueError:  # of different shapes
            pass
        else:
            kept = "iub" if isinstance(given[0], int) else "fiub"  # floats among ints, one by one
            if together.dtype.kind in kept:
                return _numbers("observations", together)
    each = tuple(settled(f"observations[{t}]", one) for t, one in enumerate(given))
    kinds = {type(one) for one in each}
    if each and kinds <= {bool, int, float}:
        return _numbers("observations", np.array(each))
    if kinds == {np.ndarray} and len({one.shape for one in each}) == 1:
        return _numbers("observations", np.stack(each))
    return each


def settled(name: str, value: Any) -> Any:
    """Return one observation in its stored form."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            return _numbers(name, value)
        value = value.item()
    if isinstance(value, str):
        return str(value)
    if isinstance(value, bool | np.bool):
        return bool(value)
    if isinstance(value, int | np.integer):
        if not -LARGEST_COUNT <= value <= LARGEST_COUNT:
            raise ValueError(f"{name} must fit in 64 bits; got {short_repr(value)}")
        return int(value)
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite; got {value}")
        return float(value)
    if isinstance(value, tuple | Mapping) and not value:
        raise ValueError(f"{name} must not be empty; got {short_repr(value)}")
    if isinstance(value, tuple):
        return tuple(settled(f"{name}[{i}]", part) for i, part in enumerate(value))
    if isinstance(value, Mapping):
        return {_key(name, key): settled(f"{name}[{key!r}]", part) for key, part in value.items()}
    try:
        return _numbers(name, np.asarray(value))
    except ValueError as error:
        if "inhomogeneous" not in str(error):
            raise
        raise TypeError(
            f"{name} must have parts of one shape, or be a tuple of them; got {short_repr(value)}"
        ) from None


def plain(observation: Any) -> Any:
    """Return an observation as numbers, texts, lists and dicts, which `observation_of` reads."""
    if isinstance(observation, np.ndarray):
        return observation.tolist()
    if isinstance(observation, tuple):
        return {f"({i})": plain(part) for i, part in enumerate(observation)}
    if isinstance(observation, dict):
        return {key: plain(part) for key, part in observation.items()}
    return observation


def observation_of(value: Any) -> Any:
    """Return the observation that `plain` gave, before `settled`."""
    if not isinstance(value, dict):
        return value
    if value and all(map(PLACE.fullmatch, value)):
        return tuple(observation_of(value.get(f"({i})")) for i in range(len(value)))
    return {key: observation_of(part) for key, part in value.items()}


def same_observations(one: Any, other: Any) -> bool:
    """Return whether two observations, or tuples or dicts of them, are equal in every number."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(same_observations, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(
            same_observations(one[key], other[key]) for key in one
        )
    if isinstance(one, tuple | dict) or isinstance(other, tuple | dict):
        return False
    return np.array_equal(one, other)


def _key(name: str, key: Any) -> str:
    if not isinstance(key, str) or not key or PLACE.fullmatch(key):
        raise ValueError(
            f"{name} must have nonempty texts as keys, not like '(0)'; got {short_repr(key)}"
        )
    return key


def _numbers(name: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return an array of numbers as float64, int64 or bool, read-only."""
    if array.dtype.kind not in "fiub" or isinstance(array, np.ma.MaskedArray):
        kind = "an array of texts" if array.dtype.kind in "SU" else str(array.dtype)
        kind = "a masked array" if isinstance(array, np.ma.MaskedArray) else kind
        raise TypeError(
            f"{name} must be a number, a text, an array of numbers, or a tuple or dict of them; "
            f"got {kind}"
        )
    if not array.size:
        raise ValueError(f"{name} must hold at least one number; got shape {array.shape}")
    if array.dtype.kind == "f":
        if array.itemsize > FLOAT64.itemsize:
            with np.errstate(over="ignore"):
                array = array.astype(np.float64)
        array = array.astype(np.float64, copy=False)
        if b"\0" in np.isfinite(array).tobytes():  # twice as fast as `all` for few numbers
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            raise ValueError(f"{name} must be finite; got {array[place]} at index {place}")
    elif array.dtype.kind in "iu":
        if array.max() > LARGEST_COUNT or array.min() < -LARGEST_COUNT:
            raise ValueError(f"{name} must fit in 64 bits; got {array.max()}")
        array = array.astype(np.int64, copy=False)
    return frozen(array)
