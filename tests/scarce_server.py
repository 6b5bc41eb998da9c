"""A PostgreSQL server whose disk fills up, and has room again. See the tests.

    python scarce_server.py tables|log FOLDER

FOLDER is a small file system, for the tables or for the log of changes; what else the server writes
is where there is room.
"""

import os
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from campaign_builders import create, fill, report
from postgres_server import connect, running_postgres
from rareswitch.campaigns import Campaign, UnavailableError, open_store
from scarce_room import check, fill_up, learn

PATIENCE = 60.0  # seconds until a server must have recovered


def hand_over(server, *paths):
    """Let files belong to whom the server runs as."""
    if server.identity:
        for path in paths:
            shutil.chown(path, server.identity["user"], server.identity["group"])


def fill_with_ballast(folder, *, left):
    """Leave so many blocks of a file system; return what takes up the others."""
    ballast, free = folder / "ballast", os.statvfs(folder)
    ballast.write_bytes(bytes((free.f_bavail - left) * free.f_frsize))
    return ballast


def database_in(server, folder):
    """Create a database whose tables are in a folder; return its URL."""
    tables = folder / "tables"
    tables.mkdir()
    hand_over(server, tables)
    with closing(connect(server.url(), autocommit=True)) as connection:
        connection.execute(f"create tablespace small location '{tables}'")
        connection.execute("create database small tablespace small")
    return server.url("small")


def full_tables(server, folder):
    """Record until there is no room: what was answered is there, the rest can be asked again."""
    url = database_in(server, folder)
    with open_store(url, create=True) as store:
        campaign = create(store, episodes=12_000, batches=1000)
        fill(campaign, range(12))
        ballast = fill_with_ballast(folder, left=40)
        taken = fill_up(campaign, 12)
        assert taken > 12
        for attempt in (
            lambda: campaign.record(report(taken)),
            lambda: list(campaign.record_all(report(k) for k in range(taken, taken + 50))),
        ):
            with pytest.raises(UnavailableError, match="there is no room left") as caught:
                attempt()
            assert caught.value.full
        assert campaign.record(report(0)).seq == 1  # what is recorded needs no room
        check(campaign, taken)
        with open_store(url) as other:
            check(Campaign(other, "trial"), taken)
        ballast.unlink()
        assert campaign.record(report(taken)).seq == taken + 1
        learn(campaign)
        check(campaign, taken + 1)
        assert campaign.version == 2
    assert "No space left on device" in server.log.read_text()


def move_log(server, folder):
    """Let a server write its log of changes into a folder."""
    here, there = server.data / "pg_wal", folder / "log"
    server.stop()
    shutil.copytree(here, there)
    shutil.rmtree(here)
    here.symlink_to(there)
    there.chmod(0o700)
    hand_over(server, there, *there.rglob("*"))
    server.start()


def write_much(url):
    """Let somebody else write into the same database."""
    with closing(connect(url, autocommit=True)) as connection:
        connection.execute("create table neighbours (written text)")
        for _ in range(1000):
            connection.execute(
                "insert into neighbours select repeat(md5(random()::text), 8) "
                "from generate_series(1, 1000)"
            )


def full_log(server, folder):
    """Write until the server itself gives up: it goes on when that runs again."""
    url = server.create_database()
    move_log(server, folder)
    with open_store(url, create=True) as store:
        campaign = create(store, episodes=12_000, batches=1000)
        fill(campaign, range(12))
        ballast = fill_with_ballast(folder, left=4)
        with pytest.raises(psycopg.Error):
            write_much(url)
        answered = []
        with pytest.raises(UnavailableError, match="cannot be written"):
            answered.extend(map(campaign.record, map(report, range(12, 9999))))
        taken = 12 + len(answered)
        ballast.unlink()
        assert answer_again(server, campaign, report(taken)).seq == taken + 1
        learn(campaign)
        check(campaign, taken + 1)
        assert campaign.version == 2
    assert "No space left on device" in server.log.read_text()


def answer_again(server, campaign, asked):
    """Ask until there is an answer, as an actor does; somebody starts a server that has ended."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if not server.running:
            server.start()
        try:
            return campaign.record(asked)
        except UnavailableError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.1)


if __name__ == "__main__":
    with running_postgres() as running:
        {"tables": full_tables, "log": full_log}[sys.argv[1]](running, Path(sys.argv[2]))
