"""A disk that may lose at a crash whatever was not flushed: data of files, and names in folders.

`Disk` stands in for the module `os` of the code under test. Calls go through to the real files, and
are noted. `states(k)` then yields folders as they may be found if power was lost after k calls:
each name that was not flushed with its folder may be old or new, and each file may have any part of
the data that was written since its last flush.
"""

import os
import random
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Inode:
    data: bytes = b""
    flushed: bytes = b""


class Disk:
    def __init__(self, root):
        self.root = Path(root)
        self.calls = []
        self._files = {}  # descriptor → path
        self._folders = {}  # descriptor → path
        first = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        self._first = first
        self.folders = {path for path in self.root.rglob("*") if path.is_dir()}

    def __getattr__(self, name):
        return getattr(os, name)

    def mark(self, *what):
        """Note something that the code under test has promised by now."""
        self.calls.append(("mark", what))

    # The calls that change files

    def open(self, path, flags, mode=0o777):
        path = Path(path)
        new = not path.exists()
        file = os.open(path, flags, mode)
        if path.is_dir():
            self._folders[file] = path
        else:
            self._files[file] = path
            if new:
                self.calls.append(("create", path))
        return file

    def close(self, file):
        self._files.pop(file, None)
        self._folders.pop(file, None)
        os.close(file)

    def write(self, file, data):
        at = os.lseek(file, 0, os.SEEK_CUR)
        count = os.write(file, data)
        self.calls.append(("write", self._files[file], at, bytes(data[:count])))
        return count

    def ftruncate(self, file, size):
        os.ftruncate(file, size)
        self.calls.append(("truncate", self._files[file], size))

    def fsync(self, file):
        if file in self._folders:
            self.calls.append(("flush folder", self._folders[file]))
        else:
            self.calls.append(("flush", self._files[file]))

    def replace(self, source, target):
        os.replace(source, target)
        self.calls.append(("rename", Path(source), Path(target)))

    def unlink(self, path):
        os.unlink(path)
        self.calls.append(("unlink", Path(path)))

    def mkdir(self, path, mode=0o777):
        os.mkdir(path, mode)
        self.folders.add(Path(path))

    # The states after a crash

    def promised(self, count):
        """Return the marks among the first calls."""
        return [call[1] for call in self.calls[:count] if call[0] == "mark"]

    def states(self, count, *, seed):
        """Yield the contents of files by path, as they may be found after the first calls."""
        inodes, flushed, waiting = self._replay(count)
        rng = random.Random(seed * 100_003 + count)
        for keep_names, keep_data in ((0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.5, 0.5)):
            names = flushed | {path: inode for path, inode in waiting if rng.random() < keep_names}
            yield {
                path: _torn(inodes[inode], keep_data, rng)
                for path, inode in names.items()
                if inode is not None
            }

    def _replay(self, count):
        inodes = {number: Inode(data, data) for number, data in enumerate(self._first.values())}
        now = {path: number for number, path in enumerate(self._first)}
        flushed, waiting = dict(now), []
        for kind, *told in self.calls[:count]:
            if kind == "create":
                now[told[0]] = len(inodes)
                inodes[len(inodes)] = Inode()
                waiting.append((told[0], now[told[0]]))
            elif kind == "write":
                path, at, data = told
                inode = inodes[now[path]]
                inode.data = inode.data[:at] + data + inode.data[at + len(data) :]
            elif kind == "truncate":
                inodes[now[told[0]]].data = inodes[now[told[0]]].data[: told[1]]
            elif kind == "flush":
                inode = inodes[now[told[0]]]
                inode.flushed = inode.data
            elif kind == "flush folder":
                flushed |= {path: inode for path, inode in waiting if path.parent == told[0]}
                waiting = [one for one in waiting if one[0].parent != told[0]]
            elif kind == "rename":
                source, target = told
                now[target] = now.pop(source)
                waiting += [(target, now[target]), (source, None)]
            elif kind == "unlink":
                now.pop(told[0])
                waiting.append((told[0], None))
        return inodes, flushed, waiting

    def write_state(self, state, target):
        """Write a state into a new folder."""
        for folder in self.folders:
            (target / folder.relative_to(self.root)).mkdir(parents=True, exist_ok=True)
        for path, data in state.items():
            (target / path.relative_to(self.root)).write_bytes(data)


def _torn(inode, keep, rng):
    """Return the data of a file, with some part of what was written since its last flush."""
    if rng.random() < keep or inode.data == inode.flushed:
        return inode.data if keep else inode.flushed
    if inode.data.startswith(inode.flushed):
        end = rng.randint(len(inode.flushed), len(inode.data)) if keep else len(inode.flushed)
        return inode.data[:end]
    return inode.flushed
