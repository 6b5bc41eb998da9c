"""The ridge regression of one stage: as the paper declares it, or estimated from its own data.

Declared, Λ = λI + Σφφᵀ with the learner's λ, noise counts as 1 and values shrink towards 0.
Estimated, the three are found anew at every fit and stage (`core/estimation.py`): an unknown value
is taken to be near the `level`, and is uncertain by `noise`·‖φ‖ in the norm of (Σφφᵀ + ridge·I)⁻¹.

Both work in the basis of Σφφᵀ's eigenvectors (rows of `basis`), where uncertainty has one number
(`scales`) for each: noise·Λ^{−1/2} = basisᵀ·diag(scales)·basis. The symmetric root is the only one
that depends on nothing but Λ; W itself, which is known up to a rotation, remembers the order of the
episodes.
"""

from typing import NamedTuple

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.estimation import StageEstimate
from rareswitch.core.exploration import Exploration
from rareswitch.core.gram import solve
from rareswitch.core.statistics import Statistics

# Of the declared ridge: what an eigenvalue of Σφφᵀ must exceed to be told from rounding.
LEAST_SHARE = 1e-12


class Solved(NamedTuple):
    """The regression of one stage: Q = level + φᵀw, uncertain by ‖Wφ‖; leading axes are free."""

    weights: Floats  # w (..., d)
    levels: Floats | None  # (...)
    declared: Floats | None  # W (..., d, d) where it is declared, or else from the next two
    basis: Floats | None  # (..., d, d), for members or where estimated
    scales: Floats | None  # (..., d)

    @property
    def whitener(self) -> Floats:
        """W (..., d, d)."""
        if self.declared is not None:
            return self.declared
        assert self.basis is not None
        assert self.scales is not None
        return self.scales[..., None] * self.basis

    def offsets(self, perturbations: Floats) -> Floats:
        """Return noise·Λ^{−1/2}z of each of J vectors z, (..., J, d)."""
        assert self.basis is not None
        assert self.scales is not None
        turned = perturbations @ self.basis.mT
        turned *= self.scales[..., None, :]
        return turned @ self.basis


class Declared:
    """The paper's regression: the ridge is the one inside W (Alg. 1, lines 7–8).

    Where there are `members`, each perturbed, what they share has an axis of one entry for them.
    """

    def __init__(self, statistics: Statistics, *, members: bool) -> None:
        self._whitener = _shared(statistics.whitener, 3, members)
        self._rewards = _shared(statistics.reward_sums, 2, members)
        self._spectrum = np.linalg.svd(self._whitener)[1:] if members else None

    @property
    def horizon(self) -> int:
        return self._whitener.shape[-3]

    def stage(self, h: int, following: Floats | None) -> Solved:
        """Solve stage h, given Σ V·(φ, …) of the values V that follow."""
        whitener = self._whitener[..., h, :, :]
        dim = whitener.shape[-1]
        targets = self._rewards[..., h, :dim]
        if following is not None:
            targets = targets + following[..., :dim]
        scales, basis = (None, None) if self._spectrum is None else self._spectrum
        return Solved(
            weights=solve(whitener, targets),
            levels=None,
            declared=whitener,
            basis=None if basis is None else basis[..., h, :, :],
            scales=None if scales is None else scales[..., h, :],
        )


class Estimated:
    """The regression whose level, ridge and noise are estimated, for each member by itself.

    `spreads` are the V of the stages solved so far.
    """

    def __init__(self, statistics: Statistics, *, members: bool) -> None:
        scales, self._basis = np.linalg.svd(_shared(statistics.whitener, 3, members))[1:]
        # W has the singular values 1/√(g+λ), with g the eigenvalues of Σφφᵀ; what is lost beside λ
        # in rounding is none.
        grown = scales**-2.0 - statistics.ridge
        self._eigenvalues = np.where(grown > LEAST_SHARE * statistics.ridge, grown, 0.0)
        self._rewards = _shared(statistics.reward_sums, 2, members)
        self._steps = _shared(statistics.step_sums, 2, members)
        self.spreads: dict[int, Floats] = {}

    @property
    def horizon(self) -> int:
        return self._basis.shape[-3]

    def stage(self, h: int, following: Floats | None) -> Solved:
        """Solve stage h, given Σ V·(φ, 1, r, V) of the values V that follow."""
        basis, steps = self._basis[..., h, :, :], self._steps[..., h, :]
        dim = basis.shape[-1]
        if following is None:
            following = np.zeros(dim + 3)
        sums = self._rewards[..., h, :] + following[..., :-1]  # Σ y·(φ, 1, r)
        found = StageEstimate(
            eigenvalues=self._eigenvalues[..., h, :],
            steps=steps[..., dim],
            features=np.matvec(basis, steps[..., :dim]),
            products=np.matvec(basis, sums[..., :dim]),
            total=sums[..., dim],
            # Σy² = Σyr + ΣyV, and ΣyV = ΣrV + ΣV²
            squares=sums[..., dim + 1] + following[..., dim + 1] + following[..., dim + 2],
            cap=float(self.horizon - h),
        )
        self.spreads[h], scales = found.spread, found.scales
        return Solved(
            weights=np.vecmat(found.weights, basis),
            levels=found.level,
            declared=None,
            basis=basis,
            scales=scales,
        )


def regression_of(statistics: Statistics, exploration: Exploration) -> Declared | Estimated:
    """Return the regression that an exploration counts in."""
    members = exploration.draws > 0
    if exploration.estimate:
        return Estimated(statistics, members=members)
    return Declared(statistics, members=members)


def _shared(array: Floats, axes: int, members: bool) -> Floats:
    """Give what members share an axis of one entry for them, before the last axes."""
    return np.expand_dims(array, -axes - 1) if members else array
