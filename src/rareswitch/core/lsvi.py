"""Least-squares value iteration: the backward pass of all three algorithms, and the fit around it.

w_h `weights`, W_h `whitener` with WᵀW = Λ_h⁻¹. A fit is a pure function of statistics, recipe and
version: asked twice, it gives the same bytes.
"""

from typing import Protocol

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.gram import solve
from rareswitch.core.policy import Policy, Stage
from rareswitch.core.recipe import Recipe


class Statistics(Protocol):
    """All that a fit asks of the data: in memory, of many runs at once, or on a cluster."""

    @property
    def ridge(self) -> float:
        """λ, which is inside W."""
        ...

    @property
    def whitener(self) -> Floats:
        """W_h (..., H, d, d)."""
        ...

    @property
    def reward_sums(self) -> Floats:
        """Σ_τ r_τφ_τ of each stage (..., H, d)."""
        ...

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        """Return Σ_τ φ_τ·max_a Q_{h+1}(s'_τ, a) over the steps of stage h (..., d)."""
        ...


def backward(
    statistics: Statistics, *, beta: float, offsets: Floats | None = None, clip: bool = True
) -> Floats:
    """Return w (..., H, d) by ridge regression from the last stage to the first (lines 5–10).

    `offsets` (..., H, M, d) perturb the estimates instead of, or beside, the bonus.
    """
    whitener, weights = statistics.whitener, np.array(statistics.reward_sums)
    horizon = weights.shape[-2]
    for h in reversed(range(horizon)):
        if h + 1 < horizon:  # Q_{H+1} = 0 (line 5)
            following = Stage(
                weights=weights[..., h + 1, :],
                whitener=whitener[..., h + 1, :, :],
                beta=beta,
                offsets=None if offsets is None else offsets[..., h + 1, :, :],
                cap=float(horizon - h - 1) if clip else None,
            )
            weights[..., h, :] += statistics.next_value_sums(h, following)
        # w_h = Λ_h⁻¹ Σ φ·[r + max_a Q_{h+1}] (line 8)
        weights[..., h, :] = solve(whitener[..., h, :, :], weights[..., h, :])
    return weights


def fit(statistics: Statistics, recipe: Recipe, version: int) -> Policy:
    """Return the policy that a recipe makes of one learner's statistics, for one version."""
    if statistics.ridge != recipe.ridge:
        raise ValueError(
            f"ridge must be that of the statistics, {statistics.ridge:g}; the recipe has "
            f"{recipe.ridge:g}"
        )
    whitener = statistics.whitener
    horizon, dim, _ = whitener.shape
    offsets = recipe.offsets(version, whitener)
    beta = recipe.exploration.beta
    return Policy(
        weights=backward(statistics, beta=beta, offsets=offsets, clip=recipe.clip),
        whitener=whitener,
        beta=beta,
        directions=recipe.directions(version, horizon, dim),
        offsets=offsets,
        clip=recipe.clip,
    )
