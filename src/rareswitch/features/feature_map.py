"""The feature map, from a state to the rows of all actions and the feasible actions.

Letters: d `dim`, A `actions`, L `norm`. Rows are floats (A, d), or for a map with `one_hot` whole
numbers (A,), the positions of the 1s. Both have a length, indices and masks.
"""

import math
from abc import ABC, abstractmethod
from typing import Any, Protocol

import numpy as np

from rareswitch.features.packed import Packed
from rareswitch.support.arguments import Bools, Rows, holds_truths, short_repr, whole

# The end of the name of a map whose digest does not cover its code.
UNVERIFIED = ", unverified"


class FeatureMap(Protocol):
    """The protocol of feature maps, from a state to the rows of all actions."""

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
        """A bound L on the length of every row, or `math.inf`."""
        ...

    @property
    def name(self) -> str:
        """A short description for people."""
        ...

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal: equal digests mean equal rows, unless the name has "unverified".

        For code of the user, `as_features` makes it cover the results on a probe.
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
    """The base class of all maps of this package and of users' maps.

    A subclass sets `dim` and `actions`. By default all actions are feasible, rows are floats, and
    their length has no bound. `as_features` checks its rows at every call. `blocks` is the number
    of equal blocks of coordinates if each row is nonzero in one block only: a learner then needs
    less memory and time.
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
    """Return the number of blocks of a map's coordinates, by default 1."""
    return int(getattr(features, "blocks", 1))


def checked_map(name: str, value: Any) -> FeatureMap:
    """Return the value, or raise an error if it lacks a part of a feature map or a valid size."""
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
    """Return booleans, or 0 and 1, as a read-only boolean array of that shape."""
    given = np.asarray(value)
    if not holds_truths(given) or given.shape != shape:
        raise ValueError(
            f"{name} must be booleans, or integers 0 and 1, of shape {shape}; got {given.dtype} of "
            f"shape {given.shape}: {short_repr(value)}"
        )
    array: Bools = given.astype(np.bool)
    array.flags.writeable = False
    return array
