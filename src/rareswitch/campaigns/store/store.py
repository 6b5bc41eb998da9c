"""An open store: its connections and transactions, and their errors in plain words."""

import errno
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.store.tables import heads
from rareswitch.campaigns.store.writer import Writer

# Seconds that a writer waits for other writers, and `purge` for readers.
LONGEST_WAIT = 120
PURGE_WAIT = 5.0
CONNECTIONS = 15  # open at once; further callers wait
# The settings of an address that a message may show; others may contain passwords.
SHOWN = frozenset({"application_name", "connect_timeout", "host", "port", "sslmode"})
SQLITE_FULL = ("database or disk is full",)
POSTGRES_FULL = "53100"
POSTGRES_LOCKED = "55P03"

_LOCK = (
    sa.select(heads.c.length)
    .where(heads.c.campaign == sa.bindparam("of"), heads.c.chain == "ledger")
    .with_for_update()
)
# Sessions that may still see rows from before transaction `at`.
_OLD_READERS = sa.text(
    "SELECT count(*) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
    "AND age(backend_xmin) > age(CAST(CAST(:at AS xid8) AS xid))"
)


# The files, by device and inode, that the parent had open when it forked this process.
_INHERITED: set[tuple[int, ...]] = set()


class FileGoneError(Exception):
    """The path of an open store names another file, or no file."""


class SqliteFile:
    """The file at a path; `connect` opens it, `check` compares the path with the opened file.

    With `read_only`, no byte of the store changes. SQLite reads it beside a writer, directly from a
    read-only disk, or from a temporary copy if the log must be read first.
    """

    def __init__(self, path: Path, *, read_only: bool) -> None:
        self._path = os.path.abspath(path)
        self._real = os.path.realpath(path)  # SQLite names its other files after it
        self._read_only, self._immutable, self._made_log = read_only, False, False
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        if read_only:
            self._choose_reading()
        self._opened = self._identity()
        # An open file keeps its inode number. An O_PATH descriptor has no locks; closing any other
        # descriptor would release SQLite's locks.
        self._held = os.open(self._path, os.O_PATH) if hasattr(os, "O_PATH") else None

    def connect(self) -> sqlite3.Connection:
        """Return a new connection with durable commits."""
        if self._opened[:2] in _INHERITED:
            raise sqlite3.OperationalError(
                "it was open when this process was forked, and SQLite then loses rows; open it "
                "after the fork, or start processes by spawn"
            )
        path, mode = self._path, "mode=ro" if self._read_only else "mode=rw"
        if self._immutable:
            mode = "mode=ro&immutable=1"
        elif self._copy is not None:
            path, mode = os.path.join(self._copy.name, "store.db"), "mode=rw"
        connection = sqlite3.connect(
            f"file:{quote(path)}?{mode}",
            uri=True,
            timeout=LONGEST_WAIT,
            isolation_level=None,  # the store begins transactions itself
            check_same_thread=False,
        )
        try:
            if self._read_only:
                connection.execute("PRAGMA query_only=ON")
            else:
                _make_durable(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def after_fork(self, *, is_open: bool) -> None:
        """Prevent this forked child from connecting to a file that its parent had open.

        SQLite keeps locks and the index of the log in memory for all connections of a process; a
        child inherits that memory, but not the locks.
        """
        if is_open:
            _INHERITED.add(self._opened[:2])

    def check(self) -> None:
        """Raise FileGoneError if the path no longer names the opened file."""
        try:
            same = self._copy is not None or self._identity() == self._opened
        except OSError:
            same = False
        if not same:
            raise FileGoneError

    def check_log(self) -> None:
        """Also raise FileGoneError if the write-ahead log is gone; a connection must be open.

        SQLite deletes the log only when the last connection is closed.
        """
        self.check()
        if not os.path.exists(f"{self._real}-wal"):
            raise FileGoneError

    def release(self) -> None:
        """Remove the files that reading created; call it when all connections are closed."""
        if self._held is not None:
            os.close(self._held)
            self._held = None
        if self._copy is not None:
            self._copy.cleanup()
        elif self._made_log and _size(f"{self._real}-wal") == 0:
            # The last writable connection removes an empty log that nobody uses.
            uri = f"file:{quote(self._path)}?mode=rw"
            with suppress(sqlite3.Error), closing(sqlite3.connect(uri, uri=True)) as connection:
                connection.execute("SELECT count(*) FROM sqlite_master").fetchone()

    def _choose_reading(self) -> None:
        log, index = f"{self._real}-wal", f"{self._real}-shm"
        unread = [end for end in ("-wal", "-journal") if _size(f"{self._real}{end}")]
        if os.path.exists(log) and os.path.exists(index):
            return  # SQLite can read the log, even beside a writer or on a read-only disk
        if unread:
            copy = tempfile.TemporaryDirectory(prefix="rareswitch-")
            try:
                for end in ("", *unread):
                    shutil.copyfile(f"{self._real}{end}", os.path.join(copy.name, f"store.db{end}"))
            except BaseException:
                copy.cleanup()
                raise
            if os.path.exists(index):  # another process opened the store meanwhile
                copy.cleanup()
            else:
                self._copy = copy
        elif os.access(os.path.dirname(self._real), os.W_OK):
            self._made_log = not os.path.exists(log)
        else:
            self._immutable = True

    def _identity(self) -> tuple[int, ...]:
        found = os.stat(self._path)
        if self._immutable:  # SQLite then does not notice writers
            return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
        return found.st_dev, found.st_ino


# The stores of this process.
_OPEN: "weakref.WeakSet[Store]" = weakref.WeakSet()


class Store:
    """An open store; it is thread-safe."""

    def __init__(self, engine: Engine, *, file: SqliteFile | None, read_only: bool) -> None:
        self.engine, self.read_only, self._file = engine, read_only, file
        self.writer = Writer()
        self._inherited: list[sa.Pool] = []
        _OPEN.add(self)

    def begin_anew(self) -> None:
        """Give a forked child its own connections and its own queue of work.

        The parent's connections stay open: closing one would end the parent's session.
        """
        pool = self.engine.pool
        if self._file is not None and isinstance(pool, sa.QueuePool):
            self._file.after_fork(is_open=pool.checkedin() + pool.checkedout() > 0)
        self._inherited.append(pool)
        self.engine.dispose(close=False)
        self.writer = self.writer.renewed()

    @property
    def is_sqlite(self) -> bool:
        return self._file is not None

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store."""
        return Path(self.engine.url.database or "") if self.is_sqlite else None

    @property
    def url(self) -> str:
        """The address without passwords and without settings that may contain one."""
        return show_address(self.engine.url)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Yield a connection that sees one snapshot of the store."""
        with self.plainly("read"):
            self._check_file()
            options: dict[str, Any] = {}
            if not self.is_sqlite:
                options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with self.engine.connect().execution_options(**options) as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                yield connection
                connection.rollback()
            if self.read_only:  # on a read-only disk, only this detects another machine's writes
                self._check_file()

    @contextmanager
    def writing(self, campaign: str) -> Iterator[Connection]:
        """Yield a connection for an atomic transaction; its changes are on disk after the block.

        It locks the campaign for writing (all campaigns, if the store is an SQLite file).
        """
        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(_LOCK, {"of": campaign})
            yield connection

    @contextmanager
    def creating(self, campaign: str) -> Iterator[Connection]:
        """Yield the same for a campaign that may not exist yet."""
        with self.changing(campaign) as connection:
            yield connection

    @contextmanager
    def changing(self, what: str) -> Iterator[Connection]:
        """Yield the same for rows outside campaigns; `what` names the lock."""
        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(what))))
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        self.check_writable()
        with self.plainly("written"):
            self._check_file()
            with self.engine.connect() as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.commit()
                except BaseException:
                    connection.rollback()
                    raise
                if self._file is not None:
                    self._file.check_log()

    def check_writable(self) -> None:
        """Raise UnavailableError if the store is read-only."""
        if self.read_only:
            raise UnavailableError(
                f"the store {self.url} cannot be written: it was opened only for reading"
            )

    def purge(self) -> bool:
        """Erase overwritten rows from the files of the store; return whether all are erased.

        Call it after the transaction that overwrote them. It waits PURGE_WAIT seconds for readers
        of the old rows; if it returns False, call it again later.
        """
        self.check_writable()
        try:
            with self.plainly("purged"):
                return self._empty_log() if self.is_sqlite else self._vacuum()
        except UnavailableError:
            return False

    def _empty_log(self) -> bool:
        with self.engine.connect() as connection:
            # Attempts are short, because an attempt that waits for readers blocks writers.
            connection.exec_driver_sql("PRAGMA busy_timeout=50")
            try:
                checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)"
                return _wait_until(lambda: connection.exec_driver_sql(checkpoint).one()[0] == 0)
            finally:
                connection.exec_driver_sql(f"PRAGMA busy_timeout={LONGEST_WAIT * 1000}")

    def _vacuum(self) -> bool:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            now = sa.text("SELECT CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text)")
            at = {"at": connection.execute(now).scalar_one()}
            unseen = _wait_until(lambda: connection.execute(_OLD_READERS, at).scalar_one() == 0)
            connection.exec_driver_sql("VACUUM participants")
            return unseen

    def close(self) -> None:
        """Commit pending work, and close all connections."""
        self.writer.close()
        self.engine.dispose()
        if self._file is not None:
            self._file.release()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    def _check_file(self) -> None:
        if self._file is not None:
            self._file.check()

    @contextmanager
    def plainly(self, done: str) -> Iterator[None]:
        """Convert errors of the store into UnavailableError; `done` is read, written or opened."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise unavailable(error.orig, f"the store {self.url} cannot be {done}") from error
        except self.engine.dialect.loaded_dbapi.Error as error:  # from statements run by the driver
            raise unavailable(error, f"the store {self.url} cannot be {done}") from error
        except sa.exc.TimeoutError as error:
            raise UnavailableError(
                f"the store {self.url} cannot be {done}: too many connections are in use"
            ) from error
        except FileGoneError:
            raise UnavailableError(
                f"the store {self.url} cannot be {done}: its file was removed or replaced while it "
                "was open, and rows acknowledged since then may be lost"
            ) from None


def _begin_anew() -> None:
    for store in list(_OPEN):
        store.begin_anew()


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_anew)


def unavailable(error: BaseException | None, what: str) -> UnavailableError:
    """Return a plain error for an error of a driver or of the file system."""
    said = str(error).strip()
    state = getattr(error, "sqlstate", None)
    full = state == POSTGRES_FULL or said in SQLITE_FULL
    if isinstance(error, OSError):
        full, said = error.errno in (errno.ENOSPC, errno.EDQUOT), error.strerror or said
    if full:
        said = "there is no room left"
    elif state == POSTGRES_LOCKED or _is_busy(error):
        said = f"another writer holds its lock; waited {LONGEST_WAIT} s"
    return UnavailableError(f"{what}: {said}", full=full)


def begin_session(connection: Any, _: object) -> None:
    """Make commits durable, and limit the wait for a lock.

    A server may be configured to acknowledge commits before they are on disk.
    """
    waits = connection.execute("SHOW synchronous_commit").fetchone()[0]
    if waits == "off":
        connection.execute("SET synchronous_commit = on")
    connection.execute(f"SET lock_timeout = {LONGEST_WAIT * 1000}")
    connection.commit()


def _is_busy(error: BaseException | None) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return code is not None and code & 0xFF == sqlite3.SQLITE_BUSY


def _wait_until(done: Any) -> bool:
    """Call `done` until it returns true or PURGE_WAIT seconds are over; return its last answer."""
    end = time.monotonic() + PURGE_WAIT
    while not (answer := bool(done())) and time.monotonic() < end:
        time.sleep(0.05)
    return answer


def _make_durable(connection: sqlite3.Connection) -> None:
    """Make commits durable, and let readers never wait."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
    if tables and "alembic_version" not in tables:
        return  # another program's database; `check_schema` refuses it
    if _switch_to_wal(connection) != "wal":
        raise sqlite3.OperationalError("a write-ahead log is not possible on this file system")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")  # deleted bytes are overwritten with zeros


def _switch_to_wal(connection: sqlite3.Connection) -> str:
    """Ask for the write-ahead log until the file is free; return the journal's mode.

    SQLite does not wait by itself if several processes switch a new file at the same moment.
    """
    end = time.monotonic() + LONGEST_WAIT
    while True:
        try:
            return str(connection.execute("PRAGMA journal_mode=WAL").fetchone()[0])
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or time.monotonic() >= end:
                raise
        time.sleep(0.01)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def show_address(url: sa.URL) -> str:
    """Return an address without passwords and without settings that may contain one.

    >>> show_address(sa.make_url("postgresql+psycopg://ana:x@db/trial?password=y&sslmode=require"))
    'postgresql://ana:***@db/trial?sslmode=require'
    """
    settings = {name: value for name, value in url.query.items() if name in SHOWN}
    plain = url.set(drivername=url.get_backend_name(), query=settings)
    return plain.render_as_string(hide_password=True)
