"""A writer thread: callers submit work and get a future; one commit serves many callers."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from rareswitch.campaigns.errors import CampaignError, UnavailableError

MOST_TOGETHER = 512
LONGEST_GATHERING = 0.005  # seconds to wait for the callers of the last group
Commit = Callable[[Sequence[Any]], Sequence[Any]]


class Slot:
    """The answer for a waiting caller; it is lighter than a future."""

    __slots__ = ("_answer", "_done")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()

    def set_result(self, answer: Any) -> None:
        self._answer = answer
        self._done.release()

    set_exception = set_result

    def set_running_or_notify_cancel(self) -> bool:
        """Return True: a waiting caller cannot cancel."""
        return True

    def result(self) -> Any:
        """Wait for the answer, and return or raise it."""
        with self._done:
            answer = self._answer
        if isinstance(answer, BaseException):
            raise answer
        return answer


class _Item(NamedTuple):
    commit: Commit
    work: Any
    future: Future[Any] | Slot


class Writer:
    """A queue of work, and the thread that commits it in groups.

    `submit(commit, work)` returns a future. `commit` gets all pending work for it as a list, and
    returns an answer or an error for each; callers are answered after it has returned. If it
    raises, each caller of the group gets its own error.

    >>> writer = Writer()
    >>> writer.submit(lambda group: [2 * number for number in group], 21).result()
    42
    >>> writer.close()
    """

    def __init__(self) -> None:
        self._queue: list[_Item] = []
        self._arrived = threading.Condition()
        self._expected = 1  # the length of the queue that wakes the thread
        self._thread: threading.Thread | None = None
        self._closed = False

    def submit(self, commit: Commit, work: Any) -> Future[Any]:
        """Queue work for a commit; return the future of its answer."""
        future: Future[Any] = Future()
        self._put(_Item(commit, work, future))
        return future

    def ask(self, commit: Commit, work: Any) -> Any:
        """Queue work for a commit; wait for its answer, and return or raise it."""
        slot = Slot()
        self._put(_Item(commit, work, slot))
        return slot.result()

    def _put(self, item: _Item) -> None:
        with self._arrived:
            if self._closed:
                raise UnavailableError("the store is closed")
            if self._thread is None:
                self._begin()
            self._queue.append(item)
            if len(self._queue) >= self._expected:
                self._arrived.notify()

    def close(self) -> None:
        """Commit pending work, and end the thread."""
        with self._arrived:
            self._closed = True
            if self._thread is None:
                return
            self._arrived.notify()
        self._thread.join()

    def renewed(self) -> "Writer":
        """Return the writer of a forked child, without its parent's thread and work."""
        writer = Writer()
        writer._closed = self._closed
        return writer

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._write, name="rareswitch-writer", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        callers, seconds = 1, 0.0
        while group := self._next_group(callers, min(seconds, LONGEST_GATHERING)):
            group = [item for item in group if item.future.set_running_or_notify_cancel()]
            began = time.monotonic()
            answers = _commit(group)
            callers, seconds = len(group) + len(self._queue), time.monotonic() - began
            _answer(group, answers)

    def _next_group(self, callers: int, seconds: float) -> list[_Item]:
        """Return work for one commit; empty if the writer is closed and all work is done.

        Callers that were just answered often come again at once. The writer waits for them, at most
        as long as their commit took, so that one commit serves all.
        """
        with self._arrived:
            self._wait(1, None)
            self._wait(min(callers, MOST_TOGETHER), seconds)
            mine = [item for item in self._queue if item.commit == self._queue[0].commit]
            group = mine[:MOST_TOGETHER]
            chosen = set(map(id, group))
            self._queue = [item for item in self._queue if id(item) not in chosen]
            return group

    def _wait(self, expected: int, seconds: float | None) -> None:
        """Wait until the queue has the expected length, or for `seconds`."""
        self._expected = expected
        self._arrived.wait_for(lambda: self._closed or len(self._queue) >= expected, seconds)


def _commit(group: Sequence[_Item]) -> Sequence[Any]:
    """Commit one group; return an answer or an error for each of its works."""
    if not group:  # all were cancelled
        return []
    try:
        answers = group[0].commit([item.work for item in group])
        if len(answers) != len(group):
            raise TypeError(f"{len(group)} works must have as many answers; got {len(answers)}")
    except BaseException as error:  # every caller needs an answer, or it waits forever
        return [_own(error) for _ in group]
    return answers


def _answer(group: Sequence[_Item], answers: Sequence[Any]) -> None:
    for item, answer in zip(group, answers, strict=True):
        if isinstance(answer, BaseException):
            item.future.set_exception(answer)
        else:
            item.future.set_result(answer)


def _own(error: BaseException) -> BaseException:
    """Return a copy of an error for one caller: an error raised in parallel grows its traceback."""
    if isinstance(error, CampaignError):
        copy = type(error).__new__(type(error), *error.args)
        copy.__dict__.update(error.__dict__)
        copy.args = error.args
        copy.__cause__ = error.__cause__
        return copy
    return UnavailableError(f"the commit failed: {type(error).__name__}: {error}")
