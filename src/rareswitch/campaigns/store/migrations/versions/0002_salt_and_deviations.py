"""Deviations of episodes, salts of assignments, and snapshots that name the row they end at."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    large_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("episodes", sa.Column("deviations", large_integer, nullable=True))
    op.add_column("episodes", sa.Column("place", sa.Text(), nullable=True))
    op.add_column("assignments", sa.Column("salt", sa.Text(), nullable=True))
    op.create_index("of_digest", "refusals", ["campaign", "digest"], unique=False)
    op.drop_table("snapshots")  # a cache, and SQLite adds no column without a default
    op.create_table(
        "snapshots",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("seq", large_integer, nullable=False),
        sa.Column("entries", large_integer, nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
    )
