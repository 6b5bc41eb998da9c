"""The schema of a store: checked when it is opened, and migrated only by `migrate`."""

import threading
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from rareswitch.campaigns.errors import UnavailableError

# The last migration of this version; a store must have it.
NEWEST = "0003"
MIGRATIONS = Path(__file__).parent / "migrations"
_ONE_THREAD = threading.Lock()  # Alembic's context is global to the process


def check_schema(engine: Engine, url: str, *, create: bool) -> None:
    """Raise UnavailableError unless a store has the newest schema; `create` makes a new one."""
    present = _present(engine, url)
    if present == NEWEST:
        return
    if present is not None:
        raise UnavailableError(
            f"the store {url} has the schema {present} of an older version of rareswitch; "
            f"`rareswitch campaign migrate` brings it to the schema {NEWEST}"
        )
    if not create:
        raise UnavailableError(
            f"there is no store in {url} yet; `rareswitch campaign init` creates one"
        )
    apply_migrations(engine, url)


def apply_migrations(engine: Engine, url: str) -> list[str]:
    """Bring a store, or an empty database, to the newest schema; return the revisions applied."""
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    applied: list[str] = []
    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    settings.attributes.update(engine=engine, applied=applied)
    try:
        with _ONE_THREAD:
            command.upgrade(settings, NEWEST)
    except CommandError as error:
        raise _newer(url, str(error)) from None
    return applied


def revision_before(revision: str) -> str:
    """Return the migration that a migration follows."""
    from alembic.script import ScriptDirectory

    found = ScriptDirectory(str(MIGRATIONS)).get_revision(revision).down_revision
    return str(found or "none")


def migrate_schema(engine: Engine, url: str) -> list[str]:
    """Bring an existing store to the newest schema; return the revisions applied."""
    present = _present(engine, url)
    if present is None:
        raise UnavailableError(f"there is no store in {url} to migrate")
    return [] if present == NEWEST else apply_migrations(engine, url)


def _present(engine: Engine, url: str) -> str | None:
    """Return the last migration of a store; None for an empty database."""
    with engine.connect() as connection:
        # One statement sees one snapshot: another process may be creating the same tables.
        tables = sa.inspect(connection).get_table_names()
        if "alembic_version" not in tables:
            if tables and engine.dialect.name == "sqlite":
                raise UnavailableError(
                    f"{url} is not a rareswitch store: it has a table {tables[0]}"
                )
            return None
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    if found == NEWEST:
        return NEWEST
    from alembic.script import ScriptDirectory

    known = {script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions()}
    if found not in known:
        raise _newer(url, f"its schema is {found}")
    return str(found)


def _newer(url: str, reason: str) -> UnavailableError:
    return UnavailableError(
        f"the store {url} was written by a newer version of rareswitch, or is not a store "
        f"({reason})"
    )
