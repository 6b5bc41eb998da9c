"""Λ_h = λI + Σφφᵀ, one for each stage, held through W with WᵀW = Λ⁻¹ (`whitener`).

Every use of Λ in the paper is a use of its inverse or its determinant: ‖φ‖²_{Λ⁻¹} = ‖Wφ‖²,
Λ⁻¹b = Wᵀ(Wb), and log det Λ. W is updated by the square-root form of Sherman–Morrison
(Potter 1963), so a squared norm can never be negative and rounding enters with the square root of
Λ's condition number. Λ itself is not kept: in float64 it cannot hold a ridge of 1e-6 beside a sum
of 1e5, and a Cholesky factor of it loses the directions that no feature has visited.
"""

import numpy as np

from rareswitch.core.arguments import Floats


class Gram:
    """Gram matrices (..., H, d, d) in square-root form, growing by one feature each at a time.

    `watch` is a fixed catalogue of features, in columns (d, N), whose squared norms φᵀΛ⁻¹φ are kept
    current in `watched` (..., H, N) at O(N·d) per update instead of O(N·d²). They are updated by
    subtraction; `recompute_watched` now and then bounds the cancellation.
    """

    def __init__(
        self, leading: tuple[int, ...], dim: int, ridge: float, *, watch: Floats | None = None
    ) -> None:
        self.whitener: Floats = np.tile(np.eye(dim) / np.sqrt(ridge), (*leading, 1, 1))
        self.logdet: Floats = np.full(leading, dim * np.log(ridge))
        self.trace: Floats = np.full(leading, dim * ridge)
        self._watch = watch
        if watch is not None:
            self.recompute_watched()

    def absorb(self, features: Floats, counts: Floats | None = None) -> None:
        """Add one φφᵀ (or count·φφᵀ) to every matrix; features (..., H, d), counts (..., H).

        A zero feature changes nothing, which is how a stage that was not reached is passed over.
        """
        if counts is not None:
            features = features * np.sqrt(counts)[..., None]
        whitened = np.matvec(self.whitener, features)  # Wφ
        direction = np.vecmat(whitened, self.whitener)  # Λ⁻¹φ = Wᵀ(Wφ)
        squared_norm = np.vecdot(whitened, whitened)  # φᵀΛ⁻¹φ
        shrink = 1.0 / (1.0 + squared_norm)
        step = shrink / (1.0 + np.sqrt(shrink))
        self.whitener -= (step[..., None] * whitened)[..., :, None] * direction[..., None, :]
        self.logdet += np.log1p(squared_norm)  # the matrix determinant lemma
        self.trace += np.vecdot(features, features)
        if self._watch is not None:
            change = (np.sqrt(shrink)[..., None] * direction) @ self._watch
            change *= change
            self.watched -= change

    def recompute_watched(self) -> None:
        """Compute the watched norms anew from W."""
        assert self._watch is not None
        self.watched: Floats = self.squared_norms(self._watch)

    def squared_norms(self, columns: Floats) -> Floats:
        """Return φᵀΛ⁻¹φ of each column (d, N) under every matrix: (..., H, N)."""
        whitened = self.whitener @ columns
        return np.square(whitened, out=whitened).sum(axis=-2)

    def solve(self, h: int, target: Floats) -> Floats:
        """Return Λ_h⁻¹·target for target (..., d)."""
        whitener = self.whitener[..., h, :, :]
        return np.vecmat(np.matvec(whitener, target), whitener)
