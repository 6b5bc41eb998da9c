"""Trajectories as rows of Arrow columns, and back.

The columns are the fields of a `Trajectory`. A dict is a struct and a tuple a struct with the
fields "(0)", "(1)", … All observations of a file are of one type, that of the first.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rareswitch.support.arguments import LARGEST_COUNT, short_repr
from rareswitch.trajectories.observation import observation_of, plain
from rareswitch.trajectories.trajectory import FIELDS, Trajectory


def schema_of(group: list[Trajectory]) -> Any:
    """Return the columns of a file whose first group this is."""
    import pyarrow as pa

    texts = all(isinstance(trajectory.key, str | None) for trajectory in group)
    types = {
        "observations": _type(group[0].observations) if group else pa.null(),
        "actions": pa.list_(pa.int64()),
        "rewards": pa.list_(pa.float64()),
        "terminated": pa.bool_(),
        "propensities": pa.list_(pa.float64()),
        "masks": pa.list_(pa.list_(pa.bool_())),
        "version": pa.int64(),
        "member": pa.int64(),
        "key": pa.string() if texts else pa.int64(),
    }
    return pa.schema([(name, types[name]) for name in FIELDS])


def batch_of(group: list[Trajectory], schema: Any, before: int) -> Any:
    """Return a group as rows of these columns."""
    import pyarrow as pa

    shows = schema.field("observations").type
    for number, trajectory in enumerate(group, start=before):
        if (found := _type(trajectory.observations)) != shows:
            raise ValueError(
                f"observations must all be of the type {shows} of the first in a Parquet file; "
                f"trajectory {number} has {found}. JSON lines take both"
            )
        if not _fits(trajectory.key, schema.field("key").type):
            raise ValueError(
                f"key must be a {schema.field('key').type} as the first in a Parquet file, within "
                f"64 bits; trajectory {number} has {short_repr(trajectory.key)}. JSON lines "
                "take both"
            )
    columns = []
    for field in schema:
        values = [getattr(trajectory, field.name) for trajectory in group]
        if field.name == "observations":
            values = [list(map(plain, v)) if isinstance(v, tuple) else v.tolist() for v in values]
        columns.append(pa.array([plain(value) for value in values], field.type))
    return pa.record_batch(columns, schema=schema)


def _fits(key: str | int | None, kind: Any) -> bool:
    """Return whether a key can stand in a column of that type."""
    if isinstance(key, int):
        return str(kind) == "int64" and key <= LARGEST_COUNT
    return key is None or str(kind) == "string"


def _type(observations: Any) -> Any:
    """Return the type of observations in a column; those of one episode must be of one type."""
    import pyarrow as pa

    if isinstance(observations, np.ndarray):
        kind = {"f": pa.float64(), "i": pa.int64(), "b": pa.bool_()}[observations.dtype.kind]
        for _ in range(observations.ndim):
            kind = pa.list_(kind)
        return kind
    types = [_type_of_one(observation) for observation in observations]
    if different := [kind for kind in types if kind != types[0]]:
        raise ValueError(
            f"observations must all be of one type in a Parquet file; got {types[0]} and "
            f"{different[0]} in one episode. JSON lines take both"
        )
    return pa.list_(types[0])


def _type_of_one(observation: Any) -> Any:
    import pyarrow as pa

    if isinstance(observation, np.ndarray):
        return _type(observation)
    if isinstance(observation, tuple):
        return pa.struct([(f"({i})", _type_of_one(part)) for i, part in enumerate(observation)])
    if isinstance(observation, dict):
        return pa.struct([(key, _type_of_one(observation[key])) for key in sorted(observation)])
    kinds = {bool: pa.bool_(), int: pa.int64(), float: pa.float64(), str: pa.string()}
    return kinds[type(observation)]


def rows_of(batch: Any) -> Iterator[dict[str, Any]]:
    """Yield the fields of every row, without those that are null."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for i in range(batch.num_rows):
        values = {name: _value(column[i]) for name, column in columns.items()}
        yield {n: v for n, v in values.items() if v is not None or n not in FIELDS}


def _value(scalar: Any) -> Any:
    """Return one cell: an array where it is a list of numbers, or else as Python has it."""
    if not scalar.is_valid or not hasattr(scalar, "values"):
        return scalar.as_py()
    array = _array(scalar.values)
    return [observation_of(one) for one in scalar.as_py()] if array is None else array


def _array(values: Any) -> Any:
    """Return nested lists of numbers as one array, or None where they are not rectangular."""
    import pyarrow as pa
    import pyarrow.compute

    is_list = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    shape = [len(values)]
    while any(is_one(values.type) for is_one in is_list):
        lengths = pyarrow.compute.list_value_length(values).unique().to_pylist()
        if len(lengths) != 1 or lengths[0] is None:
            return None
        shape.append(lengths[0])
        values = values.flatten()
    kind = values.type
    numbers = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    if not numbers or values.null_count:
        return None
    return values.to_numpy(zero_copy_only=False).reshape(shape)
