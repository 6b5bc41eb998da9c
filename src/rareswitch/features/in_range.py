"""Numbers of an observation spread over [0, 1]: by the bounds of their space, or by a sample."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.features.flatten import Flatten
from rareswitch.features.gymnasium_space import kind_of, space_of
from rareswitch.features.min_max import MinMax
from rareswitch.support.arguments import Floats

# Without bounds: so many standard deviations of the sample to either side of its mean.
DEVIATIONS = 3.0
# Bounds this many times as wide as that say nothing about where states are.
MOST_WIDER = 1000.0


def in_range(observation_space: Any, sample: Iterable[Any]) -> Basis:
    """Return the basis that lays observations flat and spreads each number over [0, 1], clipped.

    A number is spread between the bounds that a Box declares for it. Random play, which the sample
    is of, may never see the far end of a world that a good policy has to reach. Where there are no
    bounds, or hardly any, the sample must do.

    >>> from gymnasium.spaces import Box
    >>> space = Box(np.array([0.0, -np.inf]), np.array([4.0, np.inf]), dtype=np.float64)
    >>> basis = in_range(space, [[1.0, 1.0], [1.2, 3.0]])
    >>> basis([3.0, 2.0]), basis([3.0, 5.0])
    (array([0.75, 0.5 ]), array([0.75, 1.  ]))
    """
    states = list(sample)
    if len(states) < 2:
        raise ValueError(
            f"sample must hold at least two observations, which say how large the numbers of a "
            f"state are; got {len(states)}. A few hundred of random play are enough"
        )
    flat = Flatten.of(observation_space)
    seen = flat.many(states)
    middle, spread = seen.mean(axis=0), seen.std(axis=0)
    reach = np.where(spread > 0.0, DEVIATIONS * spread, 1.0)
    low, high = _bounds(observation_space, flat.size)
    with np.errstate(over="ignore", invalid="ignore"):
        declared = np.isfinite(high - low) & (high - low <= MOST_WIDER * reach) & (high > low)
    scaled = MinMax.between(
        np.where(declared, low, middle - reach), np.where(declared, high, middle + reach)
    )
    return flat.then(scaled)


def _bounds(observation_space: Any, size: int) -> tuple[Floats, Floats]:
    """Return the bounds of every number, laid flat; infinite where there are none."""
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
