"""The history of features that are rows of d numbers."""

from collections.abc import Sequence
from typing import Self

import numpy as np

from rareswitch.core.gram import BlockGram, Gram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Pools, Task
from rareswitch.statistics.history import Signed, SummedHistory
from rareswitch.statistics.next_states import NextStates, add_in_turn, row_sets
from rareswitch.support.arguments import Floats, Ints
from rareswitch.support.codec import Arrays, Parts

# Waiting numbers: enough to add many episodes together, few enough for the processor's cache.
MOST_WAITING = 2**17


class DenseHistory(SummedHistory):
    """Λ and compensated sums over the steps of each pool, and the next states."""

    gram: Gram | BlockGram

    def __init__(self, task: Task, ridge: float) -> None:
        super().__init__(task, ridge)
        pools, dim = self.pools.count, task.dim
        # Σ(φ, 1, r) and Σ r·(φ, 1, r), and their rounding errors.
        self._totals, self._lost = np.zeros((2, 2, pools, dim + 2))
        self.gram, no_states = self._without_data()
        self._next_states = [no_states] * (pools - 1)

    def _without_data(self) -> tuple[Gram | BlockGram, NextStates]:
        """Return Λ and next states without steps."""
        dim = self.task.dim
        return Gram.of_ridge((self.pools.count,), dim, self.ridge), NextStates.none(dim)

    @property
    def stored_rows(self) -> int:
        return sum(len(next_states.rows) for next_states in self._next_states)

    @property
    def step_sums(self) -> Floats:
        return self._totals[0] + self._lost[0]

    @property
    def reward_sums(self) -> Floats:
        return self._totals[1] + self._lost[1]

    def _pool_value_sums(self, pool: int, following: QFunction, ended: float) -> Floats:
        return self._next_states[pool].value_sums(following, ended)

    def _many_waiting(self) -> bool:
        if self._waiting_numbers <= MOST_WAITING:
            return False
        # A fold may copy the existing sums, so the number of waiting episodes grows with them.
        return 4 * self._waiting_numbers > sum(states.numbers for states in self._next_states)

    def _add(self, changes: Sequence[Signed]) -> None:
        size, start = 0, 0
        for end, (episode, _) in enumerate(changes, start=1):
            size += episode.features.size + episode.next_rows.size
            if size > MOST_WAITING or end == len(changes):
                self._add_at_once(changes[start:end])
                size, start = 0, end

    def _steps(self, changes: Sequence[Signed]) -> "Steps":
        return Steps(changes, self.pools)

    def _add_at_once(self, changes: Sequence[Signed]) -> None:
        steps = self._steps(changes)
        self._totals, self._lost = add_in_turn(self._totals, self._lost, steps.by_pool())
        self._next_states = [
            next_states.add(*steps.leading_on(pool))
            for pool, next_states in enumerate(self._next_states)
        ]

    def to_arrays(self) -> Arrays:
        gram = self.gram
        arrays: Arrays = {"whitener": gram.whitener, "logdet": gram.logdet, "trace": gram.trace}
        arrays |= {"totals": self._totals, "totals_lost": self._lost}
        for pool, next_states in enumerate(self._next_states):
            kept = next_states.to_arrays().items()
            arrays |= {f"next_states/{pool}/{name}": array for name, array in kept}
        return arrays

    def _lost_shape(self, lengths: Ints) -> tuple[int | str]:
        """Return the number of stored rows of `lost` for next states of these lengths."""
        return (len(lengths),)

    def filled(self, parts: Parts) -> Self:
        pools, dim, size = self.pools.count, self.task.dim, self.task.block_size
        shapes = {"whitener": (pools, dim, size), "logdet": (pools,), "trace": (pools,)}
        filled = type(self)(self.task, self.ridge)
        filled.gram = type(self.gram).of_arrays(
            *(parts.array(name, "<f8", shape) for name, shape in shapes.items())
        )
        filled._totals = parts.array("totals", "<f8", (2, pools, dim + 2))
        filled._lost = parts.array("totals_lost", "<f8", (2, pools, dim + 2))
        for pool in range(pools - 1):
            where = f"next_states/{pool}"
            lengths = parts.array(f"{where}/lengths", "<i8", ("J",))
            states = filled._next_states[pool]
            filled._next_states[pool] = states.from_arrays(
                sums=parts.array(f"{where}/sums", "<f8", (len(lengths), size + 2)),
                lost=parts.array(f"{where}/lost", "<f8", (*self._lost_shape(lengths), size + 2)),
                lengths=lengths,
                rows=parts.array(f"{where}/rows", "<f8", ("N", states.rows.shape[1])),
                ended=parts.array(f"{where}/ended", "<f8", states.ended.shape),
            )
        return filled


class Steps:
    """The concatenated steps (φ, 1, r) of episodes, for fast sums.

    Removed steps are −(φ, 1, r).
    """

    def __init__(self, changes: Sequence[Signed], pools: Pools) -> None:
        self._episodes, self._pools = [episode for episode, _ in changes], pools
        features = self._features()
        self._rewards = np.concatenate([episode.rewards for episode in self._episodes])
        self._steps = np.ones((len(features), features.shape[1] + 2))  # (S, d+2)
        self._steps[:, :-2], self._steps[:, -1] = features, self._rewards
        if any(sign < 0.0 for _, sign in changes):
            lengths = [len(episode) for episode in self._episodes]
            self._steps *= np.repeat([sign for _, sign in changes], lengths)[:, None]
        if pools.count > 1:
            self._places, self._states = self._find_places(), self._find_states()

    def _features(self) -> Floats:
        """Return the features of all steps."""
        return np.concatenate([episode.features for episode in self._episodes])

    def by_pool(self) -> Floats:
        """Return each episode's Σ(φ, 1, r) and Σ r·(φ, 1, r) over each pool, (n, 2, P, d+2)."""
        counts, steps = np.array([len(episode) for episode in self._episodes]), self._wide()
        reached = np.arange(self._pools.horizon) < counts[:, None]  # (n, H)
        stages = np.zeros((len(counts), 2, self._pools.horizon, steps.shape[1]))
        stages[:, 0][reached] = steps
        stages[:, 1][reached] = self._rewards[:, None] * steps
        return self._pools.sum_stages(stages)

    def _wide(self) -> Floats:
        """Return all steps (φ, 1, r) with all coordinates of φ, (S, d+2)."""
        return self._steps

    def leading_on(self, pool: int) -> tuple[Floats, list[bytes]]:
        """Return the steps of a pool and their next states, as `row_sets`; b"" is the end."""
        places, states = self._places[pool], self._states
        return self._steps.take(np.array(places, np.int64), 0), [states[step] for step in places]

    def _find_places(self) -> list[list[int]]:
        """Return the steps of each pool, except last-stage steps, which have no next state."""
        places: list[list[int]] = [[] for _ in range(self._pools.count)]
        pools = [places[self._pools.index(h)] for h in range(self._pools.horizon - 1)]
        start = 0
        for episode in self._episodes:
            for step, pool in enumerate(pools[: len(episode)], start):
                pool.append(step)
            start += len(episode)
        return places

    def _find_states(self) -> list[bytes]:
        """Return the next state of each step."""
        lengths: list[int] = []
        for episode in self._episodes:
            lengths += episode.lengths
            lengths += [0] * (len(episode) - len(episode.lengths))
        return row_sets(np.concatenate([episode.next_rows for episode in self._episodes]), lengths)
