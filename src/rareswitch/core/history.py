"""What one learner has seen, in the form that a fit needs: a cache of the log.

The log of episodes is the truth; a history is folded from it, by `absorb` as episodes come or by
`from_log` all at once, and a corrected log is folded again. Neither the order of episodes nor the
policy that acted matters beyond rounding.
"""

import math
from collections.abc import Iterable
from itertools import islice
from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats, flag, positive_ridge, real, whole
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.dense import DenseSums
from rareswitch.core.episode import Episode
from rareswitch.core.gram import Gram
from rareswitch.core.one_hot import OneHotGram, OneHotSums
from rareswitch.core.pools import Pools
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo, all_or_nothing, take_back

AT_ONCE = 256  # episodes: their statistics are added together


class History:
    """The sufficient statistics of all episodes so far, for one learner.

    `stages` says which steps a stage learns from: its "own", or those of all ("shared"). An episode
    that ended early is worth `end_reward` for each stage that it did not play. `one_hot` features
    are given by the positions of their ones. An episode with a feature longer than `feature_norm`
    is refused: beyond it float64 could not hold what the smaller features say.
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int,
        ridge: float,
        feature_norm: float,
        stages: str = "own",
        one_hot: bool = False,
        end_reward: float = 0.0,
    ) -> None:
        self.dim = dim = whole("dim", dim, least=1, most=10**6)
        self.pools = Pools(horizon, stages)
        self.feature_norm = real("feature_norm", feature_norm, above=0.0, most=1e100)
        self.end_reward = real("end_reward", end_reward, least=0.0, most=1.0)
        self.episodes = 0
        self.ridge = positive_ridge(ridge)
        self.one_hot = flag("one_hot", one_hot)
        if self.one_hot and self.feature_norm < 1.0:
            raise ValueError(
                f"feature_norm must be at least 1, the length of a one-hot feature; got "
                f"{self.feature_norm:g}"
            )
        kind = OneHotSums if self.one_hot else DenseSums
        self._sums: DenseSums | OneHotSums = kind(self.pools, dim, self.ridge)

    @classmethod
    def from_log(
        cls,
        log: Iterable[Episode],
        *,
        dim: int,
        horizon: int,
        ridge: float = 1.0,
        feature_norm: float = 1e6,
        **rest: Any,
    ) -> "History":
        """Fold a log, in its order."""
        history = cls(dim=dim, horizon=horizon, ridge=ridge, feature_norm=feature_norm, **rest)
        episodes = iter(log)
        while some := tuple(islice(episodes, AT_ONCE)):
            history.absorb_all(some)
        return history

    @property
    def horizon(self) -> int:
        return self.pools.horizon

    @property
    def gram(self) -> Gram | OneHotGram:
        return self._sums.gram

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    @property
    def stored_rows(self) -> int:
        """How many rows of distinct next states are kept, over all pools."""
        return self._sums.stored_rows

    @property
    def step_sums(self) -> Floats:
        return self._sums.step_sums

    @property
    def reward_sums(self) -> Floats:
        return self._sums.reward_sums

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        ended = self.end_reward * (self.horizon - 1 - h)
        return self._sums.value_sums(self.pools.of(h), following, ended)

    def absorb(self, episode: Episode, undo: Undo | None = None) -> None:
        """Add one episode, whole or not at all; `undo` learns how to take it back later."""
        self.absorb_all((episode,), undo)

    def absorb_all(self, episodes: Iterable[Episode], undo: Undo | None = None) -> None:
        """Add episodes in their order, all of them or none: the same as `absorb`, but quicker.

        How to take them back is kept until they are all in: give a long log in parts.
        """
        episodes = tuple(episodes)
        self.check(*episodes)
        count = self.episodes

        def come_back() -> None:
            self.episodes = count

        with all_or_nothing() as steps_back:
            steps_back.append(come_back)
            for start in range(0, len(episodes), AT_ONCE):
                self._sums.absorb(episodes[start : start + AT_ONCE], steps_back)
            self.episodes += len(episodes)
            if undo is not None:
                undo.append(lambda: take_back(steps_back))

    def check(self, *episodes: Episode) -> None:
        """Refuse episodes that cannot be absorbed."""
        for episode in episodes:
            self._check_kind(episode)
        if self.one_hot or not episodes:
            return
        parts = [part for e in episodes for part in (e.features, e.next_rows)]
        numbers = np.concatenate(parts, axis=None)
        longest = max(float(numbers.max()), -float(numbers.min()))
        if longest * math.sqrt(self.dim) <= self.feature_norm:
            return
        scale = max(1.0, longest / 1e100)  # squares must not overflow
        rows = numbers.reshape(-1, self.dim) / scale
        longest = scale * float(np.linalg.norm(rows, axis=1).max())
        if not longest <= self.feature_norm * (1.0 + 1e-9):  # nor is what is no number
            raise ValueError(
                f"episode must have features no longer than feature_norm = {self.feature_norm:g}; "
                f"got ‖φ‖ = {longest:.6g}"
            )

    def _check_kind(self, episode: Episode) -> None:
        if not isinstance(episode, Episode):
            raise TypeError(f"episode must be an Episode; got {type(episode).__name__}")
        if len(episode) > self.horizon:
            raise ValueError(f"episode must have at most {self.horizon} steps; got {len(episode)}")
        if episode.one_hot is not self.one_hot:
            wanted, got = "rows of features", "positions of one-hot features"
            if self.one_hot:
                wanted, got = got, wanted
            raise ValueError(f"episode must have {wanted}; got {got}")
        if self.one_hot and episode.dim > self.dim:
            raise ValueError(
                f"episode must have positions below dim = {self.dim}; got {episode.dim - 1}"
            )
        if not self.one_hot and episode.dim != self.dim:
            raise ValueError(
                f"episode must have features of dimension {self.dim}; got {episode.dim}"
            )

    def to_arrays(self) -> Arrays:
        return self._sums.to_arrays()

    def fill(self, parts: Parts, *, episodes: int) -> None:
        """Take over what `to_arrays` returned, once it is known to be of these sizes."""
        self._sums.fill(parts)
        self.episodes = episodes
