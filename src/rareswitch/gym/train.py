"""From a world to a policy: settle what is needed, play, and keep what happened."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rareswitch.core.clock import Schedule
from rareswitch.core.recipe import Recipe
from rareswitch.evaluation.interval import Resampling, interval_of
from rareswitch.gym.agent import Agent
from rareswitch.gym.make import made
from rareswitch.gym.play import Played, play
from rareswitch.gym.setting import Setting, setting_of
from rareswitch.learning.learner import Learner, checked_recipe
from rareswitch.rules.budget import SpreadBudget
from rareswitch.support.arguments import Floats, Ints, whole
from rareswitch.support.streams import Seed, Stream, generator
from rareswitch.trajectories import Rewards, Trajectory, episode_of

# Switches where none are asked for: at most so many, and at most one in twenty episodes.
MOST_SWITCHES = 59
EPISODES_A_SWITCH = 20


@dataclass(frozen=True, kw_only=True)
class Cohort:
    """The episodes that one version played, with the mean return and its 95% interval.

    Of a single episode the interval is not known.
    """

    version: int
    first: int
    episodes: int
    mean: float
    low: float | None
    high: float | None


class Training:
    """A learner in a world, and what every episode came to; `played` writes one down."""

    def __init__(self, setting: Setting, learner: Learner) -> None:
        self.setting, self.learner = setting, learner
        self._totals: list[float] = []
        self._versions: list[int] = []

    def played(self, version: int, total: float) -> None:
        """Write down the next episode: the version that acted, and its return."""
        self._versions.append(version)
        self._totals.append(total)

    @property
    def totals(self) -> Floats:
        """The return of every episode (K,), as the environment counts it."""
        return np.array(self._totals)

    @property
    def versions(self) -> Ints:
        """The version that acted in every episode (K,)."""
        return np.array(self._versions, np.int64)

    @property
    def switch_episodes(self) -> list[int]:
        """The episodes before which a new policy was deployed, the first on no data left out."""
        return [deployment.episode for deployment in self.learner.ledger[1:]]

    @property
    def agent(self) -> Agent:
        """The policy recommended after all episodes, ready to act."""
        return Agent(
            policy=self.learner.recommend(),
            features=self.setting.features,
            rewards=self.setting.rewards,
            actions=self.setting.actions,
        )

    def cohorts(self) -> list[Cohort]:
        """Return what each version that acted came to, in order."""
        totals, versions, found = self.totals, self.versions, []
        for version in np.unique(versions).tolist():
            own = totals[versions == version]
            low = high = None
            if len(own) > 1:
                resampling = Resampling(len(own), generator(version, Stream.BOOTSTRAP))
                means = resampling.means(own[:, None])[:, 0]
                _, low, high = interval_of(float(own.mean()), means)
            found.append(
                Cohort(
                    version=version,
                    first=int(np.argmax(versions == version)) + 1,
                    episodes=len(own),
                    mean=float(own.mean()),
                    low=low,
                    high=high,
                )
            )
        return found

    def __repr__(self) -> str:
        mean = f", return {self.totals.mean():.4g} per episode" if self._totals else ""
        switches = len(self.learner.ledger) - 1
        return f"Training({len(self._totals)} episodes{mean}, {switches} switches)"


def default_switches(episodes: int) -> int:
    """Return the budget of switches where none is asked for: 59, or a twentieth of the episodes."""
    return min(MOST_SWITCHES, whole("episodes", episodes, least=1) // EPISODES_A_SWITCH)


def schedule_for(*, episodes: int, switches: int | None = None) -> Schedule:
    """Return the rule that spends a budget of switches, by default `default_switches`."""
    budget = default_switches(episodes) if switches is None else switches
    return SpreadBudget(switches=budget)


def train(
    world: Any,
    *,
    episodes: int,
    switches: int | None = None,
    schedule: Schedule | None = None,
    recipe: Recipe | None = None,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str = "shared",
    warm_start: Iterable[Trajectory] = (),
    seed: Seed = 0,
    progress: Callable[[Played], None] = lambda game: None,
    allow: Collection[str] = (),
) -> Training:
    """Learn a world of Gymnasium with defaults, or with whatever is given.

    `world` is an environment or the name of one; a name module:Name, of an environment or of
    features, needs its module in `allow`. At most `switches` new policies are deployed after
    the first, unless a `schedule` is given. `seed` takes the place of the recipe's. The reasons for
    all other settings are in `setting.reasons`; `warm_start` are episodes that another policy
    played. `progress` is called after every episode.

    >>> training = train("FrozenLake-v1", episodes=60, horizon=20)
    >>> training.setting.features.name, len(training.switch_episodes)
    ('one-hot of 16 states × 4 actions', 3)
    """
    episodes = whole("episodes", episodes, least=1)
    if switches is not None and schedule is not None:
        raise TypeError("switches and schedule exclude each other")
    if isinstance(world, str):
        world = made(world, allow=allow)
    setting = setting_of(
        world,
        features=features,
        horizon=horizon,
        rewards=rewards,
        actions=actions,
        stages=stages,
        seed=seed,
        allow=allow,
    )
    if schedule is None:
        schedule = schedule_for(episodes=episodes, switches=switches)
    learner = setting.learner(
        schedule,
        replace(checked_recipe(recipe), seed=seed),
        episodes=episodes,
        warm_start=(
            episode_of(one, setting.features, setting.rewards, setting.horizon)
            for one in warm_start
        ),
    )
    training = Training(setting, learner)
    for game in playing(training, world, episodes=episodes, seed=seed):
        progress(game)
    return training


def playing(training: Training, world: Any, *, episodes: int, seed: Seed) -> Iterable[Played]:
    """Go on with a training until so many episodes, and give each as it is written down."""
    setting = training.setting
    for game in play(
        training.learner,
        world,
        setting.features,
        episodes=episodes,
        rewards=setting.rewards,
        actions=setting.actions,
        seed=seed,
    ):
        training.played(game.version, game.total)
        yield game
