"""What an arm plays: LSVI-UCB under a switching rule, or an algorithm of its own.

The `schedule` of an arm names one: a rule of the package's table, `module:Class` for your own rule,
or one of `ALGORITHMS`. Each answers for itself: its family (how it is called and drawn), how it is
played, how often it may deploy, and what is proved of its regret.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, cast

import numpy as np
import numpy.typing as npt

from rareswitch import named
from rareswitch.core.arguments import real, settle, shown
from rareswitch.core.exploration import Exploration, is_plain
from rareswitch.core.learner import Learner
from rareswitch.core.rules import RULES, Row, row_of
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Seed
from rareswitch.core.task import Task
from rareswitch.core.theory import RegretBound
from rareswitch.outcome import Outcome, Simulator
from rareswitch.sim.adversary import play_adversary
from rareswitch.sim.anchors import mvp, ucb2_hoeffding
from rareswitch.sim.concentration import empirical_radius
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate_random
from rareswitch.sim.simulation import Simulation

Arrays = dict[str, npt.NDArray[Any]]


class Algorithm(Protocol):
    """What is asked of an algorithm."""

    learns: ClassVar[bool]
    tabular: ClassVar[bool]  # it needs a tabular world

    def play(
        self,
        worlds: Sequence[FiniteMDP],
        *,
        episodes: int,
        seeds: Sequence[Seed],
        initial_state: int | str,
    ) -> list[Arrays]:
        """Return what was measured in one run on each of these worlds of the same features."""
        ...

    def deployment_limit(self, task: Task) -> float:
        """Return the most deployments after the first, on any path."""
        ...

    def regret_bound(self, task: Task) -> RegretBound | None:
        """Return what is proved of the regret, if anything is."""
        ...


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """LSVI-UCB whose schedule says when to deploy.

    `measure_radius` also measures, at every fit, the smallest β for which the concentration lemma
    would have held.
    """

    learns: ClassVar[bool] = True
    tabular: ClassVar[bool] = False

    schedule: Schedule
    exploration: Exploration
    ridge: float
    ties: str
    measure_radius: bool = False

    def deployment_limit(self, task: Task) -> float:
        limit = getattr(self.schedule, "deployment_limit", None)
        return limit(task, self.ridge) if limit else task.episodes - 1

    def regret_bound(self, task: Task) -> RegretBound | None:
        bound = getattr(self.schedule, "regret_bound", None)
        proved = is_plain(self.exploration) and not task.pools.shared
        return bound(task, self.ridge) if bound and proved else None

    def play(
        self,
        worlds: Sequence[FiniteMDP],
        *,
        episodes: int,
        seeds: Sequence[Seed],
        initial_state: int | str,
    ) -> list[Arrays]:
        simulation = Simulation(
            worlds,
            self.schedule,
            episodes=episodes,
            seeds=seeds,
            exploration=self.exploration,
            ridge=self.ridge,
            ties=self.ties,
            initial_state=initial_state,
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
        return [
            _measured(run)
            | {
                "optimistic": np.array(run.optimistic_share(world.optimal_values()[0])),
                "radius": radius[r],
                "logdet_growth": growth[r],
            }
            for r, (run, world) in enumerate(zip(simulation.runs(), worlds, strict=True))
        ]

    def simulate(
        self, simulator: Simulator, *, episodes: int, seeds: Sequence[Seed]
    ) -> list[Arrays]:
        """Return what was recorded in a run for each seed, in a world that is only simulated."""
        outcomes = simulator(self.schedule, self.exploration, seeds)
        if not isinstance(outcomes, Sequence) or len(outcomes) != len(seeds):
            raise ValueError(
                f"simulator must return one Outcome for each of {len(seeds)} seeds; got "
                f"{shown(outcomes)}"
            )
        return [_recorded(outcome, episodes) for outcome in outcomes]

    def starts(self, episodes: int) -> list[int]:
        """Return the first episode of every batch, if the rule has batches."""
        dates: Sequence[int] | None = getattr(self.schedule, "starts", None)
        if dates is None:
            raise ValueError(
                "the adversary plays against rules with fixed batches, such as uniform-grid"
            )
        return [int(date) for date in dates if date <= episodes]

    def duel(
        self, *, states: int, horizon: int, episodes: int, seed: Seed, normalized: bool
    ) -> Arrays:
        """Return what was measured against the adversary of Theorem 3."""
        learner = Learner(
            dim=2 * states + 1,
            horizon=horizon,
            schedule=self.schedule,
            exploration=self.exploration,
            ridge=self.ridge,
            ties=self.ties,
            seed=seed,
            planned_episodes=episodes,
        )
        starts = self.starts(episodes)
        duel = play_adversary(
            learner,
            states=states,
            horizon=horizon,
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
        } | unmeasured(horizon)


class _RoundByRound:
    """An algorithm that is played one round at a time, and of which no fits are measured."""

    learns: ClassVar[bool] = True
    tabular: ClassVar[bool] = True
    simulate: ClassVar[Callable[..., Run]]

    def play(
        self,
        worlds: Sequence[FiniteMDP],
        *,
        episodes: int,
        seeds: Sequence[Seed],
        initial_state: int | str,
    ) -> list[Arrays]:
        settings = vars(self) | {"episodes": episodes, "initial_state": initial_state}
        return [
            _measured(self.simulate(world, seed=seed, **settings)) | unmeasured(world.horizon)
            for world, seed in zip(worlds, seeds, strict=True)
        ]

    def deployment_limit(self, task: Task) -> float:
        return task.episodes - 1

    def regret_bound(self, task: Task) -> RegretBound | None:
        return None


@dataclass(frozen=True)
class RandomPolicy(_RoundByRound):
    """No learning: the uniformly random policy."""

    learns: ClassVar[bool] = False
    tabular: ClassVar[bool] = False
    simulate = staticmethod(simulate_random)

    def deployment_limit(self, task: Task) -> float:
        return 0


@dataclass(frozen=True, kw_only=True)
class _Anchor(_RoundByRound):
    """A tabular algorithm; `scale` is the constant of its bonus."""

    scale: float = 0.1

    def __post_init__(self) -> None:
        settle(self, scale=real("scale", self.scale, least=0.0, most=1e100))


class UCB2Hoeffding(_Anchor):
    """Q-learning with few local switches."""

    simulate = staticmethod(ucb2_hoeffding)


class MVP(_Anchor):
    """Optimistic value iteration with few global switches."""

    simulate = staticmethod(mvp)


ALGORITHMS = (
    Row(RandomPolicy, "random-policy", "uniformly random", "#8c8c8c", "x"),
    Row(UCB2Hoeffding, "ucb2-hoeffding", "UCB2-Hoeffding", "#a6761d", "p"),
    Row(MVP, "mvp", "MVP", "#666666", "h"),
)
KINDS = (*RULES, *ALGORITHMS)
EVERY, BATCH, RARE = "every-episode", "uniform-grid", "determinant-growth"  # the paper's three


def family_of(kind: str) -> Row:
    """Return the row of the table for a kind; a rule of your own is labelled by its class.

    >>> family_of("uniform-grid").label, family_of("mvp").label
    ('LSVI-UCB-Batch', 'MVP')
    """
    for row in KINDS:
        if row.name == kind:
            return row
    own = row_of(named.find(kind))
    return own if own in RULES else own._replace(name=kind, label=own.kind.__name__)


def make_algorithm(choice: Mapping[str, Any], task: Task, **settings: Any) -> Algorithm:
    """Return the algorithm that a `schedule` table names; `settings` are those of `Scheduled`."""
    kind, arguments = choice["kind"], {k: v for k, v in choice.items() if k != "kind"}
    for row in ALGORITHMS:
        if row.name == kind:
            own: Algorithm = row.kind(**arguments)
            return own
    schedule = named.make_schedule(kind, arguments, task, ridge=settings["ridge"])
    return Scheduled(schedule=schedule, **settings)


def _measured(run: Run) -> Arrays:
    k = np.arange(1, len(run.regret) + 1)
    return {
        "regret": run.regret,
        "deployed": np.isin(k, run.deployment_episodes),
        "switched": np.isin(k, run.switch_episodes),
        "local_switches": np.array(run.local_switches),
    }


def _recorded(outcome: Any, episodes: int) -> Arrays:
    """Return the arrays of an outcome that tells of every episode."""
    needed = ("returns", "deployment_episodes", "switch_episodes")
    if not isinstance(outcome, Outcome):
        raise TypeError(f"simulator must return Outcomes; got {shown(outcome)}")
    if missing := [name for name in needed if getattr(outcome, name) is None]:
        raise ValueError(f"simulator must tell the {missing[0]} of an Outcome in an experiment")
    returns, k = np.array(outcome.returns), np.arange(1, episodes + 1)
    if len(returns) != episodes:
        raise ValueError(f"returns must be those of {episodes} episodes; got {len(returns)}")
    return {
        "returns": returns,
        "deployed": np.isin(k, np.array(outcome.deployment_episodes)),
        "switched": np.isin(k, np.array(outcome.switch_episodes)),
        "local_switches": np.array(np.nan),  # nobody counts the states of such a world
    }


def unmeasured(horizon: int) -> Arrays:
    """Return what is known of the fits where nobody measured them."""
    nothing = np.array(np.nan)
    return {"optimistic": nothing, "radius": nothing, "logdet_growth": np.full(horizon, np.nan)}
