"""The paper's bounds for the arms of an experiment, to stand beside what was measured."""

from typing import Any

from rareswitch.core import theory
from rareswitch.core.arguments import Ints
from rareswitch.experiments.results import Runs
from rareswitch.experiments.spec import (
    Adversary,
    Arm,
    BudgetSpec,
    DeterminantGrowthSpec,
    UniformGridSpec,
)


def switch_bounds(runs: Runs, arm: Arm, eta: float, episodes: Ints) -> list[float]:
    """Return the switching lemma's bound on N_switch after each of these episodes."""
    sizes = _sizes(runs, arm)
    return [theory.switch_bound(eta=eta, **sizes | {"episodes": int(k)}) for k in episodes]


def switch_limit(runs: Runs, arm: Arm) -> float:
    """Return the most switches that the arm can make in all episodes."""
    if isinstance(arm.schedule, UniformGridSpec):
        return arm.schedule.batches - 1
    if isinstance(arm.schedule, BudgetSpec):
        return arm.schedule.switches
    if isinstance(arm.schedule, DeterminantGrowthSpec):
        return theory.switch_bound(eta=arm.schedule.eta, **_sizes(runs, arm))
    return runs.experiment.episodes - 1


def regret_bound(runs: Runs, arm: Arm) -> theory.RegretBound:
    """Return the bound of Theorem 1 or 2 on the total regret (c = 1, probability 0.95)."""
    sizes = _sizes(runs, arm)
    if isinstance(arm.schedule, UniformGridSpec):
        return theory.batch_regret_bound(batches=arm.schedule.batches, **sizes)
    assert isinstance(arm.schedule, DeterminantGrowthSpec)
    return theory.rare_switch_regret_bound(eta=arm.schedule.eta, **sizes)


def growth_bound(runs: Runs, arm: Arm) -> float:
    """Return the bound on the growth of one log det Λ_h over all episodes."""
    sizes = _sizes(runs, arm)
    del sizes["horizon"]
    return theory.information_gain(**sizes)


def adversary_bound(runs: Runs, arm: Arm, *, uniform: bool) -> float:
    """Return the lower bound on the total regret against the adversary."""
    assert isinstance(arm.world, Adversary)
    assert isinstance(arm.schedule, UniformGridSpec)
    return theory.lower_bound(
        states=arm.world.states,
        horizon=arm.world.horizon,
        episodes=runs.experiment.episodes,
        batches=arm.schedule.batches,
        uniform=uniform,
    )


def _sizes(runs: Runs, arm: Arm) -> dict[str, Any]:
    world = arm.world.build(runs.experiment.seed)
    return world.sizes(episodes=runs.experiment.episodes, ridge=arm.ridge)
