"""The history of a wide table: statistics and snapshots in columns of the positions that are known.

Visited positions and those that next states offer are known. Actions of a reached state that no
step has taken need a column: the backward pass values them, each with its own perturbation.
"""

from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from rareswitch.core.lsvi import QFunction
from rareswitch.statistics.moves import Layout
from rareswitch.statistics.one_hot import OneHotHistory
from rareswitch.support.arguments import Floats, Ints
from rareswitch.support.codec import Arrays, Parts
from rareswitch.support.persistent import PersistentNumbers


class _Columns(NamedTuple):
    """The columns of a folded history: n known positions, and a last one that is 0 everywhere."""

    known: Ints  # (n,)
    visited: Ints
    counts: Floats  # (P, n+1)
    rewards: Floats  # (P, n+1)
    layouts: list[Layout]


class WideHistory(OneHotHistory):
    """A one-hot history whose `dim` is n+1: n known positions, and one that stands for all others.

    The task's own dimension is `table_dim`.
    """

    @property
    def dim(self) -> int:
        return len(self.known) + 1

    @property
    def table_dim(self) -> int:
        return self.task.dim

    @property
    def known(self) -> Ints:
        return self._columns.known

    @property
    def visited(self) -> Ints:
        return self._columns.visited

    @property
    def whitener(self) -> Floats:
        return 1.0 / np.sqrt(self.ridge + self._columns.counts)

    def _count_table(self) -> Floats:
        return self._columns.counts

    def _reward_table(self) -> Floats:
        return self._columns.rewards

    def _pool_value_sums(self, pool: int, following: QFunction, ended: float) -> Floats:
        return self._columns.layouts[pool].value_sums(following, ended)

    @cached_property
    def _columns(self) -> _Columns:
        dim, shape = self.task.dim, self.pools.count
        places, numbers = self.gram.visits.nonzero()
        visited = np.unique(places % dim)
        taken = [moves.pairs[:, 0] for moves in self._moves]  # also of episodes that were removed
        offered = [moves.offered for moves in self._moves]
        known = np.unique(np.concatenate([visited, *taken, *offered]))
        counts, rewards = np.zeros((2, shape, len(known) + 1))
        counts[places // dim, known.searchsorted(places % dim)] = numbers
        # Removed episodes leave a rounding error of their rewards where nothing counts any more.
        rewards[places // dim, known.searchsorted(places % dim)] = self._rewards.take(
            places.tolist()
        )
        return _Columns(
            known, visited, counts, rewards, [moves.lay_out(known) for moves in self._moves]
        )

    def _copy(self) -> Self:
        twin = super()._copy()
        twin.__dict__.pop("_columns", None)  # the copy is about to change
        return twin

    def to_arrays(self) -> Arrays:
        arrays: Arrays = {"logdet": self.gram.logdet, "trace": self.gram.trace}
        for name, numbers in (("counts", self.gram.visits), ("rewards", self._rewards)):
            arrays[f"{name}/places"], arrays[f"{name}/numbers"] = numbers.nonzero()
        return arrays | self._other_arrays()

    def filled(self, parts: Parts) -> Self:
        visits, rewards = (self._numbers(parts, name) for name in ("counts", "rewards"))
        if (least := visits.nonzero()[1].min(initial=0.0)) < 0.0:
            raise ValueError(f"counts must be at least 0; got {least:g}")
        return self._filled(parts, visits, rewards)

    def _numbers(self, parts: Parts, name: str) -> PersistentNumbers:
        """Return stored numbers at places p·d + i, of position i in pool p."""
        places, end = parts.array(f"{name}/places", "<i8", ("n",)), self.pools.count * self.task.dim
        if len(places) and (places[0] < 0 or places[-1] >= end or (np.diff(places) <= 0).any()):
            raise ValueError(f"places of {name} must be ascending, from 0 to {end - 1}")
        return PersistentNumbers.at(places, parts.array(f"{name}/numbers", "<f8", (len(places),)))
