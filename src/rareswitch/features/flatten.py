"""Observations of several parts, or of several axes, laid flat."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rareswitch.features.basis import Basis
from rareswitch.features.gymnasium_space import space_of
from rareswitch.features.space import Space
from rareswitch.support.arguments import Floats, set_fields, short_repr


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Flatten(Basis):
    """The numbers of a Box of any shape, or of a Tuple or Dict, one after the other.

    What is counted becomes one-hot: the result is that of `gymnasium.spaces.flatten`. It is the
    first basis of a chain.
    """

    kind: ClassVar[str] = "flatten"

    space: Space

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Space; got {short_repr(self.space)}; use Flatten.of")
        size = self.space.size
        set_fields(self, inputs=size, size=size, reads=self.space, name=f"{size} laid flat")

    @classmethod
    def of(cls, observation_space: Any) -> Self:
        """Return the basis that lays the observations of a Gymnasium space flat."""
        return cls(space=space_of(observation_space))

    def values(self, x: Floats) -> Floats:
        return x.copy()

    def longest(self, inputs: float) -> float:
        return inputs
