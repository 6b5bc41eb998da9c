"""A log as JSON lines: one episode a line, exact to the last bit, safe to append to.

Each line is an object with the fields of a `Trajectory` that are not None. Arrays are nested lists,
a dict is an object and a tuple an object with the keys "(0)", "(1)", … A last line is torn by a
crash if it has no end of line and is no whole episode.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from rareswitch.trajectories.trajectory import Trajectory, plain_fields, trajectory_at


def read_json_lines(path: Path, *, drop_torn: bool = False) -> Iterator[Trajectory]:
    """Yield the checked trajectories of a file lazily.

    A torn last line raises ValueError, unless `drop_torn` skips it.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            place = f"{path}, line {number}"
            try:
                values = _values(line)
            except (ValueError, RecursionError) as error:
                if line.endswith(b"\n"):
                    raise ValueError(f"{place}: must be an episode in JSON; {error}") from None
                if drop_torn:
                    return
                raise ValueError(_torn(path, number, line)) from None
            yield trajectory_at(place, values)


def write_json_lines(
    path: Path, trajectories: Iterable[Trajectory], *, append: bool = False, drop_torn: bool = False
) -> int:
    """Write trajectories to a new file, or append them; return their number.

    Each line is passed to the system in one write before the next trajectory is read.
    """
    if append and path.exists():
        _complete(path, drop_torn=drop_torn)
    count = 0
    with open(path, "ab" if append else "xb", buffering=0) as file:
        for trajectory in trajectories:
            file.write(line_of(trajectory))
            count += 1
    return count


def line_of(trajectory: Trajectory) -> bytes:
    """Return one trajectory as a line.

    >>> once = Trajectory(observations=[0, 1], actions=[1], rewards=[0.5], terminated=True, key=7)
    >>> line_of(once).decode()
    '{"observations":[0,1],"actions":[1],"rewards":[0.5],"terminated":true,"key":7}\\n'
    """
    values = {n: value for n, value in plain_fields(trajectory).items() if value is not None}
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _values(line: bytes) -> dict[str, Any]:
    """Return the fields that a line of JSON holds."""
    text = line.decode("utf-8", "surrogatepass")
    values = json.loads(text, parse_constant=_refuse, object_pairs_hook=_distinct)
    if not isinstance(values, dict):
        raise ValueError("it is not an object")
    return values


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"it holds {word}, which is not a number")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        twice = next(name for name, _ in pairs if [n for n, _ in pairs].count(name) > 1)
        raise ValueError(f"it holds {twice!r} twice")
    return values


def _complete(path: Path, *, drop_torn: bool) -> None:
    """Make a file end with a whole line: add a missing end of line, or drop a torn line."""
    with open(path, "rb+") as file:
        end = file.seek(0, os.SEEK_END)
        start = _last_line(file, end)
        file.seek(start)
        line = file.read()
        if not line or line.endswith(b"\n"):
            return
        try:
            _values(line)
        except (ValueError, RecursionError):
            if not drop_torn:
                raise ValueError(_torn(path, None, line)) from None
            file.truncate(start)
        else:
            file.seek(end)
            file.write(b"\n")


def _last_line(file: Any, end: int, block: int = 2**16) -> int:
    """Return the start of the last line of a file, ignoring a final end of line."""
    stop = end
    while stop > 0:
        start = max(0, stop - block)
        file.seek(start)
        found = file.read(stop - start).rfind(b"\n", 0, stop - start - (stop == end))
        if found >= 0:
            return start + found + 1
        stop = start
    return 0


def _torn(path: Path, number: int | None, line: bytes) -> str:
    where = "its last line" if number is None else f"line {number}, the last,"
    return (
        f"{path}: {where} is torn: {len(line)} bytes without an end of line; drop_torn=True drops "
        "it"
    )
