"""A partition of a log as a folder of plain .npy files, mapped into memory rather than read.

partition.json   format, number of stages, dimension
steps.npy        the number of steps of each episode
stage-0/ …       features.npy, rewards.npy, lengths.npy, next_features.npy of each stage
"""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

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
    """Return the partition of a folder; its arrays stay on disk until they are used."""
    folder = Path(folder)
    try:
        about = json.loads((folder / "partition.json").read_text())
        horizon, dim = int(about["horizon"]), int(about["dim"])
    except OSError:
        raise ValueError(f"{folder} must hold a saved partition; it has no partition.json") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder / 'partition.json'} is not that of a partition ({error})") from None
    if about.get("format") != FORMAT:
        raise ValueError(
            f"{folder} must be a partition in format {FORMAT}; got format {about.get('format')!r}, "
            "written by another version of rareswitch"
        )
    steps = _load(folder / "steps.npy", np.int64, ("n",))
    stages = []
    for h in range(horizon):
        here = folder / f"stage-{h}"
        count = int((steps > h).sum())
        stages.append(
            StageLog(
                features=_load(here / "features.npy", np.float64, (count, dim)),
                rewards=_load(here / "rewards.npy", np.float64, (count,)),
                lengths=(lengths := _load(here / "lengths.npy", np.int64, (count,))),
                next_features=_load(
                    here / "next_features.npy", np.float64, (int(lengths.sum()), dim)
                ),
            )
        )
    return LogPartition(tuple(stages), steps)


def _load(path: Path, dtype: type[Any], shape: tuple[int | str, ...]) -> Any:
    """Map an array from disk, once it is known to be of that dtype and shape."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read ({error})") from None
    fits = array.ndim == len(shape) and all(
        isinstance(want, str) or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.dtype != dtype:
        raise ValueError(
            f"{path} must be {np.dtype(dtype)} of shape {shape}; got {array.dtype} of {array.shape}"
        )
    return array
