"""A folder that is there once it is whole: written beside its place, then moved into it."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a folder to write to, which takes the place of `target` when the block is left.

    `target` must be empty or not there. Whatever goes wrong, it stays so: a process that is killed
    leaves a folder beside it whose name ends in .incomplete.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise FileExistsError(f"folder must be empty or new; {target} is not")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = Path(
        tempfile.mkdtemp(prefix=f".{target.name}.", suffix=".incomplete", dir=target.parent)
    )
    try:
        part.chmod(0o755)
        yield part
        for path in part.rglob("*"):
            if path.is_file():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
        if target.exists():
            target.rmdir()  # only POSIX would replace it
        os.replace(part, target)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def digest_of_file(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
