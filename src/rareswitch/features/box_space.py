"""A space of real numbers: Gymnasium's Box, of any shape."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from rareswitch.features.observation import numbers
from rareswitch.features.space import Space
from rareswitch.support.arguments import Floats, set_fields, whole

LARGEST_SIZE = 10**7


@dataclass(frozen=True, kw_only=True, eq=False)
class Numbers(Space):
    """Real numbers of a `shape`; which of them occur is not asked.

    >>> Numbers(shape=(2, 2)).flat([[1, 2], [3, 4]])
    array([1., 2., 3., 4.])
    """

    kind: ClassVar[str] = "numbers"

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = tuple(whole("shape", n, least=1, most=LARGEST_SIZE) for n in self.shape)
        size = whole("the size of a shape", math.prod(shape), least=1, most=LARGEST_SIZE)
        set_fields(self, shape=shape, size=size, count=None)

    def index(self, state: Any) -> int:
        raise TypeError("state must be countable for its number; real numbers are not")

    def flat(self, state: Any) -> Floats:
        return numbers(state, self.shape).reshape(-1)
