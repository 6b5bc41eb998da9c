"""A table of the observations of random play, for worlds whose observations repeat."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.spaces import Space, space_of
from rareswitch.support.arguments import Floats, Ints, frozen, set_fields, short_repr, whole

MOST_OBSERVATIONS = 10**6


@dataclass(frozen=True, kw_only=True, eq=False)
class ObservationTable(Space):
    """The observations of a `space` as numbers: places of known observations, and hashed places.

    `known` are the keys of known observations; a key is a hash of the flattened numbers. Any other
    observation gets one of `hashed` further places by the same hash, and may share it. `steps` is
    the number of observations in the sample.

    >>> from rareswitch.features.spaces import Numbers
    >>> met = ObservationTable.met(Numbers(shape=(2,)), [[0, 1], [1, 0], [0, 1]], hashed=4)
    >>> met.index([0, 1]), met.index(np.array([1.0, -0.0])), 2 <= met.index([7, 7]) < 6
    (0, 1, True)
    >>> met.words
    '2 observations met in 3 steps and 4 hashed places'
    """

    kind: ClassVar[str] = "observation-table"

    space: Space
    known: Ints
    hashed: int
    steps: int
    _places: dict[int, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.space, Space):
            raise TypeError(f"space must be a Space; got {short_repr(self.space)}")
        keys = [whole("known", key, least=0) for key in self.known]
        met = whole("the number of known", len(keys), least=1, most=MOST_OBSERVATIONS)
        hashed = whole("hashed", self.hashed, least=1, most=MOST_OBSERVATIONS)
        places = {key: place for place, key in enumerate(keys)}
        if len(places) < met:
            raise ValueError("known must be different keys; got a repeated key")
        set_fields(
            self,
            known=frozen(np.array(keys, np.int64), owned=True),
            hashed=hashed,
            steps=whole("steps", self.steps, least=met),
            count=met + hashed,
            size=met + hashed,
            _places=places,
        )

    @classmethod
    def met(cls, space: Any, observations: Iterable[Any], *, hashed: int) -> Self:
        """Return the table of these observations of a space, in their order."""
        inner = space_of(space)
        seen = Counter(observation_key(inner, one) for one in observations)
        return cls(space=inner, known=np.array(list(seen)), hashed=hashed, steps=seen.total())

    @property
    def words(self) -> str:
        return (
            f"{len(self.known):,} observations met in {self.steps:,} steps and "
            f"{self.hashed:,} hashed places"
        )

    def index(self, state: Any) -> int:
        key = observation_key(self.space, state)
        place = self._places.get(key)
        return len(self._places) + key % self.hashed if place is None else place

    def flat(self, state: Any) -> Floats:
        row = np.zeros(self.size)
        row[self.index(state)] = 1.0
        return row


def observation_key(space: Space, observation: Any) -> int:
    """Return 63 bits of BLAKE2b of an observation's numbers, as little-endian float64."""
    numbers = space.flat(observation) + 0.0  # turns −0 into 0
    digest = hashlib.blake2b(numbers.astype("<f8", copy=False).tobytes(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
