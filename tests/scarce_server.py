"""A PostgreSQL server whose data fill their disk, and have room again. See the tests.

    python scarce_server.py FOLDER

FOLDER is a small file system, for the tables; what else the server writes is where there is room.
"""

import os
import shutil
import sys
from contextlib import closing
from pathlib import Path

import pytest

from campaign_builders import create, fill, report
from postgres_server import connect, running_postgres
from rareswitch.campaigns import Campaign, UnavailableError, open_store
from scarce_room import check, fill_up, learn

LEFT = 40  # blocks of the file system, beside the ballast


def database_in(server, folder):
    """Create a database whose tables are in a folder; return its URL."""
    tables = folder / "tables"
    tables.mkdir()
    if server.identity:
        shutil.chown(tables, server.identity["user"], server.identity["group"])
    with closing(connect(server.url(), autocommit=True)) as connection:
        connection.execute(f"create tablespace small location '{tables}'")
        connection.execute("create database small tablespace small")
    return server.url("small")


def full(server, folder):
    """Record until there is no room: what was answered is there, the rest can be asked again."""
    url = database_in(server, folder)
    with open_store(url) as store:
        campaign = create(store, episodes=12_000, batches=1000)
        fill(campaign, range(12))
        ballast = folder / "ballast"
        with ballast.open("wb") as file:
            free = os.statvfs(folder)
            file.write(bytes((free.f_bavail - LEFT) * free.f_frsize))
        taken = fill_up(campaign, 12)
        assert taken > 12
        for attempt in (
            lambda: campaign.take(report(taken)),
            lambda: list(campaign.take_all(report(k) for k in range(taken, taken + 50))),
        ):
            with pytest.raises(UnavailableError, match="there is no room left") as caught:
                attempt()
            assert caught.value.full
        assert campaign.take(report(0)).seq == 1  # what is recorded needs no room
        check(campaign, taken)
        with open_store(url) as other:
            check(Campaign(other, "trial"), taken)
        ballast.unlink()
        assert campaign.take(report(taken)).seq == taken + 1
        learn(campaign)
        check(campaign, taken + 1)
        assert campaign.version == 2
    assert "No space left on device" in server.log.read_text()


if __name__ == "__main__":
    with running_postgres() as running:
        full(running, Path(sys.argv[1]))
