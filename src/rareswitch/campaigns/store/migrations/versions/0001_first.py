"""The tables of the first version."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "artifacts",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("digest", sa.String(length=200), nullable=False),
        sa.Column("kind", sa.String(length=200), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "digest"),
    )
    op.create_table(
        "assignments",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("episode_id", sa.String(length=200), nullable=False),
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("member", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("assigned", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "number"),
    )
    op.create_index("one_assignment", "assignments", ["campaign", "episode_id"], unique=True)
    op.create_table(
        "campaigns",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("created", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
    )
    op.create_table(
        "cohorts",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column(
            "version",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "version"),
    )
    op.create_table(
        "episodes",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("episode_id", sa.String(length=200), nullable=False),
        sa.Column("revision", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("version", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("member", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("assigned", sa.Boolean(), nullable=False),
        sa.Column("late", sa.Boolean(), nullable=False),
        sa.Column("learn", sa.Boolean(), nullable=False),
        sa.Column("total", sa.Float(), nullable=False),
        sa.Column("claims", sa.Text(), nullable=False),
        sa.Column("received", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("link", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "seq"),
    )
    op.create_index(
        "of_version",
        "episodes",
        ["campaign", "version", "revision", "assigned", "late"],
        unique=False,
    )
    op.create_index("one_revision", "episodes", ["campaign", "episode_id", "revision"], unique=True)
    op.create_table(
        "heads",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("chain", sa.String(length=200), nullable=False),
        sa.Column("length", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "chain"),
    )
    op.create_table(
        "ledger",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("kind", sa.String(length=200), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("at", sa.Text(), nullable=False),
        sa.Column("payload", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "number"),
    )
    op.create_table(
        "participants",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("episode_id", sa.String(length=200), nullable=False),
        sa.Column("participant", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "episode_id"),
    )
    op.create_index("of_participant", "participants", ["campaign", "participant"], unique=False)
    op.create_table(
        "progress",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
    )
    op.create_table(
        "refusals",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column(
            "number",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=False,
            nullable=False,
        ),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("episode_id", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("excerpt", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("received", sa.Text(), nullable=False),
        sa.Column("link", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "number"),
    )
    op.create_table(
        "snapshots",
        sa.Column("campaign", sa.String(length=200), nullable=False),
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("entries", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("campaign"),
    )
