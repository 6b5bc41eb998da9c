"""Estimators of a policy's return from episodes of another policy.

Each estimator returns columns with one row for each episode, and a function of their means, for the
bootstrap over episodes. w_t is the weight of an episode up to step t, r_t its reward; w_{m,t} is
the weight for member m alone: 1/P(log) while a deterministic member agrees with the log, and 0
afterwards.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rareswitch.evaluation.agreement import StageBehaviour, average
from rareswitch.evaluation.fitted_q import fitted_values
from rareswitch.evaluation.logged import LoggedEpisodes
from rareswitch.support.arguments import Floats, Ints

ESTIMATORS = ("doubly robust", "self-normalised", "per-decision", "trajectory")


class Contributions(NamedTuple):
    """The contribution of each episode (N, C), and the estimate as a function of means (..., C)."""

    columns: Floats
    estimate: Callable[[Floats], Floats]

    @property
    def value(self) -> float:
        return float(self.estimate(self.columns.mean(axis=0)))


def whole_trajectories(weights: Floats, rewards: Floats) -> Contributions:
    """Return the estimate from weighted returns: the mean of w_n·Σ_t r_t."""
    return _mean_of(weights[:, -1] * rewards.sum(axis=1))


def per_decision(weights: Floats, rewards: Floats) -> Contributions:
    """Weigh each reward by the actions up to it: the mean of Σ_t w_t·r_t."""
    return _mean_of((weights * rewards).sum(axis=1))


def self_normalised(weights: Floats, rewards: Floats) -> Contributions:
    """Weigh each stage's rewards by shares: Σ_t (Σ w_t·r_t) / (Σ w_t), sums over episodes.

    It is far less noisy, and biased; the bias falls with the number of episodes. A stage without a
    weight counts as 0.
    """
    horizon = weights.shape[1]

    def estimate(means: Floats) -> Floats:
        weighted, weight = means[..., :horizon], means[..., horizon:]
        shares: Floats = np.where(weight > 0.0, weighted / np.where(weight > 0.0, weight, 1.0), 0.0)
        return shares.sum(axis=-1)

    return Contributions(np.hstack([weights * rewards, weights]), estimate)


def doubly_robust(
    logged: LoggedEpisodes,
    behaviour: list[StageBehaviour],
    paths: Floats,
    *,
    ridge: float,
    shared: bool,
    folds: Ints,
    progress: Callable[[int], None] = lambda done: None,
) -> Contributions:
    """Correct a model's value by its weighted errors, the mean over members m of

    V̂_m(s_1) + Σ_t w_{m,t}·(r_t + V̂_m(s_{t+1}) − Q̂_m(s_t, a_t)).

    The model of an episode is fitted on the episodes of the other `folds` (N,). If these are
    independent of it, the sum is unbiased for any model.
    """
    total = np.zeros(len(logged))
    for fold in range(folds.max() + 1):
        here = folds == fold
        q_values, values = fitted_values(logged, behaviour, ~here, ridge=ridge, shared=shared)
        errors = logged.rewards[here, :, None] + values[here, 1:] - q_values[here]
        errors *= paths[here] / logged.likelihood[here, :, None]
        total[here] = average(values[here, 0] + errors.sum(axis=1), behaviour[0].shares)
        progress(fold + 1)
    return _mean_of(total)


def _mean_of(contributions: Floats) -> Contributions:
    return Contributions(contributions[:, None], lambda means: means[..., 0])
