"""Which runs can step together: those whose worlds look alike to a learner."""

from collections.abc import Sequence

import numpy as np

from rareswitch.sim.mdp import FiniteMDP


def alike(worlds: Sequence[FiniteMDP]) -> bool:
    """Return whether runs on these worlds can step together: same features, same horizon."""
    first = worlds[0]
    return all(
        world.horizon == first.horizon
        and np.array_equal(world.features, first.features)
        and np.array_equal(world.feasible, first.feasible)
        for world in worlds[1:]
    )


def companions(worlds: Sequence[FiniteMDP]) -> list[list[int]]:
    """Return the positions of the worlds that step together: all of them, or each alone."""
    everyone = list(range(len(worlds)))
    return [everyone] if alike(worlds) else [[r] for r in everyone]
