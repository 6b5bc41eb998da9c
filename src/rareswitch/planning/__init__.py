"""From a budget of deployments to a schedule: candidates, guarantees, what to expect and to choose.

Budgets, limits and prices count deployments after the first, whether or not they change an action.
"""

from rareswitch.outcome import Outcome, Simulator
from rareswitch.planning.simulator import world_simulator

__all__ = ["Outcome", "Simulator", "world_simulator"]
