import errno
import os
import platform
import subprocess
import sys
import threading
import time
import zipfile

import numpy as np
import pytest

from rareswitch.support.archive import load_archive, save_archive, write_bytes

ARRAYS = {
    "regret": np.linspace(0.0, 1.0, 12).reshape(3, 4),
    "updated": np.eye(4, dtype=bool),
    "count/of-arm": np.array(7),
    "empty": np.zeros((0, 2)),
}


def test_arrays_come_back_as_they_were_saved(tmp_path):
    path = tmp_path / "a.npz"
    save_archive(path, ARRAYS)
    loaded = load_archive(path)
    assert list(loaded) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(loaded[name], array)
        assert loaded[name].dtype == array.dtype
    with np.load(path) as plain:
        np.testing.assert_array_equal(plain["regret"], ARRAYS["regret"])


def test_the_bytes_do_not_depend_on_the_time_of_day(tmp_path, monkeypatch):
    written = []
    for now in (1_000_000_000.0, 1_700_000_000.0):
        monkeypatch.setattr(time, "time", lambda now=now: now)
        monkeypatch.setattr(time, "localtime", lambda *_, now=now: time.gmtime(now))
        path = tmp_path / f"{now}.npz"
        save_archive(path, ARRAYS)
        written.append(path.read_bytes())
    assert written[0] == written[1]
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_arrays_give_other_bytes(tmp_path):
    one, other = tmp_path / "1.npz", tmp_path / "2.npz"
    save_archive(one, ARRAYS)
    save_archive(other, ARRAYS | {"count/of-arm": np.array(8)})
    assert one.read_bytes() != other.read_bytes()


def test_nothing_but_the_file_is_left_in_the_folder(tmp_path):
    save_archive(tmp_path / "a.npz", ARRAYS)
    write_bytes(tmp_path / "b.txt", b"text")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.txt"]
    assert (tmp_path / "b.txt").read_bytes() == b"text"


def test_a_crash_while_writing_leaves_the_old_file(tmp_path, monkeypatch):
    archive, text = tmp_path / "a.npz", tmp_path / "b.txt"
    save_archive(archive, ARRAYS)
    write_bytes(text, b"old")
    before = archive.read_bytes()

    def crash(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        save_archive(archive, {"regret": np.zeros(3)})
    with pytest.raises(KeyboardInterrupt):
        write_bytes(text, b"new")
    assert archive.read_bytes() == before
    assert text.read_bytes() == b"old"


@pytest.mark.parametrize("data", [b"", b"P", b"not an archive"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path, data):
    path = tmp_path / "a.npz"
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is not a readable result file") as caught:
        load_archive(path)
    assert str(path) in str(caught.value)
    assert "move it away" in str(caught.value)


def test_objects_are_neither_written_nor_read(tmp_path):
    with pytest.raises(ValueError, match="pickle"):
        save_archive(tmp_path / "a.npz", {"x": np.array([{}], dtype=object)})
    np.savez(tmp_path / "b.npz", x=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match=r"b\.npz is not a readable result file"):
        load_archive(tmp_path / "b.npz")


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_archive(tmp_path / "absent.npz")


def test_whatever_byte_is_damaged_the_error_names_the_file(tmp_path):
    path = tmp_path / "a.npz"
    arrays = {"x": np.arange(40.0), "y": np.ones((2, 3), bool)}
    save_archive(path, arrays)
    whole = path.read_bytes()

    def refused(data):
        path.write_bytes(data)
        try:
            load_archive(path)
        except ValueError as error:
            return str(error)
        return None

    flipped = [whole[:k] + bytes([whole[k] ^ 0x5A]) + whole[k + 1 :] for k in range(len(whole))]
    told = [message for message in map(refused, flipped) if message is not None]
    assert len(told) > len(whole) / 2  # some bytes, such as a date, mean nothing
    assert all(message.startswith(f"{path} is not a readable result file") for message in told)
    assert refused(whole[: len(whole) // 2]).startswith(str(path))


def part_of(process):
    return f".a.npz.{platform.node()}.{process}.0123abcd.part"


def test_what_a_killed_process_left_is_removed_when_its_file_is_written_again(tmp_path):
    killed = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    alive = [os.getppid(), 1]
    killed.kill()
    killed.wait()
    kept = {
        *(part_of(process) for process in alive),
        part_of("x"),
        part_of(10**40),
        f".a.npz.elsewhere.{killed.pid}.part",
        f".b.npz.{platform.node()}.{killed.pid}.part",
    }
    for name in (*kept, part_of(killed.pid)):
        (tmp_path / name).write_bytes(b"half")
    save_archive(tmp_path / "a.npz", ARRAYS)
    assert {path.name for path in tmp_path.iterdir()} == kept | {"a.npz"}


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    for write in (lambda path: save_archive(path, ARRAYS), lambda path: write_bytes(path, b"")):
        with pytest.raises(NotADirectoryError, match=r"file/a\.npz cannot be written .*choose"):
            write(tmp_path / "file" / "a.npz")


def test_a_size_that_no_memory_holds_is_an_error_that_names_the_file(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}"
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("x.npy", magic + header)
    with pytest.raises(ValueError, match=r"a\.npz is not a readable result file"):
        load_archive(tmp_path / "a.npz")


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space left"), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, error):
    (tmp_path / "a.npz").write_bytes(b"the old one")

    def fail(descriptor):
        raise error

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(type(error)):
        save_archive(tmp_path / "a.npz", {"x": np.zeros(3)})
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
    assert (tmp_path / "a.npz").read_bytes() == b"the old one"


def test_two_threads_may_write_one_path_at_the_same_time(tmp_path):
    path, failures = tmp_path / "a.bin", []
    contents = [bytes([number]) * 50_000 for number in (1, 2)]
    start = threading.Barrier(3)

    def write(data):
        start.wait()
        for _ in range(60):
            try:
                write_bytes(path, data)
            except OSError as error:
                failures.append(error)

    threads = [threading.Thread(target=write, args=(data,)) for data in contents]
    for thread in threads:
        thread.start()
    start.wait()
    seen = set()
    while any(thread.is_alive() for thread in threads):
        if path.exists():
            seen.add(path.read_bytes())
    for thread in threads:
        thread.join()
    assert failures == []
    assert seen <= set(contents)  # a reader never finds half a file
    assert path.read_bytes() in contents
    assert [found.name for found in tmp_path.iterdir()] == ["a.bin"]
