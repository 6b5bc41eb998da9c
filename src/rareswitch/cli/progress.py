"""Progress for people: a live line on a terminal, a line a second otherwise, or nothing."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(label: str, total: int, *, quiet: bool = False) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with the number of steps done so far; writes to standard error."""
    if quiet:
        yield lambda done: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(label, total=total)
            yield lambda done: bar.update(task, completed=done)
    else:
        began = last = time.monotonic()

        def report(done: int) -> None:
            nonlocal last
            now = time.monotonic()
            if now - last >= 1.0:
                last = now
                print(f"{label}: {done} of {total}, {now - began:.0f} s", file=sys.stderr)

        yield report
