"""Opening a store by its address, and bringing it to the schema of this version."""

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

from rareswitch.campaigns.store.schema import check_schema, migrate_schema
from rareswitch.campaigns.store.store import (
    CONNECTIONS,
    SqliteFile,
    Store,
    begin_session,
    show_address,
    unavailable,
)  # fmt: skip
from rareswitch.support.arguments import short_repr

CONNECTION_WAIT = 10  # seconds, for a server
_FORMS = "store must be sqlite:///file, postgresql://user@host/database or a path"
_MISTYPED = re.compile(r"(sqlite|postgres)\w*(\+\w+)?:")


def open_store(url: str | Path, *, create: bool = False, read_only: bool = False) -> Store:
    """Open a store by its address: sqlite:///file, or postgresql://user@host/database.

    A path, or a text without ://, is an SQLite file. `create` creates a missing store.
    `read_only` changes no byte of the store. A store of an older schema is refused: see `migrate`.
    """
    if create and read_only:
        raise ValueError("create and read_only exclude each other; got both")
    store = _connected(url, create=create, read_only=read_only)
    try:
        with store.plainly("opened"):
            check_schema(store.engine, store.url, create=create)
    except BaseException:
        store.close()
        raise
    return store


def migrate(url: str | Path) -> list[str]:
    """Bring a store to the schema of this version; return the revisions applied.

    Processes of an older version cannot open the store afterwards.
    """
    with _connected(url, create=False, read_only=False) as store, store.plainly("migrated"):
        return migrate_schema(store.engine, store.url)


def _connected(url: str | Path, *, create: bool, read_only: bool) -> Store:
    """Return a store whose schema is not checked yet."""
    address = read_address(url)
    settings: dict[str, Any] = {
        "pool_size": CONNECTIONS,
        "max_overflow": 0,
        "pool_use_lifo": True,  # the last used connection has a warm cache
        "hide_parameters": True,  # keep participants' names out of tracebacks
    }
    if address.get_backend_name() == "sqlite":
        file = _file_at(address, create=create, read_only=read_only)
        made = address.set(drivername="sqlite+pysqlite")
        engine = sa.create_engine(made, creator=file.connect, **settings)
        return Store(engine, file=file, read_only=read_only)
    made = address.set(drivername="postgresql+psycopg")
    if "connect_timeout" not in address.query:
        settings["connect_args"] = {"connect_timeout": CONNECTION_WAIT}
    if read_only:
        settings["execution_options"] = {"postgresql_readonly": True}
    engine = sa.create_engine(made, pool_pre_ping=True, **settings)
    sa.event.listen(engine, "connect", begin_session)
    return Store(engine, file=None, read_only=read_only)


def _file_at(address: sa.URL, *, create: bool, read_only: bool) -> SqliteFile:
    if not address.database or address.database == ":memory:":
        raise ValueError("store must be a file; an in-memory store is not durable")
    path = Path(address.database)
    try:
        if create:
            _create_file(path)
        return SqliteFile(path, read_only=read_only)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"there is no store {path}; `rareswitch campaign init` creates one"
        ) from None
    except OSError as error:
        what = f"the store {show_address(address)} cannot be opened"
        raise unavailable(error, what) from error


def _create_file(path: Path) -> None:
    """Create an empty file that only its owner may read, unless the file exists."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def read_address(store: str | Path) -> sa.URL:
    """Return the parts of an address; a path, or a text without ://, is an SQLite file."""
    if isinstance(store, Path):
        return sa.URL.create("sqlite", database=str(store))
    if not isinstance(store, str):
        raise TypeError(f"{_FORMS}; got {short_repr(store)}")
    if _MISTYPED.match(store) and "://" not in store:
        raise ValueError(f"{_FORMS}; got {store.partition(':')[0]}: without //")
    if "://" not in store:
        return sa.URL.create("sqlite", database=store)
    try:
        url = make_url(store)
    except (sa.exc.ArgumentError, ValueError):  # the text may contain a password
        raise ValueError(f"{_FORMS}; got {store.partition('://')[0]}://…") from None
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise ValueError(f"store must be SQLite or PostgreSQL; got {url.get_backend_name()!r}")
    if url.get_backend_name() == "sqlite" and "?" in store:
        raise ValueError(
            "store must be sqlite:///file without settings; write a ? in its name as %3F, or give "
            f"the path; got {store.partition('?')[0]}?…"
        )
    return url
