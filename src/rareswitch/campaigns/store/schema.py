"""Bringing a store to the tables of this version, one migration after the other."""

from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Engine

from rareswitch.campaigns.errors import UnavailableError

# The last migration of this version: what a store must have gone through to be used.
NEWEST = "0001"
MIGRATIONS = Path(__file__).parent / "migrations"


def settle_schema(engine: Engine) -> None:
    """Make the tables of a new store, or migrate those of an older version."""
    present = _present(engine)
    if present == NEWEST:
        return
    if present is None and engine.dialect.name == "sqlite":
        _refuse_others(engine)
    from alembic import command
    from alembic.config import Config
    from alembic.util import CommandError

    settings = Config()
    settings.set_main_option("script_location", str(MIGRATIONS))
    settings.attributes["engine"] = engine
    try:
        command.upgrade(settings, NEWEST)
    except CommandError as error:
        raise UnavailableError(
            f"the store was written by a newer version of rareswitch, or is none ({error})"
        ) from None


def _present(engine: Engine) -> str | None:
    """Return the last migration that a store went through."""
    with engine.connect() as connection:
        if not sa.inspect(connection).has_table("alembic_version"):
            return None
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        return None if found is None else str(found)


def _refuse_others(engine: Engine) -> None:
    """Leave a file alone that is the database of something else."""
    if others := sa.inspect(engine).get_table_names():
        raise UnavailableError(
            f"the file {engine.url.database} is no store: it holds something else: {others[0]}"
        )
