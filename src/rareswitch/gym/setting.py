"""Choose the features, horizon, range of rewards and actions for an environment.

Each choice follows from the spaces, the model, or random play, and has a reason in words. Values
from the user stay unchanged.
"""

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rareswitch.core.clock import Schedule
from rareswitch.core.episode import Episode
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import STAGES, Task, affordable_stages
from rareswitch.features import (
    FeatureMap,
    ObservationTable,
    OneHot,
    UnitRows,
    as_features,
    default_features,
)
from rareswitch.features.default import DEFAULT, features_named
from rareswitch.features.feature_map import blocks_of
from rareswitch.features.spaces import kind_of
from rareswitch.gym.exact import step_limit, valid_model
from rareswitch.gym.rollout import RandomActor, Rollout, action_space, check_world
from rareswitch.learning.learner import Learner, checked_recipe
from rareswitch.support.arguments import did_you_mean, one_of, real, short_repr, whole
from rareswitch.support.extras import require
from rareswitch.support.imports import checked_maker, load_module
from rareswitch.support.streams import Seed
from rareswitch.trajectories import Rewards, Trajectory, spaces_seen
from rareswitch.trajectories.rewards import ROUNDING

# The longest automatic horizon: the time of a fit grows with it.
LONGEST_HORIZON = 200
# The horizon of an environment without a limit of steps whose random episodes do not end.
HORIZON_WITHOUT_LIMIT = 100
# The share of random episodes with the longest length that indicates a limit of steps.
LIMIT_SHARE = 0.2
# The feature norm of a map whose rows have no bound.
UNBOUNDED_NORM = 1e6
# Steps of random play to measure observations and rewards.
SAMPLE_STEPS = 2000
MOST_ACTIONS = 1000
LEVELS = 5
STAGE_REASONS = {
    "auto": "own or shared, whichever predicts unseen steps better at a fit",
    "shared": "one regression for all, as if the stage did not matter",
    "own": "each learns from its own steps alone",
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Setting:
    """Features, horizon, rewards, stages and actions; `reasons` has the reason for each by name.

    `actions` are the environment's actions 0, 1, …; None means the numbers of its action space.
    """

    features: FeatureMap
    horizon: int
    rewards: Rewards
    actions: Sequence[Any] | None = None
    stages: str = "auto"
    reasons: dict[str, str] = field(default_factory=dict)

    def task(self, episodes: int | None = None) -> Task:
        """Return the task of learning the environment in this number of episodes."""
        norm = self.features.norm
        return Task(
            dim=self.features.dim,
            horizon=self.horizon,
            episodes=episodes,
            feature_norm=norm if math.isfinite(norm) else UNBOUNDED_NORM,
            stages=self.stages,
            one_hot=self.features.one_hot,
            end_reward=self.rewards.end,
            blocks=blocks_of(self.features),
        )

    def learner(
        self,
        schedule: Schedule,
        recipe: Recipe | None = None,
        *,
        episodes: int | None = None,
        warm_start: Iterable[Episode] = (),
    ) -> Learner:
        """Return a learner for this environment."""
        control = None if recipe is None else checked_recipe(recipe).control
        last = self.features.actions - 1
        if control is not None and control.action is not None and control.action > last:
            raise ValueError(
                f"control must be an action from 0 to {last}, or a policy; got action "
                f"{control.action}"
            )
        return Learner(self.task(episodes), schedule, recipe, warm_start=warm_start)


def setting_of(
    world: Any,
    *,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str = "auto",
    seed: Seed = 0,
    progress: Callable[[int, int], object] = lambda done, total: None,
    allow: Collection[str] = (),
) -> Setting:
    """Return a setting for a Gymnasium environment; missing values are chosen.

    Features are chosen from the observation space (`features.default_features`), or named by a text
    such as "fourier,order=3" (`features_named`), or "module:name" if `allow` has the module; rows
    without a bound are divided by the longest row of random play. The horizon is the environment's
    own limit of steps, up to 200, or follows from random play. The range of rewards comes from the
    model, or else from random play (`rounded_range`). A vector environment is examined through one
    of its copies. `progress` is called with the steps of random play.
    """
    check_world(world)
    one_of("stages", stages, STAGES)
    reasons = {}
    if actions is None:
        actions = listed_actions(action_space(world))
    count = len(actions) if actions is not None else int(action_space(world).n)
    reasons["actions"] = (
        f"the {count} of the action space"
        if actions is None
        else f"{count} of {action_space(world)}"
    )
    copies = getattr(world, "envs", None) if hasattr(world, "num_envs") else None
    one = copies[0] if isinstance(copies, list | tuple) and copies else world
    space = getattr(world, "single_observation_space", getattr(world, "observation_space", None))
    # Features of the user's own may expect other observations than the space.
    shape = getattr(space, "shape", None) if features is None or isinstance(features, str) else None
    sample = _Sample(one, actions, count, horizon or LONGEST_HORIZON, seed, progress, shape)
    horizon, reasons["horizon"] = _horizon(one, horizon, sample)
    rewards, reasons["rewards"] = _rewards(one, rewards, sample)
    features, reasons["features"] = _features(
        space, features, count, lambda: sample.played.observations, allow, "random play"
    )
    stages, reasons["stages"] = _stages(stages, features, horizon)
    return Setting(
        features=features,
        horizon=horizon,
        rewards=rewards,
        actions=actions,
        stages=stages,
        reasons=reasons,
    )


class _Play(NamedTuple):
    """Random play: observations, rewards, and the length and end of each episode."""

    observations: list[Any]
    rewards: list[float]
    lengths: list[int]
    ended: list[bool]  # by the environment, not by the cap on steps


class _Sample:
    """Random play, played at the first access."""

    def __init__(
        self,
        world: Any,
        actions: Sequence[Any] | None,
        count: int,
        longest: int,
        seed: Seed,
        progress: Callable[[int, int], object],
        shape: tuple[int, ...] | None,
    ) -> None:
        self._world, self._actions, self._count, self._shape = world, actions, count, shape
        self._longest, self._seed, self._progress = longest, seed, progress

    @cached_property
    def played(self) -> _Play:
        actor = RandomActor(self._count, self._seed, self._shape)
        rollout = Rollout(
            self._world,
            actor,
            horizon=self._longest,
            rewards=None,
            actions=self._actions,
            seed_of=actor.seed,
            during="in random play",
        )
        found = _Play([], [], [], [])
        while len(found.rewards) < SAMPLE_STEPS:
            self._progress(len(found.rewards), SAMPLE_STEPS)
            for one in rollout.play(len(found.lengths) + 1, rollout.copies, actor):
                found.observations.extend(one.observations)
                found.rewards.extend(one.rewards)
                found.lengths.append(one.step)
                found.ended.append(one.terminated or one.truncated)
        return found


def setting_of_log(
    log: Sequence[Trajectory],
    *,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str = "auto",
    allow: Collection[str] = (),
) -> Setting:
    """Return a setting for a log without an environment; missing values are chosen.

    The default features are a table for observations that are whole numbers, and cosines between
    the least and the largest logged values for arrays.
    """
    if not log:
        raise ValueError("log must not be empty")
    one_of("stages", stages, STAGES)
    seen = spaces_seen(log)
    if actions is None:
        count = seen.action_space.n
        said = f"{count}, numbered from 0 to the largest of the log"
        if never := untaken(log, count):
            said += f"; the log never takes {', '.join(map(str, never))}"
            said += ": are its actions counted from 1?" if never == [0] else ""
    else:
        count, said = len(actions), f"{len(actions)}, as given"
    found, why = _features(
        seen.observation_space, features, count, lambda: seen.sample, allow, "the log"
    )
    longest = max(map(len, log))
    met = np.concatenate([one.rewards for one in log])
    scale, reason = _given_rewards(rewards) or (
        rounded_range(float(met.min()), float(met.max())),
        f"the log has {met.min():g} to {met.max():g}; {_rounding(float(met.max()))}",
    )
    steps = longest if horizon is None else whole("horizon", horizon, least=1)
    stages, why_stages = _stages(stages, found, steps)
    return Setting(
        features=found,
        horizon=steps,
        rewards=scale,
        actions=actions,
        stages=stages,
        reasons={
            "stages": why_stages,
            "actions": said,
            "horizon": "the longest episode of the log" if horizon is None else "as given",
            "rewards": reason,
            "features": why,
        },
    )


def untaken(log: Sequence[Trajectory], count: int) -> list[int]:
    """Return the actions below `count` that a log never takes."""
    return sorted(set(range(count)) - {int(action) for one in log for action in one.actions})


def _features(
    space: Any,
    given: Any,
    count: int,
    sample: Callable[[], Sequence[Any]],
    allow: Collection[str],
    source: str,
) -> tuple[FeatureMap, str]:
    """Return the features and the reason for them; the sample comes from `source`."""
    if given is None or (isinstance(given, str) and given == DEFAULT):
        picked = default_features(space, count, sample)
        repeated = isinstance(picked, OneHot) and isinstance(picked.space, ObservationTable)
        why = f"as observations repeat in {source}" if repeated else "by the observation space"
        return picked, f"{picked.name}, {why}"
    if isinstance(given, str):
        given = features_named(given, space, count, sample, allow=allow)
    found = as_features(given, actions=count, probe=lambda: sample()[:50])
    if math.isfinite(found.norm):
        return found, f"{found.name}, as given"
    # Schedules need a bound on the length of rows.
    bounded = UnitRows.measured(found, sample())
    return bounded, f"{bounded.name}, as given, L being the longest row in {source}"


def _stages(given: str, features: FeatureMap, horizon: int) -> tuple[str, str]:
    if given == "auto":
        given = affordable_stages(
            features.dim, horizon, one_hot=features.one_hot, blocks=blocks_of(features)
        )
        if given == "shared":
            return given, f"a choice would need a regression for each of {horizon} stages"
    return given, STAGE_REASONS[given]


def _horizon(world: Any, given: int | None, sample: _Sample) -> tuple[int, str]:
    limit = step_limit(world)
    if given is not None:
        longer = limit is not None and limit > given
        beyond = f"; the environment goes on to {limit}" if longer else ""
        return whole("horizon", given, least=1, most=10**6), f"as given{beyond}"
    if limit is not None and limit <= LONGEST_HORIZON:
        return limit, "the environment's own limit of steps"
    if limit is not None:
        return LONGEST_HORIZON, f"of the environment's {limit} steps: longer ones take long to fit"
    lengths, longest = sample.played.lengths, max(sample.played.lengths)
    if not all(sample.played.ended):
        return HORIZON_WITHOUT_LIMIT, "the environment has no limit of steps, so this is a guess"
    as_long = lengths.count(longest)
    if as_long >= max(3, LIMIT_SHARE * len(lengths)):
        return longest, f"{as_long} of {len(lengths)} random episodes had so many steps, none more"
    horizon = min(2 * longest, LONGEST_HORIZON)
    most = f", at most {LONGEST_HORIZON}" if horizon < 2 * longest else ""
    return (
        horizon,
        f"twice the {longest} steps of the longest of {len(lengths)} random episodes{most}",
    )


def _given_rewards(
    given: Rewards | tuple[float, float] | None,
) -> tuple[Rewards, str] | None:
    if given is None:
        return None
    if isinstance(given, Rewards):
        return given, "as given"
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise TypeError(f"rewards must be Rewards(low, high) or a pair; got {short_repr(given)}")
    return Rewards(real("low", given[0]), real("high", given[1])), "as given"


def _rewards(
    world: Any, given: Rewards | tuple[float, float] | None, sample: _Sample
) -> tuple[Rewards, str]:
    if (found := _given_rewards(given)) is not None:
        return found
    model = valid_model(world)
    if model is not None:
        return Rewards(*model.reward_range), "by the environment's model"
    met = sample.played.rewards
    low, high = min(met), max(met)
    return rounded_range(low, high), (
        f"{len(met)} steps of random play met {low:g} to {high:g}; {_rounding(high)}; a reward "
        "outside widens the range"
    )


def _rounding(high: float) -> str:
    """Return how `rounded_range` treats rewards up to `high`, as text."""
    if _round_up(high) >= 1.0:
        return "rounded outwards"
    return "rounded outwards, and up to 1 in case larger ones exist"


def rounded_range(low: float, high: float) -> Rewards:
    """Return the range of rewards from low to high, rounded outwards.

    Random play may never meet the largest reward, so the range always reaches 1. Each end is
    rounded outwards to 1, 2 or 5 times a power of ten, to include slightly larger rewards.

    >>> rounded_range(-0.001, 0.0), rounded_range(-16.02, 0.0), rounded_range(0.0, 3.0)
    (Rewards(low=-0.001, high=1.0), Rewards(low=-20.0, high=1.0), Rewards(low=0.0, high=5.0))
    """
    return Rewards(0.0 - _round_up(-low), max(1.0, _round_up(high)))


def widened_range(rewards: Rewards, reward: float) -> Rewards:
    """Return the range, widened to a round number if it does not contain the reward.

    >>> widened_range(Rewards(0.0, 1.0), 7.0), widened_range(Rewards(0.0, 1.0), -3.0)
    (Rewards(low=0.0, high=10.0), Rewards(low=-5.0, high=1.0))
    """
    low, high = rewards.low, rewards.high
    rounding = ROUNDING * (high - low)
    if reward < low - rounding:
        return Rewards(-_round_up(-reward), high)
    if reward > high + rounding:
        return Rewards(low, _round_up(reward))
    return rewards


def _round_up(size: float) -> float:
    """Return the least of 1, 2 or 5 times a power of ten that is at least `size`; 0 below 0."""
    if size <= 0.0:
        return 0.0
    power = math.floor(math.log10(size))
    steps = [float(f"{digit}e{exponent}") for exponent in (power, power + 1) for digit in (1, 2, 5)]
    return next(step for step in steps if step >= size)


def made(
    name: str, arguments: Mapping[str, Any] | None = None, *, allow: Collection[str] = ()
) -> Any:
    """Make the environment of that name with these arguments.

    `module:Name` imports the module first, from the installed packages or the current folder, if
    `allow` has it. Name is an environment that the module registers, or a class or function that
    makes one.
    """
    require("gym")
    import gymnasium

    if not isinstance(name, str):
        raise TypeError(f"world must be the name of an environment; got {short_repr(name)}")
    given = dict(arguments or {})
    reason = ""
    if ":" in name:  # Gymnasium would import any module
        module, wanted = load_module(name, allow=allow), name.partition(":")[2]
        own = getattr(module, wanted, None)
        if own is None:
            meant = did_you_mean(wanted, dir(module))
            reason = f"module {module.__name__} has no class {wanted or 'of this name'}{meant}"
        if callable(own):
            return checked_maker(name, own, ("reset", "step"))(**given)
    try:
        return gymnasium.make(name, **given)
    except gymnasium.error.Error as error:
        if not reason and Path(name).is_file():
            reason = "to learn from a log, call rareswitch.gym.train in Python with its path"
        raise ValueError(
            f"world must be an environment registered with Gymnasium, or module:Class; "
            f"{reason or error}"
        ) from None


def listed_actions(action_space: Any, levels: int = LEVELS) -> Sequence[Any] | None:
    """Return the list of actions of a space, or None if they are already numbered from 0.

    MultiDiscrete and MultiBinary give every combination. A bounded Box gives `levels` values of
    each number, from the lowest to the highest.
    """
    levels = whole("levels", levels, least=2)
    kind = kind_of(action_space)
    if kind == "Discrete":
        start = int(getattr(action_space, "start", 0))
        return list(range(start, start + int(action_space.n))) if start else None
    if kind == "MultiBinary":
        return _combined(action_space, [range(2)] * int(np.prod(action_space.n)), np.int8)
    if kind == "MultiDiscrete":
        starts = np.ravel(getattr(action_space, "start", np.zeros_like(action_space.nvec)))
        counts = zip(starts.tolist(), np.ravel(action_space.nvec).tolist(), strict=True)
        every = [range(start, start + count) for start, count in counts]
        return _combined(action_space, every, action_space.dtype)
    if kind == "Box":
        low, high = np.ravel(action_space.low), np.ravel(action_space.high)
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise ValueError(
                f"actions must be given for an action space without bounds; got {action_space}"
            )
        spread = [np.linspace(a, b, levels).tolist() for a, b in zip(low, high, strict=True)]
        return _combined(action_space, spread, action_space.dtype)
    raise TypeError(
        f"action_space must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, or actions "
        f"must be given as a list; got {short_repr(action_space)}"
    )


def _combined(action_space: Any, every: Sequence[Sequence[Any]], dtype: Any) -> list[Any]:
    count = math.prod(len(one) for one in every)
    if count > MOST_ACTIONS:
        raise ValueError(
            f"actions must be given for {action_space}: all combinations are {count}, more than "
            f"{MOST_ACTIONS}"
        )
    shape = action_space.shape
    return [np.array(combination, dtype).reshape(shape) for combination in product(*every)]
