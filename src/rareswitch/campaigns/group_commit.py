"""Several callers, one commit: the disk costs the same for one as for many."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST_TOGETHER = 512


class _Waiting(Generic[Asked, Answer]):
    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answer | None = None
        self.error: BaseException | None = None
        self.answered = threading.Event()


class GroupCommit(Generic[Asked, Answer]):
    """Whoever comes first commits for all who wait meanwhile.

    `commit` takes a list of what was asked and returns, in order, an answer or an error for each;
    if it raises, that is the answer to all. Nobody is answered before it has returned.

    >>> together = GroupCommit(lambda asked: [2 * one for one in asked])
    >>> together.ask(21)
    42
    """

    def __init__(self, commit: Callable[[list[Asked]], list[Answer | BaseException]]) -> None:
        self._commit = commit
        self._queue: list[_Waiting[Asked, Answer]] = []
        self._queued = threading.Lock()
        self._committing = threading.Lock()

    def ask(self, asked: Asked) -> Answer:
        """Return the answer once it is committed, or raise the error."""
        mine: _Waiting[Asked, Answer] = _Waiting(asked)
        with self._queued:
            self._queue.append(mine)
        while not mine.answered.is_set():
            with self._committing:
                if not mine.answered.is_set():
                    self._commit_next()
        if mine.error is not None:
            raise mine.error
        return mine.answer  # type: ignore[return-value]

    def _commit_next(self) -> None:
        """Commit for those who have waited longest."""
        with self._queued:
            group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
        try:
            answers = self._commit([one.asked for one in group])
            for one, answer in zip(group, answers, strict=True):
                if isinstance(answer, BaseException):
                    one.error = answer
                else:
                    one.answer = answer
        except BaseException as error:
            for one in group:
                one.error = error
            if not isinstance(error, Exception):
                raise
        finally:
            for one in group:
                one.answered.set()
