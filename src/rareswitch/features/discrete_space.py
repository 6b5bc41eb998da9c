"""Spaces that are counted: one whole number, several, or several bits.

Letters: n `count`; a state is start, start + 1, …, start + n − 1. Several are counted as the digits
of one number, the last running fastest, like the entries of an array in C order.
"""

import math
import operator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.space import Space
from rareswitch.support.arguments import Floats, set_fields, short_repr, whole

MOST_DIGITS = 10**6


@dataclass(frozen=True, kw_only=True, eq=False)
class Whole(Space):
    """A whole number from `start` on, one of `count`: Gymnasium's Discrete.

    >>> Whole(count=3, start=-1).index(1)
    2
    """

    kind: ClassVar[str] = "whole"

    count: int
    start: int = 0

    def __post_init__(self) -> None:
        count = whole("count", self.count, least=1)
        start = whole("start", self.start, least=-(2**62), most=2**62)
        set_fields(self, count=count, start=start, size=count)

    def index(self, state: Any) -> int:
        try:
            position = operator.index(state) - self.start
        except TypeError:
            raise TypeError(f"state must be a whole number; got {short_repr(state)}") from None
        if 0 <= position < self.count:
            return position
        last = self.start + self.count - 1
        raise ValueError(f"state must be from {self.start} to {last}; got {short_repr(state)}")

    def flat(self, state: Any) -> Floats:
        row = np.zeros(self.size)
        row[self.index(state)] = 1.0
        return row


@dataclass(frozen=True, kw_only=True, eq=False)
class Digits(Space):
    """Several whole numbers, of `counts` each and from `starts` on: Gymnasium's MultiDiscrete.

    >>> Digits(counts=(2, 3), starts=(0, 1)).index([1, 3])
    5
    """

    kind: ClassVar[str] = "digits"

    counts: tuple[int, ...]
    starts: tuple[int, ...]

    def __post_init__(self) -> None:
        digits = whole("the number of counts", len(self.counts), least=1, most=MOST_DIGITS)
        if len(self.starts) != digits:
            raise ValueError(f"starts must be {digits}, as many as counts; got {len(self.starts)}")
        set_fields(
            self,
            counts=tuple(part.count for part in self.parts),
            starts=tuple(part.start for part in self.parts),
            count=math.prod(part.count for part in self.parts),
            size=sum(part.count for part in self.parts),
        )

    @cached_property
    def parts(self) -> tuple[Whole, ...]:
        """The digits, each a space of its own."""
        return tuple(
            Whole(count=count, start=start)
            for count, start in zip(self.counts, self.starts, strict=True)
        )

    def index(self, state: Any) -> int:
        number = 0
        for part, position in zip(self.parts, self._positions(state), strict=True):
            number = number * part.count + position
        return number

    def flat(self, state: Any) -> Floats:
        row, first = np.zeros(self.size), 0
        for part, position in zip(self.parts, self._positions(state), strict=True):
            row[first + position] = 1.0
            first += part.count
        return row

    def _positions(self, state: Any) -> list[int]:
        given = as_list(state, len(self.parts))
        try:
            return [part.index(digit) for part, digit in zip(self.parts, given, strict=True)]
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} in {short_repr(given)}") from None


@dataclass(frozen=True, kw_only=True, eq=False)
class Bits(Space):
    """Several numbers that are 0 or 1, `size` of them: Gymnasium's MultiBinary.

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


def as_list(state: Any, size: int) -> list[Any]:
    """Return several numbers of any shape as a plain list, the fastest thing to go through."""
    listed: Any = None
    if isinstance(state, np.ndarray):
        listed = state.reshape(-1).tolist()
    elif isinstance(state, list | tuple):
        nested = any(isinstance(part, list | tuple | np.ndarray) for part in state)
        listed = np.asarray(state).reshape(-1).tolist() if nested else state
    if listed is None or len(listed) != size:
        raise ValueError(f"state must be {size} numbers; got {short_repr(state)}")
    return list(listed)
