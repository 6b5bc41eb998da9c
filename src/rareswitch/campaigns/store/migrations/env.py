"""How Alembic reaches the store that is being opened."""

import sqlalchemy as sa
from alembic import context

engine = context.config.attributes["engine"]

with engine.connect() as connection:
    # One opener at a time: another may be making the same tables.
    if engine.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN IMMEDIATE")
    else:
        connection.execute(sa.text("SELECT pg_advisory_xact_lock(hashtext('rareswitch-schema'))"))
    context.configure(connection=connection, transactional_ddl=True)
    context.run_migrations()
    connection.commit()
