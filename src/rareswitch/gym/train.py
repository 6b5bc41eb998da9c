"""Learn a policy from an environment or a log, with defaults for everything."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rareswitch.core.clock import Schedule
from rareswitch.core.recipe import Recipe
from rareswitch.gym.notes import span_of
from rareswitch.gym.rollout import check_world
from rareswitch.gym.run import FolderInUseError, RunFolder, log_path, plain_settings
from rareswitch.gym.setting import Setting, made, setting_of, setting_of_log, widened_range
from rareswitch.gym.training import Callback, Progress, Step, Training, one_blas_thread
from rareswitch.learning.learner import checked_recipe
from rareswitch.rules.budget import SpreadBudget
from rareswitch.rules.paper import EveryEpisode
from rareswitch.rules.words import make_schedule, parse
from rareswitch.support.arguments import short_repr, whole
from rareswitch.support.streams import Seed
from rareswitch.testing import refuse_faulty_rule
from rareswitch.trajectories import Rewards, Trajectory, read_log

# Default budget of switches: at most this number, and at most one in twenty episodes.
MOST_SWITCHES = 59
EPISODES_A_SWITCH = 20
LOGS = (".jsonl", ".parquet")


def default_switches(episodes: int) -> int:
    """Return the default budget of switches: 59, or a twentieth of the episodes if that is less."""
    return min(MOST_SWITCHES, whole("episodes", episodes, least=1) // EPISODES_A_SWITCH)


def schedule_for(*, episodes: int, switches: int | None = None) -> Schedule:
    """Return the rule that spends a budget of switches, by default `default_switches`."""
    budget = default_switches(episodes) if switches is None else switches
    return SpreadBudget(switches=budget)


def train(
    world: Any,
    *,
    episodes: int | None = None,
    switches: int | None = None,
    schedule: Schedule | str | None = None,
    recipe: Recipe | None = None,
    features: Any = None,
    horizon: int | None = None,
    rewards: Rewards | tuple[float, float] | None = None,
    actions: Sequence[Any] | None = None,
    stages: str = "auto",
    warm_start: Iterable[Trajectory] | str | Path = (),
    seed: Seed = 0,
    folder: str | Path | None = None,
    fresh: int = 500,
    policies: bool = True,
    name: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    progress: Progress = lambda step: None,
    callback: Callback = lambda game: None,
    allow: Collection[str] = (),
) -> Training:
    """Learn a policy from a Gymnasium environment or a log, with defaults for missing arguments.

    `world` is the name of an environment, made with `arguments`; a function that makes one; an
    environment or a vector environment; or a log: trajectories, or the path of a file. A name
    module:Name, of an environment, of features or of a rule, needs its module in `allow`. At most
    `switches` new policies are deployed after the first, unless a `schedule` is given, as a rule or
    as text. `seed` replaces the recipe's seed. `setting.reasons` has the reasons for all other
    settings. `warm_start` are episodes of another policy, or the path of their log.

    With a `folder`, the training writes its log, policies, state, agent, picture and summary there
    and plays `fresh` episodes at the end. After a break the same call resumes and ends with the
    same bytes. `name` is the name of the environment in the folder.

    `callback` is called with each played episode, and `progress` with each `Step` of any phase;
    each stops the run by returning True, and `train` then returns the training so far. An error or
    Ctrl-C is raised with the training so far as its attribute `training`.

    >>> training = train("FrozenLake-v1", episodes=60, horizon=20)
    >>> training.setting.features.name, len(training.switch_episodes)
    ('one-hot of 16 states × 4 actions', 3)
    """
    given = {"features": features, "horizon": horizon, "rewards": rewards, "actions": actions}
    if (log := _log_of(world)) is not None:
        if folder is not None or episodes is not None:
            raise TypeError("episodes and folder need an environment; world is a log")
        with one_blas_thread():
            return _train_on_log(log, recipe, seed, **given, stages=stages, allow=allow)
    if episodes is None:
        raise TypeError("episodes must be given for an environment")
    episodes = whole("episodes", episodes, least=1)
    if switches is not None and schedule is not None:
        raise TypeError("switches and schedule exclude each other")
    if not isinstance(warm_start, str | Path):
        warm_start = list(warm_start)
    kept, settings = None, dict[str, Any]()
    if folder is not None:
        settings = plain_settings(
            name or world, arguments=arguments, schedule=schedule, recipe=recipe,
            episodes=episodes, switches=switches, **given, stages=stages,
            warm_start=warm_start, seed=seed, fresh=fresh, policies=policies,
        )  # fmt: skip
        kept = RunFolder(folder)
        kept.check(settings)
        if (stored := kept.settings) is not None:
            given["rewards"] = stored["rewards"]
    title = name or (world if isinstance(world, str) else "")
    world = _environment(world, arguments, allow)
    with one_blas_thread():
        setting = setting_of(
            world,
            **given,
            stages=stages,
            seed=seed,
            progress=lambda done, total: progress(Step("random play", done, total)),
            allow=allow,
        )
        if schedule is None:
            rule = schedule_for(episodes=episodes, switches=switches)
        elif isinstance(schedule, str):
            rule = _rule_in_words(schedule, setting, episodes, allow)
        else:
            rule = schedule
        recipe = replace(checked_recipe(recipe), seed=seed)
        warm = warm_start
        if isinstance(warm, str | Path):
            warm = list(read_log(log_path(warm)))
        setting = _with_warm_start(setting, warm)
        learner = None
        if kept is not None:
            learner = kept.learner(schedule=rule, exploration=recipe.exploration)
        if learner is None:
            learner = setting.learner(
                rule,
                recipe,
                episodes=episodes,
                warm_start=(Training._episode(one, setting) for one in warm),
            )
        training = Training(
            setting, learner, world,
            seed=seed, warm_start=warm, folder=kept, policies=policies, name=title,
        )  # fmt: skip
        if kept is not None:
            kept.begin(settings, setting, learner.episodes)
            training.resume()
        try:
            if training.run(episodes, progress=progress, callback=callback) and kept is not None:
                training.finish(fresh=fresh, progress=progress)
        except BaseException as error:
            error.__dict__["training"] = training  # for Ctrl-C in a notebook
            if kept is not None and not isinstance(error, FolderInUseError):
                played = training.learner.episodes
                error.add_note(kept.told(played, episodes, error, "call resumes"))
            raise
    return training


def _with_warm_start(setting: Setting, log: Sequence[Trajectory]) -> Setting:
    """Return the setting with a range that also contains the rewards of a log."""
    if not log:
        return setting
    scale, reasons = setting.rewards, dict(setting.reasons)
    reasons["warm start"] = f"{len(log)} episodes are learnt from before the first"
    for one in log:
        if not isinstance(one, Trajectory):
            raise TypeError(f"warm_start must be trajectories; got {short_repr(one)}")
        for reward in span_of(one):
            scale = widened_range(scale, reward)
    if scale != setting.rewards:
        reasons["rewards"] += "; widened by the warm start"
    return replace(setting, rewards=scale, reasons=reasons)


def _log_of(world: Any) -> list[Trajectory] | None:
    """Return the trajectories of a log or of its file, or None if `world` is no log."""
    if isinstance(world, Path) or (isinstance(world, str) and world.endswith(LOGS)):
        return list(read_log(world))
    if isinstance(world, str) or not isinstance(world, Iterable) or hasattr(world, "step"):
        return None
    log = list(world)
    if not log or not all(isinstance(one, Trajectory) for one in log):
        raise TypeError(f"world must be an environment or a log of trajectories; got {world!r}")
    return log


def _train_on_log(
    log: list[Trajectory],
    recipe: Recipe | None,
    seed: Seed,
    **given: Any,
) -> Training:
    """Return the training on a log without an environment."""
    setting = setting_of_log(log, **given)
    learner = setting.learner(
        EveryEpisode(),
        replace(checked_recipe(recipe), seed=seed),
        warm_start=(Training._episode(one, setting) for one in log),
    )
    training = Training(setting, learner, seed=seed, warm_start=log)
    for one in log:
        training._log.append(one)
        training._count(one)
    return training


def _environment(world: Any, arguments: Mapping[str, Any] | None, allow: Collection[str]) -> Any:
    """Return the environment, made from its name or by its function."""
    if isinstance(world, str):
        return made(world, arguments, allow=allow)
    if callable(world) and (isinstance(world, type) or not hasattr(world, "reset")):
        world = world(**(arguments or {}))
    check_world(world)
    return world


def _rule_in_words(text: str, setting: Setting, episodes: int, allow: Collection[str]) -> Schedule:
    try:
        rule: Schedule = make_schedule(*parse(text), setting.task(episodes), allow=allow)
        refuse_faulty_rule(rule, setting.task(episodes))
    except (TypeError, ValueError) as error:
        raise ValueError(f"schedule {text}: {error}") from None
    return rule
