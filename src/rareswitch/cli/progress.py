"""Progress: a live line on a terminal, otherwise a line every ten seconds, or nothing."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY = 10.0  # seconds between two lines in a file


class Report(Protocol):
    """Show the steps done, the last step, and the total if it changed."""

    def __call__(self, done: int, last: str = "", total: int | None = None) -> None: ...


def _duration(seconds: float) -> str:
    """Return a duration in the unit that suits it.

    >>> [_duration(seconds) for seconds in (9.6, 150, 9000)]
    ['10 s', '2 min', '2.5 h']
    """
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


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
        before: int | None = None  # steps that were done at the start

        def report(done: int, last: str = "", total: int | None = total) -> None:
            nonlocal said, before
            now = time.monotonic()
            before = done if before is None or done < before else before
            if now - said >= EVERY:
                said = now
                line = f"{label}: {done} of {total}, {now - began:.0f} s"
                if total and before < done < total:
                    left = (now - began) / (done - before) * (total - done)
                    line += f", about {_duration(left)} left"
                print(f"{line} {last}".rstrip(), file=sys.stderr, flush=True)

        yield report
