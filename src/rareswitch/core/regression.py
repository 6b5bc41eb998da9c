"""The ridge regression of one stage: as the paper declares it, or estimated from its own data.

Declared, Λ = λI + Σφφᵀ with the learner's λ, noise counts as 1 and values shrink towards 0.
Estimated, the three are found anew at every fit and stage (`core/estimation.py`): an unknown value
is taken to be near the `level`, and is uncertain by `noise`·‖φ‖ in the norm of (Σφφᵀ + ridge·I)⁻¹.

Both work in the basis of Σφφᵀ's eigenvectors (rows of `basis`; None for one-hot features, whose
basis is the usual one), where uncertainty has one number (`scales`) for each:
noise·Λ^{−1/2} = basisᵀ·diag(scales)·basis. The symmetric root is the only one that depends on
nothing but Λ; W itself, which is known up to a rotation, remembers the order of the episodes.
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
    declared: Floats | None  # W where it is declared, or else from the next two
    basis: Floats | None  # (..., d, d), for members or where estimated; None: the usual one
    scales: Floats | None  # (..., d), for members or where estimated

    @property
    def whitener(self) -> Floats:
        """W (..., d, d), or its diagonal (..., d)."""
        if self.declared is not None:
            return self.declared
        assert self.scales is not None
        return self.scales if self.basis is None else self.scales[..., None] * self.basis

    def offsets(self, perturbations: Floats) -> Floats:
        """Return noise·Λ^{−1/2}z of each of J vectors z, (..., J, d)."""
        assert self.scales is not None
        if self.basis is None:
            return perturbations * self.scales[..., None, :]
        turned = perturbations @ self.basis.mT
        turned *= self.scales[..., None, :]
        return turned @ self.basis


class Declared:
    """The paper's regression: the ridge is the one inside W (Alg. 1, lines 7–8).

    Where there are `members`, each perturbed, what they share has an axis of one entry for them.
    """

    def __init__(self, statistics: Statistics, *, members: bool) -> None:
        self.pools, self._one_hot = statistics.pools, statistics.one_hot
        self._whitener = _shared(statistics.whitener, 2 if self._one_hot else 3, members)
        self._rewards = _shared(statistics.reward_sums, 2, members)
        self._spectrum = _spectrum(self._whitener, self._one_hot) if members else (None, None)

    def stage(self, h: int, following: Floats | None) -> Solved:
        """Solve stage h, given Σ V·(φ, …) of the values V that follow."""
        pool = self.pools.of(h)
        whitener = _of_pool(self._whitener, pool, 1 if self._one_hot else 2)
        dim = whitener.shape[-1]
        targets = self._rewards[..., pool, :dim]
        if following is not None:
            targets = targets + following[..., :dim]
        scales, basis = self._spectrum
        return Solved(
            weights=solve(whitener, targets, one_hot=self._one_hot),
            levels=None,
            declared=whitener,
            basis=None if basis is None else basis[..., pool, :, :],
            scales=None if scales is None else scales[..., pool, :],
        )


class Estimated:
    """The regression whose level, ridge and noise are estimated, for each member by itself.

    `spreads` are the V of the stages solved so far.
    """

    def __init__(self, statistics: Statistics, *, members: bool) -> None:
        self.pools, one_hot = statistics.pools, statistics.one_hot
        whitener = _shared(statistics.whitener, 2 if one_hot else 3, members)
        scales, self._basis = _spectrum(whitener, one_hot)
        # W has the singular values 1/√(g+λ), with g the eigenvalues of Σφφᵀ; what is lost beside λ
        # in rounding is none.
        grown = scales**-2.0 - statistics.ridge
        self._eigenvalues = np.where(grown > LEAST_SHARE * statistics.ridge, grown, 0.0)
        self._rewards = _shared(statistics.reward_sums, 2, members)
        steps, dim = _shared(statistics.step_sums, 2, members), scales.shape[-1]
        self._steps, self._features = steps[..., dim], _turned(self._basis, steps[..., :dim])
        self.spreads: dict[int, Floats] = {}

    def stage(self, h: int, following: Floats | None) -> Solved:
        """Solve stage h, given Σ V·(φ, 1, r, V) of the values V that follow."""
        pool = self.pools.of(h)
        basis = None if self._basis is None else self._basis[..., pool, :, :]
        dim = self._eigenvalues.shape[-1]
        if following is None:
            following = np.zeros(dim + 3)
        sums = self._rewards[..., pool, :] + following[..., :-1]  # Σ y·(φ, 1, r)
        found = StageEstimate(
            eigenvalues=self._eigenvalues[..., pool, :],
            steps=self._steps[..., pool],
            features=self._features[..., pool, :],
            products=_turned(basis, sums[..., :dim]),
            total=sums[..., dim],
            # Σy² = Σyr + ΣyV, and ΣyV = ΣrV + ΣV²
            squares=sums[..., dim + 1] + following[..., dim + 1] + following[..., dim + 2],
            cap=float(self.pools.horizon - h),
        )
        self.spreads[h], scales = found.spread, found.scales
        return Solved(
            weights=found.weights if basis is None else np.vecmat(found.weights, basis),
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


def _spectrum(whitener: Floats, one_hot: bool) -> tuple[Floats, Floats | None]:
    """Return the singular values of W and their basis; None stands for the usual one."""
    if one_hot:
        return whitener, None
    _, scales, basis = np.linalg.svd(whitener)
    return scales, basis


def _turned(basis: Floats | None, vector: Floats) -> Floats:
    """Return a vector's coordinates in a basis."""
    return vector if basis is None else np.matvec(basis, vector)


def _of_pool(array: Floats, pool: int, axes: int) -> Floats:
    """Return the part of one pool, whose axis is before the last ones."""
    return array[..., pool, :] if axes == 1 else array[..., pool, :, :]


def _shared(array: Floats, axes: int, members: bool) -> Floats:
    """Give what members share an axis of one entry for them, before the last axes."""
    return np.expand_dims(array, -axes - 1) if members else array
