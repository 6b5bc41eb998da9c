"""Statistics over rounds. Every random choice takes a generator."""

import numpy as np

from rareswitch.support.arguments import Floats, Ints

RESAMPLES = 2000
LEVEL = 0.95
SIGN_FLIPS = 50_000


def running_average(regret: Floats) -> Floats:
    """Return Regret(k)/k along the last axis."""
    return np.cumsum(regret, axis=-1) / np.arange(1, regret.shape[-1] + 1)


def run_band(curves: Floats) -> tuple[Floats, Floats]:
    """Return the 20% and 80% quantiles of runs over rounds (axis 0)."""
    low, high = np.quantile(curves, (0.2, 0.8), axis=0)
    return low, high


def resamples(rounds: int, rng: np.random.Generator) -> Floats:
    """Return bootstrap weights (RESAMPLES, rounds): the share of each round in a resample."""
    drawn = rng.integers(0, rounds, (RESAMPLES, rounds))
    places = drawn + rounds * np.arange(RESAMPLES)[:, None]
    counts = np.bincount(places.ravel(), minlength=RESAMPLES * rounds)
    return counts.reshape(RESAMPLES, rounds) / rounds


def interval(statistics: Floats) -> tuple[Floats, Floats]:
    """Return the percentile bootstrap interval (95%) of resampled statistics (axis 0)."""
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(statistics, (tail, 1.0 - tail), axis=0)
    return low, high


def mean_interval(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the bootstrap interval of the mean over rounds (axis 0)."""
    return interval(weights @ values)


def ratio_interval(values: Floats, baseline: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return mean(values)/mean(baseline), both (rounds,), with its paired bootstrap interval."""
    low, high = interval((weights @ values) / (weights @ baseline))
    return float(values.mean() / baseline.mean()), float(low), float(high)


def difference_interval(
    values: Floats, baseline: Floats, weights: Floats
) -> tuple[float, float, float]:
    """Return the mean of the paired differences (rounds,) with its bootstrap interval."""
    difference = values - baseline
    low, high = mean_interval(difference, weights)
    return float(difference.mean()), float(low), float(high)


def slope(curves: Floats, episodes: Ints) -> Floats:
    """Return the least-squares slope of log curves (..., n) against log episodes (n,)."""
    x = np.log(episodes)
    x = x - x.mean()
    return np.log(curves) @ x / (x @ x)


def slope_interval(curves: Floats, episodes: Ints, weights: Floats) -> tuple[float, float, float]:
    """Return the slope of the mean curve over rounds (rounds, n), with its bootstrap interval."""
    low, high = interval(slope(weights @ curves, episodes))
    return float(slope(curves.mean(axis=0), episodes)), float(low), float(high)


def sign_flip_p(differences: Floats, rng: np.random.Generator) -> Floats:
    """Return two-sided p-values (n,) of n paired differences (n, rounds) under a symmetric null.

    Signs are drawn at random, the same for all n; a p-value is at least 1/(SIGN_FLIPS + 1).
    """
    signs = rng.integers(0, 2, (SIGN_FLIPS, differences.shape[1])) * 2.0 - 1.0
    seen = np.abs(differences.sum(axis=1)) * (1.0 - 1e-12)
    extreme = (np.abs(signs @ differences.T) >= seen).sum(axis=0)
    return (1 + extreme) / (1 + SIGN_FLIPS)


def holm(p_values: Floats) -> Floats:
    """Return p-values adjusted for the number of comparisons (Holm 1979), in the same order.

    >>> holm(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    steps = len(p_values) - np.arange(len(p_values))
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.maximum.accumulate(p_values[order] * steps), 1.0)
    return adjusted
