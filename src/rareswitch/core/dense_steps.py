"""The steps of some episodes end to end, so that sums over them are made at once."""

from collections.abc import Sequence

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.episode import Episode
from rareswitch.core.pools import Pools
from rareswitch.core.row_sets import row_sets


class DenseSteps:
    """The steps (φ, 1, r) of episodes whose features are rows, in their order."""

    def __init__(self, episodes: Sequence[Episode], pools: Pools) -> None:
        self._episodes, self._pools = episodes, pools
        features = np.concatenate([episode.features for episode in episodes])
        self._steps = np.ones((len(features), features.shape[1] + 2))  # (S, d+2)
        self._steps[:, :-2] = features
        self._steps[:, -1] = np.concatenate([episode.rewards for episode in episodes])
        if pools.count > 1:
            self._there, self._states = self._places(), self._followed()

    def by_pool(self) -> Floats:
        """Return each episode's Σ(φ, 1, r) and Σ r·(φ, 1, r) over each pool, (n, 2, P, d+2)."""
        counts = np.array([len(episode) for episode in self._episodes])
        reached = np.arange(self._pools.horizon) < counts[:, None]  # (n, H)
        stages = np.zeros((len(counts), 2, self._pools.horizon, self._steps.shape[1]))
        stages[:, 0][reached] = self._steps
        stages[:, 1][reached] = self._steps[:, -1:] * self._steps
        return self._pools.summed(stages)

    def leading_on(self, pool: int) -> tuple[Floats, list[bytes]]:
        """Return the steps of a pool and the states after them, as `row_sets`; b"" is the end."""
        there, states = self._there[pool], self._states
        return self._steps.take(np.array(there, np.int64), 0), [states[step] for step in there]

    def _places(self) -> list[list[int]]:
        """Return which steps each pool has, without those of the last stage, which lead nowhere."""
        there: list[list[int]] = [[] for _ in range(self._pools.count)]
        pools = [there[self._pools.of(h)] for h in range(self._pools.horizon - 1)]
        start = 0
        for episode in self._episodes:
            for step, pool in enumerate(pools[: len(episode)], start):
                pool.append(step)
            start += len(episode)
        return there

    def _followed(self) -> list[bytes]:
        """Return the state after each step."""
        lengths: list[int] = []
        for episode in self._episodes:
            lengths += map(len, episode.next_features)
            lengths += [0] * (len(episode) - len(episode.next_features))
        return row_sets(np.concatenate([episode.next_rows for episode in self._episodes]), lengths)
