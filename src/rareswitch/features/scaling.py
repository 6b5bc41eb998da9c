"""Scale numbers, each by its range or standard deviation, or all by their norm."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.basis import Basis, Flatten
from rareswitch.features.spaces import kind_of, space_of
from rareswitch.support.arguments import Floats, floats, real, set_fields, whole
from rareswitch.support.extras import require

# Without bounds, the range is this many standard deviations around the mean of the sample.
DEVIATIONS = 3.0
# Bounds more than this many times as wide are ignored.
MOST_WIDER = 1000.0


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Scaling(Basis):
    """(x − `origin`) / `unit`, clipped to [`low`, `high`] if given."""

    kind: ClassVar[str] = "scaling"

    origin: Floats
    unit: Floats
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        origin = floats("origin", self.origin, ("n",))
        unit = floats("unit", self.unit, (len(origin),))
        if not len(origin):
            raise ValueError("origin must not be empty")
        if unit.min() <= 0.0:
            raise ValueError(f"unit must be above 0; got {unit.min()} at {int(unit.argmin())}")
        low = None if self.low is None else real("low", self.low)
        high = None if self.high is None else real("high", self.high, above=low)
        ends = "" if low is high is None else f" to [{_end(low, '−')}, {_end(high, '')}]"
        size, name = len(origin), f"scaled{ends}"
        set_fields(
            self, origin=origin, unit=unit, low=low, high=high, inputs=size, size=size, name=name
        )

    @classmethod
    def between(cls, lowest: Any, highest: Any) -> Self:
        """Return the scaling of known ranges to [0, 1], clipped.

        >>> Scaling.between([-1.2, -0.07], [0.6, 0.07])([-0.3, 9.0])
        array([0.5, 1. ])
        """
        start = floats("lowest", lowest, ("n",))
        end = floats("highest", highest, (len(start),))
        with np.errstate(over="ignore"):
            width = end - start
        if not (np.isfinite(width) & (width > 0.0)).all():
            place = int(np.argmin(np.isfinite(width) & (width > 0.0)))
            raise ValueError(
                f"highest must be above lowest, within the range of floats; got {end[place]} and "
                f"{start[place]} at {place}"
            )
        return cls(origin=start, unit=width, low=0.0, high=1.0)

    @classmethod
    def min_max(cls, sample: Any, *, clip: bool = True) -> Self:
        """Return the scaling of each column of a sample (N, n) to [0, 1].

        It needs scikit-learn (MinMaxScaler) only to fit.

        >>> Scaling.min_max([[0.0], [4.0]])([3.0]), Scaling.min_max([[0.0], [4.0]])([5.0])
        (array([0.75]), array([1.]))
        """
        require("features")
        from sklearn.preprocessing import MinMaxScaler

        fitted = MinMaxScaler().fit(floats("sample", sample, ("N", "n")))
        low, high = (0.0, 1.0) if clip else (None, None)
        return cls(origin=fitted.data_min_, unit=1.0 / fitted.scale_, low=low, high=high)

    @classmethod
    def standard(cls, sample: Any, *, clip: float | None = None) -> Self:
        """Return the scaling of the columns of a sample (N, n) to mean 0 and deviation 1.

        A constant column is only centred. `clip` is the largest number of deviations from 0. It
        needs scikit-learn (StandardScaler) only to fit.

        >>> scaled = Scaling.standard([[0.0, 5.0], [2.0, 5.0], [4.0, 5.0]], clip=1.0)
        >>> scaled([3.0, 5.5]).round(2), scaled([99.0, 5.0])
        (array([0.61, 0.5 ]), array([1., 0.]))
        """
        require("features")
        from sklearn.preprocessing import StandardScaler

        fitted = StandardScaler().fit(floats("sample", sample, ("N", "n")))
        end = None if clip is None else real("clip", clip, above=0.0)
        low = None if end is None else -end
        return cls(origin=fitted.mean_, unit=fitted.scale_, low=low, high=end)

    def values(self, x: Floats) -> Floats:
        row: Floats = x - self.origin
        row /= self.unit
        low, high = self._ends
        np.maximum(row, low, out=row)
        return np.minimum(row, high, out=row)

    @cached_property
    def _ends(self) -> tuple[Floats, Floats]:
        """The ends of the range as arrays, which are faster than single numbers."""
        low = -math.inf if self.low is None else self.low
        high = math.inf if self.high is None else self.high
        return np.full(self.size, low), np.full(self.size, high)

    def longest(self, inputs: float) -> float:
        ends = [math.inf if end is None else abs(end) for end in (self.low, self.high)]
        centred = inputs + float(np.linalg.norm(self.origin))
        return min(math.sqrt(self.size) * max(ends), centred / float(self.unit.min()))


def _end(value: float | None, sign: str) -> str:
    return f"{sign}∞" if value is None else f"{value:g}"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class UnitNorm(Basis):
    """x / max(L, ‖x‖) with L = `bound`, so that no row is longer than 1.

    Rows longer than L get length 1. L = `basis.norm` excludes such rows; an L measured on a sample
    leaves few of them and keeps features larger.

    >>> UnitNorm(inputs=2, bound=10.0)([3.0, 4.0]), UnitNorm(inputs=2, bound=2.0)([3.0, 4.0])
    (array([0.3, 0.4]), array([0.6, 0.8]))
    """

    kind: ClassVar[str] = "unit-norm"

    inputs: int
    bound: float

    def __post_init__(self) -> None:
        inputs = whole("inputs", self.inputs, least=1)
        bound = real("bound", self.bound, above=0.0)
        set_fields(
            self, inputs=inputs, size=inputs, bound=bound, name=f"divided by L = {bound:.4g}"
        )

    @classmethod
    def fit(cls, sample: Any) -> Self:
        """Return the division by the norm of the longest row of a sample (N, n)."""
        rows = floats("sample", sample, ("N", "n"))
        if not rows.any():
            raise ValueError("sample must have a nonzero row; all rows are 0")
        return cls(inputs=rows.shape[1], bound=float(np.linalg.norm(rows, axis=1).max()))

    def values(self, x: Floats) -> Floats:
        return x / max(self.bound, math.sqrt(x.dot(x)))

    def longest(self, inputs: float) -> float:
        return min(1.0, inputs / self.bound)


def in_range(observation_space: Any, sample: Iterable[Any]) -> Basis:
    """Return the basis that flattens observations and scales each number to [0, 1], clipped.

    The range comes from the bounds of a Box, because a sample of random play may miss states that a
    good policy has to reach. Without bounds, or with bounds much wider than the sample, the range
    comes from the sample.

    >>> from gymnasium.spaces import Box
    >>> space = Box(np.array([0.0, -np.inf]), np.array([4.0, np.inf]), dtype=np.float64)
    >>> basis = in_range(space, [[1.0, 1.0], [1.2, 3.0]])
    >>> basis([3.0, 2.0]), basis([3.0, 5.0])
    (array([0.75, 0.5 ]), array([0.75, 1.  ]))
    """
    states = list(sample)
    if len(states) < 2:
        raise ValueError(
            f"sample must hold at least two observations to measure their numbers; got "
            f"{len(states)}. A few hundred observations of random play are enough"
        )
    flat = Flatten.of(observation_space)
    seen = flat.many(states)
    middle, spread = seen.mean(axis=0), seen.std(axis=0)
    reach = np.where(spread > 0.0, DEVIATIONS * spread, 1.0)
    low, high = _bounds(observation_space, flat.size)
    with np.errstate(over="ignore", invalid="ignore"):
        declared = np.isfinite(high - low) & (high - low <= MOST_WIDER * reach) & (high > low)
    scaled = Scaling.between(
        np.where(declared, low, middle - reach), np.where(declared, high, middle + reach)
    )
    return flat.then(scaled)


def _bounds(observation_space: Any, size: int) -> tuple[Floats, Floats]:
    """Return the flattened bounds of every number, infinite without bounds."""
    kind = kind_of(observation_space)
    if kind == "Box":
        low, high = observation_space.low, observation_space.high
        return np.ravel(low).astype(np.float64), np.ravel(high).astype(np.float64)
    if kind in ("Tuple", "Dict"):
        spaces = observation_space.spaces
        parts = list(spaces.values() if kind == "Dict" else spaces)
        pairs = [_bounds(part, space_of(part).size) for part in parts]
        return np.concatenate([a for a, _ in pairs]), np.concatenate([b for _, b in pairs])
    return np.full(size, -np.inf), np.full(size, np.inf)
