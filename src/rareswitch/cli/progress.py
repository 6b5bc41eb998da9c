"""Progress: a live line on a terminal, otherwise a line per second, or nothing."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Report(Protocol):
    """Show the steps done, the last step, and the total if it changed."""

    def __call__(self, done: int, last: str = "", total: int | None = None) -> None: ...


@contextmanager
def progress(label: str, total: int, *, quiet: bool = False) -> Iterator[Report]:
    """Yield a function that reports progress on standard error."""
    if quiet:
        yield lambda done, last="", total=None: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

        columns = (
            label,
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            "{task.description}",
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)
            yield lambda done, last="", total=None: bar.update(
                task, completed=done, description=last, total=total
            )
    else:
        began = said = time.monotonic()

        def report(done: int, last: str = "", total: int | None = total) -> None:
            nonlocal said
            now = time.monotonic()
            if now - said >= 1.0:
                said = now
                line = f"{label}: {done} of {total}, {now - began:.0f} s {last}".rstrip()
                print(line, file=sys.stderr, flush=True)

        yield report
