"""Acknowledged means on disk; without room, or without leave to write, it is refused in words."""

import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

import campaign_builders
from campaign_builders import chain, check_chains, create, fill, report
from postgres_server import connect
from rareswitch.campaigns import Campaign, UnavailableError, open_store
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.campaigns.store.store import CONNECTIONS

TESTS = Path(campaign_builders.__file__).parent
CALL = re.compile(r"(?P<name>read|write|fsync|fdatasync)\((?P<file>\d+<[^>]*>)(?P<rest>.*)")


def system_calls(folder, *levels):
    """Return the system calls of a process that answers four requests, one after the other."""
    path, trace = folder / "store.db", folder / "trace"
    with open_store(path, create=True) as store:
        create(store)
    command = ["strace", "-f", "-y", "-s", "64", "-e", "trace=read,write,fsync,fdatasync"]
    with subprocess.Popen(
        [*command, "-o", trace, sys.executable, TESTS / "recording_loop.py", path, *levels],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        for number in range(4):
            process.stdin.write(f"{number}\n")
            process.stdin.flush()
            assert process.stdout.readline().startswith(f"answered {number}: ")
        process.stdin.close()
        assert process.wait() == 0
    return [found for line in trace.read_text().splitlines() if (found := CALL.search(line))]


def synced_before_answers(calls):
    """Return for each request whether the log was forced to disk before its answer."""
    synced, asked = [], None
    for call in calls:
        name, file, rest = call["name"], call["file"], call["rest"]
        if name == "read" and file.startswith("0<") and re.match(r', "\d', rest):
            asked = False
        elif name in ("fsync", "fdatasync") and file.endswith("store.db-wal>"):
            asked = None if asked is None else True
        elif name == "write" and file.startswith("1<") and "answered" in rest:
            synced.append(asked)
            asked = None
    return synced


def test_the_log_is_on_disk_before_the_answer(tmp_path):
    assert synced_before_answers(system_calls(tmp_path)) == [True] * 4


def test_that_test_notices_a_store_that_does_not_wait_for_the_disk(tmp_path):
    """A store with synchronous=NORMAL passes every test that only kills processes.

    Its first write begins a new log, whose header is forced to disk even so.
    """
    assert synced_before_answers(system_calls(tmp_path, "NORMAL"))[1:] == [False] * 3


def test_every_connection_waits_for_the_disk(store):
    if store.is_sqlite:
        with store.writing("trial") as connection:
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    else:
        with store.writing("trial") as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


def test_a_server_told_not_to_wait_for_the_disk_waits_for_campaigns(postgres):
    url = postgres.create_database()
    with closing(connect(url, autocommit=True)) as connection:
        name = url.rpartition("/")[2]
        connection.execute(f"alter database {name} set synchronous_commit = off")
    with open_store(url, create=True) as store, store.writing("trial") as connection:
        assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"


@pytest.mark.parametrize("what", ["full", "read-only", "sealed"])
def test_a_file_system_without_room_or_leave(tmp_path, what):
    alone = ["unshare", "--mount"]
    if os.geteuid() != 0:
        alone += ["--user", "--map-root-user"]
    done = subprocess.run(
        [*alone, sys.executable, TESTS / "scarce_room.py", what, tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path.parent,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("what", ["tables", "log"])
def test_a_server_that_fills_its_disk(what):
    """A small file system is mounted by root, of a namespace; the server refuses to run as root."""
    command = 'mount -t tmpfs -o size=48m,mode=1777 none "$0" && exec "$@"'
    alone, as_user = ["unshare", "--mount"], []
    if os.geteuid() != 0:
        alone += ["--user", "--map-root-user"]
        as_user = ["unshare", f"--map-user={os.geteuid()}", f"--map-group={os.getegid()}"]
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server enters it, whoever it runs as
        done = subprocess.run(
            [
                *(*alone, "sh", "-c", command, folder),
                *(*as_user, sys.executable, TESTS / "scarce_server.py", what, folder),
            ],
            capture_output=True,
            text=True,
            cwd="/",
        )
    assert done.returncode == 0, done.stderr


def test_a_server_that_says_there_is_no_room(postgres):
    with open_store(postgres.create_database(), create=True) as store:
        campaign = create(store)
        refuse_inserts(store, "53100")
        with pytest.raises(UnavailableError, match="there is no room left") as caught:
            campaign.record(report(0))
        assert caught.value.full
        assert chain(campaign, "episodes") == []
        allow_inserts(store)
        assert campaign.record(report(0)).seq == 1
        check_chains(campaign)


def test_a_server_with_an_input_output_error(postgres):
    with open_store(postgres.create_database(), create=True) as store:
        campaign = create(store)
        refuse_inserts(store, "58030")
        with pytest.raises(UnavailableError, match="cannot be written: on purpose") as caught:
            campaign.record(report(0))
        assert not caught.value.full
        allow_inserts(store)
        assert campaign.record(report(0)).seq == 1


def refuse_inserts(store, code):
    """Let the server answer to every new head what it answers when its disk is full."""
    with store.engine.begin() as connection:
        connection.exec_driver_sql(
            "create function refuse() returns trigger language plpgsql as $$ begin "
            f"raise exception 'on purpose' using errcode = '{code}'; end $$"
        )
        connection.exec_driver_sql(
            "create trigger refusing before update on heads execute function refuse()"
        )


def allow_inserts(store):
    with store.engine.begin() as connection:
        connection.exec_driver_sql("drop trigger refusing on heads")


def test_a_server_that_lets_us_only_read(postgres):
    url = postgres.create_database()
    with open_store(url, create=True) as store:
        fill(create(store), [0])
    with closing(connect(url, autocommit=True)) as admin:
        admin.execute("create role reader login password 'reading'")
        admin.execute("grant select on all tables in schema public to reader")
        try:
            address = url.replace(f"rareswitch:{postgres.password}", "reader:reading")
            with open_store(address) as store:
                campaign = Campaign(store, "trial")
                assert [row.seq for row in chain(campaign, "episodes")] == [1]
                with pytest.raises(UnavailableError, match="permission denied") as caught:
                    campaign.record(report(1))
                assert not caught.value.full
                rights = "insert, update, delete"
                admin.execute(f"grant {rights} on all tables in schema public to reader")
                assert campaign.record(report(1)).seq == 2
                check_chains(campaign)
        finally:
            admin.execute("drop owned by reader")
            admin.execute("drop role reader")


@pytest.mark.parametrize("room", ["writing", "reading"])
def test_a_connection_that_a_server_ends_is_given_up(postgres, caplog, room):
    """The reason is the server's, nothing is logged, and the next one has another connection."""
    url = postgres.create_database()
    with open_store(url, create=True) as store, closing(connect(url, autocommit=True)) as admin:
        campaign = create(store)
        given_up = []

        def ask_when_it_is_ended():
            opened = store.writing("trial") if room == "writing" else store.reading()
            with opened as connection:
                driver = connection.connection.dbapi_connection
                admin.execute("select pg_terminate_backend(%s, 5000)", [driver.info.backend_pid])
                try:
                    heads_of(connection, "trial")
                finally:
                    given_up.append(connection.invalidated)

        with pytest.raises(UnavailableError, match="terminating connection"):
            ask_when_it_is_ended()
        assert given_up == [True]
        assert caplog.records == []
        assert campaign.record(report(0)).seq == 1


def test_an_error_of_the_disk_is_told_as_it_is(store):
    campaign = create(store)
    with (
        pytest.raises(UnavailableError, match=r"the store .* cannot be written") as caught,
        store.writing("trial") as connection,
    ):
        connection.execute(sa.text("insert into nowhere values (1)"))
    assert not caught.value.full
    assert "***" in str(caught.value) or store.is_sqlite
    assert campaign.record(report(0)).seq == 1


def test_too_many_at_once_are_told_so(store, monkeypatch):
    campaign = create(store)
    monkeypatch.setattr(store.engine.pool, "_timeout", 0.05)
    with ExitStack() as held:
        for _ in range(CONNECTIONS):
            held.enter_context(store.reading())
        with pytest.raises(UnavailableError, match="too many connections are in use"):
            campaign.record(report(0))
    assert campaign.record(report(0)).seq == 1


def test_an_error_within_a_transaction_leaves_nothing(store):
    campaign = create(store)
    with pytest.raises(ZeroDivisionError), store.writing("trial") as connection:
        assert 1 / (connection.execute(sa.text("delete from ledger")).rowcount - 2)
    check_chains(campaign)
    assert len(campaign.entries) == 2


@pytest.mark.parametrize(
    ("url", "error", "why"),
    [
        ("sqlite://", ValueError, "an in-memory store is not durable"),
        ("sqlite:///:memory:", ValueError, "an in-memory store is not durable"),
        ("mysql://x/y", ValueError, "must be SQLite or PostgreSQL"),
        ("://", ValueError, "store must be sqlite:///file, postgresql://"),
        ("postgresql:/nobody:secret@db/x", ValueError, "got postgresql: without //"),
        ("postgresql://nobody:secret@db:x/x", ValueError, "got postgresql://…"),
        ("sqlite:///what?.db", ValueError, "write a \\? in its name as %3F"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", UnavailableError, "cannot be opened"),
    ],
)
def test_addresses_that_are_no_store(url, error, why):
    with pytest.raises(error, match=why) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)


def test_a_file_that_is_not_there_or_is_something_else(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no store .*none\.db; `rareswitch campaign init`"):
        open_store(tmp_path / "none.db")
    assert not (tmp_path / "none.db").exists()
    (tmp_path / "text.db").write_text("this is no database " * 100)
    with pytest.raises(UnavailableError, match="file is not a database"):
        open_store(tmp_path / "text.db")
    with pytest.raises(UnavailableError, match="cannot be opened"):
        open_store(tmp_path)
