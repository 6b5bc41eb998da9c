"""A partition of a log as a folder of plain .npy files, mapped into memory rather than read."""

from dataclasses import fields
from pathlib import Path

import numpy as np

from rareswitch.core.log import LogPartition, StageLog


def save_partition(partition: LogPartition, folder: Path) -> None:
    """Write a partition to a new folder, one folder inside it for each stage."""
    if folder.exists():
        raise ValueError(f"folder must not exist yet; {folder} does")
    for h, stage in enumerate(partition.stages):
        (folder / f"stage-{h}").mkdir(parents=True)
        for field in fields(stage):
            np.save(folder / f"stage-{h}" / f"{field.name}.npy", getattr(stage, field.name))


def open_partition(folder: Path) -> LogPartition:
    """Return the partition of a folder; its arrays stay on disk until they are used."""
    count = sum(1 for _ in folder.glob("stage-*"))
    if not count:
        raise ValueError(f"folder must hold a saved partition; {folder} has no stage-0")
    stages = []
    for h in range(count):
        files = {f.name: folder / f"stage-{h}" / f"{f.name}.npy" for f in fields(StageLog)}
        arrays = {name: np.load(file, mmap_mode="r") for name, file in files.items()}
        stages.append(StageLog(**arrays))
    return LogPartition(tuple(stages))
