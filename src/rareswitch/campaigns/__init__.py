"""Campaigns: spend a switch budget in the real world, with a full record.

Every verb of `rareswitch campaign` is a function of that name here (`import` is `import_reports`).
A verb about one campaign takes the campaign as its first argument: `approve(campaign, 7, by="ben",
reason="reviewed")` is `campaign.approve(7, by="ben", reason="reviewed")`.

Names are imported lazily, so the client runs without the store's libraries.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rareswitch.campaigns.acting import Act
    from rareswitch.campaigns.analysis import Analysis
    from rareswitch.campaigns.campaign import Campaign, list_campaigns
    from rareswitch.campaigns.errors import (
        CampaignError,
        ConflictError,
        DamagedError,
        MovedError,
        NotAllowedError,
        RefusedError,
        SignatureError,
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
    from rareswitch.campaigns.rulebook.approval import Approval
    from rareswitch.campaigns.rulebook.signing import ToSign
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
    comment, countersign = Campaign.comment, Campaign.countersign
    policy = Campaign.policy
    list, episodes, open, head = list_campaigns, list_episodes, open_episodes, heads

# The module of each public name.
_HOMES = {
    name: home
    for home, names in {
        "acting": "Act",
        "analysis": "Analysis",
        "campaign": "Campaign list_campaigns",
        "errors": "CampaignError ConflictError DamagedError MovedError NotAllowedError "
        "RefusedError SignatureError UnavailableError UnreadableError",
        "learning.learning": "Learning learn propose",
        "observations": "Observer packed_features read_csv",
        "proof.export.export": "export interim",
        "proof.one_file": "verifier",
        "proof.stored": "backup restore verify",
        "protocol": "Protocol",
        "rehearsal.characteristics": "Characteristics characteristics",
        "rehearsal.one_step": "OneStep",
        "rehearsal.simulate": "SimulatedCampaign simulate",
        "rehearsal.study": "Scenario Study",
        "rehearsal.trial": "Trial",
        "rehearsal.world": "Circumstances FiniteWorld Step World",
        "report": "Report",
        "rulebook.approval": "Approval",
        "rulebook.signing": "ToSign",
        "rulebook.stopping": "ControlFutility ControlHarm ControlSuperiority DataQuality Futility "
        "Harm",
        "rulebook.terms": "AnalysisTerms FeatureTerms Intake Subgroups",
        "status": "Status analyse candidates heads ledger list_episodes open_episodes protocol "
        "refusals sites status",
        "store": "Store migrate open_store",
    }.items()
    for name in names.split()
}
# Verbs that are methods of a campaign, and verbs whose function has another name.
_METHODS = {
    "act": "act", "amend": "amend", "approve": "approve", "assign": "assign", "cancel": "cancel",
    "comment": "comment", "correct": "correct", "countersign": "countersign", "forget": "forget",
    "import_reports": "record_all", "init": "create", "policy": "policy", "record": "record",
    "reject": "reject", "reopen": "reopen", "rollback": "rollback", "stop": "stop",
    "withdraw": "withdraw",
}  # fmt: skip
_OTHER_NAMES = {
    "list": "list_campaigns", "episodes": "list_episodes", "open": "open_episodes", "head": "heads",
}  # fmt: skip

# `list` and `open` are left out: a star import must not shadow the built-in functions.
__all__ = [
    "Act", "Analysis", "AnalysisTerms", "Approval", "Campaign", "CampaignError", "Characteristics",
    "Circumstances", "ConflictError", "ControlFutility", "ControlHarm", "ControlSuperiority",
    "DamagedError", "DataQuality", "FeatureTerms", "FiniteWorld", "Futility", "Harm", "Intake",
    "Learning", "MovedError", "NotAllowedError", "Observer", "OneStep", "Protocol", "RefusedError",
    "Report", "Scenario", "SignatureError", "SimulatedCampaign", "Status", "Step", "Store", "Study",
    "Subgroups", "ToSign", "Trial", "UnavailableError", "UnreadableError", "World", "act", "amend",
    "analyse", "approve", "assign", "backup", "cancel", "candidates", "characteristics", "comment",
    "correct", "countersign", "episodes", "export", "forget", "head", "import_reports", "init",
    "interim", "learn", "ledger", "migrate", "open_store", "packed_features", "policy", "propose",
    "protocol", "read_csv", "record", "refusals", "reject", "reopen", "restore", "rollback",
    "simulate", "sites", "status", "stop", "verifier", "verify", "withdraw",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    found: Any
    if name in _METHODS:
        found = getattr(import_module("rareswitch.campaigns.campaign").Campaign, _METHODS[name])
    elif (own := _OTHER_NAMES.get(name, name)) in _HOMES:
        found = getattr(import_module(f"rareswitch.campaigns.{_HOMES[own]}"), own)
    else:
        raise AttributeError(f"module 'rareswitch.campaigns' has no attribute {name!r}")
    globals()[name] = found
    return found


class _Package(ModuleType):
    """This package; importing its module `status` does not replace its function `status`."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
