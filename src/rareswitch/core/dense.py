"""What is learnt from features of any kind: Λ and sums over steps of each pool, and next states."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rareswitch.core import sums
from rareswitch.core.arguments import Floats
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.dense_steps import DenseSteps
from rareswitch.core.episode import Episode
from rareswitch.core.gram import Gram
from rareswitch.core.next_states import NextStates
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo, all_or_nothing, take_back

# Numbers of episodes that wait: enough to add many at once, few enough for the processor's cache.
MOST_WAITING = 2**17


class DenseSums:
    """The sums of one history whose features are rows of d numbers.

    Λ grows with every episode, since schedules look at it. The other sums are asked for by a fit:
    until then, or until they are many, episodes wait and are then added at once.
    """

    def __init__(self, pools: Pools, dim: int, ridge: float) -> None:
        self._pools, self._dim = pools, dim
        self.gram = Gram((pools.count,), dim, ridge)
        self._totals, self._lost = sums.zeros(2, pools.count, dim + 2)  # Σ(φ, 1, r), Σ r·(φ, 1, r)
        self._next_states = [NextStates(dim) for _ in range(pools.count - 1)]
        self._waiting = _Waiting()

    @property
    def stored_rows(self) -> int:
        self._fold()
        return sum(next_states.rows for next_states in self._next_states)

    @property
    def step_sums(self) -> Floats:
        self._fold()
        return self._totals[0] + self._lost[0]

    @property
    def reward_sums(self) -> Floats:
        self._fold()
        return self._totals[1] + self._lost[1]

    def value_sums(self, pool: int, following: Stage, ended: float) -> Floats:
        self._fold()
        return self._next_states[pool].value_sums(following, ended)

    def absorb(self, episodes: Sequence[Episode], undo: Undo) -> None:
        """Add episodes in their order; `undo` learns how to take them back."""
        if self._waiting.folded or self._waiting.numbers > MOST_WAITING:
            self._fold()
        waiting, arrays = self._waiting, self.gram.arrays
        count, numbers = len(waiting.episodes), waiting.numbers

        def come_back() -> None:
            take_back(waiting.undo)
            self._waiting, waiting.numbers = waiting, numbers
            del waiting.episodes[count:]
            self.gram.take_over(arrays)

        undo.append(come_back)
        for episode in episodes:
            self._grow(episode.features)
            waiting.numbers += episode.features.size + episode.next_rows.size
        waiting.episodes.extend(episodes)

    def _grow(self, features: Floats) -> None:
        """Add the steps of one episode to Λ."""
        if self._pools.shared:
            self.gram.absorb_block(self._pools.pooled(features[:, None, :]))
            return
        if len(features) < self._pools.horizon:
            padded = np.zeros((self._pools.horizon, self._dim))
            padded[: len(features)] = features
            features = padded
        self.gram.grow(features)

    def _fold(self) -> None:
        """Add the episodes that wait to all sums; whoever would take one back can undo this too."""
        waiting = self._waiting
        if waiting.episodes and not waiting.folded:
            with all_or_nothing() as undo:
                self._add(DenseSteps(waiting.episodes, self._pools), undo)
                waiting.undo = undo
        if waiting.folded:  # also if an interruption came between
            self._waiting = _Waiting()

    def _add(self, steps: DenseSteps, undo: Undo) -> None:
        before = self._totals, self._lost

        def come_back() -> None:
            self._totals, self._lost = before

        undo.append(come_back)
        self._totals, self._lost = sums.add_in_turn(*before, steps.by_pool())
        for pool, next_states in enumerate(self._next_states):
            next_states.absorb(*steps.leading_on(pool), undo)

    def to_arrays(self) -> Arrays:
        self._fold()
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


@dataclass(slots=True)
class _Waiting:
    """Episodes that are in Λ alone; once they are folded, `undo` says how to take that back."""

    episodes: list[Episode] = field(default_factory=list)
    numbers: int = 0
    undo: Undo = field(default_factory=list)

    @property
    def folded(self) -> bool:
        return bool(self.undo)
