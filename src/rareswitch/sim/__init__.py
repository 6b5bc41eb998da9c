"""Worlds that are known exactly, and learners played on them."""

from rareswitch.sim.adversary import Duel, play_adversary
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate, simulate_random
from rareswitch.sim.simulation import Simulation

__all__ = [
    "Duel",
    "FiniteLinearMDP",
    "FiniteMDP",
    "Run",
    "Simulation",
    "play_adversary",
    "simulate",
    "simulate_random",
]
