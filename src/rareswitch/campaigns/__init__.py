"""Campaigns: a switch budget spent in the real world, on record."""

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.circumstances import Circumstances
from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    DamagedError,
    MovedError,
    NotAllowedError,
    RefusedError,
    UnavailableError,
)
from rareswitch.campaigns.finite_world import FiniteWorld
from rareswitch.campaigns.learning import Learning
from rareswitch.campaigns.protocol import Approval, FeatureName, Intake, Protocol
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.simulated import simulate_campaign
from rareswitch.campaigns.simulated_result import SimulatedCampaign
from rareswitch.campaigns.stopping import DataQuality, Futility, Harm
from rareswitch.campaigns.store import Store, open_store
from rareswitch.campaigns.world import Step, World

__all__ = [
    "Approval",
    "Campaign",
    "CampaignError",
    "Circumstances",
    "ConflictError",
    "DamagedError",
    "DataQuality",
    "FeatureName",
    "FiniteWorld",
    "Futility",
    "Harm",
    "Intake",
    "Learning",
    "MovedError",
    "NotAllowedError",
    "Protocol",
    "RefusedError",
    "Report",
    "SimulatedCampaign",
    "Step",
    "Store",
    "UnavailableError",
    "World",
    "open_store",
    "simulate_campaign",
]
