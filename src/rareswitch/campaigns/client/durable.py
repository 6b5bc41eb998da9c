"""Files that survive crashes and power loss, lines with checksums, and locks.

A file is replaced in four steps: write a temporary file, flush it to disk, rename it, flush the
folder. A line is the SHA-256 of a JSON text, a space and the text.
"""

import errno
import json
import os
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rareswitch.campaigns.errors import DamagedError, UnavailableError
from rareswitch.campaigns.rulebook.rows import canonical, digest_of

if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: int) -> bool:
        try:
            os.lseek(file, 2**40, os.SEEK_SET)  # a locked byte is unreadable: lock beyond data
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

    def _wait_for_lock(file: int) -> None:
        while not _try_lock(file):
            time.sleep(0.01)

else:
    import fcntl

    def _try_lock(file: int) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _wait_for_lock(file: int) -> None:
        fcntl.flock(file, fcntl.LOCK_EX)


BINARY = getattr(os, "O_BINARY", 0)


def sealed(value: Any) -> bytes:
    """Return a line with a value and its checksum.

    >>> unsealed(sealed({"id": "ada"}))
    {'id': 'ada'}
    """
    text = canonical(value)
    return f"{digest_of(text)} {text}\n".encode()


def unsealed(line: bytes) -> Any:
    """Return the value of a line; raise DamagedError if the line was cut or altered."""
    digest, _, text = line.partition(b" ")
    if not text.endswith(b"\n") or digest_of(text[:-1]).encode() != digest:
        raise DamagedError("the line was cut or altered: its checksum does not match")
    return json.loads(text)


def write(path: Path, data: bytes, *, through: Path) -> None:
    """Write a file atomically and durably; its temporary file is in the folder `through`."""
    part = through / secrets.token_hex(8)
    with _storing(path):
        try:
            file = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | BINARY, 0o600)
            try:
                write_all(file, data)
                os.fsync(file)
            finally:
                os.close(file)
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(part)
            raise
        sync_folder(path.parent)


def append(path: Path, file: int, data: bytes, *, at: int) -> None:
    """Append bytes durably to an open file of length `at`; a failure leaves no partial data."""
    with _storing(path):
        try:
            os.lseek(file, at, os.SEEK_SET)
            write_all(file, data)
            os.fsync(file)
        except OSError:
            with suppress(OSError):
                os.ftruncate(file, at)
            raise


def write_all(file: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(file, view) :]


def remove(path: Path) -> None:
    """Remove a file durably; a missing file is not an error."""
    with _storing(path):
        with suppress(FileNotFoundError):
            os.unlink(path)
        sync_folder(path.parent)


def move(path: Path, target: Path) -> None:
    """Move a file to another folder durably."""
    with _storing(target):
        os.replace(path, target)
        sync_folder(target.parent)
        sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Create a folder and its parents, readable only by the owner."""
    with _storing(path):
        if not path.is_dir():
            make_folder(path.parent)
            with suppress(FileExistsError):
                os.mkdir(path, 0o700)
            sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to disk (POSIX only)."""
    if os.name == "posix":
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
        finally:
            os.close(file)


def lock_file(file: int) -> bool:
    """Try to lock an open file; the system releases the lock if the process dies."""
    return _try_lock(file)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of a file; without `wait`, yield False if another process or thread has it."""
    with _storing(path):
        file = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        if wait:
            _wait_for_lock(file)
        yield wait or _try_lock(file)
    finally:
        os.close(file)


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Convert errors of a full, read-only or broken disk into UnavailableError."""
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"{path} cannot be written ({error.strerror}); make room there or use another folder",
            full=error.errno in (errno.ENOSPC, errno.EDQUOT),
        ) from error
