"""Rows of any map divided by a bound on their length, so that none is longer than 1."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.feature_map import FeatureMap, checked_map
from rareswitch.features.wrapper import Wrapper
from rareswitch.support.arguments import Floats, real, set_fields


@dataclass(frozen=True, eq=False, repr=False)
class UnitRows(Wrapper):
    """Each row of a `map` divided by `bound`, or by its length where it is longer.

    For a map of `ActionBlocks`, `UnitNorm` in its basis does the same and costs less.
    """

    kind: ClassVar[str] = "unit-rows"

    bound: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        bound = real("bound", self.bound, above=0.0)
        if self.one_hot:
            raise ValueError(f"map must have rows of floats; those of {self.name!r} have length 1")
        set_fields(
            self,
            bound=bound,
            norm=min(1.0, self.norm / bound),
            name=f"{self.name} divided by L = {bound:.4g}",
        )

    @classmethod
    def measured(cls, map: FeatureMap, states: Iterable[Any]) -> Self:
        """Return the division by the length of the longest row that some states have."""
        rows = checked_map("map", map)
        lengths = [float(np.linalg.norm(rows(state), axis=1).max()) for state in states]
        if not any(lengths):
            raise ValueError("states must have a row that is not 0; got none")
        return cls(map, bound=max(lengths))

    def __call__(self, state: Any, h: int = 0) -> Floats:
        rows = self.map(state, h)
        lengths = np.sqrt(np.vecdot(rows, rows))
        scaled: Floats = rows / np.maximum(lengths, self.bound)[:, None]
        scaled.flags.writeable = False
        return scaled
