"""Campaigns: a switch budget spent in the real world, on record.

Every verb of `rareswitch campaign` is a function of that name here (`import` is `import_reports`).
Those that are about one campaign take it as their first argument: `approve(campaign, 7, by="ben",
reason="reviewed")` is `campaign.approve(7, by="ben", reason="reviewed")`.
"""

from rareswitch.campaigns.analysis import Analysis
from rareswitch.campaigns.campaign import Act, Campaign, list_campaigns
from rareswitch.campaigns.errors import (
    CampaignError,
    ConflictError,
    DamagedError,
    MovedError,
    NotAllowedError,
    RefusedError,
    UnavailableError,
    UnreadableError,
)
from rareswitch.campaigns.learning.learning import Learning, learn, propose
from rareswitch.campaigns.observations import Observer, packed_features, read_csv
from rareswitch.campaigns.proof.export.export import export, interim
from rareswitch.campaigns.proof.one_file import verifier
from rareswitch.campaigns.proof.stored import backup, restore, verify
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.rehearsal.characteristics import Characteristics, characteristics
from rareswitch.campaigns.rehearsal.one_step import OneStep
from rareswitch.campaigns.rehearsal.simulate import SimulatedCampaign, simulate
from rareswitch.campaigns.rehearsal.study import Scenario, Study
from rareswitch.campaigns.rehearsal.trial import Trial
from rareswitch.campaigns.rehearsal.world import Circumstances, FiniteWorld, Step, World
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.stopping import (
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    Futility,
    Harm,
)
from rareswitch.campaigns.rulebook.terms import (
    AnalysisTerms,
    Approval,
    FeatureTerms,
    Intake,
    Subgroups,
)
from rareswitch.campaigns.status import (
    Status,
    analyse,
    candidates,
    heads,
    ledger,
    list_episodes,
    open_episodes,
    protocol,
    refusals,
    sites,
    status,
)
from rareswitch.campaigns.store import Store, migrate, open_store

init = Campaign.create
act, assign, record = Campaign.act, Campaign.assign, Campaign.record
import_reports, correct = Campaign.record_all, Campaign.correct
withdraw, cancel, forget = Campaign.withdraw, Campaign.cancel, Campaign.forget
approve, reject, rollback = Campaign.approve, Campaign.reject, Campaign.rollback
amend, stop, reopen = Campaign.amend, Campaign.stop, Campaign.reopen
policy = Campaign.policy
# `list` and `open` are not in __all__: a star import must not shadow the built-in functions.
list, episodes, open, head = list_campaigns, list_episodes, open_episodes, heads

__all__ = [
    "Act", "Analysis", "AnalysisTerms", "Approval", "Campaign", "CampaignError", "Characteristics",
    "Circumstances", "ConflictError", "ControlFutility", "ControlHarm", "ControlSuperiority",
    "DamagedError", "DataQuality", "FeatureTerms", "FiniteWorld", "Futility", "Harm", "Intake",
    "Learning", "MovedError", "NotAllowedError", "Observer", "OneStep", "Protocol", "RefusedError",
    "Report", "Scenario", "SimulatedCampaign", "Status", "Step", "Store", "Study", "Subgroups",
    "Trial", "UnavailableError", "UnreadableError", "World", "act", "amend", "analyse", "approve",
    "assign", "backup", "cancel", "candidates", "characteristics", "correct", "episodes", "export",
    "forget", "head", "import_reports", "init", "interim", "learn", "ledger", "migrate",
    "open_store", "packed_features", "policy", "propose", "protocol", "read_csv", "record",
    "refusals", "reject", "reopen", "restore", "rollback", "simulate", "sites", "status", "stop",
    "verifier", "verify", "withdraw",
]  # fmt: skip
