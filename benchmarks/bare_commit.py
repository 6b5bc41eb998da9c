"""The baseline of recording: callers that commit for each other, with nothing else to do."""

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")

MOST_TOGETHER = 512
# How long the callers of a group are waited for before the next, in seconds: a commit costs more.
LONGEST_GATHERING = 0.002


class _Caller(Generic[Asked, Answer]):
    """Somebody who waits to be answered, or to commit for the others."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.answer: Answer | BaseException | None = None
        self.commits = False
        self.called = threading.Event()


class GroupCommit(Generic[Asked, Answer]):
    """Whoever comes while nobody commits does so for all who wait by then; each wakes up once.

    `commit` takes a list of what was asked and returns, in order, an answer or an error for each;
    if it raises, that is the answer to all. Nobody is answered before it has returned.

    >>> together = GroupCommit(lambda asked: [2 * one for one in asked])
    >>> together.ask(21)
    42
    """

    def __init__(self, commit: Callable[[list[Asked]], list[Answer | BaseException]]) -> None:
        self._commit = commit
        self._lock = threading.Lock()
        self._queue: list[_Caller[Asked, Answer]] = []
        self._committing = False
        self._last = 1  # how many were answered together

    def ask(self, asked: Asked) -> Answer:
        """Return the answer once it is committed, or raise the error."""
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
        except BaseException:  # Ctrl-C while waiting: nobody else may wait for this caller
            self._leave(me)
            raise
        if me.commits:
            self._commit_group()
        if isinstance(me.answer, BaseException):
            raise me.answer
        return me.answer  # type: ignore[return-value]

    def _commit_group(self) -> None:
        """Commit for those who have waited longest, oneself first, and call the next."""
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
        """Go without an answer; whoever is next commits, if it was to be this caller."""
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
        """Let those who were answered together come again, if they come at once."""
        end = time.monotonic() + LONGEST_GATHERING
        while len(self._queue) < self._last and time.monotonic() < end:
            time.sleep(LONGEST_GATHERING / 20)
