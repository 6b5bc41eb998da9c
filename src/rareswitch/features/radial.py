"""Random Fourier features (Rahimi and Recht 2007): radial kernels, as scikit-learn's RBFSampler."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, floats, real, set_fields, whole
from rareswitch.support.extras import require


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Radial(Basis):
    """amplitude · cos(xᵀ`weights` + `offsets`), with weights (n, m) and offsets (m,).

    Drawn by `Radial.drawn`, products of the features of two states approximate a radial kernel:
    states alike have features alike. It asks for numbers of comparable size: let it stand on
    `Standardised` or `MinMax`.
    """

    kind: ClassVar[str] = "radial"

    weights: Floats
    offsets: Floats
    amplitude: float

    def __post_init__(self) -> None:
        weights = floats("weights", self.weights, ("n", "m"))
        inputs, size = weights.shape
        if not weights.size:
            raise ValueError(f"weights must have a row and a column; got shape {weights.shape}")
        set_fields(
            self,
            weights=weights,
            offsets=floats("offsets", self.offsets, (size,)),
            amplitude=real("amplitude", self.amplitude, above=0.0),
            inputs=inputs,
            size=size,
            name=f"{size} radial",
        )

    @classmethod
    def drawn(
        cls, *, inputs: int, components: int, bandwidths: float | Iterable[float], seed: int = 0
    ) -> Self:
        """Draw `components` features for each of the bandwidths, with scikit-learn's RBFSampler.

        Of bandwidth b the kernel is exp(−‖x−y‖² / 2b²), RBFSampler's with gamma = 1 / 2b².

        >>> basis = Radial.drawn(inputs=2, components=500, bandwidths=(1.0, 2.0))
        >>> basis.size, float(basis([0.1, 0.2]) @ basis([0.1, 0.2])).__round__(1)
        (1000, 2.0)
        """
        require("features")
        from sklearn.kernel_approximation import RBFSampler

        inputs = whole("inputs", inputs, least=1)
        components = whole("components", components, least=1)
        given = tuple(bandwidths) if isinstance(bandwidths, Iterable) else (bandwidths,)
        lengths = [real("bandwidths", length, above=0.0) for length in given]
        if not lengths:
            raise ValueError("bandwidths must hold at least one; got none")
        seeds = np.random.SeedSequence(whole("seed", seed, least=0)).generate_state(len(lengths))
        samplers = [
            RBFSampler(
                gamma=0.5 / length**2, n_components=components, random_state=int(number)
            ).fit(np.zeros((1, inputs)))
            for length, number in zip(lengths, seeds, strict=True)
        ]
        return cls(
            weights=np.hstack([sampler.random_weights_ for sampler in samplers]),
            offsets=np.hstack([sampler.random_offset_ for sampler in samplers]),
            amplitude=math.sqrt(2.0 / components),
        )

    def values(self, x: Floats) -> Floats:
        row = x.dot(self.weights)
        row += self.offsets
        np.cos(row, out=row)
        row *= self.amplitude
        return row

    def longest(self, inputs: float) -> float:
        return math.sqrt(self.size) * self.amplitude
