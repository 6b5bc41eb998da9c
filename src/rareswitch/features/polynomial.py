"""Products of the numbers of a state: scikit-learn's PolynomialFeatures."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, combinations_with_replacement
from typing import ClassVar

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, Ints, flag, set_fields, whole
from rareswitch.support.words import plural

MOST_PRODUCTS = 100_000


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Polynomial(Basis):
    """All products of up to `degree` numbers of a state; with `constant` also the empty product 1.

    With `interaction_only` no number occurs twice in a product. The order is scikit-learn's. With
    degree 1 the products are the numbers themselves.

    >>> Polynomial(inputs=2, degree=2)([3.0, 5.0])
    array([ 1.,  3.,  5.,  9., 15., 25.])
    """

    kind: ClassVar[str] = "polynomial"

    inputs: int
    degree: int
    constant: bool = True
    interaction_only: bool = False

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1, most=MOST_PRODUCTS)
        degree = whole("degree", self.degree, least=1, most=100)
        constant = flag("constant", self.constant)
        alone = flag("interaction_only", self.interaction_only)
        sizes = (
            math.comb(inputs, k) if alone else math.comb(inputs + k - 1, k)
            for k in range(1, degree + 1)
        )
        size = whole(
            f"the number of products of up to {degree} of {inputs} numbers",
            constant + sum(sizes),
            least=1,
            most=MOST_PRODUCTS,
        )
        name, one = f"{size} products of up to {degree}", "a constant and " if constant else ""
        set_fields(
            self,
            inputs=inputs,
            degree=degree,
            constant=constant,
            interaction_only=alone,
            size=size,
            name=name if degree > 1 else f"{one}{plural(inputs, 'number')}",
        )

    @cached_property
    def factors(self) -> Ints:
        """The entries of (1, x) in each product (degree, m)."""
        chosen = combinations if self.interaction_only else combinations_with_replacement
        numbers, first = range(1, self.inputs + 1), 0 if self.constant else 1
        products = chain.from_iterable(chosen(numbers, k) for k in range(first, self.degree + 1))
        padded = [(*product, *[0] * (self.degree - len(product))) for product in products]
        return np.array(padded, np.int64).T.copy()

    def values(self, x: Floats) -> Floats:
        entries = np.empty(self.inputs + 1)
        entries[0] = 1.0
        entries[1:] = x
        if self.degree == 1:
            return entries if self.constant else entries[1:]
        row = entries[self.factors[0]]
        for factor in self.factors[1:]:
            row *= entries[factor]
        return row

    def longest(self, inputs: float) -> float:
        degrees = range(0 if self.constant else 1, self.degree + 1)
        try:
            # The squares of degree k sum to at most ‖x‖^2k: each is a term of (Σxᵢ²)^k.
            return math.hypot(*(inputs**k for k in degrees))
        except OverflowError:
            return math.inf
