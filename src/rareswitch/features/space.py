"""Spaces of observations as plain values: which states there are, and a state as numbers.

`space_of` reads a space of Gymnasium by the names of its classes and attributes, so that nothing of
Gymnasium is imported, neither here nor where a map is used.
"""

from abc import ABC, abstractmethod
from typing import Any

from rareswitch.features.packed import Packed
from rareswitch.support.arguments import Floats


class Space(Packed, ABC):
    """The states of a world: `count` of them (None: no end), each `size` numbers when laid flat."""

    count: int | None
    size: int

    @abstractmethod
    def index(self, state: Any) -> int:
        """Return the number of a state, from 0 to count−1; another state is a ValueError."""

    @abstractmethod
    def flat(self, state: Any) -> Floats:
        """Return a state as numbers (size,): what is counted becomes one-hot."""
