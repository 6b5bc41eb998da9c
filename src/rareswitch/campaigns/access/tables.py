"""The tables of access. They hold secrets only as hashes.

They belong to the store, not to a campaign. `access_log` is append-only. Sessions, challenges and
attempts are deleted when they end. Times are seconds since 1970.
"""

from typing import Any

from sqlalchemy import Boolean, Column, Float, Index, MetaData, Table, Text

from rareswitch.campaigns.store.tables import LargeInteger

metadata = MetaData()


def _text(name: str, *, key: bool = False, nullable: bool = False) -> Column[Any]:
    return Column(name, Text, primary_key=key, nullable=nullable)


def _time(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, Float, nullable=nullable)


accounts = Table(
    "accounts",
    metadata,
    _text("account", key=True),  # the person_key of the name
    _text("name"),
    _text("handle"),  # a random id of the account for authenticators
    _text("password", nullable=True),  # argon2id; null until an invitation is accepted
    Column("disabled", Boolean, nullable=False),
    _time("created"),
)

account_grants = Table(
    "account_grants",
    metadata,
    _text("account", key=True),
    _text("campaign", key=True),
    _text("role", key=True),
    _text("site", key=True),
)

invitations = Table(
    "invitations",
    metadata,
    _text("id", key=True),
    _text("digest"),
    _text("account"),
    _time("expires"),
    Index("invitations_of_account", "account"),
)

sessions = Table(
    "sessions",
    metadata,
    _text("id", key=True),
    _text("digest"),
    _text("account"),
    _time("created"),
    _time("seen"),
    Index("sessions_of_account", "account"),
)

tokens = Table(
    "tokens",
    metadata,
    _text("id", key=True),
    _text("digest"),
    _text("label"),
    _text("account", nullable=True),
    _text("grants"),  # canonical JSON
    _text("issuer"),
    _time("created"),
    _time("expires"),
    _time("revoked", nullable=True),
)

attempts = Table(
    "attempts",
    metadata,
    _text("name_digest", key=True),  # SHA-256: people may type a password as the name
    Column("failures", LargeInteger, nullable=False),
    _time("last"),
    _time("until"),
    Index("attempts_by_time", "last"),
)

passkeys = Table(
    "passkeys",
    metadata,
    _text("credential", key=True),  # base64url, as in every other text of a passkey
    _text("account"),
    _text("algorithm"),
    _text("public"),
    _text("relying_party"),
    _text("label"),
    _time("created"),
    Index("passkeys_of_account", "account"),
)

challenges = Table(
    "challenges",
    metadata,
    _text("digest", key=True),
    _text("account"),
    _text("relying_party"),
    _text("origin"),
    _time("expires"),
)

access_log = Table(
    "access_log",
    metadata,
    Column("number", LargeInteger, primary_key=True, autoincrement=False),
    _text("at"),
    _text("by"),
    _text("via"),
    _text("action"),
    _text("about"),
    _text("details"),  # canonical JSON
)

# The tables in a backup; the rows of the others expire.
KEPT = (accounts, account_grants, tokens, passkeys, access_log)
