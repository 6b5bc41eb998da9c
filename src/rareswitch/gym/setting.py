"""What must be settled before a world can be learnt: features, horizon, rewards and actions.

Each is picked by what the world tells of itself, or by a little random play, and each pick is said
in words. What a user gives is taken as it is.
"""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from rareswitch.core.clock import Schedule
from rareswitch.core.episode import Episode
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import STAGES, Task
from rareswitch.features import FeatureMap, UnitRows, as_features, default_features
from rareswitch.features.default import DEFAULT, features_named
from rareswitch.gym.actions import listed_actions
from rareswitch.gym.answers import Answer, five, number, pair
from rareswitch.gym.model import FiniteModel
from rareswitch.gym.rollout import LARGEST_ENVIRONMENT_SEED, action_space
from rareswitch.gym.trouble import WorldError
from rareswitch.learning.learner import Learner
from rareswitch.support.arguments import one_of, real, short_repr, whole
from rareswitch.support.streams import Seed, Stream, generator
from rareswitch.trajectories import Rewards

# The longest horizon that is picked: a fit's time grows with it.
LONGEST_HORIZON = 200
# That of a world without a limit of steps whose random episodes do not end.
HORIZON_WITHOUT_LIMIT = 100
# The feature norm of a map whose rows have no bound.
UNBOUNDED_NORM = 1e6
# Steps of random play that say how large observations and rewards are.
SAMPLE_STEPS = 2000


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """How a world is learnt. `reasons` say, by name, why each part is what it is.

    `actions` are what the environment is handed for action 0, 1, …; None stands for the numbers of
    its action space.
    """

    features: FeatureMap
    horizon: int
    rewards: Rewards
    actions: Sequence[Any] | None = None
    stages: str = "shared"
    reasons: dict[str, str] = field(default_factory=dict)

    def task(self, episodes: int | None = None) -> Task:
        """Return the task of learning the world in so many episodes."""
        norm = self.features.norm
        return Task(
            dim=self.features.dim,
            horizon=self.horizon,
            episodes=episodes,
            feature_norm=norm if math.isfinite(norm) else UNBOUNDED_NORM,
            stages=self.stages,
            one_hot=self.features.one_hot,
            end_reward=self.rewards.end,
        )

    def learner(
        self,
        schedule: Schedule,
        recipe: Recipe | None = None,
        *,
        episodes: int | None = None,
        warm_start: Iterable[Episode] = (),
    ) -> Learner:
        """Return a learner for this world."""
        return Learner(self.task(episodes), schedule, recipe, warm_start=warm_start)


def setting_of(
    world: Any,
    *,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str = "shared",
    seed: Seed = 0,
    allow: Collection[str] = (),
) -> Setting:
    """Return a setting for an environment of Gymnasium, picking whatever is not given.

    Features are picked by the observation space (`features.default_features`), or named by a text
    such as "fourier,order=3" (`features_named`), or "module:name" if `allow` has the module; rows
    without a bound are divided by the longest that random play met. The horizon is the
    environment's own limit of steps, up to 200, or by random play. The range of rewards is that of
    its model, where it tells one, or else what random play met.
    """
    reasons: dict[str, str] = {}
    stages = one_of("stages", stages, STAGES)
    reasons["stages"] = (
        "one regression for all, as if the stage did not matter"
        if stages == "shared"
        else "each learns from its own steps alone"
    )
    if actions is None:
        actions = listed_actions(action_space(world))
    count = len(actions) if actions is not None else int(action_space(world).n)
    reasons["actions"] = _said(world, actions, count)
    sample = _Sample(world, actions, horizon or LONGEST_HORIZON, seed)
    horizon, reasons["horizon"] = _horizon(world, horizon, sample)
    rewards, reasons["rewards"] = _rewards(world, rewards, sample)
    features, reasons["features"] = _features(world, features, count, sample, allow)
    return Setting(
        features=features,
        horizon=horizon,
        rewards=rewards,
        actions=actions,
        stages=stages,
        reasons=reasons,
    )


class _Sample:
    """Random play, played when it is first asked for."""

    def __init__(self, world: Any, actions: Sequence[Any] | None, longest: int, seed: Seed) -> None:
        self._world, self._actions, self._longest, self._seed = world, actions, longest, seed

    @cached_property
    def played(self) -> tuple[list[Any], list[float], list[int]]:
        """Observations, rewards, and the lengths of episodes."""
        world, rng = self._world, generator(self._seed, Stream.FEATURES)
        if hasattr(world, "num_envs"):
            raise ValueError(
                "features, horizon and rewards must be given for a vector environment; "
                "setting_of(one copy) tells them"
            )
        handed = self._actions if self._actions is not None else range(action_space(world).n)
        observations: list[Any] = []
        rewards: list[float] = []
        lengths: list[int] = []
        while len(rewards) < SAMPLE_STEPS:
            at: dict[str, int] = {"episode": len(lengths) + 1, "step": 0}
            seed = int(rng.integers(LARGEST_ENVIRONMENT_SEED))
            observation, info = _answered(at, pair, partial(world.reset, seed=seed))
            observations.append(observation)
            for step in range(self._longest):
                mask = info.get("action_mask")
                allowed = range(len(handed)) if mask is None else np.flatnonzero(mask)
                choice = handed[int(allowed[int(rng.integers(len(allowed)))])]
                at["step"] = step
                observation, reward, terminated, truncated, info = _answered(
                    at, _finite, partial(world.step, choice)
                )
                observations.append(observation)
                rewards.append(reward)
                if terminated or truncated:
                    break
            lengths.append(step + 1)
        return observations, rewards, lengths


def _answered(at: dict[str, int], checked: Callable[[Any], Any], ask: Callable[[], Any]) -> Any:
    """Return what an environment answers in random play, with the place told if it is wrong."""
    try:
        answer = ask()
    except Exception as error:
        error.add_note(f"in episode {at['episode']}, step {at['step']} of random play")
        raise
    try:
        return checked(answer)
    except (TypeError, ValueError) as error:
        raise WorldError(ValueError(f"{error}, in random play"), **at) from error


def _finite(answer: Any) -> Answer:
    """Return what `step` returned, if its reward is a finite number."""
    observation, reward, *rest = five(answer)
    return observation, real("reward", number(reward)), *rest


def _features(
    world: Any, given: Any, count: int, sample: _Sample, allow: Collection[str]
) -> tuple[FeatureMap, str]:
    space = getattr(world, "single_observation_space", getattr(world, "observation_space", None))
    if given is None or (isinstance(given, str) and given == DEFAULT):
        picked = default_features(space, count, lambda: sample.played[0])
        return picked, f"{picked.name}, by the observation space"
    if isinstance(given, str):
        given = features_named(given, space, count, lambda: sample.played[0], allow=allow)
    probe = () if hasattr(world, "num_envs") else lambda: sample.played[0][:50]
    found = as_features(given, actions=count, probe=probe)
    if found.actions != count:
        raise ValueError(f"features must have a row for each of {count} actions; got {found.name}")
    if math.isfinite(found.norm) or hasattr(world, "num_envs"):
        return found, f"{found.name}, as given"
    # Schedules count with a bound on the length of rows.
    bounded = UnitRows.measured(found, sample.played[0])
    return bounded, f"{bounded.name}, as given, L being the longest row in random play"


def _horizon(world: Any, given: int | None, sample: _Sample) -> tuple[int, str]:
    if given is not None:
        return whole("horizon", given, least=1, most=10**6), "as given"
    spec = getattr(world, "spec", None)
    limit = getattr(spec, "max_episode_steps", None)
    if limit is not None and limit <= LONGEST_HORIZON:
        return int(limit), "the environment's own limit of steps"
    if limit is not None:
        return LONGEST_HORIZON, f"of the environment's {limit} steps: longer ones take long to fit"
    longest = max(sample.played[2])
    if 2 * longest <= LONGEST_HORIZON:
        return 2 * longest, f"twice the longest of {len(sample.played[2])} random episodes"
    return HORIZON_WITHOUT_LIMIT, "the environment has no limit of steps, so this is a guess"


def _said(world: Any, actions: Sequence[Any] | None, count: int) -> str:
    if actions is None:
        return f"the {count} of the action space"
    return f"{count} of {action_space(world)}"


def _rewards(
    world: Any, given: Rewards | tuple[float, float] | None, sample: _Sample
) -> tuple[Rewards, str]:
    if given is not None:
        if isinstance(given, Rewards):
            return given, "as given"
        if not isinstance(given, tuple | list) or len(given) != 2:
            raise TypeError(
                f"rewards must be Rewards(low, high) or a pair; got {short_repr(given)}"
            )
        return Rewards(real("low", given[0]), real("high", given[1])), "as given"
    model = FiniteModel.of(world)
    if model is not None:
        return Rewards(*model.reward_range), "by the environment's model"
    met = sample.played[1]
    low, high = min(met), max(met)
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    return Rewards(low, high), f"by {len(met)} steps of random play"
