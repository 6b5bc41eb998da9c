"""The tables of a store.

Four of them are append-only chains: rows are numbered from 1 without gaps, and each is linked to
the row before. `heads` holds the length and the last link of every chain; a writer to a campaign
locks its heads, so there is one order.

The columns of the chains are the fields of the rows in `rulebook/rows.py`, and the campaign.

`cohorts`, `snapshots` and `progress` are caches, which can be rebuilt from the chains.
`participants` holds the participant of an episode. It is the only table of reported data that is
ever overwritten: when a name is erased or corrected.
"""

from types import NoneType
from typing import Any, get_args, get_type_hints

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
)  # fmt: skip

from rareswitch.campaigns.rulebook.rows import CHAINS, NUMBERS

metadata = MetaData()
LargeInteger = BigInteger().with_variant(Integer, "sqlite")
TYPES: dict[type, Any] = {
    int: LargeInteger, bool: Boolean, float: Float, str: Text, bytes: LargeBinary,
}  # fmt: skip


def _campaign() -> Column[Any]:
    return Column("campaign", String(200), primary_key=True)


def _number(name: str) -> Column[Any]:
    return Column(name, LargeInteger, primary_key=True, autoincrement=False)


def _name(name: str, *, key: bool = False) -> Column[Any]:
    return Column(name, String(200), nullable=False, primary_key=key)


def _text(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Text, nullable=nullable)


def _count(name: str) -> Column[Any]:
    return Column(name, LargeInteger, nullable=False)


campaigns = Table("campaigns", metadata, _campaign(), _text("created"))

heads = Table(
    "heads", metadata, _campaign(), _name("chain", key=True), _count("length"), _text("link")
)


def _chain(name: str, *more: Any) -> Table:
    """Return the table of a chain, with the fields of its rows as columns."""
    row = CHAINS[name]
    kinds = {field: {*get_args(kind)} or {kind} for field, kind in get_type_hints(row).items()}
    columns = [_campaign(), _number(NUMBERS[name])]
    for field in row._fields[1:]:
        nullable = NoneType in kinds[field]
        (kind,) = kinds[field] - {NoneType}
        is_name = field in ("episode_id", "kind") and not nullable
        columns.append(Column(field, String(200) if is_name else TYPES[kind], nullable=nullable))
    return Table(name, metadata, *columns, *more)


ledger = _chain("ledger")

assignments = _chain("assignments", Index("one_assignment", "campaign", "episode_id", unique=True))

refusals = _chain("refusals", Index("of_digest", "campaign", "digest"))

episodes = _chain(
    "episodes",
    _text("place", nullable=True),  # a cache: the place in its cohort, for corrections
    Index("one_revision", "campaign", "episode_id", "revision", unique=True),
    # A covering index for counts of episodes: bodies need not be read.
    Index("of_version", "campaign", "version", "revision", "assigned", "late"),
)

artifacts = Table(
    "artifacts",
    metadata,
    _campaign(),
    _name("digest", key=True),
    _name("kind"),
    Column("data", LargeBinary, nullable=False),
)

cohorts = Table("cohorts", metadata, _campaign(), _number("version"), _text("state"))

snapshots = Table(
    "snapshots",
    metadata,
    _campaign(),
    _number("part"),
    _count("seq"),
    _count("entries"),
    Column("link", Text, nullable=False, default=""),  # of the last row of the log in it
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

# A person's request to the learner, and its outcome.
proposals = Table(
    "proposals",
    metadata,
    _campaign(),
    _text("by"),
    _text("reason"),
    Column("early", Boolean, nullable=False),
    _text("asked"),
    _text("outcome", nullable=True),
)

# Episodes of one step, whose observation is kept until the reward.
ranked = Table(
    "ranked",
    metadata,
    _campaign(),
    _name("episode_id", key=True),
    _text("observation"),
    Column("active", Boolean, nullable=False),
    Column("reward", Float, nullable=True),
)

# The last notice of a campaign sent to a receiver; for all campaigns ("*"), also the last heartbeat
# of a learner.
notices = Table("notices", metadata, _campaign(), _name("name", key=True), _text("state"))
