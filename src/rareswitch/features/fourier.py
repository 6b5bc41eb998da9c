"""Cosines of whole frequencies: the Fourier basis (Konidaris et al. 2011)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise, product
from typing import ClassVar

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, set_fields, whole

MOST_COSINES = 100_000

Cosine = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fourier(Basis):
    """cos(π c·x) for all whole c with 0 ≤ c_i ≤ `order`, of which at most `coupled` are not 0.

    With `terms`, only so many of them: the slowest, those of the least Σc_i, first. It is made for
    numbers in [0, 1]: let it stand on `MinMax`. The first feature is the constant.

    >>> Fourier(inputs=1, order=2)([0.5]).round(12) + 0.0
    array([ 1.,  0., -1.])
    >>> Fourier(inputs=2, order=9, terms=5).frequencies.T / math.pi
    array([[0., 0.],
           [1., 0.],
           [0., 1.],
           [2., 0.],
           [0., 2.]])
    """

    kind: ClassVar[str] = "fourier"

    inputs: int
    order: int
    coupled: int = 2
    terms: int | None = None

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1, most=MOST_COSINES)
        order = whole("order", self.order, least=1, most=MOST_COSINES)
        coupled = whole("coupled", self.coupled, least=1, most=100)
        every = sum(math.comb(inputs, k) * order**k for k in range(coupled + 1))
        if self.terms is None:
            said = f"the number of cosines of order {order}, {coupled} of {inputs} numbers coupled"
            size = whole(said, every, least=1, most=MOST_COSINES)
            name = f"{size} cosines of order {order}"
        else:
            terms = whole("terms", self.terms, least=1, most=MOST_COSINES)
            size, name = min(terms, every), f"{min(terms, every)} slowest cosines"
        set_fields(self, inputs=inputs, order=order, coupled=coupled, size=size, name=name)

    @cached_property
    def frequencies(self) -> Floats:
        """π c for each feature, as columns (n, m)."""
        columns = np.zeros((self.size, self.inputs))
        chosen = self._every() if self.terms is None else self._slowest()
        for row, (numbers, frequencies) in zip(columns, chosen, strict=self.terms is None):
            row[list(numbers)] = frequencies
        return np.ascontiguousarray(math.pi * columns.T)

    def _every(self) -> Iterator[Cosine]:
        """Give what is not 0 in each c: the places, and what is there."""
        for k in range(min(self.coupled, self.inputs) + 1):
            for numbers in combinations(range(self.inputs), k):
                for frequencies in product(range(1, self.order + 1), repeat=k):
                    yield numbers, frequencies

    def _slowest(self) -> Iterator[Cosine]:
        """Give the same by Σc_i, and with the same sum those of fewer numbers first."""
        yield (), ()
        most = min(self.coupled, self.inputs)
        for total in range(1, most * self.order + 1):
            for k in range(1, min(most, total) + 1):
                for numbers in combinations(range(self.inputs), k):
                    # Where to cut a row of `total` ones into k pieces.
                    for cuts in combinations(range(1, total), k - 1):
                        ends = (0, *cuts, total)
                        frequencies = tuple(b - a for a, b in pairwise(ends))
                        if max(frequencies) <= self.order:
                            yield numbers, frequencies

    def values(self, x: Floats) -> Floats:
        angles = x.dot(self.frequencies)
        return np.cos(angles, out=angles)

    def longest(self, inputs: float) -> float:
        return math.sqrt(self.size)
