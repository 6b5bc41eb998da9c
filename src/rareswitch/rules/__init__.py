"""Switching rules, the paper's bounds, and rules as text."""

from rareswitch.core.candidate import Candidate
from rareswitch.core.clock import Clock, Rule, Schedule, Trigger
from rareswitch.rules.budget import AdaptiveBudget, Capped, SpreadBudget, TotalGrowth
from rareswitch.rules.grids import EpisodeGrid, GeometricGrid, MinimaxGrid
from rareswitch.rules.paper import DeterminantGrowth, EveryEpisode, UniformGrid
from rareswitch.rules.table import RULES
from rareswitch.rules.waiting import Waiting
from rareswitch.rules.worth import Worthwhile
from rareswitch.support.arguments import explain_arguments

for row in RULES:
    explain_arguments(row.cls)
del row

__all__ = [
    "AdaptiveBudget",
    "Candidate",
    "Capped",
    "Clock",
    "DeterminantGrowth",
    "EpisodeGrid",
    "EveryEpisode",
    "GeometricGrid",
    "MinimaxGrid",
    "Rule",
    "Schedule",
    "SpreadBudget",
    "TotalGrowth",
    "Trigger",
    "UniformGrid",
    "Waiting",
    "Worthwhile",
]
