"""The recipe of a fit: all that makes a policy out of statistics, fixed before learning begins.

Nothing drawn for a fit depends on what was fitted before: randomness is keyed by the recipe's seed
and the version that the policy is for, so a candidate that is dropped leaves no trace.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from rareswitch.core.arguments import Floats, flag, floats, one_of, positive_ridge, settle, shown
from rareswitch.core.exploration import Bonus, Exploration
from rareswitch.core.streams import KeyedStream, Seed, Stream, checked_seed

TIES = ("direction", "lowest")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Exploration, ridge λ, what breaks ties, whether Q is clipped to [0, H−h], and the seed.

    `ties="direction"` draws one random direction for each stage and version, and of the tied
    actions takes the one furthest along it; `ties="lowest"` takes the lowest index.
    """

    exploration: Exploration = field(default_factory=Bonus)
    ridge: float = 1.0
    ties: str = "direction"
    clip: bool = True
    seed: Seed = 0

    def __post_init__(self) -> None:
        explores = self.exploration
        parts = ("beta", "draws", "offsets")
        if isinstance(explores, type) or not all(hasattr(explores, part) for part in parts):
            raise TypeError(
                f"exploration must be a Bonus, a Perturbation or an object like them, with beta, "
                f"draws and offsets(rng, whitener); got {shown(explores)}"
            )
        settle(
            self,
            ridge=positive_ridge(self.ridge),
            ties=one_of("ties", self.ties, TIES),
            clip=flag("clip", self.clip),
            seed=checked_seed(self.seed),
        )

    @classmethod
    def of(cls, *, beta: float | None, exploration: Exploration | None, **rest: Any) -> "Recipe":
        """Return a recipe from `beta` or `exploration`, which say the same and exclude each other.

        >>> Recipe.of(beta=0.5, exploration=None).exploration
        Bonus(beta=0.5)
        """
        if beta is not None and exploration is not None:
            raise TypeError(
                f"beta and exploration exclude each other: beta=b is short for "
                f"exploration=Bonus(b); got beta={shown(beta)} and exploration={shown(exploration)}"
            )
        if exploration is None:
            exploration = Bonus() if beta is None else Bonus(beta)
        return cls(exploration=exploration, **rest)

    def directions(self, version: int, horizon: int, dim: int) -> Floats | None:
        """Return what breaks the ties of a version, (H, d); None stands for the lowest index."""
        if self.ties == "lowest":
            return None
        return self._ties.at(version).standard_normal((horizon, dim))

    def offsets(self, version: int, whitener: Floats) -> Floats | None:
        """Return what the exploration adds to a version's weights, (H, M, d) or None."""
        horizon, dim, _ = whitener.shape
        if not (draws := self.exploration.draws):
            return None
        drawn = self.exploration.offsets(self._perturbations.at(version), whitener)
        return floats("offsets", drawn, (horizon, draws, dim))

    @cached_property
    def _ties(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.TIES)

    @cached_property
    def _perturbations(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.PERTURBATION)
