"""One thread that writes: callers hand in work and get a future; one commit serves many."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from rareswitch.campaigns.errors import CampaignError, UnavailableError

MOST_TOGETHER = 512
# How long the callers of the last group are waited for, in seconds; a commit costs more.
LONGEST_GATHERING = 0.002
Commit = Callable[[Sequence[Any]], Sequence[Any]]


class Slot:
    """The place of one answer, for a caller who waits: lighter than a future."""

    __slots__ = ("_answer", "_done")

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()

    def set_result(self, answer: Any) -> None:
        self._answer = answer
        self._done.release()

    set_exception = set_result

    def set_running_or_notify_cancel(self) -> bool:
        """Return True: a caller who waits cannot cancel."""
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

    `submit(commit, work)` returns a future. The work that waits for one `commit` is handed to it as
    a list; it returns an answer or an error for each, and nobody is answered before it has
    returned. If it raises, each caller of the group gets an error of its own.

    >>> writer = Writer()
    >>> writer.submit(lambda group: [2 * number for number in group], 21).result()
    42
    >>> writer.close()
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Item | None] = SimpleQueue()
        self._lock = threading.Lock()
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
        with self._lock:
            if self._closed:
                raise UnavailableError("the store is closed")
            if self._thread is None:
                self._begin()
            self._queue.put(item)

    def close(self) -> None:
        """Commit the work that waits, and end the thread."""
        with self._lock:
            self._closed = True
            if self._thread is None:
                return
            self._queue.put(None)
        self._thread.join()

    def renewed(self) -> "Writer":
        """Return the writer of a forked child: it has neither its parent's thread nor its work."""
        writer = Writer()
        writer._closed = self._closed
        return writer

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._write, name="rareswitch-writer", daemon=True)
        self._thread.start()

    def _write(self) -> None:
        waiting: list[_Item | None] = []
        last = 1
        while True:
            if not waiting:
                waiting.append(self._queue.get())
            self._gather(waiting, last)
            first = waiting[0]
            if first is None:  # nothing comes after the end
                return
            mine = [item for item in waiting if item is not None and item.commit == first.commit]
            group = mine[:MOST_TOGETHER]
            chosen = set(map(id, group))
            waiting = [item for item in waiting if id(item) not in chosen]
            last = len(group)
            _commit(group)

    def _gather(self, waiting: list[_Item | None], last: int) -> None:
        """Take everything that is queued; callers answered together often come again at once."""
        end = 0.0
        while waiting[-1] is not None and len(waiting) < MOST_TOGETHER:
            try:
                waiting.append(self._queue.get_nowait())
            except Empty:
                now = time.monotonic()
                end = end or now + LONGEST_GATHERING
                if len(waiting) >= last or now >= end:
                    return
                time.sleep(LONGEST_GATHERING / 20)


def _commit(group: Sequence[_Item]) -> None:
    """Commit one group, and answer its callers; a work that was cancelled is left out."""
    group = [item for item in group if item.future.set_running_or_notify_cancel()]
    if not group:
        return
    try:
        answers = group[0].commit([item.work for item in group])
        if len(answers) != len(group):
            raise TypeError(f"{len(group)} works must have as many answers; got {len(answers)}")
    except BaseException as error:  # every caller is answered, or it would wait for ever
        for item in group:
            item.future.set_exception(_own(error))
        return
    for item, answer in zip(group, answers, strict=True):
        if isinstance(answer, Exception):
            item.future.set_exception(answer)
        else:
            item.future.set_result(answer)


def _own(error: BaseException) -> BaseException:
    """Return an error for one caller alone: errors that are raised in parallel grow tracebacks."""
    if isinstance(error, CampaignError):
        copy = type(error).__new__(type(error), *error.args)
        copy.__dict__.update(error.__dict__)
        copy.args = error.args
        copy.__cause__ = error.__cause__
        return copy
    return UnavailableError(f"the commit failed: {type(error).__name__}: {error}")
