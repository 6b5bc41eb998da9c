"""The tables of a store.

Four of them are chains: rows are only ever appended, numbered from 1 without a gap, and each is
linked to the one before. `heads` holds the length and the last link of every chain; whoever writes
to a campaign holds the lock on its heads, so that there is one order.

`cohorts`, `snapshots` and `progress` are caches: lost, they are made again from the chains.
`participants` says who was behind an episode, and is the only table of what was reported in which
anything is ever written over: with no name, when somebody is forgotten, or when a correction says
that it was another.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()
LargeInteger = BigInteger().with_variant(Integer, "sqlite")


def _campaign() -> Column[Any]:
    return Column("campaign", String(200), primary_key=True)


def _number(name: str) -> Column[Any]:
    return Column(name, LargeInteger, primary_key=True, autoincrement=False)


def _name(name: str, *, nullable: bool = False, key: bool = False) -> Column[Any]:
    return Column(name, String(200), nullable=nullable, primary_key=key)


def _text(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=nullable)


def _count(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, LargeInteger, nullable=nullable)


campaigns = Table("campaigns", metadata, _campaign(), _text("created"))

heads = Table(
    "heads", metadata, _campaign(), _name("chain", key=True), _count("length"), _text("link")
)

episodes = Table(
    "episodes",
    metadata,
    _campaign(),
    _number("seq"),
    _name("episode_id"),
    _count("revision"),  # 0, or which correction of the episode it is
    _count("version"),
    _count("member"),
    Column("assigned", Boolean, nullable=False),  # before it began
    Column("late", Boolean, nullable=False),  # another version was in force already
    Column("learn", Boolean, nullable=False),  # whether fits use it
    Column("total", Float, nullable=False),
    _text("claims"),
    _text("received"),
    _text("digest"),  # of the report as it was told
    Column("body", LargeBinary, nullable=True),  # None: withdrawn
    _text("link"),
    Index("one_revision", "campaign", "episode_id", "revision", unique=True),
    # All that a count of episodes asks for: bodies need not be read.
    Index("of_version", "campaign", "version", "revision", "assigned", "late"),
)

assignments = Table(
    "assignments",
    metadata,
    _campaign(),
    _number("number"),
    _name("episode_id"),
    _count("version"),
    _count("member"),
    _text("assigned"),
    _text("link"),
    Index("one_assignment", "campaign", "episode_id", unique=True),
)

refusals = Table(
    "refusals",
    metadata,
    _campaign(),
    _number("number"),
    _count("seq"),  # the row of the log after which it came
    _text("episode_id", nullable=True),
    _text("reason"),
    _text("excerpt"),
    _text("digest"),
    _text("received"),
    _text("link"),
)

ledger = Table(
    "ledger",
    metadata,
    _campaign(),
    _number("number"),
    _name("kind"),
    _text("actor"),
    _text("reason"),
    _text("at"),
    _text("payload"),
    _text("link"),
)

artifacts = Table(
    "artifacts",
    metadata,
    _campaign(),
    _name("digest", key=True),
    _name("kind"),
    Column("data", LargeBinary, nullable=False),
)

cohorts = Table(
    "cohorts",
    metadata,
    _campaign(),
    _number("version"),
    _text("state"),
)

snapshots = Table(
    "snapshots",
    metadata,
    _campaign(),
    _count("seq"),
    _count("entries"),
    Column("data", LargeBinary, nullable=False),
)

progress = Table("progress", metadata, _campaign(), _count("seq"), _text("state"))

participants = Table(
    "participants",
    metadata,
    _campaign(),
    _name("episode_id", key=True),
    _text("participant"),
    Index("of_participant", "campaign", "participant"),
)

# What a chain is numbered by; the rest of its columns but the link are what is linked.
CHAINS = {
    "episodes": (episodes, "seq"),
    "assignments": (assignments, "number"),
    "refusals": (refusals, "number"),
    "ledger": (ledger, "number"),
}
