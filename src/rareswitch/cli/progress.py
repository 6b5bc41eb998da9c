"""Progress: a live line on a terminal, otherwise a line every ten seconds, or nothing."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

EVERY = 10.0  # seconds between two lines in a file
# The first steps are slow: workers start, and the slowest pieces may come first. So there is no
# estimate before this share of the steps, or this many seconds.
LEAST_SHARE = 0.03
LEAST_SECONDS = 60.0


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


def _foreseeable(done: int, total: int, seconds: float) -> bool:
    """Return whether the steps done since the start allow an estimate of the time left.

    >>> _foreseeable(1, 400, 9.5), _foreseeable(12, 400, 9.5), _foreseeable(1, 400, 60.0)
    (False, True, True)
    """
    return done > 0 and (done >= LEAST_SHARE * total or seconds >= LEAST_SECONDS)


@contextmanager
def progress(label: str, total: int, *, quiet: bool = False) -> Iterator[Report]:
    """Yield a function that reports progress on standard error."""
    if quiet:
        yield lambda done, last="", total=None: None
    elif sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TimeRemainingColumn
        from rich.text import Text

        start: int | None = None  # steps that were done at the start

        class Remaining(TimeRemainingColumn):
            """The time left, or dashes before an estimate is possible."""

            def render(self, task: Task) -> Text:
                new = int(task.completed) - (start or 0)
                if _foreseeable(new, int(task.total or 0), task.elapsed or 0.0):
                    return super().render(task)
                return Text("-:--:--", style="progress.remaining")

        columns = (
            label,
            BarColumn(),
            MofNCompleteColumn(),
            Remaining(),
            "{task.description}",
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task("", total=total)

            def show(done: int, last: str = "", total: int | None = None) -> None:
                nonlocal start
                start = done if start is None or done < start else start
                bar.update(task, completed=done, description=last, total=total)

            yield show
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
                new = done - before
                if total and done < total and _foreseeable(new, total, now - began):
                    left = (now - began) / new * (total - done)
                    line += f", about {_duration(left)} left"
                print(f"{line} {last}".rstrip(), file=sys.stderr, flush=True)

        yield report
