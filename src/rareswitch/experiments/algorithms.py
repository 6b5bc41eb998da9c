"""The algorithms of arms: LSVI under a switching rule, and baselines.

The `schedule` of an arm names a rule of the package's table, `module:Class` for a user's rule, or
one of `ALGORITHMS`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from rareswitch.core.clock import Schedule, checked_schedule
from rareswitch.core.exploration import MOST_MEMBERS, is_paper_bonus
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, planned_episodes
from rareswitch.learning.learner import Learner
from rareswitch.rules.table import RULES, Row
from rareswitch.rules.theory import RegretBound
from rareswitch.sim.adversary import play_adversary, target_states
from rareswitch.sim.baselines import (
    epsilon_greedy,
    eqo,
    explore_then_commit,
    layer_by_layer,
    lsvi_ucb_plus_plus,
    mvp,
    psrl,
    redrawn_mixture,
    ucb2_hoeffding,
)
from rareswitch.sim.baselines.posterior import SAMPLES
from rareswitch.sim.mdp import FiniteLinearMDP, FiniteMDP
from rareswitch.sim.outcome import Outcome, Simulator
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate_random
from rareswitch.sim.simulation import Simulation
from rareswitch.sim.tally import Tally
from rareswitch.support.arguments import (
    Floats,
    Ints,
    flag,
    one_of,
    positive_ridge,
    real,
    set_fields,
    short_repr,
    whole,
)
from rareswitch.support.streams import Seed

Arrays = dict[str, npt.NDArray[Any]]


class Rounds(NamedTuple):
    """Rounds played together, on worlds with the same features."""

    worlds: Sequence[FiniteMDP]
    seeds: Sequence[Seed]
    task: Task
    initial_state: int | str | Ints


class Algorithm:
    """An algorithm for known worlds."""

    learns: ClassVar[bool] = True
    tabular: ClassVar[bool] = False  # it needs a tabular world

    def check(self, task: Task) -> None:
        """Raise ValueError if the algorithm cannot play the task."""

    def play(self, rounds: Rounds) -> list[Arrays]:
        """Return the measurements of a run in each round."""
        raise NotImplementedError

    def deployment_limit(self, task: Task) -> float:
        """Return the most deployments after the first, on any path."""
        return planned_episodes(task, "a limit of deployments") - 1

    def regret_bound(self, task: Task) -> RegretBound | None:
        """Return the proved bound on the regret, or None."""
        return None


@dataclass(frozen=True, kw_only=True)
class Scheduled(Algorithm):
    """LSVI that deploys by its schedule.

    `measure_radius` also measures, at every fit, the smallest β for which the concentration lemma
    holds.
    """

    schedule: Schedule
    recipe: Recipe
    measure_radius: bool = False

    def check(self, task: Task) -> None:
        checked_schedule(self.schedule, task)

    def deployment_limit(self, task: Task) -> float:
        limit = getattr(self.schedule, "deployment_limit", None)
        return limit(task, self.recipe.ridge) if limit else super().deployment_limit(task)

    def regret_bound(self, task: Task) -> RegretBound | None:
        bound = getattr(self.schedule, "regret_bound", None)
        proved = is_paper_bonus(self.recipe.exploration) and not task.pools.shared
        return bound(task, self.recipe.ridge) if bound and proved else None

    def play(self, rounds: Rounds) -> list[Arrays]:
        worlds, seeds, task, start = rounds
        simulation = Simulation(
            worlds, self.schedule, self.recipe, task=task, seeds=seeds, initial_state=start
        )
        before = simulation.tally.gram.logdet
        radius = np.zeros(len(worlds))
        while not simulation.done:
            live = simulation.live
            simulation.deploy()
            if self.measure_radius:
                needed = empirical_radius(simulation, cast("Sequence[FiniteLinearMDP]", worlds))
                radius = np.where(live, np.maximum(radius, needed), radius)
            simulation.play()
        growth = simulation.tally.gram.logdet - before
        rows = []
        for r, (run, world) in enumerate(zip(simulation.runs(), worlds, strict=True)):
            share = np.array(run.optimistic_share(world.optimal_values()[0]))
            fits = {"optimistic": share, "radius": radius[r], "logdet_growth": growth[r]}
            rows.append(_measure_run(run) | fits)
        return rows

    def simulate(self, simulator: Simulator, task: Task, seeds: Sequence[Seed]) -> list[Arrays]:
        """Return the measurements of a run for each seed, in a simulated world."""
        outcomes = simulator(task, self.schedule, self.recipe, seeds)
        if not isinstance(outcomes, Sequence) or len(outcomes) != len(seeds):
            raise ValueError(
                f"simulator must return one Outcome for each of {len(seeds)} seeds; got "
                f"{short_repr(outcomes)}"
            )
        return [_measure_outcome(outcome, task) for outcome in outcomes]

    def starts(self, task: Task) -> list[int]:
        """Return the first episode of every batch, or raise ValueError without fixed batches."""
        dates = getattr(self.schedule, "starts", None)
        if dates is None:
            raise ValueError(
                "the adversary plays against rules with fixed batches, such as uniform-grid"
            )
        last = planned_episodes(task, "the adversary")
        return [int(date) for date in dates(task) if date <= last]

    def batches(self, task: Task, states: int) -> tuple[Ints, Ints]:
        """Return the length of each batch, and its initial state.

        An adversary with that number of rewarding states chooses the initial states.
        """
        ends = [*self.starts(task), planned_episodes(task, "the adversary") + 1]
        lengths = np.diff(ends)
        return lengths, target_states(lengths, states, task.horizon)

    def duel(self, task: Task, seed: Seed, *, normalized: bool) -> Arrays:
        """Return the measurements of a run against the adversary of Theorem 3."""
        starts = self.starts(task)
        episodes = planned_episodes(task, "the adversary")
        duel = play_adversary(
            Learner(task, self.schedule, replace(self.recipe, seed=seed)),
            states=(task.dim - 1) // 2,
            horizon=task.horizon,
            episodes=episodes,
            starts=starts,
            normalized=normalized,
        )
        changes = (duel.policies[1:] != duel.policies[:-1]).sum(axis=(1, 2))
        k = np.arange(1, episodes + 1)
        return {
            "regret": duel.regret,
            "deployed": np.isin(k, starts),
            "switched": np.isin(k, np.array(starts[1:])[changes > 0]),
            "local_switches": np.array(int(changes.sum())),
        } | _no_fits(task.horizon)


class _RoundByRound(Algorithm):
    """An algorithm that plays one round at a time, without measurements of fits."""

    simulate: ClassVar[Callable[..., Run]]

    def play(self, rounds: Rounds) -> list[Arrays]:
        worlds, seeds, task, start = rounds
        settings = vars(self) | {"episodes": task.episodes, "initial_state": start}
        return [
            _measure_run(self.simulate(world, seed=seed, **settings)) | _no_fits(world.horizon)
            for world, seed in zip(worlds, seeds, strict=True)
        ]


@dataclass(frozen=True)
class RandomPolicy(_RoundByRound):
    """The uniformly random policy, which does not learn."""

    learns: ClassVar[bool] = False
    simulate = staticmethod(simulate_random)

    def deployment_limit(self, task: Task) -> float:
        return 0


@dataclass(frozen=True, kw_only=True)
class _Optimistic(_RoundByRound):
    """A tabular algorithm; `scale` is the constant of its bonus."""

    tabular: ClassVar[bool] = True

    scale: float = 0.1

    def __post_init__(self) -> None:
        set_fields(self, scale=real("scale", self.scale, least=0.0, most=1e100))


class UCB2Hoeffding(_Optimistic):
    """Q-learning with few local switches."""

    simulate = staticmethod(ucb2_hoeffding)


class MVP(_Optimistic):
    """Optimistic value iteration with few global switches."""

    simulate = staticmethod(mvp)


class EQO(_Optimistic):
    """Value iteration with a bonus of scale/n, before every episode."""

    simulate = staticmethod(eqo)


@dataclass(frozen=True, kw_only=True)
class _Batched(_RoundByRound):
    """An algorithm that deploys before each of `batches` equal batches, or before every episode."""

    batches: int | None = None

    def __post_init__(self) -> None:
        if self.batches is not None:
            set_fields(self, batches=whole("batches", self.batches, least=1))

    def check(self, task: Task) -> None:
        if self.batches is not None:
            whole("batches", self.batches, least=1, most=planned_episodes(task, "batches"))

    def deployment_limit(self, task: Task) -> float:
        limit = super().deployment_limit(task)
        return limit if self.batches is None else min(limit, self.batches - 1)


@dataclass(frozen=True, kw_only=True)
class PSRL(_Batched):
    """Posterior sampling in tabular worlds."""

    tabular: ClassVar[bool] = True
    simulate = staticmethod(psrl)

    prior: float = 1.0
    samples: str = "batch"

    def __post_init__(self) -> None:
        super().__post_init__()
        prior = real("prior", self.prior, least=1e-6, most=1e6)
        set_fields(self, prior=prior, samples=one_of("samples", self.samples, SAMPLES))


@dataclass(frozen=True, kw_only=True)
class EpsilonGreedy(_Batched):
    """LSVI without a bonus, and random steps."""

    simulate = staticmethod(epsilon_greedy)

    epsilon: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        share = real("epsilon", self.epsilon, least=0.0, most=1.0)
        set_fields(self, epsilon=share, ridge=positive_ridge(self.ridge))


@dataclass(frozen=True, kw_only=True)
class LayerByLayer(_Batched):
    """LSVI with deployments that each explore one stage."""

    simulate = staticmethod(layer_by_layer)

    batches: int = field()
    scale: float = 0.003
    accuracy: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        scale = real("scale", self.scale, least=0.0, most=1e100)
        accuracy = real("accuracy", self.accuracy, above=0.0, most=1.0)
        set_fields(self, scale=scale, accuracy=accuracy)


@dataclass(frozen=True, kw_only=True)
class RedrawnMixture(_Batched):
    """The mixture without tuning, with a new member at every step."""

    simulate = staticmethod(redrawn_mixture)

    batches: int = 10
    members: int = 32

    def __post_init__(self) -> None:
        super().__post_init__()
        set_fields(self, members=whole("members", self.members, least=1, most=MOST_MEMBERS))


@dataclass(frozen=True, kw_only=True)
class ExploreThenCommit(_RoundByRound):
    """Random episodes, then one greedy fit of LSVI."""

    simulate = staticmethod(explore_then_commit)

    explore: float = 0.1
    ridge: float = 1.0

    def __post_init__(self) -> None:
        share = real("explore", self.explore, least=0.0, most=1.0)
        set_fields(self, explore=share, ridge=positive_ridge(self.ridge))

    def deployment_limit(self, task: Task) -> float:
        return min(1, super().deployment_limit(task))


@dataclass(frozen=True, kw_only=True)
class LSVIUCBPlusPlus(_RoundByRound):
    """Variance-weighted regressions, fitted again when a determinant has doubled."""

    simulate = staticmethod(lsvi_ucb_plus_plus)

    scale: float = 0.01
    inflation: float = 0.0
    monotone: bool = True

    def __post_init__(self) -> None:
        set_fields(
            self,
            scale=real("scale", self.scale, least=0.0, most=1e100),
            inflation=real("inflation", self.inflation, least=0.0, most=1e100),
            monotone=flag("monotone", self.monotone),
        )


ALGORITHMS = (
    Row(RandomPolicy, "random-policy", "uniformly random"),
    Row(UCB2Hoeffding, "ucb2-hoeffding", "UCB2-Hoeffding"),
    Row(MVP, "mvp", "MVP"),
    Row(EQO, "eqo", "EQO"),
    Row(PSRL, "psrl", "PSRL"),
    Row(LSVIUCBPlusPlus, "lsvi-ucb-plus-plus", "LSVI-UCB++"),
    Row(EpsilonGreedy, "epsilon-greedy", "ε-greedy LSVI"),
    Row(ExploreThenCommit, "explore-then-commit", "explore, then commit"),
    Row(LayerByLayer, "layer-by-layer", "layer by layer"),
    Row(RedrawnMixture, "redrawn-mixture", "mixture, redrawn at every step"),
)
KINDS = (*RULES, *ALGORITHMS)
EVERY, BATCH, RARE = "every-episode", "uniform-grid", "determinant-growth"  # the paper's three
RANDOM = "random-policy"


def empirical_radius(simulation: Simulation, worlds: Sequence[FiniteLinearMDP]) -> Floats:
    """Return, for each run (R,), the smallest β for which Lemma B.4 holds for the last fit.

    For the paper's regression with its bonus, the lemma bounds |φᵀw_h − r_h − P_h V_{h+1}| by
    β·‖φ‖_{Λ⁻¹} for every pair and stage. Call the function between `deploy()` and `play()`.
    """
    tally, explores = simulation.tally, simulation.tally.recipe.exploration
    if explores.draws or explores.estimate or not isinstance(tally, Tally):
        raise ValueError(
            "simulation must have the paper's bonus, Recipe.paper(beta=…), which the lemma is "
            f"about, and no stages to choose; got {explores}, {simulation.task}"
        )
    values = tally.values[:, :, 0].swapaxes(0, 1)
    following = np.concatenate([values[:, 1:], np.zeros_like(values[:, :1])], axis=1)
    exact = np.stack([w.theta + np.vecmat(v, w.mu) for w, v in zip(worlds, following, strict=True)])
    weights = np.stack([q_function.weights for q_function in simulation.q_functions], axis=1)
    errors = np.abs((weights - exact) @ worlds[0].space.columns)  # (R, H, N)
    norms = np.sqrt(tally.squared_norms()).swapaxes(0, 1)
    return (errors / norms).max(axis=(1, 2))


def _measure_run(run: Run) -> Arrays:
    k = np.arange(1, len(run.regret) + 1)
    return {
        "regret": run.regret,
        "deployed": np.isin(k, run.deployment_episodes),
        "switched": np.isin(k, run.switch_episodes),
        "local_switches": np.array(run.local_switches),
    }


def _measure_outcome(outcome: Any, task: Task) -> Arrays:
    """Return the measurements of an outcome, which must hold all episodes."""
    needed = ("returns", "deployment_episodes", "switch_episodes")
    if not isinstance(outcome, Outcome):
        raise TypeError(f"simulator must return Outcomes; got {short_repr(outcome)}")
    if missing := [name for name in needed if getattr(outcome, name) is None]:
        raise ValueError(f"simulator must give the {missing[0]} of an Outcome in an experiment")
    episodes = planned_episodes(task, "an experiment")
    returns, k = np.array(outcome.returns), np.arange(1, episodes + 1)
    if len(returns) != episodes:
        raise ValueError(f"returns must hold {episodes} episodes; got {len(returns)}")
    return {
        "returns": returns,
        "deployed": np.isin(k, np.array(outcome.deployment_episodes)),
        "switched": np.isin(k, np.array(outcome.switch_episodes)),
        "local_switches": np.array(np.nan),  # the states of a simulated world are unknown
    } | _no_fits(task.horizon)


def _no_fits(horizon: int) -> Arrays:
    """Return NaN for the measurements of fits."""
    missing = np.array(np.nan)
    return {"optimistic": missing, "radius": missing, "logdet_growth": np.full(horizon, np.nan)}
