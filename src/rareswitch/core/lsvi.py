"""Least-squares value iteration with optimism: the backward pass shared by all three algorithms.

w_h `weights`, Λ_h `gram`, β `beta`, Γ_h the bonus β·‖φ‖_{Λ⁻¹}.
"""

from collections.abc import Callable
from typing import Protocol

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.gram import Gram
from rareswitch.core.history import History
from rareswitch.core.policy import (
    TIE_TOLERANCE,
    Policy,
    best_rows,
    bonuses,
    clipped,
    optimistic_values,
)
from rareswitch.core.tally import Tally


class Solves(Protocol):
    """What the pass needs of the Gram matrices."""

    def solve(self, h: int, target: Floats) -> Floats: ...


def backward(
    gram: Solves, reward_sums: Floats, next_value_sums: Callable[[int, Floats], Floats]
) -> Floats:
    """Return w (..., H, d) by ridge regression from the last stage to the first (lines 6–8).

    `next_value_sums(h, w)` is Σ_τ φ_τ·max_a Q_{h+1}(s', a) with Q_{h+1} made of the weights w.
    """
    weights = np.empty_like(reward_sums)
    horizon = reward_sums.shape[-2]
    for h in reversed(range(horizon)):
        target = reward_sums[..., h, :]
        if h + 1 < horizon:  # Q_{H+1} = 0 (line 5)
            target = target + next_value_sums(h, weights[..., h + 1, :])
        weights[..., h, :] = gram.solve(h, target)  # w_h = Λ_h⁻¹ Σ φ·[r + max_a Q_{h+1}]
    return weights


def fit(
    gram: Gram,
    history: History,
    *,
    beta: float,
    offsets: Floats | None = None,
    clip: bool = True,
    directions: Floats | None = None,
    version: int = 1,
) -> Policy:
    """Return the optimistic policy of everything in the history (Alg. 1, lines 5–10).

    `offsets` (H, M, d) perturb the estimates instead of, or beside, the bonus.
    """
    horizon = gram.whitener.shape[0]

    def next_value_sums(h: int, weights: Floats) -> Floats:
        def q_values(rows: Floats) -> Floats:
            offset = None if offsets is None else offsets[h + 1]
            values = optimistic_values(rows, weights, gram.whitener[h + 1], beta, offset)
            return clipped(values, float(horizon - h - 1)) if clip else values

        return history.next_value_sums(h, q_values)

    return Policy(
        weights=backward(gram, history.reward_sums, next_value_sums),
        whitener=gram.whitener,
        beta=beta,
        directions=directions,
        offsets=offsets,
        clip=clip,
        version=version,
    )


def fit_finite(
    gram: Gram,
    tally: Tally,
    *,
    beta: float,
    offsets: Floats | None = None,
    clip: bool = True,
    directions: Floats | None = None,
) -> tuple[Floats, Floats, Ints]:
    """Return (weights, values, choices) of R runs at once on a finite space.

    The same pass as `fit` on sufficient statistics: weights (R, H, d), the optimistic value
    (R, H, S) of every state and the catalogue row (R, H, S) of its greedy action. `gram` watches
    the catalogue of the tally's space; `offsets` is (R, H, M, d) and `directions` (R, H, d).
    """
    space = tally.space
    runs, horizon, dim = tally.reward_sums.shape
    caps = np.arange(horizon, 0.0, -1.0) if clip else None
    q_values = bonuses(gram.watched, beta)  # (R, H, N), the bonus first
    values = np.empty((runs, horizon, space.states))

    def plan(h: int, weights: Floats) -> None:
        q_values[:, h] += np.vecmat(weights, space.columns)
        if offsets is not None:
            q_values[:, h] += (offsets[:, h] @ space.columns).max(axis=1)
        np.maximum.reduceat(q_values[:, h], space.starts, axis=1, out=values[:, h])
        if caps is not None:
            clipped(values[:, h], caps[h])

    def next_value_sums(h: int, weights: Floats) -> Floats:
        plan(h + 1, weights)
        return np.vecmat(values[:, h + 1], tally.feature_sums[:, h])

    weights = backward(gram, tally.reward_sums, next_value_sums)
    plan(0, weights[:, 0])
    # q_values stay unclipped: above the cap a row is tied with it, and where the best is 0 all are.
    top = np.where(values > TIE_TOLERANCE, values, -np.inf) if clip else values
    choices = best_rows(
        q_values.reshape(runs * horizon, -1),
        top.reshape(runs * horizon, -1),
        space.starts,
        space.columns,
        None if directions is None else directions.reshape(runs * horizon, dim),
    )
    return weights, values, choices.reshape(values.shape)
