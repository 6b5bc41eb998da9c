"""Wide tables: policies of one-hot features that store only visited positions.

The count of an unvisited position is 0 in every pool. Its weight is then only a perturbation: its
own draw times a scale common to all such positions. So a wide policy stores one column for each
visited position and a last column, the scale, for all others. It makes the draw of another position
on demand. A draw is a hash of the version's seed, the member, the stage and the position: a fit and
every copy of its policy make the same draws, in any order.
"""

import math
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from rareswitch.core.exploration import MOST_MEMBERS
from rareswitch.core.lsvi import QFunction, Statistics
from rareswitch.support.arguments import (
    Floats,
    Ints,
    flag,
    positions,
    real,
    same_fields,
    set_fields,
    short_repr,
    whole,
)

# Seeds of tables are numbers from 0 to 2⁶³−1.
SEEDS = 2**63
# The constants of SplitMix64 (Steele, Lea and Flood 2014).
STEP = np.uint64(0x9E3779B97F4A7C15)
SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
FACTORS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
ONE, HALF, LOW = np.uint64(1), np.uint64(32), np.uint64(2**32 - 1)
# These separate the streams of different members, stages and draws.
MOST_DRAWS = 2**14
MOST_NUMBERS = MOST_DRAWS * 2**20
# The number of draws in one batch, which fits into the processor's cache.
AT_ONCE = 2**15

Bits = npt.NDArray[np.uint64]


class Purpose(IntEnum):
    """The purpose of a draw. The values are part of every stored policy: never renumber."""

    STAGE = 0  # a perturbation of one stage
    COMMON = 1  # the part common to all stages
    TIES = 2


@runtime_checkable
class WideStatistics(Statistics, Protocol):
    """Statistics of a wide table in n+1 columns: n `known` positions and one for all others.

    Visited positions and the positions of next states are known.
    """

    @property
    def table_dim(self) -> int:
        """The dimension d of the table."""
        ...

    @property
    def known(self) -> Ints:
        """The known positions (n,), ascending."""
        ...

    @property
    def visited(self) -> Ints:
        """The known positions with a count above 0 in some pool, ascending."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class WideTable:
    """The positions (n,) of a wide policy's columns, below `dim`, and the draws for all others.

    The draws belong to `members` members, numbered from `first`. Stages have the part `common` of
    the perturbations' variance in common. Without `ties`, tied actions go to the lowest index.

    >>> table = WideTable(dim=10**5, positions=np.array([3, 70]), seed=1)
    >>> table.columns(np.array([70, 71, 3])), table.directions(0, np.array([70, 71])).round(2)
    (array([1, 2, 0]), array([-0.49, -0.57]))
    """

    dim: int
    positions: Ints
    seed: int
    first: int = 0
    members: int = 1
    common: float = 0.0
    ties: bool = True
    _ends: Ints = field(init=False, repr=False)  # the positions, then dim

    def __post_init__(self) -> None:
        dim = whole("dim", self.dim, least=1)
        given = positions("positions", self.positions, dim)
        if (np.diff(given) <= 0).any():
            raise ValueError("positions must be ascending and distinct")
        members = whole("members", self.members, least=1, most=MOST_MEMBERS)
        set_fields(
            self,
            dim=dim,
            positions=given,
            seed=whole("seed", self.seed, least=0, most=SEEDS - 1),
            first=whole("first", self.first, least=0, most=MOST_MEMBERS - members),
            members=members,
            common=real("common", self.common, least=0.0, most=1.0),
            ties=flag("ties", self.ties),
            _ends=np.append(given, dim),
        )

    def member(self, index: int) -> "WideTable":
        """Return the table of one member, counted from 0."""
        one = object.__new__(WideTable)
        one.__dict__.update(self.__dict__ | {"first": self.first + index, "members": 1})
        return one

    def columns(self, rows: Ints) -> Ints:
        """Return the columns of positions, any shape; n for a position without a column."""
        found = self._ends.searchsorted(rows)
        return np.where(self._ends[found] == rows, found, len(self.positions))

    def perturbations(self, stages: Any, draws: Any, rows: Ints) -> Floats:
        """Return standard Gaussians for stages, draws and positions that broadcast, (..., n).

        For several members they are (M, ..., n).
        """
        found = self._draw(Purpose.STAGE, stages, draws, rows)
        if not self.common:
            return found
        found *= math.sqrt(1.0 - self.common)
        no_stage = 0 if isinstance(stages, int) else stages[:1] * 0
        found += math.sqrt(self.common) * self._draw(Purpose.COMMON, no_stage, draws, rows)
        return found

    def directions(self, stage: int, rows: Ints) -> Floats:
        """Return the directions that break ties at n positions, (n,) or (M, n)."""
        return self._draw(Purpose.TIES, stage, 0, rows)

    def at_rows(self, stage: QFunction, h: int, rows: Ints) -> QFunction:
        """Return Q_h at n positions, in n columns with their draws."""
        columns = self.columns(rows)
        found = keep_columns(stage, columns)
        others = np.flatnonzero(columns == len(self.positions))
        drawn: Floats = found.weights
        draws: Any = 0
        if found.offsets is not None:
            drawn, draws = found.offsets, np.arange(found.offsets.shape[-2])[:, None]
        if len(others) and drawn[..., others[0]].any():
            drawn[..., others] *= self.perturbations(h, draws, rows[others])
        return found

    @property
    def plain(self) -> dict[str, Any]:
        """All but the positions, as plain values."""
        return {name: getattr(self, name) for name in PLAIN}

    @classmethod
    def from_plain(cls, plain: Any, positions: Ints) -> "WideTable":
        """Return the table of `plain`, or raise an error if it has missing or extra values."""
        if not isinstance(plain, dict) or plain.keys() != {*PLAIN}:
            raise ValueError(f"table must have {', '.join(PLAIN)}; got {short_repr(plain)}")
        return cls(**plain, positions=positions)

    def __eq__(self, other: object) -> bool:
        return same_fields(self, other)

    __hash__ = None  # type: ignore[assignment]

    def _draw(self, purpose: Purpose, stages: Any, draws: Any, rows: Ints) -> Floats:
        one_stage = isinstance(stages, int) and isinstance(draws, int)
        keys = (_cached_keys if one_stage else _keys)(
            self.seed, purpose, self.first, self.members, stages, draws
        )
        return _gaussians(keys, rows)


PLAIN = ("dim", "seed", "first", "members", "common", "ties")


def keep_columns(stage: QFunction, columns: Ints) -> QFunction:
    """Return Q of one stage with only these columns."""
    whitener, offsets = (
        None if array is None else array[..., columns] for array in (stage.whitener, stage.offsets)
    )
    return stage._replace(weights=stage.weights[..., columns], whitener=whitener, offsets=offsets)


def _keys(seed: int, purpose: int, first: int, members: int, stages: Any, draws: Any) -> Bits:
    """Return the seeds of the streams of members, stages and draws, (..., 1) or (M, ..., 1)."""
    numbers = np.asarray(stages * MOST_DRAWS + draws)
    member = purpose * MOST_MEMBERS + first + np.arange(members)
    if members > 1:
        member = member.reshape(-1, *(1,) * max(numbers.ndim, 1))
    return _split_mix(np.array([seed], np.uint64), member * MOST_NUMBERS + numbers)


_cached_keys = lru_cache(maxsize=2**10)(_keys)  # an episode uses each stage in turn


def _gaussians(keys: Bits, numbers: Ints) -> Floats:
    """Return the standard Gaussians at these indices of streams; keys and numbers broadcast."""
    shape = np.broadcast_shapes(keys.shape, numbers.shape)
    if len(shape) < 2 or math.prod(shape) <= AT_ONCE:
        return _box_muller(_split_mix(keys, numbers))
    found = np.empty(shape)
    keys, numbers = np.broadcast_to(keys, shape), np.broadcast_to(numbers, shape)
    for part, key, number in zip(found, keys, numbers, strict=True):
        part[...] = _gaussians(key, number)
    return found


def _box_muller(bits: Bits) -> Floats:
    """Return a standard Gaussian for each 64 bits (Box and Muller 1958)."""
    radius = (bits >> HALF).astype(np.float64)
    radius += 0.5
    radius *= 2.0**-32  # uniform on (0, 1)
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    angle = (bits & LOW).astype(np.float64)
    angle *= 2.0 * np.pi * 2.0**-32
    radius *= np.cos(angle, out=angle)
    return radius


def _split_mix(seeds: Bits, numbers: Any) -> Bits:
    """Return the outputs of SplitMix64 at these indices from 0; seeds and numbers broadcast."""
    bits = np.atleast_1d(numbers).astype(np.uint64)
    bits += ONE
    bits *= STEP  # modulo 2⁶⁴, like all products here
    bits = bits + seeds
    bits ^= bits >> SHIFTS[0]
    bits *= FACTORS[0]
    bits ^= bits >> SHIFTS[1]
    bits *= FACTORS[1]
    bits ^= bits >> SHIFTS[2]
    return bits
