"""Reinforcement learning when changing the policy is expensive."""

from rareswitch.core import theory
from rareswitch.core.history import Episode
from rareswitch.core.learner import Learner
from rareswitch.core.policy import Policy
from rareswitch.core.schedule import (
    Clock,
    DeterminantGrowth,
    EveryEpisode,
    Schedule,
    UniformGrid,
)
from rareswitch.sim import instances
from rareswitch.sim.adversary import Duel, play_adversary
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.simulate import Run, Simulation, simulate, simulate_random

__version__ = "0.1.0"

__all__ = [
    "Clock",
    "DeterminantGrowth",
    "Duel",
    "Episode",
    "EveryEpisode",
    "FiniteLinearMDP",
    "FiniteMDP",
    "Learner",
    "Policy",
    "Run",
    "Schedule",
    "Simulation",
    "UniformGrid",
    "instances",
    "play_adversary",
    "simulate",
    "simulate_random",
    "theory",
]
