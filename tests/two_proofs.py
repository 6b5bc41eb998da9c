"""The problems that a verifier finds in a campaign: in its store, and in the files of an export."""

from pathlib import Path
from typing import Any

from rareswitch.campaigns import Campaign, export, verify
from rareswitch.campaigns.proof.verifier import verify_export


def of_store(campaign: Campaign) -> list[str]:
    """Return the problems that somebody finds who opens the campaign now."""
    return verify(Campaign(campaign.store, campaign.name, allow=campaign.allow)).problems


def of_folder(folder: Path, **given: Any) -> dict[str, list[str]]:
    """Return the problems of an export by the check that found them."""
    return {check.name: check.problems for check in verify_export(folder, **given).checks
            if check.problems}  # fmt: skip


def of_export(campaign: Campaign, folder: Path) -> dict[str, list[str]]:
    """Return the problems that somebody finds in a new export of the campaign, by the check."""
    export(campaign, folder, by="zoe", reason="a proof")
    return of_folder(folder, allow=campaign.allow)
