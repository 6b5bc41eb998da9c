"""The recipe of a fit: all that makes a policy out of statistics, fixed before learning begins.

Nothing drawn for a fit depends on what was fitted before: randomness is keyed by the recipe's seed
and the version that the policy is for, so a candidate that is dropped leaves no trace.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.core.allocation import ALLOCATIONS
from rareswitch.core.arguments import (
    Floats,
    flag,
    floats,
    one_of,
    positive_ridge,
    real,
    settle,
    shown,
    whole,
)
from rareswitch.core.exploration import MOST_MEMBERS, Bonus, Ensemble, Exploration
from rareswitch.core.streams import KeyedStream, Seed, Stream, checked_seed

TIES = ("direction", "lowest")
# The share of the variance of perturbations that is common to stages which share their data.
COMMON = 0.25
EXPLORATION_PARTS = ("beta", "members", "draws", "estimate", "perturbations")


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Exploration, ridge λ, what breaks ties, whether Q is clipped to [0, H−h], and the seed.

    `ties="direction"` draws one random direction for each member, stage and version, and of the
    tied actions takes the one furthest along it; `ties="lowest"` takes the lowest index.
    """

    exploration: Exploration = field(default_factory=Ensemble)
    ridge: float = 1.0
    ties: str = "direction"
    clip: bool = True
    seed: Seed = 0

    def __post_init__(self) -> None:
        explores = self.exploration
        complete = all(hasattr(explores, part) for part in EXPLORATION_PARTS)
        if isinstance(explores, type) or not complete:
            raise TypeError(
                "exploration must be a Bonus, a Perturbation, an Ensemble or an object like them, "
                f"with {', '.join(EXPLORATION_PARTS)}; got {shown(explores)}"
            )
        real("beta", explores.beta, least=0.0)
        whole("members", explores.members, least=1, most=MOST_MEMBERS)
        whole("draws", explores.draws, least=0)
        flag("estimate", explores.estimate)
        settle(
            self,
            ridge=positive_ridge(self.ridge),
            ties=one_of("ties", self.ties, TIES),
            clip=flag("clip", self.clip),
            seed=checked_seed(self.seed),
        )
        if explores.members > 1 and not explores.draws and self.ties == "lowest":
            raise ValueError(
                'ties must be "direction" where the members of a mixture differ by nothing else; '
                f"got ties='lowest' and exploration={shown(explores)}"
            )

    @classmethod
    def of(cls, *, beta: float | None, exploration: Exploration | None, **rest: Any) -> "Recipe":
        """Return a recipe from `beta`, `exploration` or neither, which is `Ensemble()`.

        >>> Recipe.of(beta=0.5, exploration=None).exploration
        Bonus(beta=0.5, members=1, estimate=False)
        """
        if beta is not None and exploration is not None:
            raise TypeError(
                f"beta and exploration exclude each other: beta=b is short for "
                f"exploration=Bonus(b); got beta={shown(beta)} and exploration={shown(exploration)}"
            )
        if exploration is None:
            exploration = Ensemble() if beta is None else Bonus(beta)
        return cls(exploration=exploration, **rest)

    def directions(self, version: int, horizon: int, dim: int) -> Floats | None:
        """Return what breaks the ties of a version, (H, d), or (M, H, d) with more than one member.

        None stands for the lowest index.
        """
        if self.ties == "lowest":
            return None
        members = self.exploration.members
        drawn = self._ties.at(version).standard_normal((members, horizon, dim))
        drawn.flags.writeable = False  # a policy need not copy it
        return drawn[0] if members == 1 else drawn

    def perturbations(
        self, version: int, horizon: int, dim: int, *, shared: bool = False
    ) -> Floats | None:
        """Return what perturbs a version's estimates, (M, H, J, d), or None.

        Where stages share their data they share errors too, so that part of what is drawn is common
        to all of them: what is drawn for each alone would average out along an episode.
        """
        explores = self.exploration
        if not explores.draws:
            return None
        rng, members = self._perturbations.at(version), explores.members
        drawn = floats(
            "perturbations",
            explores.perturbations(rng, horizon, dim),
            (members, horizon, explores.draws, dim),
        )
        if not shared:
            return drawn
        common = floats(
            "perturbations", explores.perturbations(rng, 1, dim), (members, 1, explores.draws, dim)
        )
        mixed: Floats = np.sqrt(1.0 - COMMON) * drawn
        mixed += np.sqrt(COMMON) * common
        return mixed

    def allocation(self, version: int) -> int | None:
        """Return what allocates episodes to the members of a version; None where there is one."""
        if self.exploration.members == 1:
            return None
        return int(self._allocations.at(version).integers(ALLOCATIONS))

    @cached_property
    def _ties(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.TIES)

    @cached_property
    def _perturbations(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.PERTURBATION)

    @cached_property
    def _allocations(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.ALLOCATION)
