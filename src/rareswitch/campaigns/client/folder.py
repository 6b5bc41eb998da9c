"""The folder of a client: cached artifacts, assignments, episodes in progress, and the outbox.

    campaign.json   the last fetched version, protocol and summary
    artifacts/      policies and the feature map, each under its SHA-256
    assignments/    reserved and requested assignments
    episodes/       a journal of each episode in progress
    outbox/         unacknowledged reports, in order
    refused/        reports that the server refused, with its reason
    damaged/        files whose checksum does not match

Several processes may share it. Only the owner may read it, because reports may contain names.
"""

import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rareswitch.campaigns.client import durable
from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.rulebook.rows import digest_of

PARTS = ("artifacts", "assignments", "episodes", "outbox", "refused", "damaged", "tmp")


def name_of(episode_id: str) -> str:
    """Return a safe file name for an episode; some file systems forbid colons or fold case."""
    return digest_of(episode_id)[:32]


class Folder:
    """The folder of one campaign and server, inside the user's folder."""

    def __init__(self, path: str | os.PathLike[str], server: str, campaign: str) -> None:
        of_server = digest_of(server)[:12]
        top = Path(path).expanduser().absolute()
        self.path = top / f"{quote(campaign, safe='')}-{of_server}"
        for part in PARTS:
            durable.make_folder(self.path / part)
        with self.locked():  # writers hold the lock, so temporary files are of dead processes
            for left in (self.path / "tmp").iterdir():
                with suppress(FileNotFoundError):
                    left.unlink()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the writers' lock while a file is written."""
        with durable.locked(self.path / "lock"):
            yield

    def sending(self) -> AbstractContextManager[bool]:
        """Hold the sender's lock; yield False if another process or thread sends."""
        return durable.locked(self.path / "sending", wait=False)

    def write(self, name: str, data: bytes) -> None:
        """Write a file durably; the caller holds the lock."""
        durable.write(self.path / name, data, through=self.path / "tmp")

    def write_value(self, name: str, value: Any) -> None:
        self.write(name, durable.sealed(value))

    def read_value(self, name: str) -> Any:
        """Return the value of a file; None without a file. Move a damaged file to `damaged`."""
        try:
            return durable.unsealed((self.path / name).read_bytes())
        except FileNotFoundError:
            return None
        except DamagedError:
            self.put_aside(name)
            return None

    def put_aside(self, name: str) -> None:
        """Move a damaged file to `damaged`, where a person can examine it."""
        path = self.path / name
        with suppress(FileNotFoundError):
            mark = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
            durable.move(path, self.path / "damaged" / f"{path.name}.{mark}")

    def names(self, part: str) -> list[str]:
        """Return the sorted names of the files in a part."""
        return sorted(os.listdir(self.path / part))

    # Artifacts

    def keep_artifact(self, digest: str, data: bytes) -> None:
        """Keep verified bytes under their SHA-256."""
        assert digest_of(data) == digest
        with self.locked():
            self.write(f"artifacts/{digest}", data)

    def artifact(self, digest: str) -> bytes | None:
        """Return the bytes of a digest, if they are present and undamaged."""
        try:
            data = (self.path / "artifacts" / digest).read_bytes()
        except FileNotFoundError:
            return None
        if digest_of(data) != digest:
            self.put_aside(f"artifacts/{digest}")
            return None
        return data
