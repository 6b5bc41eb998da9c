"""Alembic's access to the store to migrate."""

from typing import Any

import sqlalchemy as sa
from alembic import context

engine = context.config.attributes["engine"]
applied: list[str] = context.config.attributes["applied"]


def note_revision(ctx: object, step: Any, heads: object, run_args: object) -> None:
    applied.append(step.up_revision_id)


with engine.connect() as connection:
    # One migration at a time: another process may be creating the same tables.
    if engine.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('rareswitch-schema'))"))
    context.configure(connection=connection, transactional_ddl=True, on_version_apply=note_revision)
    context.run_migrations()
    connection.commit()
