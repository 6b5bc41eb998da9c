"""Opening a store: read-only, by any path, private, and noticed when it is gone or stuck."""

import hashlib
import os
import shutil
import socket
import sqlite3
import stat
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa

from campaign_builders import chain, check_chains, create, fill, report
from rareswitch.campaigns import (
    Campaign,
    Learning,
    NotAllowedError,
    UnavailableError,
    backup,
    open_store,
    verify,
)
from rareswitch.campaigns.store import opening
from rareswitch.campaigns.store import store as store_module
from rareswitch.campaigns.store.tables import participants

GONE = "its file was removed or replaced while it was open"


def contents(folder):
    """Return the names and checksums of the files in a folder."""
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def recorded(path):
    """Return how many episodes a store has, read without a right to write."""
    with open_store(path, read_only=True) as store:
        campaign = Campaign(store, "trial")
        check_chains(campaign)
        assert verify(campaign).problems == []
        return len(chain(campaign, "episodes"))


@pytest.fixture
def path(tmp_path):
    """Return the file of a closed store with five episodes, alone in its folder."""
    path = tmp_path / "folder" / "store.db"
    with open_store(path, create=True) as store:
        fill(create(store), range(5))
    return path


def crashed_copy(path, copy, *ends):
    """Copy a store in use with its log, as a crash leaves it; "-shm" is SQLite's index of it."""
    with open_store(path) as store:
        fill(Campaign(store, "trial"), range(5, 8))
        copy.mkdir()
        for end in ("", "-wal", *ends):
            shutil.copy(f"{path}{end}", f"{copy / path.name}{end}")
    return copy / path.name


# --- reading only ---------------------------------------------------------------------------------


def test_reading_a_closed_store_changes_nothing(path):
    before, written = contents(path.parent), path.stat().st_mtime_ns
    assert recorded(path) == 5
    assert contents(path.parent) == before
    assert path.stat().st_mtime_ns == written


def test_reading_a_backup_changes_nothing_and_makes_no_other_file(path, tmp_path):
    (tmp_path / "kept").mkdir()
    with open_store(path) as store:
        backup(store, tmp_path / "kept" / "backup.db")
    before = contents(tmp_path / "kept")
    with open_store(tmp_path / "kept" / "backup.db", read_only=True) as store:
        assert len(chain(Campaign(store, "trial"), "episodes")) == 5
        assert contents(tmp_path / "kept") == before
    assert contents(tmp_path / "kept") == before
    assert list(before) == ["backup.db"]


def test_a_store_in_use_is_read_with_its_log_and_goes_on(path):
    with open_store(path) as store, open_store(path, read_only=True) as reader:
        campaign, seen = Campaign(store, "trial"), Campaign(reader, "trial")
        for number in range(5, 9):
            campaign.record(report(number))
            assert len(chain(seen, "episodes")) == number + 1
        reader.close()
        assert Path(f"{path}-wal").stat().st_size > 0
        campaign.record(report(9))
        check_chains(campaign)
    assert recorded(path) == 10


def test_a_store_after_a_crash_is_read_with_its_log(path, tmp_path, monkeypatch):
    crashed = crashed_copy(path, tmp_path / "crashed")
    before = contents(crashed.parent)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    with open_store(crashed, read_only=True) as store:
        assert len(list(temporary.iterdir())) == 1
        assert str(crashed) in store.url
        assert len(chain(Campaign(store, "trial"), "episodes")) == 8
    assert list(temporary.iterdir()) == []
    assert contents(crashed.parent) == before


def test_reading_after_a_crash_leaves_the_log_to_the_next_writer(path, tmp_path):
    crashed = crashed_copy(path, tmp_path / "crashed", "-shm")
    before = contents(crashed.parent)
    assert recorded(crashed) == 8
    after = contents(crashed.parent)
    assert {name: after[name] for name in before if not name.endswith("-shm")} == {
        name: before[name] for name in before if not name.endswith("-shm")
    }
    assert after.keys() == before.keys()


def test_a_store_that_is_read_only_is_not_written(path, store_url, store):
    create(store)
    for url in (path, store_url):
        with open_store(url, read_only=True) as reader:
            campaign = Campaign(reader, "trial")
            for attempt in (
                lambda campaign=campaign: campaign.record(report(99)),
                lambda reader=reader: create(reader, name="another"),
                reader.purge,
                lambda campaign=campaign: Learning(campaign).__enter__(),
            ):
                with pytest.raises(UnavailableError, match="opened only for reading"):
                    attempt()
            with (
                pytest.raises(sa.exc.DBAPIError, match=r"read.?only"),
                reader.engine.begin() as raw,
            ):
                raw.execute(participants.delete())
    assert not list(path.parent.glob("*.learner"))


def test_creating_and_only_reading_exclude_each_other(tmp_path):
    with pytest.raises(ValueError, match="create and read_only exclude each other"):
        open_store(tmp_path / "store.db", create=True, read_only=True)
    with pytest.raises(FileNotFoundError, match="there is no store"):
        open_store(tmp_path / "store.db", read_only=True)
    assert list(tmp_path.iterdir()) == []


# --- paths, modes and addresses -------------------------------------------------------------------


@pytest.mark.parametrize("name", ["what?.db", "a%20b.db", "50%.db", "a b#c&d=e.db", "ä:x@y.db"])
@pytest.mark.parametrize("kind", [Path, str])
def test_a_path_is_exactly_that_file(tmp_path, monkeypatch, name, kind):
    monkeypatch.chdir(tmp_path)
    with open_store(kind(name), create=True) as store:
        campaign = create(store)
        monkeypatch.chdir("/")
        campaign.record(report(0))
        assert store.path == Path(name)
    assert [found.name for found in tmp_path.iterdir()] == [name]
    monkeypatch.chdir(tmp_path)
    assert recorded(kind(name)) == 1
    assert recorded(store.url) == 1


def test_only_the_owner_may_read_a_new_store(tmp_path):
    before = os.umask(0)
    try:
        with open_store(tmp_path / "store.db", create=True) as store:
            create(store)
            backup(store, tmp_path / "backup.db")
            found = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
    finally:
        os.umask(before)
    names = ("store.db", "store.db-wal", "store.db-shm", "backup.db")
    assert found == dict.fromkeys(names, 0o600)


def test_the_mode_of_an_existing_store_stays(path):
    path.chmod(0o640)
    open_store(path, create=True).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_symbolic_link_gives_no_second_learner(path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    with open_store(path) as store, open_store(tmp_path / "link.db") as linked:
        with (
            Learning(Campaign(store, "trial")),
            pytest.raises(NotAllowedError, match="another process is the learner"),
            Learning(Campaign(linked, "trial")),
        ):
            pass
        with Learning(Campaign(linked, "trial")):
            pass
    assert not list(tmp_path.glob("*.learner"))


SECRETS = [
    "postgresql://ana:S3CRET@127.0.0.1:1/x",
    "postgresql://ana@127.0.0.1:1/x?password=S3CRET",
    "postgresql://ana@127.0.0.1:1/x?sslpassword=S3CRET&sslmode=disable",
    "postgresql://ana@127.0.0.1:1/x?options=-c%20a.b%3DS3CRET",
    "postgresql://ana@127.0.0.1:1/x?passfile=/S3CRET",
    "postgresql+psycopg://127.0.0.1:1/x?user=ana&password=S3CRET",
]


@pytest.mark.parametrize("url", SECRETS)
def test_no_message_shows_a_secret(url):
    with pytest.raises(UnavailableError, match=r"127\.0\.0\.1:1/x") as caught:
        open_store(url)
    assert "S3CRET" not in str(caught.value)


def test_the_address_of_an_open_store_shows_no_secret(postgres):
    address, _, rest = postgres.create_database().partition(f":{postgres.password}@")
    url = f"{address}@{rest}?password={postgres.password}&application_name=trial"
    with open_store(url, create=True) as store:
        assert postgres.password not in store.url + repr(store)
        assert store.url.endswith("?application_name=trial")
        with pytest.raises(NotAllowedError, match="there is no campaign none") as caught:
            Campaign(store, "none")
    assert postgres.password not in str(caught.value)


def test_no_error_of_the_database_shows_a_name(store):
    create(store)
    row = {"campaign": "trial", "episode_id": "p0", "participant": "Ada Lovelace"}
    with pytest.raises(UnavailableError) as caught, store.writing("trial") as connection:
        connection.execute(participants.insert(), [row, row])
    assert "Ada" not in str(caught.value.__cause__)


# --- a file that is gone --------------------------------------------------------------------------


def remove(path):
    for end in ("", "-wal", "-shm"):
        Path(f"{path}{end}").unlink()


def replace(path):
    remove(path)
    with open_store(path, create=True) as other:
        create(other)


def retarget(path):
    """Let a symbolic link name another store."""
    other = path.with_name("other.db")
    with open_store(other, create=True) as store:
        create(store)
    path.unlink()
    path.symlink_to(other)


def remove_file(path):
    path.unlink()


def remove_log(path):
    Path(f"{path}-wal").unlink()


@pytest.mark.parametrize("lose", [remove, replace])
def test_a_store_that_is_gone_is_noticed_at_the_next_answer(path, lose):
    with open_store(path) as store:
        campaign = Campaign(store, "trial")
        with ThreadPoolExecutor(2) as threads:
            answers = [threads.submit(campaign.record, report(number)) for number in range(5, 15)]
            assert {answer.result().seq for answer in answers} == set(range(6, 16))
            lose(path)
            answers = [threads.submit(campaign.record, report(number)) for number in range(15, 21)]
            for answer in answers:
                with pytest.raises(UnavailableError, match=GONE):
                    answer.result()
        with pytest.raises(UnavailableError, match=GONE):
            campaign.state  # noqa: B018
    if lose is replace:
        assert recorded(path) == 0
    else:
        assert not path.exists()


@pytest.mark.parametrize("lose", [remove, replace, remove_file, remove_log])
def test_a_store_that_goes_before_the_commit_is_noticed_before_the_answer(path, lose):
    def write(store):
        with store.writing("trial") as connection:
            connection.execute(sa.text("update heads set length = length"))
            lose(path)

    lost = rf"{GONE}, and rows acknowledged since"
    with open_store(path) as store, pytest.raises(UnavailableError, match=lost):
        write(store)


def test_nothing_is_written_into_a_store_that_took_the_place(path):
    with open_store(path) as store:
        campaign = Campaign(store, "trial")
        store.engine.dispose()  # the next connection is a new one
        path.unlink()
        with open_store(path, create=True) as other:
            create(other)
        with pytest.raises(UnavailableError, match=GONE):
            campaign.record(report(5))
    assert recorded(path) == 0


def test_a_link_to_another_store_is_noticed(path, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    with open_store(link) as store:
        campaign = Campaign(store, "trial")
        retarget(link)
        with pytest.raises(UnavailableError, match=GONE):
            campaign.record(report(5))


def test_a_store_that_is_put_back_goes_on(path):
    with open_store(path) as store:
        campaign = Campaign(store, "trial")
        away = path.with_name("away.db")
        path.rename(away)
        with pytest.raises(UnavailableError, match=GONE):
            campaign.record(report(5))
        away.rename(path)
        assert campaign.record(report(5)).seq == 6


# --- others that hold the store -------------------------------------------------------------------


@pytest.mark.parametrize("room", ["writing", "creating"])
def test_a_stuck_writer_blocks_others_for_a_bounded_time(store, store_url, room, monkeypatch):
    create(store)
    monkeypatch.setattr(store_module, "LONGEST_WAIT", 1)
    with (
        open_store(store_url) as other,
        getattr(store, room)("trial"),
        pytest.raises(UnavailableError, match="another writer holds its lock; waited 1 s"),
        getattr(other, room)("trial"),
    ):
        pass


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(opening, "CONNECTION_WAIT", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for settings in ("", "?connect_timeout=2"):
            with pytest.raises(UnavailableError, match="timeout"):
                open_store(f"postgresql://ana@127.0.0.1:{port}/x{settings}")


# --- names that leave -----------------------------------------------------------------------------


def bytes_of(path):
    return b"".join(Path(f"{path}{end}").read_bytes() for end in ("", "-wal", "-shm"))


def test_a_forgotten_name_is_in_no_file_of_a_running_store(path):
    """Names fill many pages of table and index, which were split while they grew."""
    with open_store(path) as store, open_store(path) as other:
        campaign = Campaign(store, "trial")
        rows = [
            {
                "campaign": "trial",
                "episode_id": f"q{hashlib.sha256(b'%d' % k).hexdigest()}",
                "participant": f"{hashlib.sha256(b'*%d' % k).hexdigest()[:9]} Astra {k:04}.",
            }
            for k in range(3000)
        ]
        for place in range(0, 3000, 10):
            with store.writing("trial") as connection:
                connection.execute(participants.insert(), rows[place : place + 10])
        reader = Campaign(other, "trial")
        assert len(reader.entries) == 2
        for row in rows[::100]:
            name = row["participant"]
            assert name.encode() in bytes_of(path)
            assert campaign.forget(name, by="ana", reason="she asked") == 1
            assert name.encode() not in bytes_of(path)
        left = bytes_of(path)
        assert Path(f"{path}-wal").stat().st_size == 0
        for k in range(3000):
            assert (b"Astra %04d." % k in left) == (k % 100 > 0)
        assert len(reader.entries) == 32
        assert campaign.record(report(5)).seq == 6


def test_a_reader_of_old_rows_is_waited_for_and_told_of(store, store_url, monkeypatch):
    campaign = create(store)
    campaign.record(report(0, participant="Ada"))
    monkeypatch.setattr(store_module, "PURGE_WAIT", 0.2)
    with open_store(store_url) as other, other.reading() as connection:
        assert connection.execute(sa.select(participants.c.participant)).scalars().all() == ["Ada"]
        with pytest.raises(UnavailableError, match="another reader keeps old pages of the store"):
            campaign.forget("Ada", by="ana", reason="she asked")
        assert [entry.kind for entry in campaign.entries[2:]] == ["forgotten"]
        assert store.purge() is False
        assert campaign.record(report(1)).seq == 2  # writers go on meanwhile
        monkeypatch.setattr(store_module, "PURGE_WAIT", 60.0)
        let_go = threading.Timer(0.3, connection.rollback)
        let_go.start()
        assert store.purge() is True
        let_go.join()


def test_purging_removes_the_old_rows_of_a_server(postgres):
    with open_store(postgres.create_database(), create=True) as store:
        campaign = create(store)
        campaign.record(report(0, participant="Ada"))
        campaign.forget("Ada", by="ana", reason="she asked")
        dead = sa.text("select pg_stat_get_dead_tuples('participants'::regclass)")
        assert store.purge() is True
        with store.reading() as connection:
            assert connection.execute(dead).scalar() == 0
            vacuumed = sa.text("select pg_stat_get_vacuum_count('participants'::regclass)")
            assert connection.execute(vacuumed).scalar() == 2  # by `forget`, and again


def test_every_connection_overwrites_deleted_rows(path):
    with open_store(path) as store, store.writing("trial") as connection:
        assert connection.exec_driver_sql("PRAGMA secure_delete").scalar() == 1


def test_a_hot_journal_is_rolled_back_in_a_copy(path, tmp_path):
    """A database in another journal mode, copied in the middle of a transaction."""
    with sqlite3.connect(path, isolation_level=None) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA cache_size=1")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM episodes")
        connection.execute("UPDATE heads SET length = 7")
        connection.execute("CREATE TABLE filling AS SELECT randomblob(100000)")  # forces a write
        (tmp_path / "hot").mkdir()
        for end in ("", "-journal"):
            shutil.copy(f"{path}{end}", f"{tmp_path / 'hot' / 'store.db'}{end}")
        connection.execute("ROLLBACK")
    connection.close()
    before = contents(tmp_path / "hot")
    assert recorded(tmp_path / "hot" / "store.db") == 5
    assert contents(tmp_path / "hot") == before
