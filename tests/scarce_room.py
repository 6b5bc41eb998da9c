"""A store on a file system that fills up, is read-only, and has room again. See the tests.

    python scarce_room.py full|read-only|sealed FOLDER

It mounts a small file system on the folder, so it needs a namespace of its own: run it with
`unshare --mount`, or as an ordinary user with `unshare --user --map-root-user --mount`.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from campaign_builders import chain, check_chains, create, fill, report
from rareswitch.campaigns import (
    Campaign,
    Learning,
    UnavailableError,
    backup,
    open_store,
    verify,
)


def mount(folder, *options):
    subprocess.run(["mount", "-t", "tmpfs", *options, "none", str(folder)], check=True)


def full(folder):
    """Record until there is no room: what was answered is there, the rest can be asked again."""
    mount(folder, "-o", "size=1536k")
    with open_store(folder / "store.db", create=True) as store:
        campaign = create(store, episodes=12_000, batches=1000)
        fill(campaign, range(12))
        ballast = folder / "ballast"
        with ballast.open("wb") as file:
            free = os.statvfs(folder)
            file.write(bytes((free.f_bavail - 20) * free.f_frsize))
        taken = fill_up(campaign, 12)
        assert taken > 12
        for attempt in (
            lambda: campaign.record(report(taken)),
            lambda: list(campaign.record_all(report(k) for k in range(taken, taken + 50))),
            lambda: learn(campaign),
        ):
            with pytest.raises(UnavailableError) as caught:
                attempt()
            assert caught.value.full
        assert campaign.record(report(0)).seq == 1  # what is recorded needs no room
        check(campaign, taken)
        before = sorted(folder.iterdir())
        with pytest.raises(
            UnavailableError, match=r"no backup .*backup\.db was made: .* there is no room left"
        ) as caught:
            backup(store, folder / "backup.db")
        assert caught.value.full
        assert sorted(folder.iterdir()) == before
        with open_store(folder / "store.db") as other:
            check(Campaign(other, "trial"), taken)
        ballast.unlink()
        assert campaign.record(report(taken)).seq == taken + 1
        learn(campaign)
        check(campaign, taken + 1)
        assert campaign.version == 2


def fill_up(campaign, taken):
    """Record until there is no room; return how many were."""
    with pytest.raises(UnavailableError, match="there is no room left") as caught:
        fill(campaign, range(taken, 10_000))
    assert caught.value.full
    return len(chain(campaign, "episodes"))


def learn(campaign):
    with Learning(campaign) as learning:
        learning.step()


def check(campaign, taken):
    check_chains(campaign)
    assert [row.episode_id for row in chain(campaign, "episodes")] == [
        f"p{k}" for k in range(taken)
    ]
    assert chain(campaign, "refusals") == []
    assert campaign.state.stopped is None


def read_only(folder):
    mount(folder)
    path = folder / "store.db"
    with open_store(path, create=True) as store:
        fill(create(store), range(5))
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    with pytest.raises(UnavailableError, match=r"store\.db cannot be opened"):
        open_store(path)
    with pytest.raises(UnavailableError, match=r"other\.db cannot be opened"):
        open_store(folder / "other.db", create=True)
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    with open_store(path) as store:
        campaign = Campaign(store, "trial")
        check(campaign, 5)
        store.engine.dispose()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(UnavailableError, match=r"store\.db cannot be written") as caught:
            campaign.record(report(5))
        assert not caught.value.full
        subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
        assert campaign.record(report(5)).seq == 6
        check(campaign, 6)


def sealed(folder):
    """Read stores on a read-only disk: closed, a backup, and after crashes."""
    mount(folder)
    path = folder / "closed.db"
    with open_store(path, create=True) as store:
        campaign = create(store)
        fill(campaign, range(3))
        backup(store, folder / "backup.db")
        fill(campaign, range(3, 5))
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{folder / 'crashed.db'}{end}")
            shutil.copy(f"{path}{end}", f"{folder / 'indexed.db'}{end}")
        shutil.copy(f"{path}-shm", f"{folder / 'indexed.db'}-shm")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert len(before) == 7
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    for name, taken in (("closed", 5), ("backup", 3), ("crashed", 5), ("indexed", 5)):
        with open_store(folder / f"{name}.db", read_only=True) as store:
            campaign = Campaign(store, "trial")
            check(campaign, taken)
            assert verify(campaign).problems == []
            with pytest.raises(UnavailableError, match="opened only for reading"):
                campaign.record(report(9))
    with (
        open_store(path, read_only=True) as store,
        pytest.raises(UnavailableError, match=r"no backup .*again\.db was made: .*Read-only"),
    ):
        backup(store, folder / "again.db")
    subprocess.run(["mount", "-o", "remount,rw", str(folder)], check=True)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


if __name__ == "__main__":
    {"full": full, "read-only": read_only, "sealed": sealed}[sys.argv[1]](Path(sys.argv[2]))
