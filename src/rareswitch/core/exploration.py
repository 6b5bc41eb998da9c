"""Three kinds of exploration: a bonus, the maximum of perturbed estimates, or a mixture of them.

`Bonus` is the paper's: Q = φᵀw + β·‖φ‖_{Λ⁻¹}. `Perturbation` is LSVI-PHE (Ishfaq et al. 2021): with
J Gaussian draws for each stage, made once per fit, Q = max_j φᵀ(w + scale·Λ^{−1/2}z_j). `Ensemble`
is RLSVI (Osband et al. 2016) frozen for a whole deployment: M members, each fitted in its own
backward pass with one draw for each stage; one random member plays an episode.

Draws are in units of the estimate's uncertainty. With `estimate`, each fit estimates noise, ridge
and level of every stage's regression from the data (`core/estimation.py`), so β and `scale` are
multiples of the noise. Otherwise the noise is 1 and the ridge is the declared ridge.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from rareswitch.support.arguments import Floats, flag, real, set_fields, whole

MOST_MEMBERS = 10_000


class Exploration(Protocol):
    """How a policy explores: by a bonus, by perturbations, or by both."""

    @property
    def beta(self) -> float:
        """The radius β of the bonus, or 0."""
        ...

    @property
    def members(self) -> int:
        """The number M of members; one member plays each episode."""
        ...

    @property
    def draws(self) -> int:
        """The number J of perturbed estimates of each member, or 0; the largest counts."""
        ...

    @property
    def estimate(self) -> bool:
        """Whether the fit estimates noise, ridge and level."""
        ...

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        """Return the factors of noise·Λ_h^{−1/2}, (M, H, J, d); not called if `draws` is 0."""
        ...


@dataclass(frozen=True)
class Bonus:
    """Add the confidence radius β times the elliptical norm.

    The `members` of a mixture have equal values and break ties differently. So they try different
    actions while many actions are unknown, and therefore tied.
    """

    draws: ClassVar[int] = 0

    beta: float = 1.0
    members: int = 1
    estimate: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            beta=real("beta", self.beta, least=0.0, most=1e100),
            members=whole("members", self.members, least=1, most=MOST_MEMBERS),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        return np.zeros((1, horizon, self.draws, dim))


def is_paper_bonus(exploration: Exploration) -> bool:
    """Return whether an exploration is the paper's bonus: one member, declared noise and ridge.

    >>> [is_paper_bonus(bonus) for bonus in (Bonus(0.3), Bonus(members=2), Bonus(estimate=True))]
    [True, False, False]
    """
    return exploration == Bonus(exploration.beta)


@dataclass(frozen=True)
class Perturbation:
    """Take the largest of J estimates perturbed with standard deviation scale·‖φ‖_{Λ⁻¹}.

    >>> Perturbation(1.0, draws=4).perturbations(np.random.default_rng(0), horizon=1, dim=2).shape
    (1, 1, 4, 2)
    """

    beta: ClassVar[float] = 0.0
    members: ClassVar[int] = 1

    scale: float
    draws: int = 10
    estimate: bool = False

    def __post_init__(self) -> None:
        set_fields(
            self,
            scale=real("scale", self.scale, least=0.0, most=1e100),
            draws=whole("draws", self.draws, least=1, most=10_000),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        return self.scale * rng.standard_normal((self.members, horizon, self.draws, dim))


@dataclass(frozen=True)
class Ensemble:
    """Deploy a mixture of M members, each fitted with its own perturbation of every stage.

    The perturbation of a member's value is Gaussian with standard deviation `scale` times the
    uncertainty of the value: members agree on well-known values, and differ, and so explore,
    elsewhere.

    >>> Ensemble(members=8).perturbations(np.random.default_rng(0), horizon=3, dim=2).shape
    (8, 3, 1, 2)
    """

    beta: ClassVar[float] = 0.0
    draws: ClassVar[int] = 1

    members: int = 32
    scale: float = 0.5
    estimate: bool = True

    def __post_init__(self) -> None:
        set_fields(
            self,
            members=whole("members", self.members, least=1, most=MOST_MEMBERS),
            scale=real("scale", self.scale, least=0.0, most=1e100),
            estimate=flag("estimate", self.estimate),
        )

    def perturbations(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        drawn = rng.standard_normal((self.members, horizon, self.draws, dim))
        drawn *= self.scale
        drawn.flags.writeable = False  # no other reference exists: a fit need not copy it
        return drawn
