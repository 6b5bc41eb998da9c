"""What is learnt from one-hot features: counts, since every Λ is diagonal.

A one-hot row e_i is given by its position i, so S states with A actions each need no rows of length
d = S·A, and no matrices of d² numbers. The target of Alg. 1, line 8 needs, for each pair of a
position and the state it led to, how often that happened and the rewards on the way.
"""

from collections.abc import Callable, Sequence

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.episode import Episode
from rareswitch.core.moves import END, Moves
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo


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

    def absorb(self, episodes: Sequence[Episode], undo: Undo) -> None:
        """Add episodes in their order; `undo` learns how to take them back."""
        for episode in episodes:
            self._absorb(episode, undo)

    def _absorb(self, episode: Episode, undo: Undo) -> None:
        pools, positions, rewards = self._pools, episode.features, episode.rewards
        undo.append(self._return_to())
        pool, step = pools.places(len(episode))
        taken, earned = positions[step], rewards[step]
        self.gram.absorb(pool, taken)
        np.add.at(self._rewards.reshape(-1), pool * self._rewards.shape[1] + taken, earned)
        known = np.ones((len(episode), 3))
        known[:, 1], known[:, 2] = rewards, rewards * rewards
        if pools.shared:
            self._moments += pools.members[:, : len(episode)] @ known
        else:
            self._moments[: len(episode)] += known
        following = [*episode.next_features, END][: min(len(episode), pools.horizon - 1)]
        steps = zip(positions.tolist(), rewards.tolist(), following, strict=False)
        if pools.shared:
            self._moves[0].absorb(steps, undo)
        else:
            for moves, move in zip(self._moves, steps, strict=False):
                moves.absorb([move], undo)

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
        counts, places = self.counts.copy(), pools * self.counts.shape[1] + positions
        np.add.at(counts.reshape(-1), places, 1.0)
        before, after = self.counts.reshape(-1)[places], counts.reshape(-1)[places]
        # Each of m steps to a place has the m-th part of what the place adds.
        grown = np.log((after + self._ridge) / (before + self._ridge)) / (after - before)
        logdet = self.logdet + np.bincount(pools, grown, len(counts))
        trace = self.trace + np.bincount(pools, minlength=len(counts))
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
