"""Cosines of the numbers of a state: the Fourier basis, and random features of radial kernels."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations, islice, pairwise, product
from typing import ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, floats, real, set_fields, whole
from rareswitch.support.extras import require

MOST_COSINES = 100_000
MOST_WEIGHTS = 10**7

# The positions and the values of the nonzero entries of c.
Cosine = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Cosines(Basis):
    """`amplitude` · cos(xᵀ · `weights` + `offsets`), with weights (n, m) and offsets (m,)."""

    kind: ClassVar[str] = "cosines"

    weights: Floats
    offsets: Floats
    amplitude: float = 1.0

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
            name=f"{size} cosines",
        )

    @classmethod
    def fourier(
        cls, *, inputs: int, order: int, coupled: int = 2, terms: int | None = None
    ) -> Self:
        """Return cos(π c·x) for all integer c in [0, `order`]ⁿ with at most `coupled` nonzero c_i.

        This is the Fourier basis (Konidaris et al. 2011). `terms` keeps only this number of
        cosines, the slowest (least Σc_i) first. Numbers should be in [0, 1]: put it after
        `Scaling.between`. The first feature is the constant.

        >>> Cosines.fourier(inputs=1, order=2)([0.5]).round(12) + 0.0
        array([ 1.,  0., -1.])
        >>> Cosines.fourier(inputs=2, order=9, terms=5).weights.T / math.pi
        array([[0., 0.],
               [1., 0.],
               [0., 1.],
               [2., 0.],
               [0., 2.]])
        """
        inputs = whole("inputs", inputs, least=1, most=MOST_COSINES)
        order = whole("order", order, least=1, most=MOST_COSINES)
        coupled = whole("coupled", coupled, least=1, most=100)
        size = sum(math.comb(inputs, k) * order**k for k in range(coupled + 1))
        chosen = _every(inputs, order, coupled)
        if terms is not None:
            size = min(size, whole("terms", terms, least=1, most=MOST_COSINES))
            chosen = islice(_slowest(inputs, order, coupled), size)
        said = f"the number of cosines of order {order}, {coupled} of {inputs} numbers coupled"
        whole(said, size, least=1, most=min(MOST_COSINES, MOST_WEIGHTS // inputs))
        rows = np.zeros((size, inputs))
        for row, (places, frequencies) in zip(rows, chosen, strict=True):
            row[list(places)] = frequencies
        return cls(weights=math.pi * rows.T, offsets=np.zeros(size))

    @classmethod
    def radial(
        cls, *, inputs: int, components: int, bandwidths: float | Iterable[float], seed: int = 0
    ) -> Self:
        """Draw `components` random features for each of the bandwidths (Rahimi and Recht 2007).

        Products of the features of two states approximate a radial kernel: similar states have
        similar features. For bandwidth b it is exp(−‖x−y‖² / 2b²). scikit-learn's RBFSampler with
        gamma = 1 / 2b² draws the features. The numbers must be of comparable size: put it after a
        `Scaling`.

        >>> basis = Cosines.radial(inputs=2, components=500, bandwidths=(1.0, 2.0))
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
            raise ValueError("bandwidths must not be empty")
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


def _every(inputs: int, order: int, coupled: int) -> Iterator[Cosine]:
    """Yield every c."""
    for k in range(min(coupled, inputs) + 1):
        for places in combinations(range(inputs), k):
            for frequencies in product(range(1, order + 1), repeat=k):
                yield places, frequencies


def _slowest(inputs: int, order: int, coupled: int) -> Iterator[Cosine]:
    """Yield every c in the order of Σc_i; among equal sums, fewer nonzero entries first."""
    yield (), ()
    most = min(coupled, inputs)
    for total in range(1, most * order + 1):
        for k in range(1, min(most, total) + 1):
            for places in combinations(range(inputs), k):
                # Cut a row of `total` ones into k pieces.
                for cuts in combinations(range(1, total), k - 1):
                    frequencies = tuple(b - a for a, b in pairwise((0, *cuts, total)))
                    if max(frequencies) <= order:
                        yield places, frequencies
