"""The numbers of a state as they are."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.support.arguments import Floats, flag, set_fields, whole


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Identity(Basis):
    """The numbers of a state as they are, with `constant` after a 1.

    >>> Identity(inputs=2, constant=True)([3.0, 4.0])
    array([1., 3., 4.])
    """

    kind: ClassVar[str] = "identity"

    inputs: int
    constant: bool = False

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1)
        constant = flag("constant", self.constant)
        name = f"1 and {inputs} as they are" if constant else f"{inputs} as they are"
        set_fields(self, inputs=inputs, constant=constant, size=inputs + constant, name=name)

    def values(self, x: Floats) -> Floats:
        if not self.constant:
            return x.copy()
        row = np.empty(self.size)
        row[0] = 1.0
        row[1:] = x
        return row

    def longest(self, inputs: float) -> float:
        return math.hypot(1.0, inputs) if self.constant else inputs
