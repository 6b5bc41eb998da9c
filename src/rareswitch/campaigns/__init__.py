"""Campaigns: a switch budget spent in the real world, on record."""

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    DamagedError,
    MovedError,
    NotAllowedError,
    RefusedError,
    UnavailableError,
)
from rareswitch.campaigns.learning import Learning
from rareswitch.campaigns.protocol import Approval, FeatureName, Intake, Protocol
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.stopping import DataQuality, Futility, Harm
from rareswitch.campaigns.store import Store, open_store

__all__ = [
    "Approval",
    "Campaign",
    "CampaignError",
    "ConflictError",
    "DamagedError",
    "DataQuality",
    "FeatureName",
    "Futility",
    "Harm",
    "Intake",
    "Learning",
    "MovedError",
    "NotAllowedError",
    "Protocol",
    "RefusedError",
    "Report",
    "Store",
    "UnavailableError",
    "open_store",
]
