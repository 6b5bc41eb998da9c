"""An open store: connections, transactions, and what goes wrong with them in plain words."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, make_url

from rareswitch.campaigns.errors import UnavailableError
from rareswitch.campaigns.store.schema import settle_schema
from rareswitch.campaigns.store.tables import heads
from rareswitch.support.arguments import short_repr

# How long a writer waits for others before it gives up, in seconds.
LONGEST_WAIT = 120
SQLITE_FULL = ("database or disk is full",)
POSTGRES_FULL = "53100"

_LOCK = (
    sa.select(heads.c.length)
    .where(heads.c.campaign == sa.bindparam("of"), heads.c.chain == "ledger")
    .with_for_update()
)


class Store:
    """A store that is open in this process; any number of threads may use it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @property
    def path(self) -> Path | None:
        """The file of an SQLite store."""
        return Path(self.engine.url.database or "") if self.is_sqlite else None

    @property
    def url(self) -> str:
        """Its address, as it is given to `open_store`, without the password."""
        url = self.engine.url
        return url.set(drivername=url.get_backend_name()).render_as_string(hide_password=True)

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Give a connection that sees one moment of the store throughout."""
        with self.plainly("read"):
            options: dict[str, Any] = {}
            if not self.is_sqlite:
                options = {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
            with self.engine.connect().execution_options(**options) as connection:
                if self.is_sqlite:
                    connection.exec_driver_sql("BEGIN")
                yield connection
                connection.rollback()

    @contextmanager
    def writing(self, campaign: str) -> Iterator[Connection]:
        """Give a connection whose changes are on disk when the block is left, or none of them.

        Nobody else writes to that campaign meanwhile (to any, if it is an SQLite file).
        """
        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(_LOCK, {"of": campaign})
            yield connection

    @contextmanager
    def creating(self, campaign: str) -> Iterator[Connection]:
        """Give the same for a campaign that may not be there yet."""
        with self._transaction() as connection:
            if not self.is_sqlite:
                connection.execute(
                    sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(campaign)))
                )
            yield connection

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        with self.plainly("written"), self.engine.connect() as connection:
            if self.is_sqlite:
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def close(self) -> None:
        self.engine.dispose()

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Store({self.url!r})"

    @contextmanager
    def plainly(self, done: str) -> Iterator[None]:
        """Say in plain words why the store cannot be read, written or opened."""
        try:
            yield
        except sa.exc.DBAPIError as error:
            raise unavailable(error.orig, f"the store {self.url} cannot be {done}") from error
        except self.engine.dialect.loaded_dbapi.Error as error:  # of what the driver ran as it is
            raise unavailable(error, f"the store {self.url} cannot be {done}") from error
        except sa.exc.TimeoutError as error:
            raise UnavailableError(
                f"the store {self.url} cannot be {done}: too many use it at once"
            ) from error


def unavailable(error: BaseException | None, what: str) -> UnavailableError:
    """Return what went wrong with a driver, in plain words."""
    said = str(error).strip()
    full = getattr(error, "sqlstate", None) == POSTGRES_FULL or said in SQLITE_FULL
    reason = "there is no room left" if full else said
    return UnavailableError(f"{what}: {reason}", full=full)


def open_store(url: str | Path, *, create: bool = False) -> Store:
    """Open a store by its address: sqlite:///file, or postgresql://user@host/database.

    A path stands for an SQLite file. A file that is not there is an error unless it is to be made.
    """
    if isinstance(url, Path) or "://" not in str(url):
        url = f"sqlite:///{url}"
    try:
        parsed = make_url(str(url))
    except sa.exc.ArgumentError:
        raise ValueError(
            "store must be sqlite:///file or postgresql://user@host/database; got "
            f"{short_repr(url)}"
        ) from None
    if parsed.get_backend_name() == "sqlite":
        engine = _sqlite(parsed, create=create)
    elif parsed.get_backend_name() == "postgresql":
        engine = sa.create_engine(parsed.set(drivername="postgresql+psycopg"), pool_pre_ping=True)
        sa.event.listen(engine, "connect", _waiting_for_disk)
    else:
        raise ValueError(f"store must be SQLite or PostgreSQL; got {parsed.get_backend_name()!r}")
    store = Store(engine)
    try:
        with store.plainly("opened"):
            settle_schema(engine)
    except BaseException:
        store.close()
        raise
    return store


def _sqlite(url: sa.URL, *, create: bool) -> Engine:
    if not url.database or url.database == ":memory:":
        raise ValueError("store must be a file: what is in memory is not durable")
    path = Path(url.database)
    if not path.exists():
        if not create:
            raise FileNotFoundError(f"there is no store {path}; a new campaign makes one")
        path.parent.mkdir(parents=True, exist_ok=True)
    engine = sa.create_engine(
        url.set(drivername="sqlite+pysqlite"), connect_args={"timeout": LONGEST_WAIT}
    )
    sa.event.listen(engine, "connect", _durable)
    return engine


def _durable(connection: sqlite3.Connection, _: object) -> None:
    """Let a commit mean that it is on disk, and readers never wait."""
    connection.isolation_level = None  # this module says BEGIN itself
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA secure_delete=ON")  # what is forgotten is written over
    connection.execute(f"PRAGMA busy_timeout={LONGEST_WAIT * 1000}")


def _waiting_for_disk(connection: Any, _: object) -> None:
    """Let a commit mean that it is on disk, even where a server is told to answer sooner."""
    waits = connection.execute("SHOW synchronous_commit").fetchone()[0]
    if waits == "off":
        connection.execute("SET synchronous_commit = on")
    connection.commit()
