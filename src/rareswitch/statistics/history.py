"""The episodes of one learner in the form that a fit needs: a cache of the log.

A history can always be computed from the log of episodes, with `absorb` episode by episode or with
`absorb_log`. `remove` and `replace` apply corrections of the log, at the cost of the corrected
episode. Except for rounding, the order of episodes does not matter, nor does the policy that acted.

A history is immutable: each method returns a new history. So a learner updates its history
atomically, by one assignment.
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

AT_ONCE = 256  # episodes checked together

Signed = tuple[Episode, float]  # 1 adds the episode, −1 removes it


class BaseHistory(ABC):
    """The episodes of one learner: the contract of all histories.

    `episodes` counts all absorbed episodes; a correction does not change it.
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
        """The number of stored rows of distinct next states, over all pools."""

    @abstractmethod
    def absorb(self, *episodes: Episode) -> Self:
        """Return the history with these episodes added, in order."""

    @abstractmethod
    def remove(self, *episodes: Episode) -> Self:
        """Return the history without these episodes, which must have been absorbed before.

        `stored_rows` does not change: the states that they reached stay in the table, with a count
        of 0.
        """

    @abstractmethod
    def replace(self, old: Episode, new: Episode) -> Self:
        """Return the history with a new episode instead of an old episode that was absorbed before.

        Λ does not change, bit for bit, if both have the same features.
        """

    @abstractmethod
    def fold(self) -> Self:
        """Add waiting episodes to the sums; the time of a fold does not change any number."""

    @abstractmethod
    def check(self, *episodes: Episode) -> None:
        """Raise an error for episodes that cannot be absorbed."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return a folded history as named arrays."""

    @abstractmethod
    def restored(self, parts: Parts, *, episodes: int) -> Self:
        """Return the history with the arrays that `to_arrays` returned after this many episodes."""

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

    Only a fit needs sums other than Λ. Until the next fit, or until there are many, episodes wait,
    and `fold` adds them together. Removals wait in the same list. `gram` changes with every
    episode, because schedules use it; with `watched = False` it may wait for the fold too.
    """

    watched = True

    def __init__(self, task: Task, ridge: float) -> None:
        super().__init__(task, ridge)
        self.episodes = 0
        self._waiting = PersistentList[Signed]()
        self._waiting_numbers = 0
        self._uncounted = PersistentList[Rows]()  # features not yet in Λ

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
        """Return `next_value_sums` of a pool; `ended` is the value of the end of an episode."""

    @abstractmethod
    def filled(self, parts: Parts) -> Self:
        """Return the history of `to_arrays`; the sizes of its arrays were checked."""

    @abstractmethod
    def _add(self, changes: Sequence[Signed]) -> None:
        """Add or remove episodes in the sums of this history, which is still unshared."""

    @abstractmethod
    def _many_waiting(self) -> bool:
        """Return whether there are enough waiting numbers for a fold."""

    def next_value_sums(self, h: int, following: QFunction, pool: int | None = None) -> Floats:
        ended = self.task.end_reward * (self.task.horizon - 1 - h)
        pool = self.pools.index(h) if pool is None else pool
        return self._pool_value_sums(pool, following, ended)

    def absorb(self, *episodes: Episode) -> Self:
        checked, longer = self._checked(*episodes), self._copy()
        longer._uncounted = self._uncounted.extend([episode.features for episode in episodes])
        longer.episodes += len(episodes)
        if self.watched:
            longer._count()
        return longer._wait([(episode, 1.0) for episode in checked])

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
            # The new episode comes first: rounding errors decrease with the number of steps.
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
        """Add waiting episodes to Λ of this history, which is still unshared."""
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
        """Return valid episodes in the form in which they wait, or raise an error."""
        for episode in episodes:
            self._check_kind(episode)
        if episodes and not self.one_hot:
            rows = [part for e in episodes for part in (e.features, e.next_rows)]
            self._check_lengths(np.concatenate(rows, axis=None), self.task.dim)
        return episodes

    def _check_lengths(self, numbers: Floats, dim: int) -> None:
        """Raise an error if one of the concatenated rows of dim numbers is too long."""
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
        """Return a new history in which these changes wait, folded if too many wait."""
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
