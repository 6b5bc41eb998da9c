"""Simulate rules in an environment, round by round.

A round is one complete training. All randomness of the environment in episode k of a round is
seeded by the round's seed and k, for every rule alike.
"""

import pickle
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, as_completed
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from types import TracebackType
from typing import Any, Self

import numpy as np

from rareswitch.compute.local import local_pool, portable
from rareswitch.core.clock import Schedule
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.gym.exact import FiniteModel, Known, known_returns
from rareswitch.gym.rollout import Played
from rareswitch.gym.setting import Setting, made, setting_of
from rareswitch.gym.training import Training
from rareswitch.learning.learner import Learner
from rareswitch.sim.outcome import Outcome
from rareswitch.support.arguments import Ints, flag, short_repr, whole
from rareswitch.support.imports import allowed_modules
from rareswitch.support.streams import Seed
from rareswitch.trajectories import Rewards

Progress = Callable[[int, int], None]


def world_simulator(
    world: str | Callable[[Seed], Any],
    *,
    episodes: int,
    arguments: Mapping[str, Any] | None = None,
    setting: Setting | None = None,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str | None = None,
    exact: bool = True,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
    allow: Collection[str] = (),
) -> "WorldSimulator":
    """Return the simulator of an environment, for `rareswitch.plan` and for experiments.

    `world` is the name of an environment, made with `arguments`, or a function that makes the
    environment of a round from its seed. The setting is `setting`, or the choice of `setting_of`
    with the arguments given here. Outcomes have the exact regret if the environment has a model and
    `exact` is True, else the shortfall; `exact=False` saves time. `workers` is the number of
    processes that play rounds; it does not change the outcomes. `progress` is called with the
    finished and the total number of rounds. A name module:Name, of an environment or of features,
    needs its module in `allow`.

    >>> from rareswitch import Recipe, UniformGrid
    >>> simulator = world_simulator("FrozenLake-v1", episodes=40, horizon=8)
    >>> simulator.task
    Task(dim=64, horizon=8, episodes=40, stages='auto', one_hot=True)
    >>> (outcome,) = simulator(simulator.task, UniformGrid(batches=4), Recipe.paper(1.0), [0])
    >>> outcome.deployments, outcome.measure
    (4, 'regret')
    """
    if not isinstance(world, str) and (not callable(world) or hasattr(world, "step")):
        raise TypeError(
            "world must be the name of an environment, or a function that makes one from a seed; "
            f"got {short_repr(world)}"
        )
    if arguments and not isinstance(world, str):
        raise TypeError("arguments need the name of an environment as world; got a function")
    given = {
        "features": features,
        "horizon": horizon,
        "rewards": rewards,
        "actions": actions,
        "stages": stages,
    }
    make: Callable[[Seed], Any] = (
        _Named(world, dict(arguments or {}), allowed_modules(allow))
        if isinstance(world, str)
        else world
    )
    if setting is None:
        chosen = given | {"stages": "auto" if stages is None else stages}
        with _closing(make((0, 0))) as one:
            setting = setting_of(one, **chosen, allow=allow)
    elif more := [name for name, part in given.items() if part is not None]:
        raise TypeError(f"setting and {more[0]} exclude each other")
    return WorldSimulator(
        round=Round(
            make=make,
            setting=setting,
            episodes=whole("episodes", episodes, least=1),
            exact=flag("exact", exact),
        ),
        workers=whole("workers", workers, least=1),
        progress=progress,
    )


class WorldSimulator:
    """Plays rounds of one environment; a `with` block keeps its processes between calls."""

    def __init__(self, *, round: "Round", workers: int, progress: Progress) -> None:
        self.round, self.workers, self.progress = round, workers, progress
        self._kept: ExitStack | None = None
        self._pool: Executor | None = None
        if workers > 1:
            _check_portable(round, "world and features")

    @property
    def setting(self) -> Setting:
        """The setting of the environment."""
        return self.round.setting

    @property
    def task(self) -> Task:
        """The task for `rareswitch.plan`."""
        return self.round.setting.task(self.round.episodes)

    def __call__(
        self, task: Task, schedule: Schedule, recipe: Recipe, seeds: Sequence[Seed], /
    ) -> list[Outcome]:
        """Play a round for each seed."""
        if replace(task, feature_norm=self.task.feature_norm) != self.task:
            raise ValueError(f"task must be the simulator's, {self.task}; got {task}")
        if self.workers > 1:
            _check_portable((schedule, recipe.exploration), "schedule and exploration")
            with self._processes() as pool:
                each = [pool.submit(_played, self.round, task, schedule, recipe, s) for s in seeds]
                return self._gathered(each)
        outcomes = []
        for seed in seeds:
            outcomes.append(self.round.play(task, schedule, recipe, seed))
            self.progress(len(outcomes), len(seeds))
        return outcomes

    def __enter__(self) -> Self:
        if self.workers > 1:
            self._kept = ExitStack()
            self._pool = self._kept.enter_context(local_pool(self.workers))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        kept, self._kept, self._pool = self._kept, None, None
        if kept is not None:
            kept.__exit__(kind, error, trace)

    @contextmanager
    def _processes(self) -> Iterator[Executor]:
        if self._pool is not None:
            yield self._pool
        else:
            with local_pool(self.workers) as pool:
                yield pool

    def _gathered(self, futures: Sequence[Future[Outcome]]) -> list[Outcome]:
        """Return the outcomes in the order of their seeds; the first error cancels all rounds."""
        try:
            for n, future in enumerate(as_completed(futures), start=1):
                future.result()
                self.progress(n, len(futures))
        except Exception:  # on Ctrl-C the pool itself cancels waiting rounds, in its own thread
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]


@dataclass(frozen=True, kw_only=True, eq=False)
class Round:
    """The parts of a round that rules and seeds share."""

    make: Callable[[Seed], Any]
    setting: Setting
    episodes: int
    exact: bool

    def play(self, task: Task, schedule: Schedule, recipe: Recipe, seed: Seed) -> Outcome:
        """Make the environment, play one round, and close the environment."""
        with _closing(self.make(seed)) as world:
            learner = Learner(task, schedule, replace(recipe, seed=seed))
            return self._play_in(Training(self.setting, learner, world, seed=seed))

    def _play_in(self, training: Training) -> Outcome:
        witness = Witness(training.world, self.setting, exact=self.exact)
        witness.see(training.learner.policy)

        def see(game: Played) -> None:
            if game.switched:
                witness.see(training.learner.policy)

        training.run(self.episodes, callback=see, widen=False)  # a plan is for one range
        learner, returns = training.learner, training.totals
        dates = [deployment.episode for deployment in learner.ledger]
        measure, regret = witness.regret(dates, returns.tolist())
        switches = [date for date, changed in zip(dates, witness.changed, strict=True) if changed]
        return Outcome(
            regret=regret,
            measure=measure,
            deployments=len(dates),
            switches=len(switches),
            returns=returns,
            deployment_episodes=dates,
            switch_episodes=switches,
        )


@dataclass(frozen=True)
class _Named:
    """Makes the environment of a name; the seed of the round is ignored."""

    name: str
    arguments: dict[str, Any]
    allow: frozenset[str]

    def __call__(self, seed: Seed) -> Any:
        return made(self.name, self.arguments, allow=self.allow)


@contextmanager
def _closing(world: Any) -> Iterator[Any]:
    """Close an environment at the end, if it has `close`."""
    try:
        yield world
    finally:
        if callable(close := getattr(world, "close", None)):
            close()


def _played(round: Round, task: Task, schedule: Schedule, recipe: Recipe, seed: Seed) -> Outcome:
    """Play one round in a process of its own."""
    try:
        return round.play(task, schedule, recipe, seed)
    except Exception as error:
        raise portable(error) from error


def _check_portable(thing: Any, name: str) -> None:
    """Raise ValueError if other processes cannot receive `thing`."""
    try:
        pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"{name} must be importable by other processes if workers > 1, for example functions "
            f"of a module; {error}"
        ) from None


class Witness:
    """Receives every policy deployed in an environment, in order.

    With a model, regret is exact: the regret of an episode is the expected return of the best
    policy minus that of the policy in force. Without a model or with `exact=False`, `regret`
    returns the shortfall from the largest possible return. `changed` holds for each policy whether
    it acts differently from its predecessor: False for the first, True for all later policies
    without a model.
    """

    def __init__(self, world: Any, setting: Setting, *, exact: bool = True) -> None:
        self._world, self._setting, self._exact = world, setting, exact
        self._model = FiniteModel.of(world)
        self._known: list[Known | None] = []
        self._does: Ints | None = None
        self.changed: list[bool] = []

    def see(self, policy: Policy) -> None:
        """Add the next deployed policy."""
        setting, first = self._setting, not self.changed
        if first or (self._exact and self._known[0] is not None):
            self._known.append(
                known_returns(policy, self._world, setting.features, setting.actions)
            )
        # The members of a burn-in never act, so the next policy always differs.
        known = self._known[0] is not None and policy.floor < 1.0
        does = self._choices(policy) if known else None
        same = does is not None and self._does is not None and np.array_equal(does, self._does)
        self.changed.append(not first and not same)
        self._does = does

    def regret(self, dates: Sequence[int], returns: Sequence[float]) -> tuple[str, float]:
        """Return the measure and the total, given the first episode of each policy."""
        if self._exact and None not in self._known:
            lost = [max(one.optimum - one.policy, 0.0) for one in self._known if one]
            episodes = [end - start for start, end in pairwise([*dates, len(returns) + 1])]
            return "regret", float(np.dot(episodes, lost))
        most = self._setting.horizon * self._setting.rewards.high
        return "shortfall", float(np.maximum(most - np.array(returns), 0.0).sum())

    def _choices(self, policy: Policy) -> Ints | None:
        """Return every member's action at every stage and state (H, M, S), with a model."""
        if self._model is None:
            return None
        features = self._setting.features
        return np.stack([self._model.choices(policy, features, h) for h in range(policy.horizon)])
