"""NumPy archives (.npz) whose bytes depend on nothing but their contents, written in one step.

`np.savez` puts the time of day into the file; here every entry carries the same date, so that equal
results are equal files.
"""

import os
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

EPOCH = (1980, 1, 1, 0, 0, 0)

# What the readers of .zip and .npy raise on bytes that are not theirs.
DAMAGE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, NotImplementedError,
    RuntimeError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file so that a reader, or a crash, finds the old one or the whole new one."""
    part = _part(path)
    part.write_bytes(data)
    _settle(part, path)


def save_archive(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write named arrays to an .npz file."""
    part = _part(path)
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)
    _settle(part, path)


def load_archive(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file; a damaged file is an error that names it."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise ValueError(
            f"{path} is not a readable result file ({error}); move it away to compute it anew"
        ) from None


def _settle(part: Path, path: Path) -> None:
    """Put a finished file in its place once its bytes are on the disk."""
    with open(part, "rb") as file:
        os.fsync(file.fileno())
    os.replace(part, path)


def _part(path: Path) -> Path:
    """Name the unfinished file, apart from that of any other process."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")
