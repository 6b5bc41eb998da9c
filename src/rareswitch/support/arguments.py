"""Checks of arguments: an error has the argument's name, the allowed and the given value.

Each function returns the converted value, which callers use instead of the given value.
"""

import math
import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import wraps
from inspect import Parameter, signature
from numbers import Real
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool]
Rows = npt.NDArray[Any]  # features (n, d), or the positions (n,) of one-hot features
Numbers = TypeVar("Numbers", Floats, Ints)
Class = TypeVar("Class", bound=type[Any])

LARGEST_COUNT = 2**63 - 1  # the largest int64
FLOAT64, INT64 = np.dtype(np.float64), np.dtype(np.int64)
# The call that takes an argument which another class has no place for.
MISPLACED = {
    "beta": "Recipe.paper(beta=…)",
    "members": "Ensemble(members=…)",
    "scale": "Ensemble(scale=…)",
    "ridge": "Recipe(ridge=…)",
    "seed": "Recipe(seed=…)",
}
FEW = 32  # up to this many numbers, Python compares faster than NumPy
NOT_NUMBERS = (bool, np.timedelta64)  # both are subclasses of integers


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """Return value as an int in [least, most]; the default of `most` is the largest int64."""
    end = LARGEST_COUNT if most is None else most
    between = str(least) if least == end else f"from {least} to {end}"
    allowed = between if end < LARGEST_COUNT else f"at least {least}"
    if not isinstance(value, int | np.integer) or isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be a whole number, {allowed}; got {short_repr(value)}")
    if value > end:
        raise ValueError(f"{name} must be {between}; got {short_repr(value)}")
    if value < least:
        raise ValueError(f"{name} must be {allowed}; got {short_repr(value)}")
    return int(value)


def real(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    least: float | None = None,
    below: float | None = None,
    most: float | None = None,
) -> float:
    """Return value as a finite float within open (above, below) or closed (least, most) limits."""
    ends = [("above", above), ("at least", least), ("below", below), ("at most", most)]
    allowed = " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)
    allowed = f"a finite number {allowed}".rstrip()
    if not isinstance(value, Real) or isinstance(value, NOT_NUMBERS):
        raise TypeError(f"{name} must be {allowed}; got {short_repr(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if (
        not math.isfinite(number)
        or (above is not None and number <= above)
        or (least is not None and number < least)
        or (below is not None and number >= below)
        or (most is not None and number > most)
    ):
        raise ValueError(f"{name} must be {allowed}; got {short_repr(value)}")
    return number


def positive_ridge(value: Any) -> float:
    """Return a ridge λ whose square root and inverse are finite floats."""
    return real("ridge", value, least=1e-100, most=1e100)


def flag(name: str, value: Any) -> bool:
    """Return value as a bool; numbers and strings are errors."""
    if not isinstance(value, bool | np.bool):
        raise TypeError(f"{name} must be True or False; got {short_repr(value)}")
    return bool(value)


def holds_truths(array: npt.NDArray[Any]) -> bool:
    """Return whether an array has booleans, or integers 0 and 1.

    >>> holds_truths(np.array([0, 1], np.int8)), holds_truths(np.array([0, 2]))
    (True, False)
    """
    if array.dtype.kind not in "iu" or not array.size:
        return array.dtype.kind == "b"
    return bool(0 <= array.min() <= array.max() <= 1)


def did_you_mean(given: Any, allowed: Collection[str]) -> str:
    """Return a hint with the closest of the allowed names, or an empty text.

    >>> did_you_mean("uniform_gird", ["every-episode", "uniform-grid"])
    '; did you mean uniform-grid?'
    >>> did_you_mean("luck", ["every-episode"])
    ''
    """
    if not isinstance(given, str):
        return ""
    from difflib import get_close_matches  # only after an error

    close = get_close_matches(given, allowed, 1) or get_close_matches(
        given.replace("_", "-"), allowed, 1
    )
    return f"; did you mean {close[0]}?" if close else ""


def explain_arguments(cls: Class) -> Class:
    """Decorate a class: the error of a call with wrong arguments names the arguments it takes."""
    made = cls.__init__

    @wraps(made)
    def init(self: Any, *given: Any, **named: Any) -> None:
        try:
            made(self, *given, **named)
        except TypeError:
            _refuse_arguments(cls, given, named)
            raise

    cls.__init__ = init
    return cls


def _refuse_arguments(cls: type[Any], given: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Raise TypeError if the arguments do not fit the signature of the class."""
    known, name = signature(cls).parameters, cls.__name__
    most = sum(one.kind is not Parameter.KEYWORD_ONLY for one in known.values())
    if len(given) > len(known):
        raise TypeError(f"{name} takes {len(known)} arguments; got {len(given)}") from None
    if len(given) > most:
        said = ", ".join(f"{key}={short_repr(one)}" for key, one in zip(known, given, strict=False))
        raise TypeError(f"{name} takes its arguments by name: {name}({said})") from None
    for key in named:
        if key not in known:
            home = MISPLACED.get(key, "")
            hint = f"; did you mean {home}?" if home else did_you_mean(key, known)
            takes = ", ".join(known) or "none"
            raise TypeError(f"{name} has no argument {key!r}; it takes {takes}{hint}") from None
    for key, one in list(known.items())[len(given) :]:
        if one.default is Parameter.empty and key not in named:
            raise TypeError(f"{name} needs {key}; it takes {', '.join(known)}") from None


def one_of(name: str, value: Any, allowed: tuple[str, ...]) -> str:
    """Return value if it is one of the allowed words."""
    if not isinstance(value, str) or value not in allowed:
        words = ", ".join(map(repr, allowed))
        raise ValueError(f"{name} must be one of {words}; got {short_repr(value)}")
    return value


def floats(name: str, value: Any, shape: tuple[int | str, ...], *, owned: bool = False) -> Floats:
    """Return value as a read-only, finite float64 array; a str in shape means any size.

    The array is a copy, because the caller may keep a writable view. `owned` arrays, which have no
    other references, are not copied.
    """
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be an array of numbers; {error}") from None
    if given.dtype.kind not in "fiu" or isinstance(value, np.ma.MaskedArray):
        kind = "a masked array" if isinstance(value, np.ma.MaskedArray) else given.dtype
        hint = ": convert True and False to 1.0 and 0.0" if given.dtype.kind == "b" else ""
        raise TypeError(f"{name} must be an array of real numbers; got {kind}{hint}")
    array = given
    if given.dtype is not FLOAT64:
        with np.errstate(over="ignore"):  # overflow of a long double fails the check below
            array = given.astype(np.float64)
        owned = True
    if len(array.shape) != len(shape) or not all(map(_fits, array.shape, shape)):
        wanted = f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"
        raise ValueError(f"{name} must have shape {wanted}; got {array.shape}")
    if not np.isfinite(array).all():
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite; got {array[place]} at index {place}")
    return frozen(array, owned=owned)


def _fits(have: int, want: int | str) -> bool:
    return have == want or isinstance(want, str)


def positions(name: str, value: Any, dim: int) -> Ints:
    """Return value as a read-only array (n,) of positions from 0 to dim−1."""
    try:
        given = np.asarray(value)
    except ValueError as error:
        raise TypeError(f"{name} must be an array of whole numbers; {error}") from None
    masked = isinstance(value, np.ma.MaskedArray)
    if given.ndim != 1 or (given.dtype.kind not in "iu" and given.size) or masked:
        kind = "a masked array" if masked else given.dtype
        raise TypeError(
            f"{name} must be the positions of ones, whole numbers of shape (n,); got "
            f"{kind} of shape {given.shape}"
        )
    if not all_within(given, 0, dim - 1):
        wrong = int(given[(given < 0) | (given >= dim)][0])
        raise ValueError(f"{name} must be positions from 0 to {dim - 1}; got {wrong}")
    return frozen(given.astype(np.int64), owned=True)


def all_within(array: npt.NDArray[Any], least: float, most: float) -> bool:
    """Return whether all numbers of a one-dimensional array lie in [least, most]; NaN is outside.

    >>> all_within(np.array([0.0, 1.0]), 0.0, 1.0), all_within(np.array([np.nan]), 0.0, 1.0)
    (True, False)
    """
    if array.size <= FEW:
        return all(least <= number <= most for number in array.tolist())
    return bool(array.min() >= least and array.max() <= most)


def frozen(array: Numbers, *, owned: bool = False) -> Numbers:
    """Return a read-only, contiguous array: a copy, unless it has no other references (`owned`).

    A read-only array that is not owned is copied too, because an older view may still be writable.
    """
    if not owned or not array.flags.c_contiguous:
        array = np.array(array, order="C")
    array.flags.writeable = False
    return array


def set_fields(instance: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass, from its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(instance, name, value)


def same_fields(one: Any, other: Any) -> bool:
    """Return whether two dataclasses with arrays have the same type and equal fields."""
    return type(one) is type(other) and all(
        _equal(getattr(one, field.name), getattr(other, field.name)) for field in fields(one)
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return np.array_equal(one, other)


def short_repr(value: Any) -> str:
    """Return a value's repr on one line, shortened to at most 80 characters."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # an int with too many digits for Python's repr
        text = "a number of thousands of digits"
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"


def require_memory(needed: float, what: str) -> None:
    """Raise MemoryError if `what` needs more bytes than the machine has."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # unknown on this system
        return
    if needed > there:
        raise MemoryError(
            f"{what} need about {needed / 1e9:,.0f} GB; this machine has {there / 1e9:,.0f} GB"
        )
