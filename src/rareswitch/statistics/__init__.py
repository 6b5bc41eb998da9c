"""The episodes of a learner, as sums for a fit."""

from collections.abc import Iterable

from rareswitch.core.episode import Episode
from rareswitch.core.task import Task, checked_task
from rareswitch.statistics.blocks import BlockHistory
from rareswitch.statistics.both import BothHistories
from rareswitch.statistics.dense import DenseHistory
from rareswitch.statistics.history import SummedHistory
from rareswitch.statistics.one_hot import OneHotHistory
from rareswitch.statistics.wide import WideHistory

__all__ = [
    "BlockHistory",
    "BothHistories",
    "DenseHistory",
    "History",
    "OneHotHistory",
    "WideHistory",
    "history_of",
]

History = SummedHistory | BothHistories


def history_of(task: Task, ridge: float = 1.0, log: Iterable[Episode] = ()) -> History:
    """Return the history of a log, by default an empty log."""
    kind: type[SummedHistory] = OneHotHistory if checked_task(task).one_hot else DenseHistory
    if task.blocks > 1:
        kind = BlockHistory
    if task.wide:
        kind = WideHistory
    if task.chooses_stages:
        return BothHistories(task, ridge, kind).absorb_log(log)
    return kind(task, ridge).absorb_log(log)
