"""Observation spaces as plain values, which number states and flatten them.

`space_of` reads a space of Gymnasium by the names of its class, base classes and attributes. So
Gymnasium is never imported, and spaces of its predecessor and of its wrappers work too.
"""

import math
import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.packed import Packed
from rareswitch.support.arguments import Floats, Ints, frozen, set_fields, short_repr, whole

LARGEST_SIZE = 10**7
MOST_DIGITS = 10**6
KNOWN = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Tuple", "Dict")
OWN_FEATURES = (
    "write a function from an observation to one row for each action, and give it as "
    "features=function, or on the command line as --features module:name"
)


class Space(Packed, ABC):
    """A set of `count` states (None: uncountable), each of `size` numbers when flattened."""

    count: int | None
    size: int

    @property
    def words(self) -> str:
        """A short description of the states."""
        return f"{self.count} states"

    @abstractmethod
    def index(self, state: Any) -> int:
        """Return the number of a state, from 0 to count−1, or raise ValueError."""

    @abstractmethod
    def flat(self, state: Any) -> Floats:
        """Return a state as numbers (size,); countable parts become one-hot."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(Space):
    """Real numbers of a `shape`: Gymnasium's Box.

    >>> Numbers(shape=(2, 2)).flat([[1, 2], [3, 4]])
    array([1., 2., 3., 4.])
    """

    kind: ClassVar[str] = "numbers"

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = tuple(whole("shape", n, least=1, most=LARGEST_SIZE) for n in self.shape)
        size = whole("the size of a shape", math.prod(shape), least=1, most=LARGEST_SIZE)
        set_fields(self, shape=shape, size=size, count=None)

    def index(self, state: Any) -> int:
        raise TypeError("state must be countable to have a number; real numbers are not countable")

    def flat(self, state: Any) -> Floats:
        return numbers(state, self.shape).reshape(-1)


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits(Space):
    """Whole numbers, `counts` of each, from `starts` on: Gymnasium's Discrete and MultiDiscrete.

    States are numbered in C order: the last number runs fastest. A state of one number may be a
    plain number.

    >>> Digits(counts=(2, 3), starts=(0, 1)).index([1, 3])
    5
    >>> Digits(counts=(3,), starts=(-1,)).index(1)
    2
    """

    kind: ClassVar[str] = "digits"

    counts: Ints | tuple[int, ...]
    starts: Ints | tuple[int, ...] = ()
    ranges: tuple[tuple[int, int], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        digits = whole("the number of counts", len(self.counts), least=1, most=MOST_DIGITS)
        counts = [whole("counts", count, least=1) for count in self.counts]
        starts = [whole("starts", n, least=-(2**62), most=2**62) for n in self.starts]
        starts = starts or [0] * digits
        if len(starts) != digits:
            raise ValueError(
                f"starts must be {digits} numbers, one for each count; got {len(starts)}"
            )
        set_fields(
            self,
            counts=frozen(np.array(counts, np.int64), owned=True),
            starts=frozen(np.array(starts, np.int64), owned=True),
            count=math.prod(counts),
            size=sum(counts),
            ranges=tuple(zip(counts, starts, strict=True)),
        )

    def index(self, state: Any) -> int:
        if type(state) is int and len(self.ranges) == 1:
            return _position(state, *self.ranges[0])
        number = 0
        for (count, _), position in zip(self.ranges, self._positions(state), strict=True):
            number = number * count + position
        return number

    def flat(self, state: Any) -> Floats:
        row, first = np.zeros(self.size), 0
        for (count, _), position in zip(self.ranges, self._positions(state), strict=True):
            row[first + position] = 1.0
            first += count
        return row

    def _positions(self, state: Any) -> list[int]:
        if len(self.ranges) == 1:
            if type(state) is not int and np.ndim(state) and np.size(state) == 1:
                state = np.ravel(state)[0]
            return [_position(state, *self.ranges[0])]
        given = as_list(state, len(self.ranges))
        try:
            return [_position(n, *ends) for n, ends in zip(given, self.ranges, strict=True)]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} in {short_repr(given)}") from None


def _position(state: Any, count: int, start: int) -> int:
    try:
        position = state - start if type(state) is int else operator.index(state) - start
    except TypeError:
        raise TypeError(f"state must be a whole number; got {short_repr(state)}") from None
    if 0 <= position < count:
        return position
    raise ValueError(f"state must be from {start} to {start + count - 1}; got {short_repr(state)}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Bits(Space):
    """`size` numbers that are 0 or 1: Gymnasium's MultiBinary.

    >>> Bits(size=3).index([1, 0, 1])
    5
    """

    kind: ClassVar[str] = "bits"

    size: int

    def __post_init__(self) -> None:
        size = whole("size", self.size, least=1, most=MOST_DIGITS)
        set_fields(self, size=size, count=2**size)

    def index(self, state: Any) -> int:
        number = 0
        for bit in self._bits(state):
            number = 2 * number + bit
        return number

    def flat(self, state: Any) -> Floats:
        return np.array(self._bits(state), np.float64)

    def _bits(self, state: Any) -> list[int]:
        bits = as_list(state, self.size)
        if any(bit not in (0, 1) for bit in bits):
            raise ValueError(f"state must hold only 0 and 1; got {short_repr(bits)}")
        return [int(bit) for bit in bits]


@dataclass(frozen=True, kw_only=True, eq=False)
class Several(Space):
    """A state of several `parts`: a tuple, or with `keys` a mapping: Gymnasium's Tuple and Dict."""

    kind: ClassVar[str] = "several"

    parts: tuple[Space, ...]
    keys: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        parts = tuple(self.parts)
        if not parts or not all(isinstance(part, Space) for part in parts):
            raise ValueError(f"parts must be at least one Space; got {short_repr(parts)}")
        keys = None if self.keys is None else tuple(self.keys)
        if keys is not None:
            named = all(isinstance(key, str) for key in keys)
            if not named or len(set(keys)) != len(parts) or len(keys) != len(parts):
                raise ValueError(
                    f"keys must be {len(parts)} different texts, one for each part; got {keys}"
                )
        counts = [part.count for part in parts]
        counted = [count for count in counts if count is not None]
        set_fields(
            self,
            parts=parts,
            keys=keys,
            count=math.prod(counted) if len(counted) == len(counts) else None,
            size=sum(part.size for part in parts),
        )

    @cached_property
    def places(self) -> tuple[int | str, ...]:
        """The places of the parts in a state."""
        return tuple(range(len(self.parts))) if self.keys is None else self.keys

    def index(self, state: Any) -> int:
        number = 0
        for part, index in zip(self.parts, self._of_parts("index", state), strict=True):
            number = number * (part.count or 0) + index
        return number

    def flat(self, state: Any) -> Floats:
        return np.concatenate(self._of_parts("flat", state))

    def _of_parts(self, method: str, state: Any) -> list[Any]:
        """Return the results of a method of all parts; an error names the place of the part."""
        self._check(state)
        found, place = [], None
        try:
            for place, part in self._placed:
                found.append(getattr(part, method)(state[place]))
        except (TypeError, ValueError) as error:
            said = str(error).removeprefix("state")
            raise type(error)(f"state[{place!r}]{said}") from None
        return found

    @cached_property
    def _placed(self) -> list[tuple[Any, Any]]:
        return list(zip(self.places, self.parts, strict=True))

    def _check(self, state: Any) -> None:
        if self.keys is None:
            if not isinstance(state, tuple | list | np.ndarray) or len(state) != len(self.parts):
                raise ValueError(
                    f"state must be a tuple of {len(self.parts)} parts; got {short_repr(state)}"
                )
        elif not isinstance(state, Mapping) or set(state) != set(self.keys):
            raise ValueError(
                f"state must be a mapping with the keys {', '.join(self.keys)}; got "
                f"{short_repr(state)}"
            )


def space_of(space: Any, name: str = "observation_space") -> Space:
    """Return a Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of them, as a Space.

    A Space is returned unchanged.
    """
    if isinstance(space, Space):
        return space
    match kind_of(space):
        case "Discrete":
            return Digits(counts=(int(space.n),), starts=(int(space.start),))
        case "MultiDiscrete":
            counts = np.ravel(space.nvec)
            starts = np.ravel(getattr(space, "start", np.zeros_like(counts)))
            return Digits(counts=tuple(counts.tolist()), starts=tuple(starts.tolist()))
        case "MultiBinary":
            return Bits(size=int(np.prod(space.n)))
        case "Box":
            return Numbers(shape=tuple(space.shape))
        case "Tuple":
            return Several(parts=_parts_of(name, enumerate(space.spaces)))
        case "Dict":
            named = dict(space.spaces)
            return Several(parts=_parts_of(name, named.items()), keys=tuple(named))
    raise TypeError(
        f"{name} must be a {', '.join(KNOWN[:-2])}, or a Tuple or Dict of them, for built-in "
        f"features; got {short_repr(space)}: {OWN_FEATURES}"
    )


def _parts_of(name: str, spaces: Iterable[tuple[int | str, Any]]) -> tuple[Space, ...]:
    return tuple(space_of(part, f"{name}[{place!r}]") for place, part in spaces)


def kind_of(space: Any) -> str | None:
    """Return the name of a known Gymnasium space, or None."""
    names = [cls.__name__ for cls in type(space).__mro__]
    return next((name for name in names if name in KNOWN), None)


def action_count(action_space: Any) -> int:
    """Return the number A of actions of a Discrete space, or a whole number unchanged.

    Row a belongs to the action start + a of the space.
    """
    if isinstance(action_space, int | np.integer):
        return int(action_space)
    if kind_of(action_space) == "Discrete":
        return int(action_space.n)
    raise TypeError(
        f"action_space must be Discrete; got {short_repr(action_space)}. If actions are several "
        "choices or real numbers, wrap the world so that it offers a list of them, numbered from 0"
    )


def numbers(state: Any, shape: tuple[int, ...]) -> Floats:
    """Return a state as float64 numbers of that shape, or raise ValueError with the wrong entry.

    The result may be the given array itself.

    >>> numbers([1, 2], (2,))
    array([1., 2.])
    >>> numbers([1.0, float("nan")], (2,))
    Traceback (most recent call last):
        ...
    ValueError: state must be finite; got nan at index 1
    """
    try:
        given = np.asarray(state)
    except ValueError as error:
        raise TypeError(f"state must be an array of numbers; {error}") from None
    if given.dtype.kind not in "fiub":
        raise TypeError(f"state must be an array of real numbers; got {short_repr(state)}")
    if given.shape != shape:
        raise ValueError(f"state must have shape {shape}; got {given.shape}, {short_repr(state)}")
    array = given.astype(np.float64, copy=False)
    if b"\0" in np.isfinite(array).tobytes():  # twice as fast as `all` for few numbers
        place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        index = place[0] if len(place) == 1 else place
        raise ValueError(f"state must be finite; got {array[place]} at index {index}")
    return array


def as_list(state: Any, size: int) -> list[Any]:
    """Return numbers of any shape as a plain list, the fastest to iterate over."""
    listed: Any = None
    if isinstance(state, np.ndarray):
        listed = state.reshape(-1).tolist()
    elif isinstance(state, list | tuple):
        nested = any(isinstance(part, list | tuple | np.ndarray) for part in state)
        listed = np.asarray(state).reshape(-1).tolist() if nested else state
    if listed is None or len(listed) != size:
        raise ValueError(f"state must be {size} numbers; got {short_repr(state)}")
    return list(listed)
