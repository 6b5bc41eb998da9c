"""The journal of an episode in progress: its lines are on disk before an action is returned."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from rareswitch.campaigns.client import durable
from rareswitch.campaigns.client.folder import Folder, name_of
from rareswitch.campaigns.errors import ConflictError, DamagedError

Line = dict[str, Any]


class Journal:
    """An open journal, locked against other processes and threads."""

    def __init__(self, path: Path, file: int, lines: list[Line], size: int) -> None:
        self.path, self.lines = path, lines
        self._file: int | None = file
        self._size = size

    @classmethod
    def create(cls, folder: Folder, episode_id: str, first: Line) -> "Journal":
        """Create the journal of an episode with its first line; it must not exist yet."""
        path = _path(folder, episode_id)
        with folder.locked():
            if path.exists():
                raise ConflictError(f"episode {episode_id} is in progress in another process")
            folder.write(f"episodes/{path.name}", durable.sealed(first))
            journal = cls.open(folder, episode_id)
        assert journal is not None
        return journal

    @classmethod
    def open(cls, folder: Folder, episode_id: str) -> "Journal | None":
        """Open the journal of an episode; None if there is none.

        A last line that a crash cut off is overwritten, because no method had returned for it.
        Damage before the last line moves the journal to `damaged` and is an error.
        """
        path = _path(folder, episode_id)
        try:
            file = os.open(path, os.O_RDWR | durable.BINARY)
        except FileNotFoundError:
            return None
        try:
            if not durable.lock_file(file):
                raise ConflictError(f"episode {episode_id} is in progress in another process")
            if not _is_at(path, file):  # finished by another process since it was opened
                os.close(file)
                return None
            try:
                lines, size = read_lines(path.read_bytes())
            except DamagedError as error:
                folder.put_aside(f"episodes/{path.name}")
                raise DamagedError(
                    f"the journal of episode {episode_id} is damaged ({error}); it is now in "
                    f"{folder / 'damaged'}"
                ) from None
            return cls(path, file, lines, size)
        except BaseException:
            with suppress(OSError):
                os.close(file)
            raise

    def append(self, line: Line) -> None:
        """Add a line; it is on disk when this returns."""
        if self._file is None:
            raise ValueError("the episode is closed; open it again with client.episode(id)")
        data = durable.sealed(line)
        durable.append(self.path, self._file, data, at=self._size)
        self._size += len(data)
        self.lines.append(line)

    @property
    def closed(self) -> bool:
        return self._file is None

    def close(self) -> None:
        """Leave the journal on disk, for this or another process to continue."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __del__(self) -> None:
        self.close()

    def remove(self) -> None:
        """Remove the journal of an episode that is in the outbox or never began."""
        durable.remove(self.path)
        self.close()


def read_lines(data: bytes) -> tuple[list[Line], int]:
    """Return the complete lines of a journal, and their length in bytes."""
    lines: list[Line] = []
    size = 0
    for raw in data.splitlines(keepends=True):
        try:
            lines.append(durable.unsealed(raw))
        except DamagedError:
            if size + len(raw) < len(data):
                raise DamagedError(f"line {len(lines) + 1} does not match its checksum") from None
            break
        size += len(raw)
    if not lines:
        raise DamagedError("it has no whole line")
    return lines, size


def _path(folder: Folder, episode_id: str) -> Path:
    return folder / f"episodes/{name_of(episode_id)}"


def _is_at(path: Path, file: int) -> bool:
    """Return whether a path still names an open file."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(file))
    except FileNotFoundError:
        return False
