"""The history of a task in which each fit chooses between own and shared stages."""

from collections.abc import Callable
from dataclasses import replace
from typing import Self

from rareswitch.core.episode import Episode
from rareswitch.core.task import Task
from rareswitch.statistics.history import BaseHistory, SummedHistory
from rareswitch.support.codec import Arrays, Parts


class BothHistories(BaseHistory):
    """The histories of the same episodes for own and for shared stages.

    Rules use Λ of the shared stages. Every next state is stored twice.
    """

    def __init__(self, task: Task, ridge: float, kind: type[SummedHistory]) -> None:
        super().__init__(task, ridge)
        own, shared = (kind(replace(task, stages=stages), ridge) for stages in ("own", "shared"))
        own.watched = False
        self._hold(own, shared)

    def _hold(self, own: SummedHistory, shared: SummedHistory) -> None:
        self.own, self.shared = own, shared
        self.gram, self.episodes = shared.gram, shared.episodes

    def _changed(self, change: Callable[[SummedHistory], SummedHistory]) -> Self:
        changed = self._copy()
        changed._hold(change(self.own), change(self.shared))
        return changed

    @property
    def stored_rows(self) -> int:
        return self.own.stored_rows + self.shared.stored_rows

    def absorb(self, *episodes: Episode) -> Self:
        return self._changed(lambda history: history.absorb(*episodes))

    def remove(self, *episodes: Episode) -> Self:
        return self._changed(lambda history: history.remove(*episodes))

    def replace(self, old: Episode, new: Episode) -> Self:
        return self._changed(lambda history: history.replace(old, new))

    def fold(self) -> Self:
        folded = self._changed(lambda history: history.fold())
        return self if (folded.own, folded.shared) == (self.own, self.shared) else folded

    def check(self, *episodes: Episode) -> None:
        self.own.check(*episodes)

    def to_arrays(self) -> Arrays:
        both = (("own", self.own), ("shared", self.shared))
        return {
            f"{kind}/{name}": array
            for kind, history in both
            for name, array in history.to_arrays().items()
        }

    def restored(self, parts: Parts, *, episodes: int) -> Self:
        restored = self._copy()
        restored._hold(
            self.own.restored(parts.inside("own"), episodes=episodes),
            self.shared.restored(parts.inside("shared"), episodes=episodes),
        )
        return restored
