"""A partition of a log as a folder of plain .npy files, mapped into memory rather than read.

partition.json   format, number of stages, dimension
steps.npy        the number of steps of each episode
stage-0/ …       features.npy, rewards.npy, lengths.npy, next_features.npy of each stage
"""

import json
import math
import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.archive import DAMAGE
from rareswitch.core.arguments import Ints, whole
from rareswitch.core.log import LogPartition, StageLog

FORMAT = 1


def save_partition(partition: LogPartition, folder: Path | str) -> None:
    """Write a partition to a new folder, one folder inside it for each stage."""
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"folder must not exist yet; {folder} does")
    for h, stage in enumerate(partition.stages):
        (folder / f"stage-{h}").mkdir(parents=True)
        for field in fields(stage):
            np.save(folder / f"stage-{h}" / f"{field.name}.npy", getattr(stage, field.name))
    np.save(folder / "steps.npy", partition.steps)
    about = {"format": FORMAT, "horizon": partition.horizon, "dim": partition.dim}
    (folder / "partition.json").write_text(json.dumps(about))


def open_partition(folder: Path | str) -> LogPartition:
    """Return the partition of a folder; its arrays stay on disk until they are used.

    What the folder says of itself is held against its arrays: damaged ones are named here.
    """
    folder = Path(folder)
    horizon, dim = _about(folder)
    steps = _load(folder / "steps.npy", np.int64, ("n",))
    if not len(steps) or steps.min() < 1 or steps.max() > horizon:
        raise ValueError(f"{folder / 'steps.npy'} must count steps from 1 to the horizon {horizon}")
    stages = tuple(_load_stage(folder / f"stage-{h}", h, steps, dim) for h in range(horizon))
    if (folder / f"stage-{horizon}").exists():
        raise ValueError(f"{folder} must have the {horizon} stages of its partition.json; got more")
    return LogPartition(stages, steps)


def _about(folder: Path) -> tuple[int, int]:
    """Return the horizon and dimension of a partition in the present format."""
    path = folder / "partition.json"
    try:
        about = dict(json.loads(path.read_bytes()))
    except OSError:
        raise ValueError(f"{folder} must hold a saved partition; it has no {path.name}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} is not that of a partition ({error})") from None
    if about.get("format") != FORMAT:
        raise ValueError(
            f"{path} must be of format {FORMAT}; got {about.get('format')!r}, written by another "
            "version of rareswitch"
        )
    try:
        horizon = whole("horizon", about.get("horizon"), least=1)
        return horizon, whole("dim", about.get("dim"), least=1)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not that of a partition ({error})") from None


def _load_stage(folder: Path, h: int, steps: Ints, dim: int) -> StageLog:
    there = steps[steps > h]
    lengths = _load(folder / "lengths.npy", np.int64, (len(there),))
    if (lengths < 0).any() or (lengths[there > h + 1] == 0).any():
        raise ValueError(f"{folder / 'lengths.npy'} must count the actions after every step")
    return StageLog(
        features=_load(folder / "features.npy", np.float64, (len(there), dim)),
        rewards=_load(folder / "rewards.npy", np.float64, (len(there),)),
        lengths=lengths,
        next_features=_load(folder / "next_features.npy", np.float64, (int(lengths.sum()), dim)),
    )


def _load(path: Path, dtype: type[Any], shape: tuple[int | str, ...]) -> Any:
    """Map an array from disk, once its header is known to tell the truth and what is wanted."""
    try:
        with open(path, "rb") as file:
            if (version := np.lib.format.read_magic(file)) != (1, 0):
                raise ValueError(f"format {version} of .npy")
            found, by_columns, kind = np.lib.format.read_array_header_1_0(file)
            start, end = file.tell(), file.seek(0, os.SEEK_END)
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read ({str(error)[:200]})") from None
    fits = len(found) == len(shape) and all(
        isinstance(want, str) or have == want for have, want in zip(found, shape, strict=True)
    )
    if not fits or kind != dtype or by_columns:
        raise ValueError(
            f"{path} must be {np.dtype(dtype)} of shape {shape}; got {kind} of {found}"
        )
    if math.prod(found) * kind.itemsize != end - start:
        raise ValueError(f"{path} must hold {found} numbers; it has {end - start} bytes of them")
    return np.memmap(path, kind, "r", start, found)
