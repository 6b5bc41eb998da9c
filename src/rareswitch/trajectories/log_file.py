"""Read and write logs: files with a format by suffix, tables of steps, trajectories."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from rareswitch.core.episode import Episode
from rareswitch.support.arguments import flag, short_repr
from rareswitch.trajectories.episodes import RowsOf, episode_of
from rareswitch.trajectories.json_lines import read_json_lines, write_json_lines
from rareswitch.trajectories.parquet import open_parquet, read_parquet, write_parquet
from rareswitch.trajectories.rewards import Rewards
from rareswitch.trajectories.steps import Columns, from_table, is_table, read_csv
from rareswitch.trajectories.trajectory import Trajectory

JSON_LINES = (".jsonl", ".ndjson")
PARQUET = (".parquet",)
CSV = (".csv",)


def read_log(
    source: Any, *, columns: Columns | None = None, drop_torn: bool = False
) -> Iterator[Trajectory]:
    """Return the trajectories of a log lazily.

    `source` is a file, a data frame of steps, or trajectories, which are returned unchanged.
    `.jsonl` and `.ndjson` files are JSON lines; `.parquet`, which needs the extra `logs`, has a row
    for each episode or for each step; `.csv` has a row for each step. `columns` names the columns
    of steps, such as {"episode": "patient", "observation": ["age", "dose"]}. An error names the
    file, the line or row, and the field. A last line of JSON that a crash tore is an error, unless
    `drop_torn` skips it.
    """
    drop_torn = flag("drop_torn", drop_torn)
    if isinstance(source, Path | str):
        return _read_file(_known(source, (*JSON_LINES, *PARQUET, *CSV)), columns, drop_torn)
    if is_table(source):
        return iter(from_table(source, columns))
    if not isinstance(source, Iterable) or isinstance(source, Trajectory):
        raise TypeError(
            f"log must be a file, a table of steps or a list of Trajectories; got "
            f"{short_repr(source)}"
        )
    return _checked("log", source)


def episodes_of(
    log: Any, features: RowsOf, rewards: Rewards | None = None, horizon: int | None = None
) -> Iterator[Episode]:
    """Return the learner's episodes of a log, for `warm_start`; `read_log` describes logs.

    The other arguments are those of `episode_of`. An error names the number of the trajectory in
    the log, counted from 0.
    """
    turn = partial(episode_of, features=features, rewards=rewards, horizon=horizon)
    return _episodes(read_log(log), turn)


def _episodes(
    log: Iterator[Trajectory], turn: Callable[[Trajectory], Episode]
) -> Iterator[Episode]:
    for number, one in enumerate(log):
        try:
            made = turn(one)
        except ValueError as error:
            raise ValueError(f"trajectory {number} of the log: {error}") from error
        yield made


def _read_file(path: Path, columns: Columns | None, drop_torn: bool) -> Iterator[Trajectory]:
    if not path.is_file():
        raise FileNotFoundError(f"path must be the path of a log; there is no file {path}")
    if path.suffix in JSON_LINES:
        return read_json_lines(path, drop_torn=drop_torn)
    if path.suffix in CSV:
        return iter(from_table(read_csv(path), columns, place=str(path)))
    with open_parquet(path) as file:
        if columns is None and {"actions", "observations"} & {*file.schema_arrow.names}:
            return read_parquet(path)
        return iter(from_table(file.read(), columns, place=str(path)))


def write_log(
    path: Path | str,
    trajectories: Iterable[Trajectory],
    *,
    append: bool = False,
    drop_torn: bool = False,
) -> int:
    """Write trajectories to a new log, one by one; return their number.

    `append` adds to a file of JSON lines. A crash loses at most its last line; appending to such a
    torn file raises ValueError, unless `drop_torn` drops that line. A Parquet file appears when it
    is complete.
    """
    path = _known(path, (*JSON_LINES, *PARQUET))
    append, drop_torn = flag("append", append), flag("drop_torn", drop_torn)
    if not append and path.exists():
        raise FileExistsError(f"path must be the path of a new log; {path} exists already")
    if not isinstance(trajectories, Iterable) or isinstance(trajectories, Trajectory):
        raise TypeError(
            f"trajectories must be a list of Trajectories; got {short_repr(trajectories)}"
        )
    checked = _checked("trajectories", trajectories)
    if path.suffix in JSON_LINES:
        return write_json_lines(path, checked, append=append, drop_torn=drop_torn)
    if append:
        raise ValueError(f"append must be False for Parquet, which is written once; got {path}")
    return write_parquet(path, checked)


def _known(path: Any, suffixes: tuple[str, ...]) -> Path:
    """Return the path, or raise ValueError if its suffix is unknown."""
    if not isinstance(path, Path | str):
        raise TypeError(f"path must be a path or a text; got {short_repr(path)}")
    if Path(path).suffix not in suffixes:
        raise ValueError(f"path must end with one of {', '.join(suffixes)}; got {path}")
    return Path(path)


def _checked(name: str, given: Iterable[Any]) -> Iterator[Trajectory]:
    for trajectory in given:
        if not isinstance(trajectory, Trajectory):
            raise TypeError(f"{name} must be Trajectories; got {short_repr(trajectory)}")
        yield trajectory
