"""The history of a wide table: statistics and snapshots in columns of known positions.

Visited positions and the positions of next states are known. An untried action of a reached state
needs a column: the backward pass computes its value with its own perturbation.
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
    """The columns of a folded history: n known positions, and a last column of zeros."""

    known: Ints  # (n,)
    visited: Ints
    counts: Floats  # (P, n+1)
    rewards: Floats  # (P, n+1)
    layouts: list[Layout]


class WideHistory(OneHotHistory):
    """A one-hot history with `dim` n+1: n known positions, and one column for all others.

    `table_dim` is the dimension of the task.
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
        taken = [moves.pairs[:, 0] for moves in self._moves]  # including removed episodes
        offered = [moves.offered for moves in self._moves]
        known = np.unique(np.concatenate([visited, *taken, *offered]))
        counts, rewards = np.zeros((2, shape, len(known) + 1))
        counts[places // dim, known.searchsorted(places % dim)] = numbers
        # Removed episodes leave rounding errors of rewards at positions with a count of 0.
        rewards[places // dim, known.searchsorted(places % dim)] = self._rewards.take(
            places.tolist()
        )
        return _Columns(
            known, visited, counts, rewards, [moves.lay_out(known) for moves in self._moves]
        )

    def _copy(self) -> Self:
        twin = super()._copy()
        twin.__dict__.pop("_columns", None)  # the copy will change
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
        """Return stored numbers of position i in pool p at index p·d + i."""
        places, end = parts.array(f"{name}/places", "<i8", ("n",)), self.pools.count * self.task.dim
        if len(places) and (places[0] < 0 or places[-1] >= end or (np.diff(places) <= 0).any()):
            raise ValueError(f"places of {name} must be ascending, from 0 to {end - 1}")
        return PersistentNumbers.at(places, parts.array(f"{name}/numbers", "<f8", (len(places),)))
