"""Least-squares value iteration: the backward pass of all algorithms, and the fit around it.

w_h `weights`, W_h `whitener` with WᵀW = Λ_h⁻¹. A fit is a pure function of statistics, recipe and
version: asked twice, it gives the same bytes.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.policy import Policy, policy_arrays
from rareswitch.core.recipe import Recipe
from rareswitch.core.regression import Declared, Estimated, regression_of
from rareswitch.core.stage import Stage
from rareswitch.core.statistics import Statistics


def backward(
    statistics: Statistics,
    regression: Declared | Estimated,
    *,
    beta: float,
    perturbations: Floats | None = None,
    clip: bool = True,
) -> tuple[Stage, ...]:
    """Return Q_h of every stage, regressed from the last to the first (Alg. 1, lines 5–10).

    `perturbations` (..., M, H, J, d) make M members, an axis after those of the statistics. One
    draw for each of them (J = 1) is added to its weights; of more, the largest counts.
    """
    stages: list[Stage] = []
    horizon = regression.pools.horizon
    for h in reversed(range(horizon)):
        following = statistics.next_value_sums(h, stages[-1]) if stages else None  # Q_{H+1} = 0
        found = regression.stage(h, following)  # line 8
        weights, offsets = found.weights, None
        if perturbations is not None:
            offsets = found.offsets(perturbations[..., h, :, :])
            if offsets.shape[-2] == 1:
                weights, offsets = weights + offsets[..., 0, :], None
            else:
                weights = np.broadcast_to(weights, offsets[..., 0, :].shape)
        stages.append(
            Stage(
                weights=weights,
                levels=found.levels,
                whitener=found.whitener if beta else None,
                beta=beta,
                offsets=offsets,
                cap=float(horizon - h) if clip else None,
            )
        )
    return tuple(reversed(stages))


def fit(statistics: Statistics, recipe: Recipe, version: int) -> Policy:
    """Return the policy that a recipe makes of one learner's statistics, for one version."""
    if statistics.ridge != recipe.ridge:
        raise ValueError(
            f"ridge must be that of the statistics, {statistics.ridge:g}; the recipe has "
            f"{recipe.ridge:g}"
        )
    horizon, dim = statistics.pools.horizon, statistics.whitener.shape[-1]
    explores = recipe.exploration
    stages = backward(
        statistics,
        regression_of(statistics, explores),
        beta=explores.beta,
        perturbations=recipe.perturbations(version, horizon, dim, shared=statistics.pools.shared),
        clip=recipe.clip,
    )
    return policy_of(
        stages,
        recipe,
        directions=recipe.directions(version, horizon, dim),
        allocation=recipe.allocation(version),
        one_hot=statistics.one_hot,
    )


def policy_of(
    stages: Sequence[Stage],
    recipe: Recipe,
    *,
    directions: Floats | None,
    allocation: int | None,
    one_hot: bool = False,
) -> Policy:
    """Return the policy with these Q_h, of one member or with a first axis for members."""
    arrays: dict[str, Floats] = {}
    for name, axes in policy_arrays(one_hot).items():
        parts: list[Any] = [getattr(stage, name, None) for stage in stages]
        if parts[0] is None:
            continue
        # Of the last stage, whose targets are rewards alone, all members estimate the same.
        array = np.stack(np.broadcast_arrays(*parts), axis=-axes)
        array.flags.writeable = False  # no one else has it: a policy need not copy it
        arrays[name] = array[0] if array.ndim > axes and len(array) == 1 else array
    return Policy(
        **arrays,
        beta=recipe.exploration.beta,
        directions=directions,
        allocation=allocation,
        clip=recipe.clip,
        one_hot=one_hot,
    )
