"""Many episodes at once under frozen policies, and the first of them before which a switch is due.

Noise is indexed by (episode, stage), so episodes rolled out ahead of time and then dropped
consume no randomness.
"""

from bisect import bisect_left
from collections.abc import Callable

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.schedule import Clock, Schedule


def rollout(cdf: Floats, initial: Ints, noise: Floats) -> Ints:
    """Return the states (R, L, H+1) of L episodes of R runs.

    `cdf` (R, H, S, S) is the distribution function of the next state under each run's policy,
    `initial` (R, L), `noise` (R, L, H) uniforms. The next state is #{cdf entries ≤ u}.
    """
    runs, length, horizon = noise.shape
    states = np.empty((runs, length, horizon + 1), np.int64)
    states[:, :, 0] = initial
    run = np.arange(runs)[:, None]
    thresholds = cdf[..., :-1]  # the last entry is 1 up to rounding, and never ≤ u
    for h in range(horizon):
        passed = thresholds[run, h, states[:, :, h]] <= noise[:, :, h, None]
        states[:, :, h + 1] = passed.sum(axis=-1)
    return states


def logdet_growth(whitened: Floats, visits: Ints) -> Floats:
    """Return by how much log det Λ_h grows when features with Wφ = whitened are visited so often.

    `whitened` (H, S, d), `visits` (H, S): log det(I + Σ_s n_s·Wφ_s(Wφ_s)ᵀ), by Sylvester's identity
    in whichever of S and d is smaller.
    """
    scaled = whitened * np.sqrt(visits)[..., None]
    states, dim = scaled.shape[-2:]
    product = scaled @ scaled.mT if states < dim else scaled.mT @ scaled
    growth: Floats = np.linalg.slogdet(np.eye(min(states, dim)) + product)[1]
    return growth


def first_due(schedule: Schedule, clock_at: Callable[[int], Clock], start: int, stop: int) -> int:
    """Return the first episode in start … stop−1 before which a switch is due, or stop."""
    episodes = range(start, stop)
    if getattr(schedule, "persistent", False):
        return start + bisect_left(episodes, True, key=lambda k: schedule.due(clock_at(k)))
    return next((k for k in episodes if schedule.due(clock_at(k))), stop)
