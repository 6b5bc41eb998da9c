"""Least-squares value iteration: the backward pass, lines 5–10 of Alg. 1 and 8–13 of Alg. 2.

Letters: w_h `weights`, Λ_h through W_h `whitener` with WᵀW = Λ_h⁻¹, Γ_h the bonus β·‖φ‖_{Λ⁻¹}, φ a
row of features, H `horizon`. Stages are counted from 0, so the cap of stage h is H−h.

The rest of Alg. 2: `core/gram.py` has Λ_h (line 5), a rule in `rules/` is the test for a switch
(line 7), `learning/learner.py` has the loop that tests and otherwise keeps the policy (lines 2 and
16), and `core/policy.py` has the greedy action (lines 13 and 19) and `fit`, which calls `backward`.
"""

from typing import NamedTuple, Protocol, Self

import numpy as np

from rareswitch.core.gram import solve, split_blocks
from rareswitch.core.task import Pools
from rareswitch.support.arguments import Floats, Rows


class QFunction(NamedTuple):
    """Q_h of one stage, as a function of feature rows; `cap` is H−h, or None for no clip.

    Leading axes are arbitrary: runs, members, both or neither. Rows are (n, d); one-hot rows are
    given by the positions (n,) of their ones, and W by its diagonal. Rows with leading axes, (...,
    n, d) or positions (..., n), are paired with the leading axes of the function. W is (..., d, d),
    or (..., d, m) in stacked blocks of m coordinates.
    """

    weights: Floats  # w (..., d)
    levels: Floats | None  # l (...), estimated; None: 0
    whitener: Floats | None  # W (..., d, m) or (..., d)
    beta: float
    offsets: Floats | None  # o_j (..., J, d), of a perturbed fit
    cap: float | Floats | None

    def q_values(self, rows: Rows) -> Floats:
        """Return min{l + φᵀw + β‖Wφ‖ + max_j φᵀo_j, cap}⁺ of n rows, (..., n).

        Alg. 1, lines 9–10; Alg. 2, lines 12–13.
        """
        values = project(self.weights, rows)
        if self.levels is not None:
            values = values + self.levels[..., None]
        if self.beta and self.whitener is not None:
            values = values + self.beta * _norms(self.whitener, rows)  # Γ_h = β·‖φ‖_{Λ⁻¹}
        if self.offsets is not None:
            values = values + project(self.offsets, rows).max(axis=-2)
        return values if self.cap is None else clip_values(values, self.cap)

    def best_values(self, numbers: Floats, masks: Floats | None = None) -> Floats:
        """Return max_b Q of n sets of rows with the same numbers in one of B blocks, (..., n).

        Set i has a row for each block b with masks[i, b] = 1, with numbers[i] in that block:
        numbers (n, m), masks (n, B). Without masks, every block has a row. The value of a set
        without rows is undefined.
        """
        count, size = numbers.shape

        def apart(directions: Floats) -> Floats:
            products = directions.reshape(-1, size) @ numbers.T
            return products.reshape(*directions.shape[:-1], -1, count)  # (..., B, n)

        values = apart(self.weights)
        if self.beta and self.whitener is not None:
            whitened = numbers @ split_blocks(self.whitener).mT
            values = values + self.beta * np.sqrt(np.vecdot(whitened, whitened))
        if self.offsets is not None:
            values = values + apart(self.offsets).max(axis=-3)
        if masks is not None:
            values = np.where(masks.T > 0.0, values, -np.inf)
        best: Floats = values.max(axis=-2)
        if self.levels is not None:
            best = best + self.levels[..., None]
        return best if self.cap is None else clip_values(best, self.cap)

    def select(self, run: int) -> "QFunction":
        """Return Q of one run; the first axis must be the runs."""
        levels, whitener, offsets = (
            None if array is None else array[run]
            for array in (self.levels, self.whitener, self.offsets)
        )
        return QFunction(self.weights[run], levels, whitener, self.beta, offsets, self.cap)


class Statistics(Protocol):
    """The data of a fit: sums over the steps of each pool; leading axes are arbitrary.

    A stage learns from the steps of one pool. Steps are summed as (φ, 1, r); the columns (1, r) are
    used only when noise is estimated.
    """

    @property
    def pools(self) -> Pools:
        """The pools of steps that stages learn from."""
        ...

    @property
    def one_hot(self) -> bool:
        """Whether features are one-hot and W is given by its diagonal."""
        ...

    @property
    def dim(self) -> int:
        """The dimension d of features."""
        ...

    @property
    def ridge(self) -> float:
        """λ, which is inside W."""
        ...

    @property
    def whitener(self) -> Floats:
        """W (..., P, d, d), its blocks (..., P, d, m), or its diagonal (..., P, d)."""
        ...

    @property
    def step_sums(self) -> Floats:
        """Σ_τ (φ_τ, 1, r_τ) of each pool (..., P, d+2)."""
        ...

    @property
    def reward_sums(self) -> Floats:
        """Σ_τ r_τ·(φ_τ, 1, r_τ) of each pool (..., P, d+2)."""
        ...

    def next_value_sums(self, h: int, following: QFunction, pool: int | None = None) -> Floats:
        """Return Σ_τ V_τ·(φ_τ, 1, r_τ, V_τ) over stage h's pool, V_τ = max_a Q_{h+1}(s'_τ, a).

        If Q_{h+1} has members, their axis follows the axes of the statistics: (..., M, d+3). With
        `pool`, the sum is over the steps of that pool.
        """
        ...

    def fold(self) -> Self:
        """Return the statistics with every episode in the sums; a fit calls it first."""
        ...


class Regression(NamedTuple):
    """The regression of one stage: Q = level + φᵀw with uncertainty ‖Wφ‖, and leading axes.

    Perturbations use the basis of Λ's eigenvectors (rows of `basis`; None means the standard basis,
    for one-hot features) with one scale for each: noise·Λ^{−1/2} = basisᵀ·diag(scales)·basis. This
    symmetric root depends only on Λ; W is determined only up to a rotation and depends on the order
    of the episodes too.
    """

    weights: Floats  # w (..., d)
    levels: Floats | None = None  # (...)
    declared: Floats | None = None  # W of the declared ridge (..., d, m), or its diagonal
    basis: Floats | None = None  # (..., d, m), in blocks like W
    scales: Floats | None = None  # (..., d)

    def whitener(self) -> Floats:
        """Return W (..., d, m), or its diagonal (..., d), as declared or from the scales."""
        if self.declared is not None:
            return self.declared
        assert self.scales is not None
        return self.scales if self.basis is None else self.scales[..., None] * self.basis

    def perturb(self, draws: Floats) -> Floats:
        """Return the offsets noise·Λ^{−1/2}z of each of J draws z, (..., J, d)."""
        assert self.scales is not None
        if self.basis is None:
            return draws * self.scales[..., None, :]
        basis = split_blocks(self.basis)  # (..., B, m, m)
        turned = _split(draws, basis.shape[-1]) @ basis.mT
        turned *= self.scales.reshape(*self.scales.shape[:-1], basis.shape[-3], 1, -1)
        offsets = np.swapaxes(turned @ basis, -2, -3)  # (..., J, B, m)
        return offsets.reshape(*offsets.shape[:-2], draws.shape[-1])


class Regressor(Protocol):
    """The regression of every stage on one set of statistics."""

    def stage(self, h: int, value_sums: Floats | None) -> Regression:
        """Regress stage h, given `next_value_sums` of stage h; None after the last stage."""
        ...


class RidgeRegression:
    """The paper's regression: w_h = Λ_h⁻¹·Σφ[r + max_a Q_{h+1}], with the declared ridge inside Λ.

    With `perturbed` members, shared arrays get a member axis of length 1.
    """

    def __init__(self, statistics: Statistics, *, perturbed: bool) -> None:
        self._pools, self._one_hot = statistics.pools, statistics.one_hot
        self._dim = statistics.dim
        self._whitener = member_axis(statistics.whitener, 2 if self._one_hot else 3, perturbed)
        self._rewards = member_axis(statistics.reward_sums, 2, perturbed)
        self._scales: Floats | None = None
        self._basis: Floats | None = None
        if perturbed:
            self._scales, self._basis = spectrum(self._whitener, self._one_hot)

    def stage(self, h: int, value_sums: Floats | None) -> Regression:
        pool = self._pools.index(h)
        whitener = (
            self._whitener[..., pool, :] if self._one_hot else self._whitener[..., pool, :, :]
        )
        targets = self._rewards[..., pool, : self._dim]  # Σ φ·r
        if value_sums is not None:
            targets = targets + value_sums[..., : self._dim]  # + Σ φ·max_a Q_{h+1}
        return Regression(
            weights=solve(whitener, targets, one_hot=self._one_hot),  # Λ_h⁻¹·Σφ[r + max_a Q_{h+1}]
            declared=whitener,
            basis=None if self._basis is None else self._basis[..., pool, :, :],
            scales=None if self._scales is None else self._scales[..., pool, :],
        )


def backward(
    statistics: Statistics,
    regressor: Regressor,
    *,
    beta: float,
    perturbations: Floats | None = None,
    clip: bool = True,
) -> tuple[QFunction, ...]:
    """Return Q_h of every stage, from the last to the first.

    `perturbations` (..., M, H, J, d) make M members, whose axis follows the axes of the statistics.
    A single draw per member (J = 1) is added to its weights; if J > 1, the largest draw counts.
    """
    horizon = statistics.pools.horizon
    stages: list[QFunction] = []
    for h in reversed(range(horizon)):  # Alg. 1, lines 5–6; Alg. 2, lines 8–9
        sums = statistics.next_value_sums(h, stages[-1]) if stages else None  # Q_{H+1} = 0
        found = regressor.stage(h, sums)  # Alg. 1, line 8; Alg. 2, line 11: w_h
        weights, offsets = found.weights, None
        if perturbations is not None:
            offsets = found.perturb(perturbations[..., h, :, :])
            if offsets.shape[-2] == 1:
                weights, offsets = weights + offsets[..., 0, :], None
            else:
                weights = np.broadcast_to(weights, offsets[..., 0, :].shape)
        stages.append(  # Alg. 1, lines 9–10; Alg. 2, lines 12–13: Γ_h, Q_h
            QFunction(
                weights=weights,
                levels=found.levels,
                whitener=found.whitener() if beta else None,
                beta=beta,
                offsets=offsets,
                cap=float(horizon - h) if clip else None,
            )
        )
    return tuple(reversed(stages))


def project(directions: Floats, rows: Rows) -> Floats:
    """Return the products (..., n) of directions (..., d) with n rows, or with paired rows."""
    own = 1 if rows.dtype == np.int64 else 2  # number of axes of n rows
    if rows.ndim == own:
        return directions[..., rows] if own == 1 else directions @ rows.T
    if directions.ndim > rows.ndim - own + 1:  # several draws for each of the leading axes
        rows = np.expand_dims(rows, -own - 1)
    if own == 1:
        shape = np.broadcast_shapes(directions.shape[:-1], rows.shape[:-1])
        wide = np.broadcast_to(directions, (*shape, directions.shape[-1]))
        return np.take_along_axis(wide, np.broadcast_to(rows, (*shape, rows.shape[-1])), -1)
    return np.matvec(rows, directions)


def clip_values(values: Floats, cap: float | Floats) -> Floats:
    """Return min{values, cap}⁺ (Alg. 1, line 10), in place."""
    np.minimum(values, cap, out=values)
    return np.maximum(values, 0.0, out=values)


def member_axis(array: Floats, axes: int, perturbed: bool) -> Floats:
    """Insert a member axis of length 1 before the last axes, if members are perturbed."""
    return np.expand_dims(array, -axes - 1) if perturbed else array


def spectrum(whitener: Floats, one_hot: bool) -> tuple[Floats, Floats | None]:
    """Return the singular values of W and their basis; None means the standard basis."""
    if one_hot:
        return whitener, None
    _, scales, basis = np.linalg.svd(split_blocks(whitener))
    return scales.reshape(whitener.shape[:-1]), basis.reshape(whitener.shape)


def _norms(whitener: Floats, rows: Rows) -> Floats:
    """Return ‖Wφ‖ (..., n) of n rows, or of paired rows."""
    if rows.dtype == np.int64:
        return project(whitener, rows)
    whitened = _split(rows, whitener.shape[-1]) @ split_blocks(whitener).mT
    return np.sqrt(np.vecdot(whitened, whitened).sum(axis=-2))


def _split(rows: Floats, size: int) -> Floats:
    """Split rows (..., n, d) into blocks of that size, (..., B, n, m)."""
    return np.swapaxes(rows.reshape(*rows.shape[:-1], -1, size), -2, -3)
