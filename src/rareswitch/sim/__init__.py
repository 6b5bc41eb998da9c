"""Exactly known worlds, and simulations of learners on them."""

from rareswitch.sim.adversary import Duel, play_adversary
from rareswitch.sim.mdp import FiniteLinearMDP, FiniteMDP
from rareswitch.sim.outcome import Outcome, Simulator, world_simulator
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate, simulate_random
from rareswitch.sim.simulation import Simulation

__all__ = [
    "Duel",
    "FiniteLinearMDP",
    "FiniteMDP",
    "Outcome",
    "Run",
    "Simulation",
    "Simulator",
    "play_adversary",
    "simulate",
    "simulate_random",
    "world_simulator",
]
