"""What both verifiers say of one campaign: the library of its store, the one file of its export."""

from typing import Any

from rareswitch.campaigns import Campaign
from rareswitch.campaigns.proof.export import export_campaign
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.proof.verify_export import verify as verify_export


def of_store(campaign: Campaign) -> list[str]:
    """Return the problems that somebody finds who opens the campaign now."""
    return verify(Campaign(campaign.store, campaign.name)).problems


def of_export(campaign: Campaign, folder: Any) -> dict[str, list[str]]:
    """Return the problems that somebody finds in an export of the campaign, by the check."""
    export_campaign(campaign, folder, actor="zoe", reason="a proof")
    return {check.name: check.wrong for check in verify_export(folder) if check.wrong}


def remarks(campaign: Campaign) -> list[str]:
    found = verify(Campaign(campaign.store, campaign.name))
    return [remark for check in found.checks for remark in check.remarks]
