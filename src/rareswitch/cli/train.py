"""`rareswitch train`: from an environment of Gymnasium to a policy, in a folder of its own."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from rareswitch.cli.allow import typed_modules
from rareswitch.cli.environments import (
    env_arg_option,
    made_world,
    parsed,
    refusals,
    setting_asked,
    told,
)
from rareswitch.cli.experiments import need
from rareswitch.cli.fresh import played_fresh
from rareswitch.cli.training_table import show_picked, show_summary
from rareswitch.cli.worlds import FINITE

if TYPE_CHECKING:
    from rareswitch.core.clock import Schedule
    from rareswitch.core.recipe import Recipe
    from rareswitch.gym.recording import Recording
    from rareswitch.gym.run_folder import RunFolder
    from rareswitch.gym.setting import Setting
    from rareswitch.gym.train import Training
    from rareswitch.learning.learner import Learner

# Episodes that the return shown while learning is the mean of.
RECENT = 100


@click.command()
@click.argument("env_id")
@click.option("--episodes", type=click.IntRange(1), required=True, help="Episodes to learn from.")
@click.option(
    "--switches",
    type=click.IntRange(0),
    help="At most so many new policies after the first.  [default: 59, or one in 20 episodes]",
)
@click.option(
    "--schedule", help="Instead of --switches: a rule and its arguments, as for rareswitch learn."
)
@click.option(
    "--exploration",
    help="How to explore, e.g. ensemble,scale=1.  [default: ensemble, which needs no tuning]",
)
@click.option("--beta", type=FINITE, help="Short for --exploration bonus,beta=β.")
@click.option(
    "--features",
    default="default",
    help="default, one-hot, linear, polynomial,degree=2, fourier,order=3, radial,components=40, or "
    "module:name of your own.",
)
@click.option("--horizon", type=click.IntRange(1), help="Steps in an episode at the most.")
@click.option(
    "--stages",
    type=click.Choice(["shared", "own"]),
    default="shared",
    help="Whether all steps of an episode are learnt from together, or each by itself.",
)
@click.option(
    "--rewards",
    type=FINITE,
    nargs=2,
    metavar="LOW HIGH",
    help="Least and largest reward of a step.",
)
@env_arg_option
@click.option(
    "--warm-start",
    type=click.Path(path_type=Path),
    help="A log of another policy's episodes (.jsonl, .parquet), or the folder of a training.",
)
@click.option(
    "--evaluate",
    "fresh",
    type=click.IntRange(0),
    default=500,
    help="Fresh episodes for the recommended policy; 0 for none.",
)
@click.option("--policies/--no-policies", default=True, help="Keep every policy that was deployed.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of all that is drawn.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the training.  [default: rareswitch-train-…, named after the settings]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, no progress.")
def train(out: Path | None, as_json: bool, **options: Any) -> None:
    """Learn an environment of Gymnasium with few switches, and recommend a policy for it.

    ENV_ID is the name of a registered environment, or module:Name for one that a module of yours
    registers, or for a class in it; modules are also looked for in the current folder.

    Features, horizon and the range of rewards are picked by what the environment tells of itself
    and by a little random play, and are said with the reason; each can be given. Prints the return
    of every version that was deployed, and of the policy recommended at the end, on fresh episodes
    and, where the environment tells its model, exactly.

    The folder holds settings.json, the log of every episode with the probabilities of its actions
    (log.jsonl), the learner (learner.bin), every policy deployed (policies/), the recommended one
    with its features (agent.bin; policy.bin where features are code), picture.png and summary.json.
    Ctrl-C finishes the episode and keeps everything: the same command goes on from there, also
    after a crash, and ends with the same files. Once finished, it shows them.

    \b
    Examples:
      rareswitch train FrozenLake-v1 --episodes 3000 --switches 29
      rareswitch train FrozenLake-v1 --episodes 1000 --env-arg is_slippery=false
      rareswitch train CartPole-v1 --episodes 300 --horizon 100 --features fourier,order=2
      rareswitch train my_module:Clinic --episodes 2000 --rewards -1 10 --stages own
      rareswitch train Blackjack-v1 --episodes 5000 --schedule uniform-grid,batches=10
      rareswitch train CliffWalking-v1 --episodes 500 --warm-start played.jsonl
    """
    need("gym")
    from rareswitch.gym.run_folder import RunFolder

    with refusals():
        settings = checked_settings(options)
        folder = RunFolder(out or default_path(settings))
        folder.check(settings)
        summary = folder.summary
    if summary is None:
        with refusals():
            world = made_world(settings["env_id"], settings["env_args"], typed(settings))
        summary = Run(folder, settings, world, quiet=as_json).finished()
    elif not as_json:
        show_picked(folder.picked, settings)
        click.echo(f"{folder.path} is finished; this is what it holds\n")
    if as_json:
        beside = {"settings": settings, "picked": folder.picked, "folder": str(folder.path)}
        click.echo(json.dumps(summary | beside, indent=2))
    else:
        show_summary(summary)
        click.echo(f"folder          {folder.path}")


class Run:
    """One training on its way, from its settings to the files in its folder."""

    def __init__(
        self, folder: RunFolder, settings: dict[str, Any], world: Any, *, quiet: bool
    ) -> None:
        self.folder, self.settings, self.world, self.quiet = folder, settings, world, quiet

    def finished(self) -> dict[str, Any]:
        """Learn, or go on learning, until all episodes are played; return the summary."""
        from rareswitch.cli.interrupt import interruptible
        from rareswitch.gym.recording import Recording

        with refusals():
            training, begun = self._begun()
            learner = training.learner
            recording = Recording(self.folder, learner, policies=self.settings["policies"])
        if not self.quiet:
            show_picked(self.folder.picked, self.settings)
            if begun:
                click.echo(f"goes on after episode {learner.episodes}, from {self.folder.path}\n")
        with interruptible() as pressed:
            with recording:
                self._learn(training, recording, pressed)
            return self._judge(training, pressed)

    def _begun(self) -> tuple[Training, bool]:
        """Return the training as it was kept last, or anew, and which of the two."""
        from rareswitch.gym.train import Training

        setting = setting_asked(self.world, self.settings, typed(self.settings))
        schedule, recipe = build_rules(setting, self.settings)
        learner = self.folder.learner(schedule=schedule, exploration=recipe.exploration)
        begun = learner is not None
        if learner is None:
            learner = new_learner(setting, schedule, recipe, self.settings)
        training = Training(setting, learner)
        for episode in self.folder.episodes(learner.episodes):
            training.played(episode.version or 1, sum(episode.rewards.tolist()))
        self.folder.begin(self.settings, setting)
        return training, begun

    def _learn(self, training: Training, recording: Recording, pressed: Callable[[], bool]) -> None:
        """Play the episodes that are left, or those until Ctrl-C."""
        from rareswitch.cli.progress import progress
        from rareswitch.gym.train import playing
        from rareswitch.gym.trouble import WorldError

        episodes, seed = self.settings["episodes"], self.settings["seed"]
        recent = deque(training.totals[-RECENT:].tolist(), RECENT)
        try:
            with progress("episodes", episodes, quiet=self.quiet) as report:
                for game in playing(training, self.world, episodes=episodes, seed=seed):
                    recording.keep(game)
                    recent.append(game.total)
                    mean = sum(recent) / len(recent)
                    report(game.number, f"version {game.version}, return {mean:.4g}")
                    if pressed():
                        break
        except WorldError as error:
            recording.keep_state()
            raise click.ClickException(f"{told(error)}; {self._kept(recording.kept)}") from None
        except Exception:  # of the environment's own code, told with its traceback
            recording.keep_state()
            click.echo(self._kept(recording.kept), err=True)
            raise
        recording.keep_state()
        if recording.kept < episodes:
            self._interrupt(recording.kept)

    def _judge(self, training: Training, pressed: Callable[[], bool]) -> dict[str, Any]:
        """Recommend a policy, play it on fresh episodes, and write what came of it."""
        from rareswitch.gym.known import known_returns
        from rareswitch.gym.picture import draw_training, save_picture
        from rareswitch.gym.summary import summarised
        from rareswitch.gym.trouble import WorldError

        agent, setting, asked = training.agent, training.setting, self.settings
        known = known_returns(agent.policy, self.world, setting.features, setting.actions)
        fresh = None
        if asked["fresh"]:
            try:
                fresh = played_fresh(
                    agent, self.world, asked["fresh"], asked["seed"], pressed, quiet=self.quiet
                )
            except KeyboardInterrupt:
                self._interrupt(training.learner.episodes)
            except WorldError as error:
                kept = self._kept(training.learner.episodes)
                raise click.ClickException(f"{error} of the fresh episodes; {kept}") from None
        episodes = asked["episodes"]
        summary = summarised(training, episodes=episodes, known=known, fresh=fresh)
        title = f"{asked['env_id']}, {summary['switches']} switches"
        picture = draw_training(training, title=title, known=known, fresh=fresh)
        self.folder.write_agent(agent)
        save_picture(picture, self.folder.path / "picture.png")
        self.folder.finish(summary)
        return summary

    def _kept(self, count: int) -> str:
        return (
            f"{count} of {self.settings['episodes']} episodes are kept in {self.folder.path}; the "
            "same command goes on from there"
        )

    def _interrupt(self, count: int) -> NoReturn:
        click.echo(f"interrupted: {self._kept(count)}", err=True)
        raise SystemExit(130)


def checked_settings(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as plain values, which are what a folder is known by."""
    if options["switches"] is not None and options["schedule"] is not None:
        raise ValueError("--switches and --schedule exclude each other")
    if options["fresh"] == 1:
        raise ValueError("--evaluate must be 0 or at least 2; got 1")
    rewards, log = options["rewards"], options["warm_start"]
    return options | {
        "env_args": parsed(options["env_args"]),
        "rewards": None if rewards is None else list(rewards),
        "warm_start": None if log is None else described_log(log),
    }


def typed(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the modules that a person typed, and so allowed."""
    return typed_modules(settings["env_id"], settings["features"])


def described_log(path: Path) -> dict[str, str]:
    """Return where a log is and the digest of what it holds, which may change."""
    import hashlib

    path = path / "log.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"--warm-start must be a log of episodes; there is no file {path}")
    with open(path, "rb") as file:
        return {"log": str(path), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def build_rules(setting: Setting, settings: dict[str, Any]) -> tuple[Schedule, Recipe]:
    """Return the schedule and the recipe that the options name."""
    from dataclasses import replace

    from rareswitch.cli.learn import build_recipe
    from rareswitch.gym.train import schedule_for
    from rareswitch.rules.words import make_schedule, parse

    recipe = replace(build_recipe(settings), seed=settings["seed"])
    episodes, text = settings["episodes"], settings["schedule"]
    if text is None:
        return schedule_for(episodes=episodes, switches=settings["switches"]), recipe
    try:
        task = setting.task(episodes)
        return make_schedule(*parse(text), task, allow=typed_modules(text)), recipe
    except (TypeError, ValueError) as error:
        raise ValueError(f"--schedule {text}: {error}") from None


def new_learner(
    setting: Setting, schedule: Schedule, recipe: Recipe, settings: dict[str, Any]
) -> Learner:
    """Return a learner that has seen nothing, or the episodes of --warm-start."""
    from rareswitch.trajectories import episode_of, read_log

    log = settings["warm_start"]
    return setting.learner(
        schedule,
        recipe,
        episodes=settings["episodes"],
        warm_start=(
            episode_of(one, setting.features, setting.rewards, setting.horizon)
            for one in (() if log is None else read_log(log["log"]))
        ),
    )


def default_path(settings: dict[str, Any]) -> Path:
    """Name the folder after its settings, so that different trainings do not meet."""
    import hashlib
    import re

    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    name = re.sub(r"[^A-Za-z0-9.-]", "-", settings["env_id"])[:40]
    return Path(f"rareswitch-train-{name}-{digest[:8]}")
