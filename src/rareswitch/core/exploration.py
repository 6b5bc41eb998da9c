"""Two ways to explore: a bonus, or the best of a few perturbed estimates.

`Bonus` is the paper's: Q = φᵀw + β·‖φ‖_{Λ⁻¹}. `Perturbation` is LSVI-PHE (Ishfaq et al. 2021): with
M Gaussian draws for each stage, made once per fit, Q = max_m φᵀ(w + σ·Λ^{−1/2}z_m), which is the
regression on perturbed rewards and a perturbed prior. What is added to w, σ·Λ^{−1/2}z_m, is called
an offset.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rareswitch.core.arguments import Floats, real, settle, whole


class Exploration(Protocol):
    """How a fit makes its policy try what is not known: by a bonus, by offsets, or by both."""

    @property
    def beta(self) -> float:
        """The radius β of the bonus; 0 for none."""
        ...

    @property
    def draws(self) -> int:
        """The number M of perturbed estimates; 0 for none."""
        ...

    def offsets(self, rng: np.random.Generator, whitener: Floats) -> Floats:
        """Return what each estimate adds to w, (H, M, d), given W (H, d, d) with WᵀW = Λ⁻¹."""
        ...


@dataclass(frozen=True)
class Bonus:
    """Add the confidence radius β times the elliptical norm."""

    draws: ClassVar[int] = 0

    beta: float = 1.0

    def __post_init__(self) -> None:
        settle(self, beta=real("beta", self.beta, least=0.0, most=1e100))

    def offsets(self, rng: np.random.Generator, whitener: Floats) -> Floats:
        horizon, dim, _ = whitener.shape
        return np.zeros((horizon, self.draws, dim))


@dataclass(frozen=True)
class Perturbation:
    """Take the largest of M estimates perturbed with standard deviation σ·‖φ‖_{Λ⁻¹}.

    >>> Perturbation(1.0, draws=4).offsets(np.random.default_rng(0), np.eye(2)[None]).shape
    (1, 4, 2)
    """

    beta: ClassVar[float] = 0.0

    sigma: float
    draws: int = 10

    def __post_init__(self) -> None:
        settle(
            self,
            sigma=real("sigma", self.sigma, least=0.0, most=1e100),
            draws=whole("draws", self.draws, least=1, most=10_000),
        )

    def offsets(self, rng: np.random.Generator, whitener: Floats) -> Floats:
        """Draw σ·Λ_h^{−1/2}z_m for every stage, (H, M, d): Rᵀz has covariance RᵀR = Λ⁻¹.

        W is known up to a rotation, which depends on the order of the episodes; R of its QR
        decomposition, with a positive diagonal, is not.
        """
        horizon, dim, _ = whitener.shape
        root: Floats = np.asarray(np.linalg.qr(whitener, mode="r"))
        signs = np.where(np.diagonal(root, axis1=1, axis2=2) < 0.0, -1.0, 1.0)
        drawn = rng.standard_normal((horizon, self.draws, dim))
        return self.sigma * (drawn @ (signs[..., None] * root))
