"""A log as a Parquet file: one episode a row, its steps as lists, read group by group of rows."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from rareswitch.support.extras import require
from rareswitch.trajectories.arrow import batch_of, rows_of, schema_of
from rareswitch.trajectories.trajectory import Trajectory, trajectory_at

# Steps of a group of rows, and rows read at a time: what is in memory at once.
GROUP_STEPS = 2**16
READ_ROWS = 32


def read_parquet(path: Path) -> Iterator[Trajectory]:
    """Yield the trajectories of a file one by one, each checked, as they are asked for."""
    require("logs")
    import pyarrow
    import pyarrow.parquet

    try:
        file = pyarrow.parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is no readable Parquet file ({error})") from None
    with file:
        row = 0
        try:
            for batch in file.iter_batches(READ_ROWS):
                for columns in rows_of(batch):
                    yield trajectory_at(f"{path}, row {row}", columns)
                    row += 1
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}, row {row} or later: cannot be read ({error})") from None


def write_parquet(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories to a file, which is there once it is whole; return how many."""
    require("logs")
    import pyarrow.parquet

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    groups = _groups(trajectories)
    first = next(groups)
    schema, count = schema_of(first), 0
    try:
        with pyarrow.parquet.ParquetWriter(
            part, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in chain([first], groups):
                writer.write_batch(batch_of(group, schema, count))
                count += len(group)
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return count


def _groups(trajectories: Iterable[Trajectory]) -> Iterator[list[Trajectory]]:
    """Yield groups of about as many steps; of no trajectories, one group of none."""
    group: list[Trajectory] = []
    steps = 0
    for trajectory in trajectories:
        group.append(trajectory)
        steps += len(trajectory)
        if steps >= GROUP_STEPS:
            yield group
            group, steps = [], 0
    yield group
