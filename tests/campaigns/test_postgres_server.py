import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

import postgres_server
from postgres_server import connect, running_postgres


@pytest.fixture
def table(postgres):
    """Return the URL of a database with one committed row."""
    url = postgres.create_database()
    with connect(url) as connection:
        connection.execute("create table kept (word text)")
        connection.execute("insert into kept values ('committed')")
    return url


def words(url):
    with connect(url) as connection:
        return [word for (word,) in connection.execute("select word from kept")]


def test_the_server_answers(postgres):
    with connect(postgres.url()) as connection:
        assert connection.execute("select 1").fetchone() == (1,)


def test_a_commit_waits_for_the_disk(postgres):
    with connect(postgres.url()) as connection:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert connection.execute(f"show {setting}").fetchone() == ("on",)


def test_the_password_is_asked_for(postgres):
    url = postgres.url().replace(postgres.password, "wrong")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        connect(url)


def test_fresh_databases_are_distinct_and_empty(postgres, table):
    other = postgres.create_database()
    assert other != table
    with pytest.raises(psycopg.errors.UndefinedTable):
        words(other)


def test_a_crash_keeps_what_was_committed_and_nothing_else(postgres, table):
    with closing(connect(table)) as connection:
        connection.execute("insert into kept values ('not committed')")
        postgres.kill()
        assert not postgres.running
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    with pytest.raises(psycopg.OperationalError):
        connect(table)
    postgres.start()
    assert words(table) == ["committed"]


@pytest.mark.parametrize("mode", ["smart", "fast", "immediate"])
def test_a_stopped_server_starts_again_at_the_same_address(postgres, table, mode):
    postgres.stop(mode)
    assert not postgres.running
    postgres.start()
    assert words(table) == ["committed"]


def shared_memory():
    """Return the ids of the segments that are there."""
    return {line.split()[1] for line in Path("/proc/sysvipc/shm").read_text().splitlines()}


@pytest.mark.parametrize("killed", [False, True])
def test_nothing_is_left_after_an_error(killed):
    with pytest.raises(ZeroDivisionError), running_postgres() as server:  # noqa: PT012
        segment = (server.data / "postmaster.pid").read_text().split()[-2]
        assert segment in shared_memory()
        if killed:
            server.kill()
        _ = 1 / 0
    assert not server.running
    assert not server.data.parent.exists()
    assert segment not in shared_memory()


def test_nothing_is_left_when_the_tests_are_killed():
    script = """
import os, signal
from postgres_server import running_postgres
with running_postgres() as server:
    print(server.process.pid, server.data.parent, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=Path(postgres_server.__file__).parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    pid, folder = done.stdout.split()
    deadline = time.monotonic() + postgres_server.PATIENCE
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert postgres_server.state_and_parent(int(pid))[0] in "ZX"


def test_without_postgresql_the_tests_fail_and_say_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(postgres_server, "DEBIAN", tmp_path)
    with pytest.raises(FileNotFoundError, match="apt-get install postgresql"):
        postgres_server.programs()


def test_the_newest_of_debians_versions_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(postgres_server, "DEBIAN", tmp_path)
    for version in ("9.6", "15", "17"):
        (tmp_path / version / "bin").mkdir(parents=True)
        (tmp_path / version / "bin" / "initdb").touch()
    assert postgres_server.programs() == tmp_path / "17" / "bin"
