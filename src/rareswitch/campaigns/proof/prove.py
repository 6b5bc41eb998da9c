"""Proving a campaign from its store."""

from collections.abc import Sequence

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.checks import Progress, quiet
from rareswitch.campaigns.proof.verify import Verification, verify_record
from rareswitch.campaigns.rulebook.rows import Head
from rareswitch.campaigns.store.rows import StoredRecord


def verify(
    campaign: Campaign, *, anchors: Sequence[dict[str, Head]] = (), progress: Progress = quiet
) -> Verification:
    """Check one moment of a campaign; every problem is named with its row.

    `anchors` are heads of the chains that somebody kept elsewhere: the store must still have them.
    """
    with campaign.store.reading() as connection:
        record = StoredRecord(connection, campaign.name)
        return verify_record(record, allow=campaign.allow, anchors=anchors, progress=progress)
