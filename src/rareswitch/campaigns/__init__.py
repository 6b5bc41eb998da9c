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
from rareswitch.campaigns.learn.learning import Learning
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.simulated.circumstances import Circumstances
from rareswitch.campaigns.simulated.finite_world import FiniteWorld
from rareswitch.campaigns.simulated.result import SimulatedCampaign
from rareswitch.campaigns.simulated.simulate import simulate_campaign
from rareswitch.campaigns.simulated.world import Step, World
from rareswitch.campaigns.stopping.rules import DataQuality, Futility, Harm
from rareswitch.campaigns.store import Store, open_store
from rareswitch.campaigns.terms import Approval, FeatureName, Intake

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
