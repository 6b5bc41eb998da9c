"""Numbers scaled to a range that they had on a sample: scikit-learn's MinMaxScaler."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, flag, floats, real, set_fields
from rareswitch.support.extras import require


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class MinMax(Basis):
    """x · `scale` + `shift`, with `clip` clipped to [`low`, `high`]."""

    kind: ClassVar[str] = "min-max"

    scale: Floats
    shift: Floats
    low: float = 0.0
    high: float = 1.0
    clip: bool = True

    def __post_init__(self) -> None:
        scale = floats("scale", self.scale, ("n",))
        if not len(scale):
            raise ValueError("scale must have at least one entry; got none")
        if scale.min() <= 0.0:
            raise ValueError(f"scale must be above 0; got {scale.min()} at {int(scale.argmin())}")
        low = real("low", self.low)
        high = real("high", self.high, above=low)
        set_fields(
            self,
            scale=scale,
            shift=floats("shift", self.shift, (len(scale),)),
            low=low,
            high=high,
            clip=flag("clip", self.clip),
            inputs=len(scale),
            size=len(scale),
            name=f"{len(scale)} scaled to [{low:g}, {high:g}]",
        )

    @classmethod
    def fit(cls, sample: Any, *, clip: bool = True) -> Self:
        """Return the scaling that spreads each column of a sample (N, n) over [0, 1].

        scikit-learn fits it, and is not needed after.

        >>> MinMax.fit([[0.0], [4.0]])([3.0]), MinMax.fit([[0.0], [4.0]])([5.0])
        (array([0.75]), array([1.]))
        """
        require("features")
        from sklearn.preprocessing import MinMaxScaler

        scaler = MinMaxScaler().fit(floats("sample", sample, ("N", "n")))
        return cls(scale=scaler.scale_, shift=scaler.min_, clip=clip)

    @classmethod
    def between(cls, lowest: Any, highest: Any) -> Self:
        """Return the scaling that spreads known ranges over [0, 1], such as the ends of a Box.

        >>> MinMax.between([-1.2, -0.07], [0.6, 0.07])([-0.3, 0.0])
        array([0.5, 0.5])
        """
        start = floats("lowest", lowest, ("n",))
        end = floats("highest", highest, (len(start),))
        with np.errstate(over="ignore"):
            width = end - start
        if not (np.isfinite(width) & (width > 0.0)).all():
            place = int(np.argmin(np.isfinite(width) & (width > 0.0)))
            raise ValueError(
                f"highest must be above lowest, within what a float can hold; got {end[place]} and "
                f"{start[place]} at {place}"
            )
        return cls(scale=1.0 / width, shift=-start / width)

    def values(self, x: Floats) -> Floats:
        row: Floats = x * self.scale
        row += self.shift
        low, high = self._ends
        np.maximum(row, low, out=row)
        return np.minimum(row, high, out=row)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """Where values are clipped, as arrays: NumPy is slower on a single number."""
        low, high = (self.low, self.high) if self.clip else (-math.inf, math.inf)
        return np.full(self.size, low), np.full(self.size, high)

    def longest(self, inputs: float) -> float:
        end = max(abs(self.low), abs(self.high)) if self.clip else math.inf
        shifted = inputs * float(self.scale.max()) + float(np.linalg.norm(self.shift))
        return min(math.sqrt(self.size) * end, shifted)
