"""Reinforcement learning when changing the policy is expensive."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rareswitch import testing
    from rareswitch.core import theory
    from rareswitch.core.budget import AdaptiveBudget, Capped, SpreadBudget, TotalGrowth
    from rareswitch.core.episode import Episode
    from rareswitch.core.exploration import Bonus, Ensemble, Perturbation
    from rareswitch.core.grids import EpisodeGrid, GeometricGrid
    from rareswitch.core.learner import Learner
    from rareswitch.core.policy import Policy
    from rareswitch.core.schedule import DeterminantGrowth, EveryEpisode, UniformGrid
    from rareswitch.core.task import Task
    from rareswitch.planning.plan import plan
    from rareswitch.sim import instances
    from rareswitch.sim.simulate import simulate

__version__ = "0.1.0"

# Where each name lives; it is imported when it is first used.
_HOMES = {
    "AdaptiveBudget": "core.budget",
    "Bonus": "core.exploration",
    "Capped": "core.budget",
    "DeterminantGrowth": "core.schedule",
    "Ensemble": "core.exploration",
    "Episode": "core.episode",
    "EpisodeGrid": "core.grids",
    "EveryEpisode": "core.schedule",
    "GeometricGrid": "core.grids",
    "Learner": "core.learner",
    "Perturbation": "core.exploration",
    "Policy": "core.policy",
    "SpreadBudget": "core.budget",
    "Task": "core.task",
    "TotalGrowth": "core.budget",
    "UniformGrid": "core.schedule",
    "instances": "sim",
    "plan": "planning.plan",
    "simulate": "sim.simulate",
    "testing": "",
    "theory": "core",
}

__all__ = [
    "AdaptiveBudget",
    "Bonus",
    "Capped",
    "DeterminantGrowth",
    "Ensemble",
    "Episode",
    "EpisodeGrid",
    "EveryEpisode",
    "GeometricGrid",
    "Learner",
    "Perturbation",
    "Policy",
    "SpreadBudget",
    "Task",
    "TotalGrowth",
    "UniformGrid",
    "instances",
    "plan",
    "simulate",
    "testing",
    "theory",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rareswitch' has no attribute {name!r}")
    home = f"rareswitch.{_HOMES[name]}".rstrip(".")
    found = (
        import_module(f"{home}.{name}")
        if name in ("instances", "testing", "theory")
        else getattr(import_module(home), name)
    )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
