"""Changes that are made whole or not at all, whatever interrupts them.

Each step says how to take it back before it is made; if anything is raised on the way, also by
Ctrl-C, the steps are taken back, the last first.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Undo = list[Callable[[], None]]


@contextmanager
def all_or_nothing() -> Iterator[Undo]:
    """Yield the list of steps to take back."""
    undo: Undo = []
    try:
        yield undo
    except BaseException:
        take_back(undo)
        raise


def take_back(undo: Undo) -> None:
    """Undo steps, the last first; each is forgotten then, so that none is undone twice."""
    while undo:
        undo[-1]()
        undo.pop()
