"""A log as a Parquet file: one episode a row, with its steps as lists.

The columns are the fields of a `Trajectory`. A dict is a struct and a tuple a struct with the
fields "(0)", "(1)", … All observations of a file have the type of the first.
"""

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from rareswitch.support.arguments import short_repr
from rareswitch.support.extras import require
from rareswitch.trajectories.trajectory import FIELDS, Trajectory, plain_fields, trajectory_at

# Steps in a group of rows, and rows read at a time; both limit the memory in use.
GROUP_STEPS = 2**16
READ_ROWS = 32


def read_parquet(path: Path) -> Iterator[Trajectory]:
    """Yield the checked trajectories of a file lazily."""
    import pyarrow

    with open_parquet(path) as file:
        row = 0
        try:
            for batch in file.iter_batches(READ_ROWS):
                for values in batch.to_pylist():
                    known = {n: v for n, v in values.items() if v is not None or n not in FIELDS}
                    yield trajectory_at(f"{path}, row {row}", known)
                    row += 1
        except (pyarrow.ArrowException, OSError) as error:
            raise ValueError(f"{path}, row {row} or later: cannot be read ({error})") from None


def open_parquet(path: Path) -> Any:
    """Open a Parquet file."""
    require("logs")
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.ParquetFile(path, pre_buffer=False, page_checksum_verification=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} must be a readable Parquet file ({error})") from None


def write_parquet(path: Path, trajectories: Iterable[Trajectory]) -> int:
    """Write trajectories to a file atomically; return their number."""
    require("logs")
    import pyarrow.parquet

    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    groups = _groups(trajectories)
    first = next(groups)
    schema, count = _schema(first), 0
    try:
        with pyarrow.parquet.ParquetWriter(
            part, schema, compression="zstd", write_page_checksum=True
        ) as writer:
            for group in chain([first], groups):
                writer.write_batch(_batch(group, schema, count))
                count += len(group)
        os.replace(part, path)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
    return count


def _groups(trajectories: Iterable[Trajectory]) -> Iterator[list[dict[str, Any]]]:
    """Yield groups with about equal numbers of steps, or one empty group without trajectories."""
    group: list[dict[str, Any]] = []
    steps = 0
    for trajectory in trajectories:
        group.append(plain_fields(trajectory))
        steps += len(trajectory)
        if steps >= GROUP_STEPS:
            yield group
            group, steps = [], 0
    yield group


def _schema(rows: list[dict[str, Any]]) -> Any:
    """Return the schema of a file, given its first group."""
    import pyarrow as pa

    floats, texts = pa.list_(pa.float64()), all(isinstance(r["key"], str | None) for r in rows)
    types = {
        "observations": pa.infer_type([row["observations"] for row in rows[:1]]),
        "actions": pa.list_(pa.int64()),
        "rewards": floats,
        "terminated": pa.bool_(),
        "propensities": floats,
        "masks": pa.list_(pa.list_(pa.bool_())),
        "version": pa.int64(),
        "member": pa.int64(),
        "key": pa.string() if texts else pa.int64(),
    }
    return pa.schema([(name, types[name]) for name in FIELDS])


def _batch(rows: list[dict[str, Any]], schema: Any, before: int) -> Any:
    """Return a group as a batch with exactly its numbers, or raise an error with the field."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_pylist
    if (found := _exact(rows, lambda: batch(rows, schema))) is not None:
        return found
    for number, row in enumerate(rows, start=before):
        for field in schema:
            alone, own = [{field.name: row[field.name]}], pa.schema([field])
            if _exact(alone, lambda alone=alone, own=own: batch(alone, own)) is None:
                raise ValueError(
                    f"{field.name} must all be of the type {field.type}, as in the first "
                    f"trajectory of a Parquet file; trajectory {number} has "
                    f"{short_repr(row[field.name])}. JSON lines take all types"
                )
    raise AssertionError("a group is exact if each of its fields is")


def _exact(rows: list[dict[str, Any]], build: Any) -> Any:
    """Return a batch of rows, or None if the batch would change a value."""
    import pyarrow as pa

    try:
        batch = build()
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None
    return batch if _text(batch.to_pylist()) == _text(rows) else None


def _text(rows: list[dict[str, Any]]) -> str:
    return json.dumps(rows, sort_keys=True)
