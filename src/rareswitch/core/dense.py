"""What is learnt from features of any kind: Λ and sums over steps of each pool, and next states."""

from collections.abc import Callable

import numpy as np

from rareswitch.core import sums
from rareswitch.core.arguments import Floats
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.episode import Episode
from rareswitch.core.gram import Gram
from rareswitch.core.next_states import NextStates
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo


class DenseSums:
    """The sums of one history whose features are rows of d numbers."""

    def __init__(self, pools: Pools, dim: int, ridge: float) -> None:
        self._pools, self._dim = pools, dim
        self.gram = Gram((pools.count,), dim, ridge)
        self._totals, self._lost = sums.zeros(2, pools.count, dim + 2)  # Σ(φ, 1, r), Σ r·(φ, 1, r)
        self._next_states = [NextStates(dim) for _ in range(pools.count - 1)]

    @property
    def stored_rows(self) -> int:
        return sum(next_states.rows for next_states in self._next_states)

    @property
    def step_sums(self) -> Floats:
        return self._totals[0] + self._lost[0]

    @property
    def reward_sums(self) -> Floats:
        return self._totals[1] + self._lost[1]

    def value_sums(self, pool: int, following: Stage, ended: float) -> Floats:
        return self._next_states[pool].value_sums(following, ended)

    def absorb(self, episode: Episode, undo: Undo) -> None:
        """Add one episode; `undo` learns how to take it back."""
        pools, count, dim = self._pools, len(episode), self._dim
        steps = np.zeros((2, pools.horizon, dim + 2))
        rewards = episode.rewards[:, None]
        steps[0, :count, :dim] = episode.features
        steps[0, :count, dim] = 1.0
        steps[0, :count, dim + 1 :] = rewards
        steps[1, :count] = rewards * steps[0, :count]
        undo.append(self._return_to())
        if pools.shared:
            self.gram.absorb_block(pools.pooled(episode.features[:, None, :]))
        else:
            self.gram.absorb(steps[0, :, :dim])
        sums.add(self._totals, self._lost, pools.summed(steps))
        for h, step in enumerate(steps[0, : min(count, pools.horizon - 1)]):
            ended = h >= len(episode.next_features)
            rows = np.zeros((0, dim)) if ended else episode.next_features[h]
            self._next_states[pools.of(h)].absorb(step, rows, undo)

    def _return_to(self) -> Callable[[], None]:
        """Return how to come back to all but the next states as they are now."""
        arrays, totals = self.gram.arrays, (self._totals.copy(), self._lost.copy())

        def come_back() -> None:
            self.gram.take_over(arrays)
            self._totals, self._lost = totals

        return come_back

    def to_arrays(self) -> Arrays:
        arrays: Arrays = self.gram.arrays | {"totals": self._totals, "totals_lost": self._lost}
        for pool, next_states in enumerate(self._next_states):
            kept = next_states.to_arrays().items()
            arrays |= {f"next_states/{pool}/{name}": array for name, array in kept}
        return arrays

    def fill(self, parts: Parts) -> None:
        """Take over what `to_arrays` returned, once it is known to be of these sizes."""
        pools, dim = self._pools.count, self._dim
        shapes = {"whitener": (pools, dim, dim), "logdet": (pools,), "trace": (pools,)}
        self.gram.take_over({name: parts.array(name, "<f8", s) for name, s in shapes.items()})
        self._totals[:] = parts.array("totals", "<f8", (2, pools, dim + 2))
        self._lost[:] = parts.array("totals_lost", "<f8", (2, pools, dim + 2))
        for pool, next_states in enumerate(self._next_states):
            where = f"next_states/{pool}"
            lengths = parts.array(f"{where}/lengths", "<i8", ("J",))
            next_states.fill(
                parts.array(f"{where}/sums", "<f8", (len(lengths), dim + 2)),
                parts.array(f"{where}/lost", "<f8", (len(lengths), dim + 2)),
                lengths,
                parts.array(f"{where}/rows", "<f8", ("N", dim)),
                parts.array(f"{where}/ended", "<f8", (2, dim + 2)),
            )
