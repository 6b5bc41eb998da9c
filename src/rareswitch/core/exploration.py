"""Three ways to explore: a bonus, the best of a few perturbed estimates, or a mixture of them.

`Bonus` is the paper's: Q = φᵀw + β·‖φ‖_{Λ⁻¹}. `Perturbation` is LSVI-PHE (Ishfaq et al. 2021): with
J Gaussian draws for each stage, made once per fit, Q = max_j φᵀ(w + σ·Λ^{−1/2}z_j). `Ensemble` is
RLSVI (Osband et al. 2016) frozen for a whole deployment: M members, each a backward pass of its own
with one draw for each stage, and one of them, drawn at random, plays an episode.

What is drawn is in units of the estimate's own uncertainty. With `estimate`, noise, ridge and level
of every stage's regression are estimated from the data at each fit (`core/estimation.py`), so that
β, σ and scale are multiples of the noise; without, the noise counts as 1 and the ridge is the one
declared.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rareswitch.core.arguments import Floats, flag, real, settle, whole

MOST_MEMBERS = 10_000


class Exploration(Protocol):
    """How a fit makes its policy try what is not known: by a bonus, by perturbations, or both."""

    @property
    def beta(self) -> float:
        """The radius β of the bonus; 0 for none."""
        ...

    @property
    def members(self) -> int:
        """The number M of members, of which one plays an episode; 1 for one policy."""
        ...

    @property
    def draws(self) -> int:
        """The number J of perturbed estimates whose largest counts, for each member; 0 for none."""
        ...

    @property
    def estimate(self) -> bool:
        """Whether noise, ridge and level are estimated by the fit."""
        ...

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        """Return what multiplies noise·Λ_h^{−1/2} (M, H, J, d); not asked where `draws` is 0."""
        ...


@dataclass(frozen=True)
class Bonus:
    """Add the confidence radius β times the elliptical norm.

    The `members` of a mixture have the same values and each its own ties: as long as much is
    unknown, and so tied, they try different actions.
    """

    draws: ClassVar[int] = 0

    beta: float = 1.0
    members: int = 1
    estimate: bool = False

    def __post_init__(self) -> None:
        settle(
            self,
            beta=real("beta", self.beta, least=0.0, most=1e100),
            members=whole("members", self.members, least=1, most=MOST_MEMBERS),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        return np.zeros((1, horizon, self.draws, dim))


def is_plain(exploration: Exploration) -> bool:
    """Return whether it is the paper's bonus: one member, and nothing estimated but the values.

    >>> is_plain(Bonus(0.3)), is_plain(Bonus(0.3, members=2)), is_plain(Bonus(estimate=True))
    (True, False, False)
    """
    return exploration == Bonus(exploration.beta)


@dataclass(frozen=True)
class Perturbation:
    """Take the largest of J estimates perturbed with standard deviation σ·‖φ‖_{Λ⁻¹}.

    >>> Perturbation(1.0, draws=4).perturbations(np.random.default_rng(0), horizon=1, dim=2).shape
    (1, 1, 4, 2)
    """

    beta: ClassVar[float] = 0.0
    members: ClassVar[int] = 1

    sigma: float
    draws: int = 10
    estimate: bool = False

    def __post_init__(self) -> None:
        settle(
            self,
            sigma=real("sigma", self.sigma, least=0.0, most=1e100),
            draws=whole("draws", self.draws, least=1, most=10_000),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        return self.sigma * rng.standard_normal((self.members, horizon, self.draws, dim))


@dataclass(frozen=True)
class Ensemble:
    """Deploy a mixture of M members, each fitted with its own perturbation of every stage.

    A member's estimate of a value is off by a Gaussian of standard deviation `scale` times its
    uncertainty: where much is known all members agree, elsewhere they differ, and so explore.

    >>> Ensemble(members=8).perturbations(np.random.default_rng(0), horizon=3, dim=2).shape
    (8, 3, 1, 2)
    """

    beta: ClassVar[float] = 0.0
    draws: ClassVar[int] = 1

    members: int = 32
    scale: float = 0.5
    estimate: bool = True

    def __post_init__(self) -> None:
        settle(
            self,
            members=whole("members", self.members, least=1, most=MOST_MEMBERS),
            scale=real("scale", self.scale, least=0.0, most=1e100),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        drawn = rng.standard_normal((self.members, horizon, self.draws, dim))
        drawn *= self.scale
        drawn.flags.writeable = False  # no one else has it: a fit need not copy it
        return drawn
