"""Reinforcement learning when changing the policy is expensive."""

from rareswitch.core import theory
from rareswitch.core.budget import AdaptiveBudget, Capped, TotalGrowth
from rareswitch.core.grids import EpisodeGrid
from rareswitch.core.history import Episode
from rareswitch.core.learner import Learner
from rareswitch.core.log import LocalPartitions, LogPartition, fit_log
from rareswitch.core.optimism import Bonus, Perturbation
from rareswitch.core.policy import Policy
from rareswitch.core.schedule import (
    Clock,
    DeterminantGrowth,
    EveryEpisode,
    Schedule,
    UniformGrid,
)
from rareswitch.log_folder import open_partition, save_partition
from rareswitch.planning.plan import plan
from rareswitch.planning.simulator import Outcome, world_simulator
from rareswitch.sim import instances
from rareswitch.sim.adversary import Duel, play_adversary
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate, simulate_random
from rareswitch.sim.simulation import Simulation

__version__ = "0.1.0"

__all__ = [
    "AdaptiveBudget",
    "Bonus",
    "Capped",
    "Clock",
    "DeterminantGrowth",
    "Duel",
    "Episode",
    "EpisodeGrid",
    "EveryEpisode",
    "FiniteLinearMDP",
    "FiniteMDP",
    "Learner",
    "LocalPartitions",
    "LogPartition",
    "Outcome",
    "Perturbation",
    "Policy",
    "Run",
    "Schedule",
    "Simulation",
    "TotalGrowth",
    "UniformGrid",
    "fit_log",
    "instances",
    "open_partition",
    "plan",
    "play_adversary",
    "save_partition",
    "simulate",
    "simulate_random",
    "theory",
    "world_simulator",
]
