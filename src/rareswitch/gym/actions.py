"""A list of actions for worlds whose actions are not simply numbered."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from rareswitch.features.spaces import kind_of
from rareswitch.support.arguments import short_repr, whole

MOST_ACTIONS = 1000
LEVELS = 5


def listed_actions(action_space: Any, levels: int = LEVELS) -> Sequence[Any] | None:
    """Return the actions of a space one by one; None where they are numbered from 0 anyway.

    Several choices at once (MultiDiscrete, MultiBinary) become every combination, and bounded real
    numbers (Box) so many `levels` of each, from the lowest to the highest.
    """
    levels = whole("levels", levels, least=2)
    kind = kind_of(action_space)
    if kind == "Discrete":
        start = int(getattr(action_space, "start", 0))
        return list(range(start, start + int(action_space.n))) if start else None
    if kind == "MultiBinary":
        return _combined(action_space, [range(2)] * int(np.prod(action_space.n)), np.int8)
    if kind == "MultiDiscrete":
        starts = np.ravel(getattr(action_space, "start", np.zeros_like(action_space.nvec)))
        counts = zip(starts.tolist(), np.ravel(action_space.nvec).tolist(), strict=True)
        every = [range(start, start + count) for start, count in counts]
        return _combined(action_space, every, action_space.dtype)
    if kind == "Box":
        low, high = np.ravel(action_space.low), np.ravel(action_space.high)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(
                f"actions must be given for an action space without bounds; got {action_space}"
            )
        spread = [np.linspace(a, b, levels).tolist() for a, b in zip(low, high, strict=True)]
        return _combined(action_space, spread, action_space.dtype)
    raise TypeError(
        f"action_space must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, or actions "
        f"must be given as a list; got {short_repr(action_space)}"
    )


def _combined(action_space: Any, every: Sequence[Sequence[Any]], dtype: Any) -> list[Any]:
    count = math.prod(len(one) for one in every)
    if count > MOST_ACTIONS:
        raise ValueError(
            f"actions must be given for {action_space}: all combinations are {count}, more than "
            f"{MOST_ACTIONS}"
        )
    shape = action_space.shape
    return [np.array(combination, dtype).reshape(shape) for combination in product(*every)]
