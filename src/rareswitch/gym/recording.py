"""What is written while a learner plays: every episode at once, its state from time to time.

A line of the log is written when its episode ends, and always before a state that knows it. Lines
after the last state are dropped when a training goes on, and played again: episodes are seeded by
their numbers, so the same ones come.
"""

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rareswitch.gym.play import Played
from rareswitch.gym.run_folder import RunFolder
from rareswitch.learning.learner import Learner
from rareswitch.support.archive import write_bytes
from rareswitch.trajectories.json_lines import line_of

# The state is kept so many seconds after it was last, or so many times what that took.
SECONDS = 2.0
TIMES = 20.0


class Recording:
    """A learner's episodes on their way into a folder; with `with`, nothing is lost at its end.

    `policies=False` keeps the policy in force with the learner's state, and none beside it.
    """

    def __init__(self, folder: RunFolder, learner: Learner, *, policies: bool = True) -> None:
        self._folder, self._learner, self._policies = folder, learner, policies
        self._log = open(folder.log, "ab", buffering=0)  # noqa: SIM115
        try:
            _claim(self._log, folder)
            _cut(self._log, folder.log, learner.episodes)
        except BaseException:
            self._log.close()
            raise
        self._written = self._kept = learner.episodes
        for version in folder.versions():
            if version > len(learner.ledger):
                folder.policy_file(version).unlink()
        if policies and not folder.policy_file(len(learner.ledger)).is_file():
            folder.write_policy(len(learner.ledger), learner.policy)
        self._next = time.monotonic() + SECONDS

    def keep(self, game: Played) -> None:
        """Write down an episode that the learner has just observed."""
        line = line_of(game.trajectory)
        if self._log.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder.log))
        self._written = game.number
        if game.switched and self._policies:
            self._folder.write_policy(len(self._learner.ledger), self._learner.policy)
        if time.monotonic() >= self._next:
            self.keep_state()

    def keep_state(self) -> None:
        """Write down the learner's state, if it is new and the log has all its episodes."""
        if self._kept == self._written and self._folder.state.exists():
            return
        if self._written != self._learner.episodes:
            return  # an episode whose line could not be written will be played again
        began = time.monotonic()
        os.fsync(self._log.fileno())
        write_bytes(self._folder.state, self._learner.snapshot())
        self._kept, ended = self._written, time.monotonic()
        self._next = ended + max(SECONDS, TIMES * (ended - began))

    @property
    def kept(self) -> int:
        """The number of episodes that the training goes on from."""
        return self._kept

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with suppress(*([] if error is None else [OSError])):  # the first error is the one told
                self.keep_state()
        finally:
            self._log.close()


def _claim(log: Any, folder: RunFolder) -> None:
    """Refuse to write where another process does; only POSIX lets one ask."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError(
            f"folder must not be in use; {folder.path} is, by another process"
        ) from None


def _cut(log: Any, path: Path, lines: int) -> None:
    """Drop what comes after so many lines."""
    with open(path, "rb") as file:
        for _ in range(lines):
            file.readline()
        log.truncate(file.tell())
