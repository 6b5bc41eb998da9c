"""Files written atomically, and NumPy archives (.npz) with reproducible bytes.

`np.savez` writes the time of day into the file; here every entry has the same date, so equal
results give equal files.
"""

import glob
import os
import platform
import secrets
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

EPOCH = (1980, 1, 1, 0, 0, 0)

# Exceptions of the readers of .zip and .npy for damaged files.
DAMAGE = (
    OSError, ValueError, TypeError, KeyError, AttributeError, EOFError, NotImplementedError,
    OverflowError, MemoryError, RuntimeError, SyntaxError, tokenize.TokenError,
    zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically: after a crash, `path` is the old file or the whole new file."""
    with _replacing(path) as part:
        part.write_bytes(data)


def save_archive(path: Path, arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Write named arrays to an .npz file."""
    with (
        _replacing(path) as part,
        zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
    ):
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(entry, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=False)


def load_archive(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of an .npz file; the error for a damaged file names it."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise
    except DAMAGE as error:
        raise ValueError(
            f"{path} is not a readable result file ({error}); move it away to compute it again"
        ) from None


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file; on success it replaces `path` atomically."""
    mine = f".{path.name}.{platform.node()}."
    part = path.with_name(f"{mine}{os.getpid()}.{secrets.token_hex(4)}.part")  # unique
    try:
        for left in path.parent.glob(f"{glob.escape(mine)}*.part"):
            process, _, _ = left.name.removeprefix(mine).partition(".")
            if _is_gone(process):
                left.unlink(missing_ok=True)
        yield part
        with open(part, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        with suppress(OSError):
            part.unlink()
        if not isinstance(error, OSError):
            raise
        raise OSError(
            error.errno,
            f"{path} cannot be written ({error.strerror}); free space or choose another folder",
        ) from None


def _is_gone(process: str) -> bool:
    """Return whether a process of this machine has ended; False except on POSIX."""
    if os.name != "posix" or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        pass  # another user's process, or no process id
    return False
