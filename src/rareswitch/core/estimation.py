"""Noise, ridge and level of a stage's regression, estimated from sums that a fit has anyway.

The model: targets are y = l + φᵀw + ε with ε of variance σ², and before any data w is Gaussian of
variance V²/m in every direction, m = mean ‖φ‖², so that values of typical features spread around
the level l by V. Given the data w has the mean of a ridge regression of y − l with ridge
λ = m·σ²/V², and the covariance σ²(G + λI)⁻¹, G = Σφφᵀ. Where σ² and V² maximise the likelihood of
the targets they satisfy, with γ = Σ g/(g+λ) over the eigenvalues g of G, the number of directions
that the data determine (MacKay 1992),

    V² = m·‖w‖² / γ,        σ² = Σ(y − l − φᵀw)² / (n − γ).

Each gets one observation more. Of V² it is what is known before any data: values lie between 0 and
the cap H−h, so they differ from the middle by at most (H−h)/2, which is taken; the middle is also
counted once for the level. Of σ² it is V²: noise as large as the differences between values. So the
estimates make sense on no data, on fewer steps than directions, on rewards without noise and on
rewards not yet seen at all; an untried direction of typical length is uncertain by V and one tried
n times by about σ/√n. A common unit of all features does not matter; coordinates should be of
comparable size. docs/theory.md has the derivation, docs/mixtures.md what was measured.
"""

import numpy as np

from rareswitch.core.arguments import Floats

# How often the two equations are put into each other; more rounds changed nothing measurable.
ROUNDS = 3


class StageEstimate:
    """The estimates of one stage, in the basis of G's eigenvectors; leading axes are free.

    `eigenvalues` g (..., d) and `steps` n (...) are those of the data; `features` Σφ and `products`
    Σφy are turned into the basis (..., d); `total` is Σy and `squares` Σy² (...), `cap` is H−h.
    Found are `level` l, `spread` V, `noise` σ and `ridge` λ (...), `weights` and `scales` (..., d):
    the mean and the standard deviation of w in each direction.
    """

    def __init__(
        self,
        *,
        eigenvalues: Floats,
        steps: Floats,
        features: Floats,
        products: Floats,
        total: Floats,
        squares: Floats,
        cap: float,
    ) -> None:
        known, counted = cap**2 / 4.0, 1.0 + steps
        self.level = (total + cap / 2.0) / (steps + 1.0)
        products = products - self.level[..., None] * features
        centred = squares + self.level * (steps * self.level - 2.0 * total)  # Σ(y−l)²
        norm = eigenvalues.sum(axis=-1)
        norm = np.where(norm > 0.0, norm / np.maximum(steps, 1.0), 1.0)  # m
        ridge = norm  # at first the same for all members
        for _ in range(ROUNDS):
            inverse = _inverse(eigenvalues, ridge)
            weights = products * inverse
            determined = np.vecdot(eigenvalues, inverse)  # γ
            squared = np.vecdot(weights, weights)
            # Σ(y−l−φᵀw)², since (G + λI)w = Σφ(y−l); below 0 is rounding.
            residual = centred - np.vecdot(weights, products) - ridge * squared
            spread = (known + norm * squared) / (1.0 + determined)  # V²
            noise = (spread + np.maximum(residual, 0.0)) / (counted - determined)  # σ²
            ridge = norm * noise / spread
        inverse = _inverse(eigenvalues, ridge)
        self.ridge, self.spread, self.noise = ridge, np.sqrt(spread), np.sqrt(noise)
        self.weights = products * inverse
        self.scales = np.sqrt(inverse, out=inverse)
        self.scales *= self.noise[..., None]


def _inverse(eigenvalues: Floats, ridge: Floats) -> Floats:
    """Return 1/(g + λ) in every direction (..., d)."""
    inverse = eigenvalues + ridge[..., None]
    return np.reciprocal(inverse, out=inverse)
