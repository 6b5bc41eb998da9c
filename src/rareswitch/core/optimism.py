"""Two ways to be optimistic: a bonus, or the best of a few perturbed estimates.

`Bonus` is the paper's: Q = φᵀw + β·‖φ‖_{Λ⁻¹}. `Perturbation` is LSVI-PHE (Ishfaq et al. 2021): with
M Gaussian draws for each stage, made once per fit, Q = max_m φᵀ(w + σ·Λ^{−1/2}z_m), which is the
regression on perturbed rewards and a perturbed prior.
"""

from dataclasses import dataclass

import numpy as np

from rareswitch.core.arguments import Floats, real, whole


@dataclass(frozen=True)
class Bonus:
    """Add the confidence radius β times the elliptical norm."""

    beta: float

    def __post_init__(self) -> None:
        real("beta", self.beta, least=0.0)

    def offsets(self, rng: np.random.Generator, whitener: Floats) -> None:
        """A bonus draws nothing."""


@dataclass(frozen=True)
class Perturbation:
    """Take the largest of M estimates perturbed with standard deviation σ·‖φ‖_{Λ⁻¹}.

    >>> Perturbation(1.0, draws=4).offsets(np.random.default_rng(0), np.eye(2)[None]).shape
    (1, 4, 2)
    """

    sigma: float
    draws: int = 10

    def __post_init__(self) -> None:
        real("sigma", self.sigma, least=0.0)
        whole("draws", self.draws, least=1)

    @property
    def beta(self) -> float:
        return 0.0

    def offsets(self, rng: np.random.Generator, whitener: Floats) -> Floats:
        """Draw σ·Λ_h^{−1/2}z_m for every stage, (H, M, d): Wᵀz has covariance WᵀW = Λ⁻¹."""
        horizon, dim, _ = whitener.shape
        return self.sigma * (rng.standard_normal((horizon, self.draws, dim)) @ whitener)


Optimism = Bonus | Perturbation
