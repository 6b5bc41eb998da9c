"""The baseline of recording: a bare group commit of concurrent callers."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST_TOGETHER = 512
# The longest wait for the callers of the last group, in seconds: a commit takes longer.
LONGEST_GATHERING = 0.002


class _Caller(Generic[Asked, Answer]):
    """A caller that waits for an answer, or for its turn to commit."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answer | BaseException | None = None
        self.commits = False
        self.called = threading.Event()


class GroupCommit(Generic[Asked, Answer]):
    """Group commit: one waiting caller commits for all; each caller wakes up once.

    `commit` takes a list of requests and returns, in order, an answer or an error for each; an
    exception is the answer to all. No caller gets an answer before `commit` has returned.

    >>> together = GroupCommit(lambda asked: [2 * one for one in asked])
    >>> together.ask(21)
    42
    """

    def __init__(self, commit: Callable[[list[Asked]], list[Answer | BaseException]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._queue: list[_Caller[Asked, Answer]] = []
        self._committing = False
        self._last = 1  # size of the last group

    def ask(self, asked: Asked) -> Answer:
        """Return the answer after the commit, or raise the error."""
        me: _Caller[Asked, Answer] = _Caller(asked)
        with self._lock:
            self._queue.append(me)
            me.commits = not self._committing
            self._committing = True
        try:
            if not me.commits:
                me.called.wait()
            if me.commits:
                self._gather()
        except BaseException:  # Ctrl-C while waiting: no caller may wait for this one
            self._leave(me)
            raise
        if me.commits:
            self._commit_group()
        if isinstance(me.answer, BaseException):
            raise me.answer
        return me.answer  # type: ignore[return-value]

    def _commit_group(self) -> None:
        """Commit for the callers that have waited longest, this one first, and wake the next."""
        with self._lock:
            group, self._queue = self._queue[:MOST_TOGETHER], self._queue[MOST_TOGETHER:]
            self._last = len(group)
        interrupted = InterruptedError("the commit was interrupted; ask again")
        answers: list[Answer | BaseException] = [interrupted] * len(group)
        try:
            answers = self._commit([one.asked for one in group])
        except Exception as error:
            answers = [error] * len(group)
        finally:
            for one, answer in zip(group, answers, strict=True):
                one.answer = answer
                one.called.set()
            self._call_next()

    def _leave(self, me: _Caller[Asked, Answer]) -> None:
        """Leave without an answer; the next caller commits if it was this caller's turn."""
        with self._lock:
            if me in self._queue:
                self._queue.remove(me)
        if me.commits:
            self._call_next()

    def _call_next(self) -> None:
        with self._lock:
            self._committing = bool(self._queue)
            if self._queue:
                self._queue[0].commits = True
                self._queue[0].called.set()

    def _gather(self) -> None:
        """Wait briefly for the callers of the last group to come again."""
        end = time.monotonic() + LONGEST_GATHERING
        while len(self._queue) < self._last and time.monotonic() < end:
            time.sleep(LONGEST_GATHERING / 20)
