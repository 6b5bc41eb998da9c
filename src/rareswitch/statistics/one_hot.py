"""The history of one-hot features: counts, since every Λ is diagonal.

A one-hot row e_i is given by its position i, so S states with A actions each need no rows of length
d = S·A and no matrices of d² numbers. The target of Alg. 1, line 8 needs the count and the sum of
rewards for each pair of a position and a next state.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np

from rareswitch.core.gram import OneHotGram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Task
from rareswitch.statistics.history import Signed, SummedHistory
from rareswitch.statistics.moves import END, Move, Moves
from rareswitch.support.arguments import Floats
from rareswitch.support.codec import Arrays, Parts
from rareswitch.support.persistent import PersistentList, PersistentNumbers

MOST_WAITING = 2**16  # positions of steps and next states


class OneHotHistory(SummedHistory):
    """Counts, Σ r·φ and Σ (1, r, r²) of each pool, and its moves to next states."""

    gram: OneHotGram

    def __init__(self, task: Task, ridge: float) -> None:
        super().__init__(task, ridge)
        pools = self.pools.count
        self.gram = OneHotGram.of_ridge(pools, task.dim, self.ridge)
        self._rewards = PersistentNumbers()  # Σ r·φ, indexed like the Gram
        self._moments: Floats = np.zeros((pools, 3))  # Σ 1, Σ r, Σ r²
        self._moves = [Moves.none(task.dim)] * (pools - 1)

    @property
    def stored_rows(self) -> int:
        return sum(moves.rows for moves in self._moves)

    @property
    def step_sums(self) -> Floats:
        return np.concatenate([self._count_table(), self._moments[:, :2]], axis=1)

    @property
    def reward_sums(self) -> Floats:
        return np.concatenate([self._reward_table(), self._moments[:, 1:]], axis=1)

    def _pool_value_sums(self, pool: int, following: QFunction, ended: float) -> Floats:
        return self._moves[pool].value_sums(following, ended)

    def _many_waiting(self) -> bool:
        return self._waiting_numbers > MOST_WAITING

    def _count(self) -> None:
        self.gram = self.gram.add_episodes(self._uncounted, self.pools)
        self._uncounted = PersistentList()

    def _count_table(self) -> Floats:
        return self.gram.counts

    def _reward_table(self) -> Floats:
        return self._rewards.array(self.pools.count * self.task.dim).reshape(-1, self.task.dim)

    def _add(self, changes: Sequence[Signed]) -> None:
        self._moments = self._moments.copy()
        places, earned = [], []
        moves: list[list[Move]] = [[] for _ in self._moves]
        for episode, sign in changes:
            pool, step = self.pools.places(len(episode))
            places.append(pool * self.task.dim + episode.features[step])
            rewards = sign * episode.rewards
            earned.append(rewards[step])
            self._add_moments(episode.rewards, sign)
            following = [*episode.next_features, END][: min(len(episode), self.pools.horizon - 1)]
            steps = zip(episode.features.tolist(), rewards.tolist(), following, strict=False)
            for h, (position, reward, state) in enumerate(steps):
                moves[self.pools.index(h)].append((position, sign, reward, state))
        distinct, place = np.unique(np.concatenate(places), return_inverse=True)
        sums = self._rewards.take(distinct.tolist())
        np.add.at(sums, place, np.concatenate(earned))  # one by one, in order
        self._rewards = self._rewards.put(distinct.tolist(), sums.tolist())
        self._moves = [old.add(new) for old, new in zip(self._moves, moves, strict=True)]

    def _add_moments(self, rewards: Floats, sign: float) -> None:
        known = np.full((len(rewards), 3), sign)
        known[:, 1], known[:, 2] = sign * rewards, sign * rewards * rewards
        if self.pools.shared:
            self._moments += self.pools.contains[:, : len(rewards)] @ known
        else:
            self._moments[: len(rewards)] += known

    def to_arrays(self) -> Arrays:
        gram = self.gram
        arrays: Arrays = {"counts": gram.counts, "logdet": gram.logdet, "trace": gram.trace}
        return arrays | {"rewards": self._reward_table()} | self._other_arrays()

    def _other_arrays(self) -> Arrays:
        """Return the arrays whose size does not depend on d."""
        arrays: Arrays = {"moments": self._moments}
        for pool, moves in enumerate(self._moves):
            arrays |= {f"moves/{pool}/{name}": array for name, array in moves.to_arrays().items()}
        return arrays

    def filled(self, parts: Parts) -> Self:
        shape = (self.pools.count, self.task.dim)
        counts = parts.array("counts", "<f8", shape).reshape(-1)
        if counts.min() < 0.0:
            raise ValueError(f"counts must be at least 0; got {counts.min():g}")
        rewards = parts.array("rewards", "<f8", shape).reshape(-1)
        return self._filled(
            parts, PersistentNumbers.of_array(counts), PersistentNumbers.of_array(rewards)
        )

    def _filled(self, parts: Parts, visits: PersistentNumbers, rewards: PersistentNumbers) -> Self:
        """Return the history with these counts and rewards, and the other arrays."""
        pools, dim = self.pools.count, self.task.dim
        filled = type(self)(self.task, self.ridge)
        logdet, trace = (parts.array(name, "<f8", (pools,)) for name in ("logdet", "trace"))
        filled.gram, filled._rewards = OneHotGram(visits, logdet, trace, dim, self.ridge), rewards
        filled._moments = parts.array("moments", "<f8", (pools, 3))
        for pool in range(pools - 1):
            where = f"moves/{pool}"
            pairs = parts.array(f"{where}/pairs", "<i8", ("n", 2))
            filled._moves[pool] = Moves.from_arrays(
                dim,
                lengths=parts.array(f"{where}/lengths", "<i8", ("J",)),
                positions=parts.array(f"{where}/positions", "<i8", ("N",)),
                pairs=pairs,
                sums=parts.array(f"{where}/sums", "<f8", (len(pairs), 2)),
            )
        return filled
