"""Bytes that are kept under their digest: policies, and the report of a simulation."""

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.record.canonical import digest_of
from rareswitch.campaigns.store.tables import artifacts


def add_artifact(connection: Connection, campaign: str, kind: str, data: bytes) -> None:
    """Keep bytes under their digest, unless they are there."""
    digest = digest_of(data)
    there = connection.execute(
        sa.select(artifacts.c.digest).where(
            artifacts.c.campaign == campaign, artifacts.c.digest == digest
        )
    ).first()
    if there is None:
        connection.execute(
            artifacts.insert().values(campaign=campaign, digest=digest, kind=kind, data=data)
        )


def artifact_of(connection: Connection, campaign: str, digest: str) -> bytes:
    """Return the bytes that are kept under a digest, if they are still those."""
    data = connection.execute(
        sa.select(artifacts.c.data).where(
            artifacts.c.campaign == campaign, artifacts.c.digest == digest
        )
    ).scalar()
    if data is None:
        raise DamagedError(f"artifact {digest[:12]} is missing")
    if digest_of(data) != digest:
        raise DamagedError(f"artifact {digest[:12]} was altered")
    return bytes(data)
