"""The recipe of a fit: the settings that turn statistics into a policy.

Random draws depend on the recipe's seed and the policy's version, and not on earlier fits: a
dropped candidate has no effect.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.core.control import Control, Split, check_shares
from rareswitch.core.exploration import MOST_MEMBERS, Bonus, Ensemble, Exploration, Perturbation
from rareswitch.core.wide_table import SEEDS, WideTable
from rareswitch.support.arguments import (
    Floats,
    Ints,
    explain_arguments,
    flag,
    floats,
    one_of,
    positive_ridge,
    real,
    set_fields,
    short_repr,
    whole,
)
from rareswitch.support.streams import KeyedStream, Seed, Stream, checked_seed

TIES = ("direction", "lowest")
# The allocation of a mixture is a number from 0 to 2⁶³−1.
ALLOCATIONS = 2**63
# The common share of the perturbations' variance if stages share their data.
COMMON = 0.25
EXPLORATION_PARTS = ("beta", "members", "draws", "estimate", "perturbations")


@explain_arguments
@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Exploration, ridge λ, ties between actions, the clip of Q to [0, H−h], and the seed.

    The default exploration is `Ensemble()`, a mixture that needs no tuning; `Recipe.paper(beta=b)`
    is the paper's. `ridge` is the paper's λ. Rules use it; fits replace it if the exploration
    estimates. `ties="direction"` draws one random direction for each member, stage and version, and
    takes the tied action furthest along it; `ties="lowest"` takes the lowest index. `clip=False`
    drops the clip (with H = 1 and a bonus, this is SBUCB or rarely switching OFUL).

    In every version, a `control` plays its share of the episodes, and the share `floor` is played
    uniformly at random among the feasible actions. With `burn_in`, version 1 plays all episodes
    uniformly at random; `rules.Waiting(…, first=n)` keeps it for n episodes.

    >>> Recipe(control=Control(0, share=0.2), floor=0.1).control
    Control(plays=0, share=0.2)
    """

    exploration: Exploration = field(default_factory=Ensemble)
    ridge: float = 1.0
    ties: str = "direction"
    clip: bool = True
    seed: Seed = 0
    control: Control | None = None
    floor: float = 0.0
    burn_in: bool = False

    def __post_init__(self) -> None:
        explores = self.exploration
        complete = all(hasattr(explores, part) for part in EXPLORATION_PARTS)
        if isinstance(explores, type) or not complete:
            raise TypeError(
                "exploration must be a Bonus, a Perturbation, an Ensemble or an object like them, "
                f"with {', '.join(EXPLORATION_PARTS)}; got {short_repr(explores)}"
            )
        real("beta", explores.beta, least=0.0)
        whole("members", explores.members, least=1, most=MOST_MEMBERS)
        whole("draws", explores.draws, least=0)
        flag("estimate", explores.estimate)
        set_fields(
            self,
            ridge=positive_ridge(self.ridge),
            ties=one_of("ties", self.ties, TIES),
            clip=flag("clip", self.clip),
            seed=checked_seed(self.seed),
            floor=check_shares(self.control, self.floor),
            burn_in=flag("burn_in", self.burn_in),
        )
        if explores.members > 1 and not explores.draws and self.ties == "lowest":
            raise ValueError(
                'ties must be "direction" if members of a mixture differ in nothing else; '
                f"got ties='lowest' and exploration={short_repr(explores)}"
            )

    def __repr__(self) -> str:
        """Return the fields, with a control and a floor only if they are set."""
        plain = ("exploration", "ridge", "ties", "clip", "seed")
        more = {"control": self.control, "floor": self.floor, "burn_in": self.burn_in}
        said = {name: getattr(self, name) for name in plain}
        said |= {name: value for name, value in more.items() if value}
        return f"Recipe({', '.join(f'{name}={value!r}' for name, value in said.items())})"

    @property
    def learned_only(self) -> bool:
        """Whether the recipe has no control, no floor and no burn-in."""
        return self.control is None and not self.floor and not self.burn_in

    @classmethod
    def paper(cls, beta: float = 1.0, **rest: Any) -> "Recipe":
        """Return the paper's recipe: one policy with the bonus β·‖φ‖_{Λ⁻¹}.

        >>> Recipe.paper(beta=0.5).exploration
        Bonus(beta=0.5, members=1, estimate=False)
        """
        return cls(exploration=Bonus(beta), **rest)

    def directions(self, version: int, horizon: int, dim: int) -> Floats | None:
        """Return the directions that break ties in a version, (H, d), or (M, H, d) for M members.

        None means the lowest index.
        """
        if self.ties == "lowest":
            return None
        members = self.exploration.members
        drawn = self._ties.at(version).standard_normal((members, horizon, dim))
        drawn.flags.writeable = False  # so a policy need not copy it
        return drawn[0] if members == 1 else drawn

    def perturbations(
        self, version: int, horizon: int, dim: int, *, shared: bool = False
    ) -> Floats | None:
        """Return the perturbations of a version's estimates, (M, H, J, d), or None.

        Stages that share their data share errors too, so they have a part of each draw in common:
        independent draws would average out along an episode.
        """
        explores = self.exploration
        if not explores.draws:
            return None
        rng = self._perturbations.at(version)
        drawn = self._drawn(rng, horizon, dim)
        if not shared:
            return drawn
        common = self._drawn(rng, 1, dim)
        mixed: Floats = np.sqrt(1.0 - COMMON) * drawn
        mixed += np.sqrt(COMMON) * common
        return mixed

    def _drawn(self, rng: np.random.Generator, horizon: int, dim: int) -> Floats:
        explores = self.exploration
        drawn = explores.perturbations(rng, horizon, dim)
        shape = (explores.members, horizon, explores.draws, dim)
        mine = isinstance(drawn, np.ndarray) and not drawn.flags.writeable  # not shared
        return floats("perturbations", drawn, shape, owned=mine)

    def table(self, version: int, dim: int, positions: Ints, *, shared: bool) -> WideTable:
        """Return the table of a wide policy, with a column for each position."""
        return WideTable(
            dim=dim,
            positions=positions,
            seed=int(self._perturbations.at(version).integers(SEEDS)),
            members=self.exploration.members,
            common=COMMON if shared else 0.0,
            ties=self.ties == "direction",
        )

    def table_perturbations(self, table: WideTable, horizon: int, known: Ints) -> Floats | None:
        """Return the perturbations of n known positions, and the scale for all others, or None.

        The shape is (M, H, J, n+1).
        """
        explores = self.exploration
        if not explores.draws:
            return None
        if type(explores) is not Ensemble and type(explores) is not Perturbation:
            raise TypeError(
                "exploration must be a Bonus, a Perturbation or an Ensemble for a table of "
                f"{table.dim} positions; got {short_repr(explores)}"
            )
        drawn = np.ones((explores.members, horizon, explores.draws, len(known) + 1))
        stages, draws = np.ogrid[:horizon, : explores.draws]
        drawn[..., :-1] = table.perturbations(stages[..., None], draws[..., None], known)
        drawn *= explores.scale
        return drawn

    def allocation(self, version: int) -> int | None:
        """Return the number that allocates episodes to players; None for a single player."""
        random = self.floor > 0.0 or self.starts_at_random(version)
        if self.exploration.members == 1 and self.control is None and not random:
            return None
        return int(self._allocations.at(version).integers(ALLOCATIONS))

    def split(self, version: int, *, controls: int) -> Split:
        """Return the split of a version's episodes, given the number of the control's members."""
        members, allocation = self.exploration.members, self.allocation(version)
        if self.starts_at_random(version):
            return Split(members, allocation, floor=1.0)
        share = 0.0 if self.control is None else self.control.share
        return Split(members, allocation, share, controls, self.floor)

    def starts_at_random(self, version: int) -> bool:
        """Return whether a version is the burn-in, which acts uniformly at random."""
        return self.burn_in and version == 1

    @cached_property
    def _ties(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.TIES)

    @cached_property
    def _perturbations(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.PERTURBATION)

    @cached_property
    def _allocations(self) -> KeyedStream:
        return KeyedStream(self.seed, Stream.ALLOCATION)
