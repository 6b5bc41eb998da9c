"""What is learnt from one-hot features: counts, since every Λ is diagonal.

A one-hot row e_i is given by its position i, so S states with A actions each need no rows of length
d = S·A, and no matrices of d² numbers. The target of Alg. 1, line 8 needs, for each pair of a
position and the state it led to, how often that happened and the rewards on the way.
"""

from collections.abc import Callable

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.episode import Episode
from rareswitch.core.growing import Growing
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo

END = np.zeros(0, np.int64)  # the state after the end of an episode: no action is feasible


class OneHotSums:
    """The sums of one history whose features are one-hot and given by their positions."""

    def __init__(self, pools: Pools, dim: int, ridge: float) -> None:
        self._pools = pools
        self.gram = OneHotGram(pools.count, dim, ridge)
        self._rewards: Floats = np.zeros((pools.count, dim))  # Σ r·φ
        self._moments: Floats = np.zeros((pools.count, 3))  # Σ 1, Σ r, Σ r²
        self._moves = [Moves(dim) for _ in range(pools.count - 1)]

    @property
    def stored_rows(self) -> int:
        return sum(moves.rows for moves in self._moves)

    @property
    def step_sums(self) -> Floats:
        return np.concatenate([self.gram.counts, self._moments[:, :2]], axis=1)

    @property
    def reward_sums(self) -> Floats:
        return np.concatenate([self._rewards, self._moments[:, 1:]], axis=1)

    def value_sums(self, pool: int, following: Stage, ended: float) -> Floats:
        return self._moves[pool].value_sums(following, ended)

    def absorb(self, episode: Episode, undo: Undo) -> None:
        """Add one episode; `undo` learns how to take it back."""
        pools, positions, rewards = self._pools, episode.features, episode.rewards
        undo.append(self._return_to())
        pool, step = np.nonzero(pools.members[:, : len(episode)])
        self.gram.absorb(pool, positions[step])
        np.add.at(self._rewards, (pool, positions[step]), rewards[step])
        known = np.stack([np.ones_like(rewards), rewards, np.square(rewards)], axis=1)
        self._moments += pools.members[:, : len(episode)] @ known
        following = [*episode.next_features, END][: min(len(episode), pools.horizon - 1)]
        taken = zip(positions.tolist(), rewards.tolist(), following, strict=False)
        for h, (position, reward, state) in enumerate(taken):
            self._moves[pools.of(h)].absorb(position, reward, state, undo)

    def _return_to(self) -> Callable[[], None]:
        """Return how to come back to all but the moves as they are now."""
        arrays, kept = self.gram.arrays, (self._rewards.copy(), self._moments.copy())

        def come_back() -> None:
            self.gram.take_over(arrays)
            self._rewards, self._moments = kept

        return come_back

    def to_arrays(self) -> Arrays:
        arrays: Arrays = self.gram.arrays | {"rewards": self._rewards, "moments": self._moments}
        for pool, moves in enumerate(self._moves):
            arrays |= {f"moves/{pool}/{name}": array for name, array in moves.to_arrays().items()}
        return arrays

    def fill(self, parts: Parts) -> None:
        """Take over what `to_arrays` returned, once it is known to be of these sizes."""
        pools, dim = self._rewards.shape
        shapes = {"counts": (pools, dim), "logdet": (pools,), "trace": (pools,)}
        self.gram.take_over({name: parts.array(name, "<f8", s) for name, s in shapes.items()})
        self._rewards[:] = parts.array("rewards", "<f8", (pools, dim))
        self._moments[:] = parts.array("moments", "<f8", (pools, 3))
        for pool, moves in enumerate(self._moves):
            where = f"moves/{pool}"
            pairs = parts.array(f"{where}/pairs", "<i8", ("n", 2))
            moves.fill(
                parts.array(f"{where}/lengths", "<i8", ("J",)),
                parts.array(f"{where}/positions", "<i8", ("N",)),
                pairs,
                parts.array(f"{where}/sums", "<f8", (len(pairs), 2)),
            )


class OneHotGram:
    """The diagonals λ + `counts` (P, d) of the matrices; `whitener` is that of W.

    `logdet` and `trace` are as in `Gram`; every `absorb` makes new, read-only arrays.

    >>> gram = OneHotGram(1, dim=3, ridge=1.0)
    >>> gram.absorb(np.array([0, 0]), np.array([2, 2]))
    >>> gram.whitener**-2, gram.trace
    (array([[1., 1., 3.]]), array([5.]))
    """

    def __init__(self, pools: int, dim: int, ridge: float) -> None:
        self._ridge = ridge
        self.counts: Floats = np.zeros((pools, dim))
        self.logdet: Floats = np.full(pools, dim * np.log(ridge))
        self.trace: Floats = np.full(pools, dim * ridge)
        self._freeze()

    @property
    def whitener(self) -> Floats:
        return 1.0 / np.sqrt(self._ridge + self.counts)

    def absorb(self, pools: Ints, positions: Ints) -> None:
        """Add the features e_i at `positions` i (n,), each to one of the pools (n,)."""
        counts, logdet, trace = self.counts.copy(), self.logdet.copy(), self.trace.copy()
        np.add.at(counts, (pools, positions), 1.0)
        places = np.unique(pools * counts.shape[1] + positions)
        pool, before = places // counts.shape[1], self._ridge + self.counts.reshape(-1)[places]
        grown = counts.reshape(-1)[places] + self._ridge
        np.add.at(logdet, pool, np.log(grown / before))
        np.add.at(trace, pools, 1.0)
        self.counts, self.logdet, self.trace = counts, logdet, trace
        self._freeze()

    @property
    def arrays(self) -> dict[str, Floats]:
        """All that is known, by name."""
        return {"counts": self.counts, "logdet": self.logdet, "trace": self.trace}

    def take_over(self, arrays: dict[str, Floats]) -> None:
        """Become what `arrays` was once."""
        self.counts, self.logdet, self.trace = arrays.values()

    def _freeze(self) -> None:
        for array in (self.counts, self.logdet, self.trace):
            array.flags.writeable = False


class Moves:
    """The moves of one pool from positions to states: how often, and Σr over them.

    A state is the positions of its feasible actions, in any order; a state without any is the end
    of an episode.
    """

    def __init__(self, dim: int) -> None:
        self._dim = dim
        self._state: dict[bytes, int] = {}  # by its positions, ascending
        self._move: dict[tuple[int, int], int] = {}
        self._lengths = Growing(np.zeros(0, np.int64))
        self._positions = Growing(np.zeros(0, np.int64))
        self._pairs = Growing(np.zeros((0, 2), np.int64))  # position, state
        self._sums = Growing(np.zeros((0, 2)))  # count, Σr

    @property
    def rows(self) -> int:
        """The number of positions of all states together."""
        return self._positions.count

    def absorb(self, position: int, reward: float, state: Ints, undo: Undo) -> None:
        """Add a move to the state with these positions; `undo` can take it back."""
        pair = (position, self._number(state, undo))
        place, end = self._move.get(pair), self._pairs.count
        before = None if place is None else self._sums.array[place].copy()

        def take_back() -> None:
            if before is not None:
                self._sums.array[place] = before
            else:
                self._move.pop(pair, None)
                self._pairs.count = self._sums.count = end

        undo.append(take_back)
        if place is None:
            self._pairs.extend(np.array([pair]))
            self._sums.extend(np.array([[1.0, reward]]))
            self._move[pair] = end
        else:
            self._sums.array[place] += (1.0, reward)

    def value_sums(self, following: Stage, ended: float) -> Floats:
        """Return Σ V·(φ, 1, r, V) over the moves, V the value of the state after, as (..., d+3).

        The end of an episode is worth `ended`.
        """
        leading = following.weights.shape[:-1]
        total = np.zeros((*leading, self._dim + 3))
        pairs, (counts, rewards) = self._pairs.array, self._sums.array.T
        if not len(pairs):
            return total
        by_position = np.argsort(pairs[:, 0], kind="stable")
        position, state = pairs[by_position].T
        counts, rewards = counts[by_position], rewards[by_position]
        values = self._values(following, ended)[..., state]
        starts = np.flatnonzero(np.diff(position, prepend=-1))
        weighted = values * counts
        total[..., position[starts]] = np.add.reduceat(weighted, starts, axis=-1)
        total[..., -3] = weighted.sum(axis=-1)
        total[..., -2] = values @ rewards
        total[..., -1] = np.vecdot(weighted, values)
        return total

    def to_arrays(self) -> Arrays:
        return {
            "lengths": self._lengths.array,
            "positions": self._positions.array,
            "pairs": self._pairs.array,
            "sums": self._sums.array,
        }

    def fill(self, lengths: Ints, positions: Ints, pairs: Ints, sums: Floats) -> None:
        """Take over what `to_arrays` returned, once it is known to fit together."""
        if len(lengths) and (lengths.min() < 0 or lengths.max() > len(positions)):
            raise ValueError("a next state must have as many rows as there are, or none")
        if int(lengths.sum()) != len(positions):
            raise ValueError("the rows of next states must be as many as their lengths say")
        for name, array, end in (
            ("positions", positions, self._dim),
            ("pairs", pairs[:, 0], self._dim),
            ("pairs", pairs[:, 1], len(lengths)),
        ):
            if len(array) and (array.min() < 0 or array.max() >= end):
                raise ValueError(f"{name} must be from 0 to {end - 1}")
        ends = np.cumsum(lengths)
        for start, end in zip(ends - lengths, ends, strict=True):
            if self._number(positions[start:end], []) != len(self._state) - 1:
                raise ValueError("next states must be distinct sets of distinct rows")
        for place, (pair, known) in enumerate(zip(pairs.tolist(), sums, strict=True)):
            if self._move.setdefault(tuple(pair), place) != place:
                raise ValueError("moves must be distinct pairs")
            self._pairs.extend(np.array([pair]))
            self._sums.extend(known[None])

    def _values(self, following: Stage, ended: float) -> Floats:
        """Return the value of every state (..., J)."""
        lengths = self._lengths.array
        goes_on = lengths > 0
        values = np.full((*following.weights.shape[:-1], len(lengths)), ended)
        if goes_on.any():
            q_values = following.q_values(self._positions.array)
            starts = (np.cumsum(lengths) - lengths)[goes_on]
            values[..., goes_on] = np.maximum.reduceat(q_values, starts, axis=-1)
        return values

    def _number(self, state: Ints, undo: Undo) -> int:
        """Return the number of a state, a new one if it was never seen."""
        number = self._state.get(state.tobytes())
        if number is not None:
            return number
        distinct = np.unique(state)
        key, count, end = distinct.tobytes(), self._lengths.count, self._positions.count
        if (number := self._state.get(key)) is not None:
            return number

        def take_back() -> None:
            self._state.pop(key, None)
            self._lengths.count, self._positions.count = count, end

        undo.append(take_back)
        self._lengths.extend(np.array([len(distinct)]))
        self._positions.extend(distinct)
        self._state[key] = count
        return count
