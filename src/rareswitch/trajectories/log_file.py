"""Logs of trajectories as files: the suffix of a name says in which format."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rareswitch.support.arguments import flag, short_repr
from rareswitch.trajectories.json_lines import read_json_lines, write_json_lines
from rareswitch.trajectories.parquet import read_parquet, write_parquet
from rareswitch.trajectories.trajectory import Trajectory

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)


def read_log(path: Path | str, *, drop_torn: bool = False) -> Iterator[Trajectory]:
    """Return the trajectories of a log one by one, as they are asked for.

    `.jsonl` and `.ndjson` are JSON lines, `.parquet` needs the extra `logs`. Everything is checked,
    and an error names the file, the line or row, and the field. A last line of JSON that a crash
    left torn is an error too, unless it is to be dropped.
    """
    path, lines = _known(path)
    drop_torn = flag("drop_torn", drop_torn)
    if not path.is_file():
        raise FileNotFoundError(f"path must be that of a log; there is no file {path}")
    return read_json_lines(path, drop_torn=drop_torn) if lines else read_parquet(path)


def write_log(
    path: Path | str,
    trajectories: Iterable[Trajectory],
    *,
    append: bool = False,
    drop_torn: bool = False,
) -> int:
    """Write trajectories to a new log, one by one as they come; return how many.

    JSON lines can be appended to, and a crash loses no more than the line that it tore: appending
    refuses such a file unless the torn line is to be dropped. A Parquet file is there once it is
    whole.
    """
    path, lines = _known(path)
    append, drop_torn = flag("append", append), flag("drop_torn", drop_torn)
    if not append and path.exists():
        raise FileExistsError(f"path must be that of a new log; {path} is there already")
    if lines:
        return write_json_lines(path, _checked(trajectories), append=append, drop_torn=drop_torn)
    if append:
        raise ValueError(f"append must be False for Parquet, which is written once; got {path}")
    return write_parquet(path, _checked(trajectories))


def _known(path: Path | str) -> tuple[Path, bool]:
    """Return a path and whether it is one of JSON lines."""
    if not isinstance(path, Path | str):
        raise TypeError(f"path must be a path or a text; got {short_repr(path)}")
    suffix = Path(path).suffix
    if suffix not in (*JSON_LINES, *PARQUET):
        allowed = ", ".join((*JSON_LINES, *PARQUET))
        raise ValueError(f"path must end with one of {allowed}; got {path}")
    return Path(path), suffix in JSON_LINES


def _checked(trajectories: Iterable[Trajectory]) -> Iterator[Trajectory]:
    if not isinstance(trajectories, Iterable) or isinstance(trajectories, Trajectory):
        raise TypeError(
            f"trajectories must be a list of Trajectories; got {short_repr(trajectories)}"
        )
    for trajectory in trajectories:
        if not isinstance(trajectory, Trajectory):
            raise TypeError(f"trajectories must be Trajectories; got {short_repr(trajectory)}")
        yield trajectory
