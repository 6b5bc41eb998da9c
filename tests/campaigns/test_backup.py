"""A backup taken while others write is one moment of the store, restored to the same links."""

import errno
import os
import shutil
import threading
from pathlib import Path

import pytest

import campaign_builders
from campaign_builders import create, fill, propose, report
from rareswitch.campaigns import (
    Campaign,
    NotAllowedError,
    UnavailableError,
    backup,
    open_store,
    restore,
    status,
    verify,
)
from rareswitch.campaigns.store.rows import heads_of

GOLDEN = Path(campaign_builders.__file__).parent / "golden"


def heads(campaign):
    with campaign.store.reading() as connection:
        return heads_of(connection, campaign.name)


def test_a_backup_taken_while_writing_is_one_moment(store, tmp_path):
    campaign = create(store, episodes=10_000)
    fill(campaign, range(20))
    ended = threading.Event()

    def write():
        for k in range(20, 5000):
            if ended.is_set():
                return
            campaign.record(report(k))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        while heads(campaign)["episodes"].length < 30:
            pass
        before = heads(campaign)
        assert backup(store, tmp_path / "backup.db") == [campaign.name]
        after = heads(campaign)
    finally:
        ended.set()
        writer.join()
    with open_store(tmp_path / "backup.db") as kept:
        copy = Campaign(kept, campaign.name)
        found = heads(copy)
        assert before["episodes"].length <= found["episodes"].length <= after["episodes"].length
        assert found["ledger"] == before["ledger"] == after["ledger"]
        assert verify(copy).problems == []


def test_a_backup_restores_to_the_same_links_in_either_kind_of_store(store, tmp_path, postgres):
    campaign = create(store)
    fill(campaign, range(8))
    propose(campaign)
    campaign.withdraw("p3", by="ana", reason="consent")
    backup(store, tmp_path / "backup.db")
    before = (tmp_path / "backup.db").read_bytes()
    for url in (tmp_path / "restored.db", postgres.create_database()):
        with open_store(url, create=True) as target:
            assert restore(tmp_path / "backup.db", target) == [campaign.name]
            restored = Campaign(target, campaign.name)
            assert heads(restored) == heads(campaign)
            assert status(restored) == status(campaign)
            with pytest.raises(NotAllowedError, match="already"):
                restore(tmp_path / "backup.db", target)
    assert (tmp_path / "backup.db").read_bytes() == before


def test_restoring_a_store_in_use_copies_all_that_was_acknowledged(tmp_path):
    live = tmp_path / "live" / "store.db"
    with (
        open_store(live, create=True) as store,
        open_store(tmp_path / "copy.db", create=True) as target,
    ):
        campaign = create(store)
        fill(campaign, range(20))
        files = sorted(live.parent.iterdir())
        before = live.read_bytes()
        assert restore(live, target) == [campaign.name]
        restored = Campaign(target, campaign.name)
        assert heads(restored) == heads(campaign)
        assert heads(restored)["episodes"].length == 20
        assert verify(restored).problems == []
        assert (sorted(live.parent.iterdir()), live.read_bytes()) == (files, before)
        assert campaign.record(report(20)).seq == 21


def test_errors_of_restoring_name_the_file_that_was_given(tmp_path):
    with open_store(tmp_path / "store.db", create=True) as target:
        with pytest.raises(FileNotFoundError, match=r"none\.db"):
            restore(tmp_path / "none.db", target)
        (tmp_path / "text.db").write_text("this is no database " * 100)
        with pytest.raises(UnavailableError, match=r"text\.db cannot be opened: file is not a d"):
            restore(tmp_path / "text.db", target)
        shutil.copy(GOLDEN / "campaign-0.1.0.db", tmp_path / "old.db")
        with pytest.raises(UnavailableError, match=r"old\.db has the schema 0001"):
            restore(tmp_path / "old.db", target)


def test_a_backup_is_on_disk_before_it_has_its_name(store, tmp_path, monkeypatch):
    create(store)
    done, fsync, rename = [], os.fsync, Path.rename

    def noted_fsync(file):
        done.append(("fsync", Path(os.readlink(f"/proc/self/fd/{file}")).name))
        fsync(file)

    def noted_rename(path, target):
        done.append(("rename", path.name))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    backup(store, tmp_path / "backup.db")
    part = "backup.db.part"
    assert done == [("fsync", part), ("rename", part), ("fsync", tmp_path.name)]


def test_a_backup_that_fails_leaves_nothing(store, tmp_path, monkeypatch):
    create(store)
    (tmp_path / "backup.db.part").write_text("of a process that was killed")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(
        UnavailableError, match=r"no backup .*backup\.db was made: there is no room left"
    ) as caught:
        backup(store, tmp_path / "backup.db")
    assert caught.value.full
    assert not list(tmp_path.glob("backup*"))
    monkeypatch.undo()
    backup(store, tmp_path / "backup.db")
    assert len(list(tmp_path.glob("backup*"))) == 1


def test_a_backup_never_writes_over_a_file(store, tmp_path):
    create(store)
    (tmp_path / "backup.db").write_text("mine")
    with pytest.raises(FileExistsError, match="exists already"):
        backup(store, tmp_path / "backup.db")
    assert (tmp_path / "backup.db").read_text() == "mine"
