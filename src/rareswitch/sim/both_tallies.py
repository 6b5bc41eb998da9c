"""The tallies of runs in which each fit chooses between own and shared stages."""

import numpy as np

from rareswitch.core.gram import Gram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.recipe import Recipe
from rareswitch.core.sharing import shares_better, unseen_errors
from rareswitch.core.task import Pools
from rareswitch.sim.mdp import FiniteSpace
from rareswitch.sim.tally import Tally
from rareswitch.support.arguments import Bools, Floats, Ints


class BothTallies:
    """The tallies of the same episodes with own and with shared stages.

    Rules see Λ of the shared stages. `fit` computes both fits, and each run takes the chosen fit.
    """

    def __init__(self, space: FiniteSpace, *, runs: int, pools: Pools, recipe: Recipe) -> None:
        self.own, self.shared = (
            Tally(
                space,
                runs=runs,
                pools=Pools(pools.horizon, shared=shared),
                recipe=recipe,
                moments=True,
            )
            for shared in (False, True)
        )
        self.pools, self.recipe, self.values = self.shared.pools, recipe, self.own.values
        self._shares = np.zeros(runs, bool)

    @property
    def gram(self) -> Gram:
        return self.shared.gram

    @property
    def whitener(self) -> Floats:
        return self.shared.whitener

    def absorb(self, features: Floats, rewards: Floats, next_states: Ints) -> None:
        """Add one episode of each run; see `Tally.absorb`."""
        self.own.absorb(features, rewards, next_states)
        self.shared.absorb(features, rewards, next_states)

    def absorb_moves(self, moves: Floats, features: Floats, rewards: Floats) -> None:
        """Add any number of episodes; see `Tally.absorb_moves`."""
        self.own.absorb_moves(moves, features, rewards)
        self.shared.absorb_moves(moves, features, rewards)

    def choose(self) -> Bools:
        """Return whether the next fit of each run learns from shared stages (R,)."""
        self._shares = shares_better(*unseen_errors(self.own.greedy(), self.shared.greedy()))
        return self._shares

    def fit(
        self, perturbations: Floats | None, directions: Floats | None
    ) -> tuple[tuple[QFunction, ...], Ints]:
        """Return Q_h of every stage and all greedy rows, for the stages that each run chose."""
        (own, own_rows), (shared, shared_rows) = (
            tally.fit(perturbations, directions) for tally in (self.own, self.shared)
        )
        self.values = np.where(self._shares[:, None, None], self.shared.values, self.own.values)
        stages = tuple(self._chosen(*both) for both in zip(own, shared, strict=True))
        return stages, np.where(self._shares[:, None, None, None], shared_rows, own_rows)

    def _chosen(self, own: QFunction, shared: QFunction) -> QFunction:
        """Return Q_h for the stages that each run chose."""
        arrays = {}
        for name in ("weights", "levels", "whitener", "offsets"):
            mine, theirs = getattr(own, name), getattr(shared, name)
            if mine is not None:
                shares = self._shares.reshape(-1, *[1] * (mine.ndim - 1))
                arrays[name] = np.where(shares, theirs, mine)
        return own._replace(**arrays)
