"""Spaces of Gymnasium as plain values, without importing it.

A space is known by the name of its class, or of one that it inherits from: so those of Gymnasium's
predecessor and of its wrappers are understood as well.
"""

from typing import Any

import numpy as np

from rareswitch.features.box_space import Numbers
from rareswitch.features.composite_space import Several
from rareswitch.features.discrete_space import Bits, Digits, Whole
from rareswitch.features.space import Space
from rareswitch.support.arguments import short_repr

KNOWN = ("Discrete", "MultiDiscrete", "MultiBinary", "Box", "Tuple", "Dict")


def space_of(space: Any, name: str = "observation_space") -> Space:
    """Return a Discrete, MultiDiscrete, MultiBinary, Box, or a Tuple or Dict of them, as a Space.

    A Space is returned as it is.
    """
    if isinstance(space, Space):
        return space
    match kind_of(space):
        case "Discrete":
            return Whole(count=int(space.n), start=int(space.start))
        case "MultiDiscrete":
            counts = np.ravel(space.nvec)
            starts = np.ravel(getattr(space, "start", np.zeros_like(counts)))
            return Digits(counts=tuple(counts.tolist()), starts=tuple(starts.tolist()))
        case "MultiBinary":
            return Bits(size=int(np.prod(space.n)))
        case "Box":
            return Numbers(shape=tuple(space.shape))
        case "Tuple":
            parts = enumerate(space.spaces)
            return Several(parts=tuple(space_of(part, f"{name}[{i}]") for i, part in parts))
        case "Dict":
            named = dict(space.spaces)
            return Several(
                parts=tuple(space_of(part, f"{name}[{key!r}]") for key, part in named.items()),
                keys=tuple(named),
            )
    raise TypeError(
        f"{name} must be a {', '.join(KNOWN[:-2])}, or a Tuple or Dict of them; got "
        f"{short_repr(space)}. Bring features of your own for it: Custom(function, actions=…, "
        "dim=…)"
    )


def kind_of(space: Any) -> str | None:
    """Return the name by which a space of Gymnasium is known, or None."""
    names = [cls.__name__ for cls in type(space).__mro__]
    return next((name for name in names if name in KNOWN), None)


def action_count(action_space: Any) -> int:
    """Return the number A of actions of a Discrete space, or a whole number as it is.

    Row a is that of the action start + a, where the space does not begin at 0.
    """
    if isinstance(action_space, int | np.integer):
        return int(action_space)
    if kind_of(action_space) == "Discrete":
        return int(action_space.n)
    raise TypeError(
        f"action_space must be Discrete; got {short_repr(action_space)}. Where actions are several "
        "choices or real numbers, wrap the world so that it offers a list of them, numbered from 0"
    )
