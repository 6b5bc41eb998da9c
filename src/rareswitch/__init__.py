"""Reinforcement learning when changing the policy is expensive."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rareswitch import campaigns as campaigns
    from rareswitch import evaluation as evaluation
    from rareswitch import features as features
    from rareswitch import gym as gym
    from rareswitch import rules as rules
    from rareswitch import testing as testing
    from rareswitch.agent import Agent as Agent
    from rareswitch.core.control import Control as Control
    from rareswitch.core.episode import Episode as Episode
    from rareswitch.core.exploration import Bonus as Bonus
    from rareswitch.core.exploration import Ensemble as Ensemble
    from rareswitch.core.exploration import Perturbation as Perturbation
    from rareswitch.core.policy import Policy as Policy
    from rareswitch.core.recipe import Recipe as Recipe
    from rareswitch.core.task import Task as Task
    from rareswitch.learning.learner import Learner as Learner
    from rareswitch.planning.plan import plan as plan
    from rareswitch.rules import theory as theory
    from rareswitch.rules.budget import SpreadBudget as SpreadBudget
    from rareswitch.rules.paper import DeterminantGrowth as DeterminantGrowth
    from rareswitch.rules.paper import EveryEpisode as EveryEpisode
    from rareswitch.rules.paper import UniformGrid as UniformGrid
    from rareswitch.sim import worlds as worlds
    from rareswitch.sim.simulate import simulate as simulate

__version__ = "0.1.0"

# The home of each public name; it is imported when it is first used.
_HOMES = {
    "Agent": "agent",
    "Bonus": "core.exploration",
    "Control": "core.control",
    "DeterminantGrowth": "rules.paper",
    "Ensemble": "core.exploration",
    "Episode": "core.episode",
    "EveryEpisode": "rules.paper",
    "Learner": "learning.learner",
    "Perturbation": "core.exploration",
    "Policy": "core.policy",
    "Recipe": "core.recipe",
    "SpreadBudget": "rules.budget",
    "Task": "core.task",
    "UniformGrid": "rules.paper",
    "plan": "planning.plan",
    "simulate": "sim.simulate",
}
_MODULES = {
    "campaigns": "campaigns",
    "evaluation": "evaluation",
    "features": "features",
    "gym": "gym",
    "rules": "rules",
    "testing": "testing",
    "theory": "rules.theory",
    "worlds": "sim.worlds",
}

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        found = import_module(f"rareswitch.{_MODULES[name]}")
    elif name in _HOMES:
        found = getattr(import_module(f"rareswitch.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'rareswitch' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
