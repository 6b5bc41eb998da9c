"""Features divided by a bound on their length, so that none is longer than 1."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, floats, real, set_fields, whole


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnitNorm(Basis):
    """x / max(`bound`, ‖x‖): what is no longer than the bound L keeps its direction and proportion.

    What is longer is cut to length 1. With L as known from `basis.norm` nothing ever is; with one
    measured on a sample little is, and features are not made needlessly small.

    >>> UnitNorm(inputs=2, bound=10.0)([3.0, 4.0]), UnitNorm(inputs=2, bound=2.0)([3.0, 4.0])
    (array([0.3, 0.4]), array([0.6, 0.8]))
    """

    kind: ClassVar[str] = "unit-norm"

    inputs: int
    bound: float

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1)
        bound = real("bound", self.bound, above=0.0)
        set_fields(
            self, inputs=inputs, size=inputs, bound=bound, name=f"divided by L = {bound:.4g}"
        )

    @classmethod
    def fit(cls, sample: Any) -> Self:
        """Return the division by the length of the longest row of a sample (N, n)."""
        rows = floats("sample", sample, ("N", "n"))
        if not rows.any():
            raise ValueError("sample must have a row that is not 0; got none")
        return cls(inputs=rows.shape[1], bound=float(np.linalg.norm(rows, axis=1).max()))

    def values(self, x: Floats) -> Floats:
        return x / max(self.bound, math.sqrt(x.dot(x)))

    def longest(self, inputs: float) -> float:
        return min(1.0, inputs / self.bound)
