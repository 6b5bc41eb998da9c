"""Numbers of mean 0 and standard deviation 1 on a sample: scikit-learn's StandardScaler."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, floats, real, set_fields
from rareswitch.support.extras import require


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Standardised(Basis):
    """(x − `mean`) / `scale`, clipped to ±`clip` where one is given.

    Clipped, a state far from all that the sample knew cannot be further out than `clip` deviations.
    """

    kind: ClassVar[str] = "standardised"

    mean: Floats
    scale: Floats
    clip: float | None = None

    def __post_init__(self) -> None:
        mean = floats("mean", self.mean, ("n",))
        scale = floats("scale", self.scale, (len(mean),))
        if not len(mean):
            raise ValueError("mean must have at least one entry; got none")
        if scale.min() <= 0.0:
            raise ValueError(f"scale must be above 0; got {scale.min()} at {int(scale.argmin())}")
        clip = None if self.clip is None else real("clip", self.clip, above=0.0)
        name = f"{len(mean)} standardised" + ("" if clip is None else f" within ±{clip:g}")
        set_fields(
            self, mean=mean, scale=scale, clip=clip, inputs=len(mean), size=len(mean), name=name
        )

    @classmethod
    def fit(cls, sample: Any, *, clip: float | None = None) -> Self:
        """Return the scaling that gives the columns of a sample (N, n) mean 0 and deviation 1.

        A column that is constant is only centred. scikit-learn fits it, and is not needed after.

        >>> scaled = Standardised.fit([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]], clip=1.0)
        >>> scaled([3.0, 5.5]).round(2), scaled([99.0, 5.0])
        (array([0.61, 0.5 ]), array([1., 0.]))
        """
        require("features")
        from sklearn.preprocessing import StandardScaler

        scaler = StandardScaler().fit(floats("sample", sample, ("N", "n")))
        return cls(mean=scaler.mean_, scale=scaler.scale_, clip=clip)

    def values(self, x: Floats) -> Floats:
        row: Floats = x - self.mean
        row /= self.scale
        low, high = self._ends
        np.maximum(row, low, out=row)
        return np.minimum(row, high, out=row)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """Where values are clipped, as arrays: NumPy is slower on a single number."""
        end = np.full(self.size, math.inf if self.clip is None else self.clip)
        return -end, end

    def longest(self, inputs: float) -> float:
        end = math.inf if self.clip is None else self.clip
        centred = inputs + float(np.linalg.norm(self.mean))
        return min(math.sqrt(self.size) * end, centred / float(self.scale.min()))
