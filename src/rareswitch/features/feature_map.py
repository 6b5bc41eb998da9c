"""What a feature map is: from a state to the rows of all actions, and which of them are feasible.

Letters: d `dim`, A `actions`, L `norm`. Rows are floats (A, d), or of a map with `one_hot` whole
numbers (A,), the positions of the 1s. Both can be counted, indexed and masked alike.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

from rareswitch.features.packed import Packed
from rareswitch.support.arguments import Bools, Rows, short_repr, whole


class FeatureMap(Protocol):
    """From a state to the rows of all actions: anything with these names will do."""

    @property
    def dim(self) -> int:
        """The dimension d of a row."""
        ...

    @property
    def actions(self) -> int:
        """The number A of rows, one for each action in the order of their numbers."""
        ...

    @property
    def one_hot(self) -> bool:
        """Whether rows are whole numbers (A,), the positions of the 1s, and not floats (A, d)."""
        ...

    @property
    def norm(self) -> float:
        """A bound L on the length of every row; `math.inf` where nothing is known."""
        ...

    @property
    def name(self) -> str:
        """A few words for a person."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal: equal digests, equal rows."""
        ...

    def __call__(self, state: Any, h: int = 0) -> Rows:
        """Return the rows of all A actions at stage h, counted from 0."""
        ...

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        """Return which actions are feasible (A,), at least one; None stands for all."""
        ...


PARTS = ("dim", "actions", "one_hot", "norm", "name", "digest", "feasible")


class Features(Packed, ABC):
    """What the maps of this package have in common: all actions are feasible unless they say no.

    A subclass sets `dim` and `actions`, and says more where there is more to say: that its rows are
    `one_hot`, that no row is longer than `norm`, what its `name` is.
    """

    dim: int
    actions: int
    one_hot: bool = False
    norm: float = math.inf
    name: str = "features"

    @abstractmethod
    def __call__(self, state: Any, h: int = 0) -> Rows:
        """Return the rows of all A actions at stage h, counted from 0."""

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        """Return which actions are feasible (A,), at least one; None stands for all."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"


def checked_map(name: str, value: Any) -> FeatureMap:
    """Return value if it has all that a feature map has, in sizes that make sense."""
    missing = [part for part in PARTS if not hasattr(value, part)]
    if missing or isinstance(value, type) or not callable(value):
        raise TypeError(
            f"{name} must be a feature map, with {', '.join(PARTS)} and a call; got "
            f"{short_repr(value)}" + (f" without {missing[0]}" if missing else "")
        )
    whole(f"{name}.actions", value.actions, least=1)
    whole(f"{name}.dim", value.dim, least=1)
    found: FeatureMap = value
    return found
