"""The bounds on the arms of an experiment, to stand beside what was measured."""

from dataclasses import replace

from rareswitch.core import theory
from rareswitch.core.arguments import Ints
from rareswitch.core.task import Task
from rareswitch.experiments.algorithms import Algorithm
from rareswitch.experiments.results import Results
from rareswitch.experiments.spec import Arm
from rareswitch.experiments.worlds import Adversary


def task_of(results: Results, arm: Arm) -> Task:
    """Return the sizes of the arm's world and the episodes played on it."""
    return arm.task(episodes=results.experiment.episodes, seed=results.experiment.seed)


def switch_limit(results: Results, arm: Arm) -> float:
    """Return the most switches that the arm can make in all episodes."""
    algorithm, task = _played(results, arm)
    return algorithm.deployment_limit(task)


def batches_of(results: Results, arm: Arm) -> int:
    """Return the number of batches of an arm with fixed dates."""
    return int(switch_limit(results, arm)) + 1


def switch_limits(results: Results, arm: Arm, episodes: Ints) -> list[float]:
    """Return the most switches that the arm can make up to each of these episodes."""
    algorithm, task = _played(results, arm)
    return [algorithm.deployment_limit(replace(task, episodes=int(k))) for k in episodes]


def regret_bound(results: Results, arm: Arm) -> theory.RegretBound:
    """Return the bound on the arm's total regret (c = 1, probability 0.95)."""
    algorithm, task = _played(results, arm)
    bound = algorithm.regret_bound(task)
    if bound is None:
        raise ValueError(f"arm {arm.name!r}: nothing is proved of the regret of {arm.schedule}")
    return bound


def growth_bound(results: Results, arm: Arm) -> float:
    """Return the bound on the growth of one log det Λ_h over all episodes."""
    return theory.information_gain(task_of(results, arm), ridge=arm.ridge)


def adversary_bound(results: Results, arm: Arm, *, uniform: bool) -> float:
    """Return the lower bound on the total regret against the adversary."""
    assert isinstance(arm.world, Adversary)  # checked when the spec was read
    return theory.lower_bound(
        states=arm.world.states,
        horizon=arm.world.horizon,
        episodes=results.experiment.episodes,
        batches=batches_of(results, arm),
        uniform=uniform,
    )


def _played(results: Results, arm: Arm) -> tuple[Algorithm, Task]:
    task = task_of(results, arm)
    return arm.algorithm(task), task
