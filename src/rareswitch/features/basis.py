"""Bases, from the numbers of a state to its features, and chains and joins of them.

Letters: n `inputs`, m `size`; x (n,) is the state as numbers, the result (m,) its features.
`ActionBlocks` turns them into features of pairs of a state and an action.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.packed import Packed
from rareswitch.features.spaces import Space, numbers, space_of
from rareswitch.support.arguments import Floats, set_fields, short_repr
from rareswitch.support.words import plural


class Basis(Packed, ABC):
    """A map from a state of `inputs` numbers to `size` features.

    A call checks the state. `values` takes checked numbers, so only the first basis of a chain
    checks. The space `reads`, if given, flattens states.
    """

    inputs: int
    size: int
    name: str
    reads: Space | None = None

    @abstractmethod
    def values(self, x: Floats) -> Floats:
        """Return the features of checked numbers (n,) in a new array (m,)."""

    @abstractmethod
    def longest(self, inputs: float) -> float:
        """Return a bound on the norm of the features, given the bound `inputs` on the norm of x."""

    @property
    def norm(self) -> float:
        """A bound on the norm of the features of any state, or `math.inf`."""
        return self.longest(math.inf)

    def __call__(self, state: Any) -> Floats:
        """Return the features (m,) of a state."""
        if self.reads is None:
            return self.values(numbers(state, (self.inputs,)))
        return self.values(self.reads.flat(state))

    def many(self, states: Iterable[Any]) -> Floats:
        """Return the features (N, m) of several states."""
        return np.array([self(state) for state in states]).reshape(-1, self.size)

    def then(self, following: "Basis | Callable[..., Basis]", **arguments: Any) -> "Chained":
        """Return the chain of this basis and the following basis.

        The following basis may be a class or constructor with its arguments except `inputs`, which
        is the size of this basis.

        >>> from rareswitch.features import Polynomial, Scaling
        >>> Scaling.between([0.0, 0.0], [2.0, 4.0]).then(Polynomial, degree=2)([1.0, 1.0])
        array([1.    , 0.5   , 0.25  , 0.25  , 0.125 , 0.0625])
        """
        if not isinstance(following, Basis) and callable(following):
            following = following(inputs=self.size, **arguments)
        elif arguments:
            raise TypeError(
                f"following must be a class or constructor to take {', '.join(arguments)}; got "
                f"{short_repr(following)}"
            )
        return Chained(first=self, second=following)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Flatten(Basis):
    """The flattened numbers of a Box of any shape, or of a Tuple or Dict.

    Countable parts become one-hot, as in `gymnasium.spaces.flatten`. It must come first in a chain.
    """

    kind: ClassVar[str] = "flatten"

    space: Space

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Space; got {short_repr(self.space)}; use Flatten.of")
        size = self.space.size
        set_fields(self, inputs=size, size=size, reads=self.space, name=plural(size, "number"))

    @classmethod
    def of(cls, observation_space: Any) -> Self:
        """Return the basis that flattens the observations of a Gymnasium space."""
        return cls(space=space_of(observation_space))

    def values(self, x: Floats) -> Floats:
        return x.copy()

    def longest(self, inputs: float) -> float:
        return inputs


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Chained(Basis):
    """The composition of two bases, second(first(x))."""

    kind: ClassVar[str] = "chained"

    first: Basis
    second: Basis

    def __post_init__(self) -> None:
        first, second = checked_basis("first", self.first), checked_basis("second", self.second)
        if second.inputs != first.size or second.reads is not None:
            raise ValueError(
                f"second must take the {first.size} numbers that {first.name!r} makes; got "
                f"{second.name!r}, which takes "
                + (f"{second.inputs}" if second.reads is None else "whole observations")
            )
        set_fields(
            self,
            inputs=first.inputs,
            size=second.size,
            reads=first.reads,
            name=f"{first.name} → {second.name}",
        )

    def values(self, x: Floats) -> Floats:
        return self.second.values(self.first.values(x))

    def longest(self, inputs: float) -> float:
        return self.second.longest(self.first.longest(inputs))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Joined(Basis):
    """Several bases of the same state, concatenated: (part(x) for each of the parts)."""

    kind: ClassVar[str] = "joined"

    parts: tuple[Basis, ...]

    def __post_init__(self) -> None:
        parts = tuple(checked_basis("parts", part) for part in self.parts)
        if not parts:
            raise ValueError("parts must not be empty")
        first = parts[0]
        for part in parts:
            if part.inputs != first.inputs or part.reads != first.reads:
                raise ValueError(
                    f"parts must all take the same states; {first.name!r} takes {first.inputs} "
                    f"numbers, and {part.name!r} {part.inputs} or another kind of observation"
                )
        set_fields(
            self,
            parts=parts,
            inputs=first.inputs,
            size=sum(part.size for part in parts),
            reads=first.reads,
            name=f"({', '.join(part.name for part in parts)})",
        )

    def values(self, x: Floats) -> Floats:
        return np.concatenate([part.values(x) for part in self.parts])

    def longest(self, inputs: float) -> float:
        return math.hypot(*(part.longest(inputs) for part in self.parts))


def joined(*parts: Basis) -> Joined:
    """Concatenate several bases of the same state."""
    return Joined(parts=parts)


def checked_basis(name: str, value: Any) -> Basis:
    """Return the value, or raise TypeError with a hint if it is no basis."""
    if isinstance(value, Basis):
        return value
    hint = ""
    if isinstance(value, type):
        hint = f": write {value.__name__}(…)"
    elif callable(getattr(value, "transform", None)):
        hint = ": write basis_of(transformer)"
    raise TypeError(f"{name} must be a Basis; got {short_repr(value)}{hint}")
