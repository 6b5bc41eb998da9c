"""Estimate noise, ridge and level of a stage's regression from the sums of a fit.

The model: targets are y = l + φᵀw + ε with ε of variance σ². The prior of w is Gaussian of variance
V²/m in every direction, m = mean ‖φ‖², so values of typical features spread around the level l by
V. Given the data, w has the mean of a ridge regression of y − l with ridge λ = m·σ²/V², and the
covariance σ²(G + λI)⁻¹, G = Σφφᵀ. If σ² and V² maximise the likelihood of the targets, they
satisfy, with γ = Σ g/(g+λ) over the eigenvalues g of G, the number of directions that the data
determine (MacKay 1992),

    V² = m·‖w‖² / γ,        σ² = Σ(y − l − φᵀw)² / (n − γ).

Each estimate gets one more observation. For V² it is ((H−h)/2)², because values lie between 0 and
the cap H−h and differ from the middle by at most (H−h)/2; the level counts the middle once. For σ²
it is V²: noise as large as the differences between values. So the estimates make sense without
data, on fewer steps than directions, on rewards without noise and before the first reward. The
uncertainty of an untried direction of typical length is V, and about σ/√n for a direction tried n
times. A common unit of all features does not matter; coordinates should be of comparable size.
docs/theory/mixtures.md has the derivation and the measurements.
"""

from typing import NamedTuple

import numpy as np

from rareswitch.core.gram import matvec, vecmat
from rareswitch.core.lsvi import Regression, Statistics, member_axis, spectrum
from rareswitch.support.arguments import Floats

# Iterations of the two equations; more had no measurable effect.
ROUNDS = 3
# Eigenvalues of Σφφᵀ below this share of the declared ridge count as 0.
LEAST_SHARE = 1e-12


class Estimate(NamedTuple):
    """The estimates of one stage, in the basis of G's eigenvectors; leading axes are free."""

    level: Floats  # l (...)
    spread: Floats  # V (...)
    noise: Floats  # σ (...)
    ridge: Floats  # λ (...)
    determined: Floats  # γ (...)
    weights: Floats  # the mean of w in each direction (..., d)
    scales: Floats  # the standard deviation of w in each direction (..., d)


def estimate_stage(
    *,
    eigenvalues: Floats,
    steps: Floats,
    features: Floats,
    products: Floats,
    total: Floats,
    squares: Floats,
    cap: float,
) -> Estimate:
    """Estimate level, spread, noise, ridge and weights of one stage.

    `eigenvalues` g (..., d) and `steps` n (...) describe the data; `features` Σφ and `products` Σφy
    are in the basis of G's eigenvectors (..., d); `total` is Σy and `squares` Σy² (...), `cap` is
    H−h.
    """
    known, counted = cap**2 / 4.0, 1.0 + steps
    level = (total + cap / 2.0) / (steps + 1.0)
    products = products - level[..., None] * features
    centred = squares + level * (steps * level - 2.0 * total)  # Σ(y−l)²
    norm = eigenvalues.sum(axis=-1)
    norm = np.where(norm > 0.0, norm / np.maximum(steps, 1.0), 1.0)  # m
    ridge = norm  # initial value for all members
    for _ in range(ROUNDS):
        inverse = _inverse(eigenvalues, ridge)
        weights = products * inverse
        determined = np.vecdot(eigenvalues, inverse)  # γ
        squared = np.vecdot(weights, weights)
        # Σ(y−l−φᵀw)², since (G + λI)w = Σφ(y−l); negative values are rounding errors.
        residual = centred - np.vecdot(weights, products) - ridge * squared
        spread = (known + norm * squared) / (1.0 + determined)  # V²
        noise = (spread + np.maximum(residual, 0.0)) / (counted - determined)  # σ²
        ridge = norm * noise / spread
    inverse = _inverse(eigenvalues, ridge)
    spread, noise = np.sqrt(spread), np.sqrt(noise)
    weights = products * inverse
    scales = np.sqrt(inverse, out=inverse)
    scales *= noise[..., None]
    return Estimate(level, spread, noise, ridge, determined, weights, scales)


class EstimatedRegression:
    """A regression with level, ridge and noise estimated separately for each member.

    It works in the basis of Σφφᵀ's eigenvectors; `spreads` has the V of each finished stage.
    """

    def __init__(self, statistics: Statistics, *, perturbed: bool) -> None:
        self._pools, one_hot = statistics.pools, statistics.one_hot
        whitener = member_axis(statistics.whitener, 2 if one_hot else 3, perturbed)
        scales, self._basis = spectrum(whitener, one_hot)
        self._rewards = member_axis(statistics.reward_sums, 2, perturbed)
        steps, dim = member_axis(statistics.step_sums, 2, perturbed), scales.shape[-1]
        self._steps, self._features = steps[..., dim], _turn(self._basis, steps[..., :dim])
        # W has the singular values 1/√(g+λ), with g the eigenvalues of Σφφᵀ; differences below
        # rounding error count as 0, and so do remainders of removed steps.
        grown = scales**-2.0 - statistics.ridge
        known = (grown > LEAST_SHARE * statistics.ridge) & (self._steps > 0.0)[..., None]
        self._eigenvalues = np.where(known, grown, 0.0)
        self.spreads: dict[int, Floats] = {}

    def stage(self, h: int, value_sums: Floats | None) -> Regression:
        pool = self._pools.index(h)
        if value_sums is None:
            value_sums = np.zeros(self._eigenvalues.shape[-1] + 3)
        found = self._estimate(pool, value_sums, cap=float(self._pools.horizon - h))
        basis = self._basis_of(pool)
        self.spreads[h] = found.spread
        return Regression(
            weights=found.weights if basis is None else vecmat(found.weights, basis),
            levels=found.level,
            basis=basis,
            scales=found.scales,
        )

    def unseen_error(self, pool: int, value_sums: Floats, *, cap: float) -> Floats:
        """Return the expected sum of squared errors on unseen steps, as many as in the pool (...).

        It is (n + γ)σ²: the noise of n steps, plus the error of the γ directions determined from n
        noisy steps (the final prediction error of Akaike 1969).
        """
        found = self._estimate(pool, value_sums, cap=cap)
        return (self._steps[..., pool] + found.determined) * np.square(found.noise)

    def _estimate(self, pool: int, value_sums: Floats, *, cap: float) -> Estimate:
        dim = self._eigenvalues.shape[-1]
        sums = self._rewards[..., pool, :] + value_sums[..., :-1]  # Σ y·(φ, 1, r)
        return estimate_stage(
            eigenvalues=self._eigenvalues[..., pool, :],
            steps=self._steps[..., pool],
            features=self._features[..., pool, :],
            products=_turn(self._basis_of(pool), sums[..., :dim]),
            total=sums[..., dim],
            # Σy² = Σyr + ΣyV, and ΣyV = ΣrV + ΣV²
            squares=sums[..., dim + 1] + value_sums[..., dim + 1] + value_sums[..., dim + 2],
            cap=cap,
        )

    def _basis_of(self, pool: int) -> Floats | None:
        return None if self._basis is None else self._basis[..., pool, :, :]


def _turn(basis: Floats | None, vector: Floats) -> Floats:
    """Return a vector's coordinates in a basis."""
    return vector if basis is None else matvec(basis, vector)


def _inverse(eigenvalues: Floats, ridge: Floats) -> Floats:
    """Return 1/(g + λ) in every direction (..., d)."""
    inverse = eigenvalues + ridge[..., None]
    return np.reciprocal(inverse, out=inverse)
