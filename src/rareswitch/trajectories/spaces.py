"""The observation and action spaces of a log, in the form of Gymnasium's spaces.

`rareswitch.features.default_features(*spaces_seen(log))` needs no environment.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rareswitch.support.arguments import Floats
from rareswitch.trajectories.trajectory import Trajectory

# The number of observations in the sample, enough to measure the size of numbers.
SAMPLE = 2000


@dataclass(frozen=True)
class Discrete:
    """Whole numbers from `start` to start + n − 1."""

    n: int
    start: int = 0


@dataclass(frozen=True)
class Box:
    """Arrays of numbers of one shape, without bounds."""

    shape: tuple[int, ...]

    @property
    def low(self) -> Floats:
        return np.full(self.shape, -np.inf)

    @property
    def high(self) -> Floats:
        return np.full(self.shape, np.inf)


@dataclass(frozen=True)
class Text:
    """Texts, which have no default features."""


@dataclass(frozen=True)
class Tuple:
    """A tuple of spaces."""

    spaces: tuple[Any, ...]


@dataclass(frozen=True)
class Dict:
    """Spaces by name."""

    spaces: dict[str, Any] = field(default_factory=dict)


class SeenSpaces(NamedTuple):
    """The spaces of a log, and a sample of its observations."""

    observation_space: Any
    action_space: Discrete
    sample: list[Any]


def spaces_seen(log: Iterable[Trajectory]) -> SeenSpaces:
    """Return the spaces of a log's trajectories, and a sample of their observations.

    Whole numbers from 0 count states; other numbers have no bounds.

    >>> once = Trajectory(observations=[0, 4], actions=[2], rewards=[0.5], terminated=True)
    >>> spaces_seen([once])
    SeenSpaces(observation_space=Discrete(n=5, start=0), action_space=Discrete(n=3, start=0), ...
    """
    every, actions = [], 0
    for trajectory in log:
        every += list(trajectory.observations)
        actions = max(actions, 1 + int(trajectory.actions.max()))
        if trajectory.masks is not None:
            actions = max(actions, len(trajectory.masks[0]))
    if not every:
        raise ValueError("log must not be empty")
    sample = every[:: -(-len(every) // SAMPLE)]
    return SeenSpaces(_space(every), Discrete(actions), sample)


def _space(values: list[Any]) -> Any:
    first = values[0]
    if isinstance(first, tuple):
        parts = zip(*values, strict=True)
        return Tuple(tuple(_space(list(part)) for part in parts))
    if isinstance(first, dict):
        named = {key: [value[key] for value in values] for key in first}
        return Dict({key: _space(part) for key, part in named.items()})
    if isinstance(first, str):
        return Text()
    array = np.asarray(values)
    whole = array.ndim == 1 and array.dtype.kind in "ib"
    return Discrete(1 + int(array.max())) if whole and array.min() >= 0 else Box(array.shape[1:])
