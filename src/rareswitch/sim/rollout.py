"""Many episodes at once under frozen policies, and how they make the determinants grow.

Noise is indexed by (episode, stage), so episodes rolled out ahead of time and then dropped
consume no randomness.
"""

import numpy as np

from rareswitch.core.arguments import Floats, Ints


def thresholds(transitions: Floats) -> Floats:
    """Return (…, S−1) so that the next state under probabilities (…, S) is #{thresholds ≤ u}.

    They are the distribution function, but infinite once nothing is left to come: rounding must not
    lead to a state of probability 0, whatever the uniform u < 1.
    """
    left = np.flip(np.flip(transitions, -1).cumsum(axis=-1), -1)[..., 1:]
    return np.where(left > 0.0, transitions.cumsum(axis=-1)[..., :-1], np.inf)


def rollout(limits: Floats, initial: Ints, noise: Floats) -> Ints:
    """Return the states (R, L, H+1) of L episodes of R runs.

    `limits` (R, H, S, S−1) are the thresholds of the next state under each run's policy, `initial`
    (R, L), `noise` (R, L, H) uniforms.
    """
    runs, length, horizon = noise.shape
    states = np.empty((runs, length, horizon + 1), np.int64)
    states[:, :, 0] = initial
    count = limits.shape[-2]
    first = np.arange(runs)[:, None] * count  # where a run's states begin
    by_stage = limits.swapaxes(0, 1).reshape(horizon, runs * count, count - 1)
    for h in range(horizon):
        passed = by_stage[h].take(first + states[:, :, h], axis=0) <= noise[:, :, h, None]
        states[:, :, h + 1] = passed.sum(axis=-1)
    return states


def logdet_growth(whitened: Floats, visits: Ints) -> Floats:
    """Return by how much log det Λ_h grows when features with Wφ = whitened are visited so often.

    `whitened` (..., H, S, d), `visits` (..., H, S): log det(I + Σ_s n_s·Wφ_s(Wφ_s)ᵀ), in whichever
    of S and d is smaller (Sylvester's identity).
    """
    scaled = whitened * np.sqrt(visits)[..., None]
    states, dim = scaled.shape[-2:]
    product = scaled @ scaled.mT if states < dim else scaled.mT @ scaled
    growth: Floats = np.linalg.slogdet(np.eye(min(states, dim)) + product)[1]
    return growth


def count_moves(run: Ints, played: Ints, shape: tuple[int, int, int, int]) -> Floats:
    """Count the moves (R, H, S, S) from state to state of episodes (n, H+1), each of one run."""
    stage = np.arange(shape[1])
    cells = np.ravel_multi_index((run[:, None], stage, played[:, :-1], played[:, 1:]), shape)
    return np.bincount(cells.ravel(), minlength=int(np.prod(shape))).reshape(shape).astype(float)
