"""Access, requests to the learner, ranked episodes, notices, and snapshots in parts."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    large_integer = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

    def text(name: str, *, nullable: bool = False) -> sa.Column[Any]:
        return sa.Column(name, sa.Text(), nullable=nullable)

    def time(name: str, *, nullable: bool = False) -> sa.Column[Any]:
        return sa.Column(name, sa.Float(), nullable=nullable)

    op.create_table(
        "accounts",
        text("account"),
        text("name"),
        text("handle"),
        text("password", nullable=True),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        time("created"),
        sa.PrimaryKeyConstraint("account"),
    )
    op.create_table(
        "account_grants",
        text("account"),
        text("campaign"),
        text("role"),
        text("site"),
        sa.PrimaryKeyConstraint("account", "campaign", "role", "site"),
    )
    op.create_table(
        "invitations",
        text("id"),
        text("digest"),
        text("account"),
        time("expires"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("invitations_of_account", "invitations", ["account"], unique=False)
    op.create_table(
        "sessions",
        text("id"),
        text("digest"),
        text("account"),
        time("created"),
        time("seen"),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("sessions_of_account", "sessions", ["account"], unique=False)
    op.create_table(
        "tokens",
        text("id"),
        text("digest"),
        text("label"),
        text("account", nullable=True),
        text("grants"),
        text("issuer"),
        time("created"),
        time("expires"),
        time("revoked", nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "attempts",
        text("name_digest"),
        sa.Column("failures", large_integer, nullable=False),
        time("last"),
        time("until"),
        sa.PrimaryKeyConstraint("name_digest"),
    )
    op.create_index("attempts_by_time", "attempts", ["last"], unique=False)
    op.create_table(
        "passkeys",
        text("credential"),
        text("account"),
        text("algorithm"),
        text("public"),
        text("relying_party"),
        text("label"),
        time("created"),
        sa.PrimaryKeyConstraint("credential"),
    )
    op.create_index("passkeys_of_account", "passkeys", ["account"], unique=False)
    op.create_table(
        "challenges",
        text("digest"),
        text("account"),
        text("relying_party"),
        text("origin"),
        time("expires"),
        sa.PrimaryKeyConstraint("digest"),
    )
    op.create_table(
        "access_log",
        sa.Column("number", large_integer, autoincrement=False, nullable=False),
        text("at"),
        text("by"),
        text("via"),
        text("action"),
        text("about"),
        text("details"),
        sa.PrimaryKeyConstraint("number"),
    )
    op.create_table(
        "proposals",
        sa.Column("campaign", sa.String(200), nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("early", sa.Boolean(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("campaign"),
    )
    op.create_table(
        "ranked",
        sa.Column("campaign", sa.String(200), nullable=False),
        sa.Column("episode_id", sa.String(200), nullable=False),
        sa.Column("observation", sa.Text(), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("reward", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("campaign", "episode_id"),
    )
    op.create_table(
        "notices",
        sa.Column("campaign", sa.String(200), nullable=False),
        sa.Column("name", sa.String(200), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "name"),
    )
    op.drop_table("snapshots")  # a cache
    op.create_table(
        "snapshots",
        sa.Column("campaign", sa.String(200), nullable=False),
        sa.Column("part", large_integer, autoincrement=False, nullable=False),
        sa.Column("seq", large_integer, nullable=False),
        sa.Column("entries", large_integer, nullable=False),
        text("link"),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("campaign", "part"),
    )
