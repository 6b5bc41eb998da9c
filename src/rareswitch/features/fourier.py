"""Cosines of whole frequencies: the Fourier basis (Konidaris et al. 2011)."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from typing import ClassVar

import numpy as np

from rareswitch.core.arguments import Floats, settle, whole
from rareswitch.features.basis import Basis

MOST_COSINES = 100_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Fourier(Basis):
    """cos(π c·x) for all whole c with 0 ≤ c_i ≤ `order`, of which at most `coupled` are not 0.

    It is made for numbers in [0, 1]: let it stand on `MinMax`. The first feature is the constant.

    >>> Fourier(inputs=1, order=2)([0.5]).round(12) + 0.0
    array([ 1.,  0., -1.])
    """

    kind: ClassVar[str] = "fourier"

    inputs: int
    order: int
    coupled: int = 2

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1, most=MOST_COSINES)
        order = whole("order", self.order, least=1, most=MOST_COSINES)
        coupled = whole("coupled", self.coupled, least=1, most=100)
        size = whole(
            f"the number of cosines of order {order}, {coupled} of {inputs} numbers coupled",
            sum(math.comb(inputs, k) * order**k for k in range(coupled + 1)),
            least=1,
            most=MOST_COSINES,
        )
        name = f"{size} cosines of order {order}"
        settle(self, inputs=inputs, order=order, coupled=coupled, size=size, name=name)

    @cached_property
    def frequencies(self) -> Floats:
        """π c for each feature, as columns (n, m)."""
        columns = np.zeros((self.size, self.inputs))
        chosen = (
            (numbers, frequencies)
            for k in range(min(self.coupled, self.inputs) + 1)
            for numbers in combinations(range(self.inputs), k)
            for frequencies in product(range(1, self.order + 1), repeat=k)
        )
        for row, (numbers, frequencies) in zip(columns, chosen, strict=True):
            row[list(numbers)] = frequencies
        return np.ascontiguousarray(math.pi * columns.T)

    def values(self, x: Floats) -> Floats:
        angles = x.dot(self.frequencies)
        return np.cos(angles, out=angles)

    def longest(self, inputs: float) -> float:
        return math.sqrt(self.size)
