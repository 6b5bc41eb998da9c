"""The episodes that one learner has seen, in the form that a fit needs: a cache of the log.

The log of episodes is the truth; a history is made from it, by `absorb` as episodes come or by
`absorb_log` all at once. `remove` and `replace` follow corrections of the log, at the cost of the
corrected episode. Neither the order of episodes nor the policy that acted matters beyond rounding.

A history never changes: each method returns another one. So whoever holds a history changes it all
or nothing, by one assignment.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Self

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.gram import BlockGram, Gram, OneHotGram
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Pools, Task, checked_task
from rareswitch.support.arguments import Floats, Rows, positive_ridge, whole
from rareswitch.support.codec import Arrays, Parts
from rareswitch.support.persistent import PersistentList

AT_ONCE = 256  # episodes that are checked together

Signed = tuple[Episode, float]  # 1 adds the episode, −1 removes it


class BaseHistory(ABC):
    """What one learner has seen: the contract of all histories.

    `episodes` counts all episodes ever absorbed; a correction does not change it.
    """

    gram: Gram | BlockGram | OneHotGram
    episodes: int

    def __init__(self, task: Task, ridge: float) -> None:
        whole("dim", checked_task(task).dim, least=1, most=10**6)
        self.task, self.ridge = task, positive_ridge(ridge)

    @property
    def pools(self) -> Pools:
        return self.task.pools

    @property
    def one_hot(self) -> bool:
        return self.task.one_hot

    @property
    def dim(self) -> int:
        return self.task.dim

    @property
    @abstractmethod
    def stored_rows(self) -> int:
        """How many rows of distinct next states are kept, over all pools."""

    @abstractmethod
    def absorb(self, *episodes: Episode) -> Self:
        """Return the history with these episodes, in their order."""

    @abstractmethod
    def remove(self, *episodes: Episode) -> Self:
        """Return the history without these episodes, each of which was absorbed before.

        `stored_rows` stays: the states that they reached remain in the table, with a count of 0.
        """

    @abstractmethod
    def replace(self, old: Episode, new: Episode) -> Self:
        """Return the history with a new episode in place of an old one that was absorbed before.

        Λ stays bit for bit if the features of both are equal.
        """

    @abstractmethod
    def fold(self) -> Self:
        """Return the history with waiting episodes added to its sums; no number depends on when."""

    @abstractmethod
    def check(self, *episodes: Episode) -> None:
        """Refuse episodes that cannot be absorbed."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return a folded history as named arrays."""

    @abstractmethod
    def restored(self, parts: Parts, *, episodes: int) -> Self:
        """Return the history whose arrays `to_arrays` returned after that number of episodes."""

    def absorb_log(self, log: Iterable[Episode]) -> Self:
        """Return the history with all episodes of a log."""
        history, episodes = self, iter(log)
        while some := tuple(islice(episodes, AT_ONCE)):
            history = history.absorb(*some)
        return history

    def _copy(self) -> Self:
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin


class SummedHistory(BaseHistory):
    """The sufficient statistics of all episodes so far, over one set of pools.

    Only a fit needs sums other than Λ: until then, or until they are many, episodes wait, and
    `fold` adds them all at once. Removals wait in the same list. `gram` changes with every episode,
    since schedules look at it; if `watched` is set to False, it may wait for the fold too.
    """

    watched = True

    def __init__(self, task: Task, ridge: float) -> None:
        super().__init__(task, ridge)
        self.episodes = 0
        self._waiting = PersistentList[Signed]()
        self._waiting_numbers = 0
        self._uncounted = PersistentList[Rows]()  # features of episodes that wait for Λ

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    @property
    @abstractmethod
    def step_sums(self) -> Floats: ...

    @property
    @abstractmethod
    def reward_sums(self) -> Floats: ...

    @abstractmethod
    def _pool_value_sums(self, pool: int, following: QFunction, ended: float) -> Floats:
        """Return `next_value_sums` of a pool, where the end of an episode is worth `ended`."""

    @abstractmethod
    def filled(self, parts: Parts) -> Self:
        """Return the history of `to_arrays`, once its arrays are known to have these sizes."""

    @abstractmethod
    def _add(self, changes: Sequence[Signed]) -> None:
        """Add or remove episodes in the sums of this history, which nobody else has yet."""

    @abstractmethod
    def _many_waiting(self) -> bool:
        """Return whether so many numbers wait that they should be folded."""

    def next_value_sums(self, h: int, following: QFunction, pool: int | None = None) -> Floats:
        ended = self.task.end_reward * (self.task.horizon - 1 - h)
        pool = self.pools.index(h) if pool is None else pool
        return self._pool_value_sums(pool, following, ended)

    def absorb(self, *episodes: Episode) -> Self:
        longer = self._wait([(episode, 1.0) for episode in self._checked(*episodes)])
        longer._uncounted = self._uncounted.extend([episode.features for episode in episodes])
        longer.episodes += len(episodes)
        if self.watched or not len(longer._waiting):
            longer._count()
        return longer

    def remove(self, *episodes: Episode) -> Self:
        shorter = self._wait([(episode, -1.0) for episode in self._checked(*episodes)])
        shorter._count()
        for episode in episodes:
            shorter.gram = shorter.gram.remove_episode(episode.features, self.pools)
        return shorter

    def replace(self, old: Episode, new: Episode) -> Self:
        before, after = self._checked(old, new)
        replaced = self._wait([(after, 1.0), (before, -1.0)])
        replaced._count()
        if not np.array_equal(old.features, new.features):
            # The new episode comes first: rounding matters less, the more is known.
            gram = replaced.gram.add_episode(new.features, self.pools)
            replaced.gram = gram.remove_episode(old.features, self.pools)
        return replaced

    def fold(self) -> Self:
        if not len(self._waiting):
            return self
        folded = self._copy()
        folded._count()
        folded._add(list(self._waiting))
        folded._waiting, folded._waiting_numbers = PersistentList(), 0
        return folded

    def _count(self) -> None:
        """Add waiting episodes to Λ of this history, which nobody else has yet."""
        for features in self._uncounted:
            self.gram = self.gram.add_episode(features, self.pools)
        self._uncounted = PersistentList()

    def restored(self, parts: Parts, *, episodes: int) -> Self:
        filled = self.filled(parts)
        filled.episodes, filled.watched = episodes, self.watched
        return filled

    def check(self, *episodes: Episode) -> None:
        self._checked(*episodes)

    def _checked(self, *episodes: Episode) -> Sequence[Episode]:
        """Return episodes that can be absorbed, in the form in which they wait; refuse others."""
        for episode in episodes:
            self._check_kind(episode)
        if episodes and not self.one_hot:
            rows = [part for e in episodes for part in (e.features, e.next_rows)]
            self._check_lengths(np.concatenate(rows, axis=None), self.task.dim)
        return episodes

    def _check_lengths(self, numbers: Floats, dim: int) -> None:
        """Refuse rows of dim numbers, end to end, of which one is too long."""
        feature_norm = self.task.feature_norm
        longest = max(float(numbers.max()), -float(numbers.min()))
        if longest * math.sqrt(dim) <= feature_norm:
            return
        scale = max(1.0, longest / 1e100)  # squares must not overflow
        rows = numbers.reshape(-1, dim) / scale
        longest = scale * float(np.linalg.norm(rows, axis=1).max())
        if not longest <= feature_norm * (1.0 + 1e-9):  # NaN fails too
            raise ValueError(
                f"episode must have features no longer than feature_norm = {feature_norm:g}; got "
                f"‖φ‖ = {longest:.9g}: scale them, or set a larger feature_norm in the Task"
            )

    def _wait(self, changes: Sequence[Signed]) -> Self:
        """Return a new history in which these changes wait, or are folded if too many wait."""
        longer = self._copy()
        for episode, _ in changes:
            longer._waiting_numbers += episode.features.size + episode.next_rows.size
        longer._waiting = self._waiting.extend(changes)
        return longer.fold() if longer._many_waiting() else longer

    def _check_kind(self, episode: Episode) -> None:
        dim, horizon = self.task.dim, self.task.horizon
        if not isinstance(episode, Episode):
            raise TypeError(f"episode must be an Episode; got {type(episode).__name__}")
        if len(episode) > horizon:
            raise ValueError(f"episode must have at most {horizon} steps; got {len(episode)}")
        if episode.one_hot is not self.one_hot:
            wanted, got = "rows of features", "positions of one-hot features"
            if self.one_hot:
                wanted, got = got, wanted
            raise ValueError(f"episode must have {wanted}; got {got}")
        if self.one_hot and episode.dim > dim:
            raise ValueError(
                f"episode must have positions below dim = {dim}; got {episode.dim - 1}"
            )
        if not self.one_hot and episode.dim != dim:
            raise ValueError(f"episode must have features of dimension {dim}; got {episode.dim}")
