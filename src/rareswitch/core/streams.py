"""Where randomness comes from: one independent stream for each purpose and round.

A seed is a whole number, or (root, round). Streams are never keyed by worker, arm or chunk, so all
algorithms of a round share their world and its noise, and results do not depend on how the work
was cut.
"""

from enum import IntEnum

import numpy as np

from rareswitch.core.arguments import whole

Seed = int | tuple[int, int]


class Stream(IntEnum):
    """What the numbers are for. The values are part of every recorded seed: never renumber."""

    INSTANCE = 0
    NOISE = 1
    TIES = 2
    BOOTSTRAP = 3
    INITIAL = 4
    CORRUPTION = 5
    PERTURBATION = 6


def generator(seed: Seed, stream: Stream) -> np.random.Generator:
    """Return the generator of one stream of one round."""
    if isinstance(seed, tuple) and len(seed) != 2:
        raise ValueError(f"seed must be a whole number or (root, round); got {seed}")
    root, round_ = seed if isinstance(seed, tuple) else (seed, 0)
    key = (int(stream), whole("round", round_, least=0))
    root = whole("seed", root, least=0)
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(root, spawn_key=key)))
