"""Λ = λI + Σφφᵀ, one for each pool of steps, held through W with WᵀW = Λ⁻¹ (`whitener`).

A whitener is a square root of the inverse: in the coordinates Wφ every direction is known equally
well. Every use of Λ in the paper is a use of its inverse or its determinant: ‖φ‖²_{Λ⁻¹} = ‖Wφ‖²,
Λ⁻¹b = Wᵀ(Wb), and log det Λ. W is updated by the square-root form of Sherman–Morrison
(Potter 1963), so a squared norm can never be negative and rounding enters with the square root of
Λ's condition number. Λ itself is not kept: in float64 it cannot hold a ridge of 1e-6 beside a sum
of 1e5, and a Cholesky factor of it loses the directions that no feature has visited.
"""

import numpy as np

from rareswitch.core.arguments import Floats


class Gram:
    """Gram matrices (..., P, d, d) in square-root form.

    `logdet` and `trace` (..., P) are log det Λ and tr Λ. Every `absorb` makes new, read-only
    arrays, so that what was read before stays what it was.
    """

    def __init__(self, leading: tuple[int, ...], dim: int, ridge: float) -> None:
        self.whitener: Floats = np.tile(np.eye(dim) / np.sqrt(ridge), (*leading, 1, 1))
        self.logdet: Floats = np.full(leading, dim * np.log(ridge))
        self.trace: Floats = np.full(leading, dim * ridge)
        self._freeze()

    def absorb(self, features: Floats, counts: Floats | None = None) -> Floats:
        """Add one φφᵀ (or count·φφᵀ) to every matrix; features (..., P, d), counts (..., P).

        A zero feature changes nothing, which is how a stage that was not reached is passed over.
        Returns Λ⁻¹φ/√(1 + φᵀΛ⁻¹φ) of the old Λ (..., P, d), whose outer product is what Λ⁻¹ loses.
        """
        if counts is not None:
            features = features * np.sqrt(counts)[..., None]
        direction, root = self.grow(features)
        return root[..., None] * direction

    def grow(self, features: Floats) -> tuple[Floats, Floats]:
        """Add one φφᵀ to every matrix; return Λ⁻¹φ of the old Λ and 1/√(1 + φᵀΛ⁻¹φ)."""
        whitened = np.matvec(self.whitener, features)  # Wφ
        direction = np.vecmat(whitened, self.whitener)  # Λ⁻¹φ = Wᵀ(Wφ)
        squared_norm = np.vecdot(whitened, whitened)  # φᵀΛ⁻¹φ
        shrink = 1.0 / (1.0 + squared_norm)
        root = np.sqrt(shrink)
        step = shrink / (1.0 + root)
        change = np.einsum("...i,...j->...ij", step[..., None] * whitened, direction)
        self.whitener = np.subtract(self.whitener, change, out=change)
        self.logdet = self.logdet + np.log1p(squared_norm)  # the matrix determinant lemma
        self.trace = self.trace + np.vecdot(features, features)
        self._freeze()
        return direction, root

    def absorb_block(self, features: Floats, counts: Floats | None = None) -> None:
        """Add n of them to every matrix at once; features (..., P, n, d), counts (..., P, n).

        W becomes (I + BBᵀ)^{−1/2}·W with B = WFᵀ: of BBᵀ and BᵀB, which have the same eigenvalues
        above 0, the smaller is decomposed. Each eigenvalue is then the squared length of B along
        its vector: so even one far below the largest is more than rounding.
        """
        if counts is not None:
            features = features * np.sqrt(counts)[..., None]
        whitened = features @ self.whitener.mT  # Bᵀ (..., n, d)
        steps, dim = whitened.shape[-2:]
        if steps < dim:
            turn = np.linalg.eigh(whitened @ whitened.mT).eigenvectors
            turned = turn.mT @ whitened
            squares = np.square(turned).sum(axis=-1)
            root = np.sqrt(1.0 + squares)
            change = turned.mT @ ((1.0 / (root * (1.0 + root)))[..., None] * turned)
            self.whitener = self.whitener - change @ self.whitener
        else:
            turn = np.linalg.eigh(whitened.mT @ whitened).eigenvectors
            squares = np.square(whitened @ turn).sum(axis=-2)
            shrunk = (turn * (1.0 / np.sqrt(1.0 + squares))[..., None, :]) @ turn.mT
            self.whitener = shrunk @ self.whitener
        self.logdet = self.logdet + np.log1p(squares).sum(axis=-1)
        self.trace = self.trace + np.square(features).sum(axis=(-2, -1))
        self._freeze()

    @property
    def arrays(self) -> dict[str, Floats]:
        """All that is known, by name."""
        return {"whitener": self.whitener, "logdet": self.logdet, "trace": self.trace}

    def take_over(self, arrays: dict[str, Floats]) -> None:
        """Become what `arrays` was once."""
        self.whitener, self.logdet, self.trace = arrays.values()

    def _freeze(self) -> None:
        for array in (self.whitener, self.logdet, self.trace):
            array.setflags(write=False)


def solve(whitener: Floats, target: Floats, *, one_hot: bool = False) -> Floats:
    """Return Λ⁻¹·target = Wᵀ(W·target) for target (..., d) and W (..., d, d), or its diagonal."""
    if one_hot:
        return np.square(whitener) * target
    return np.vecmat(np.matvec(whitener, target), whitener)
