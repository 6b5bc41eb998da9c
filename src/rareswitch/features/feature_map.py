"""The feature map: from a state to the rows of all actions, and to the feasible actions.

Letters: d `dim`, A `actions`, L `norm`. Rows are floats (A, d), or for a map with `one_hot` whole
numbers (A,), the positions of the 1s. Both can be counted, indexed and masked alike.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from rareswitch.features.packed import Packed
from rareswitch.support.arguments import Bools, Rows, short_repr, whole

# The end of the name of a map whose digest does not cover its code.
UNVERIFIED = ", unverified"


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
        """A bound L on the length of every row; `math.inf` where none is known."""
        ...

    @property
    def name(self) -> str:
        """A few words for a person."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal: equal digests mean equal rows, unless the name says unverified.

        `as_features` makes it cover code of the user, as far as a probe shows.
        """
        ...

    def __call__(self, state: Any, h: int = 0) -> Rows:
        """Return the rows of all A actions at stage h, counted from 0."""
        ...

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        """Return which actions are feasible (A,), at least one; None stands for all."""
        ...


PARTS = ("dim", "actions", "one_hot", "norm", "name", "digest", "feasible")


class Features(Packed, ABC):
    """The base of all maps of this package, and of a user's class.

    A subclass sets `dim` and `actions`. By default all actions are feasible, rows are floats, and
    their length has no bound. `as_features` checks its rows at every call. A map whose rows each
    have numbers other than 0 in one of several equal blocks may say so in `blocks`: a learner then
    needs less memory and time.
    """

    dim: int
    actions: int
    one_hot: bool = False
    blocks: int = 1
    norm: float = math.inf
    name: str = "features"

    @abstractmethod
    def __call__(self, state: Any, h: int = 0) -> Rows:
        """Return the rows of all A actions at stage h, counted from 0."""

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        """Return which actions are feasible (A,), at least one; None stands for all."""
        return None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name}{'' if self.built_in else UNVERIFIED})"


def blocks_of(features: FeatureMap) -> int:
    """Return the number of blocks of a map's coordinates; 1 if the map does not say."""
    return int(getattr(features, "blocks", 1))


def checked_map(name: str, value: Any) -> FeatureMap:
    """Return value if it has all parts of a feature map, and sizes that make sense."""
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


def truths(name: str, value: Any, shape: tuple[int, ...]) -> Bools:
    """Return a read-only array of truth values of that shape, given as such or as 0 and 1."""
    given = np.asarray(value)
    kind = given.dtype.kind
    truthful = kind == "b" or (kind in "iu" and given.size and 0 <= given.min() <= given.max() <= 1)
    if not truthful or given.shape != shape:
        raise ValueError(f"{name} must be truth values of shape {shape}; got {short_repr(value)}")
    array: Bools = given.astype(np.bool)
    array.flags.writeable = False
    return array
