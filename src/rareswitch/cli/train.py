"""`rareswitch train`: learn a policy for a Gymnasium environment."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import typed_modules
from rareswitch.cli.environments import env_arg_option, made_world, parsed, refusals, told
from rareswitch.cli.experiments import need
from rareswitch.cli.learn import build_recipe, share_options
from rareswitch.cli.progress import Report, progress
from rareswitch.cli.training_table import line, show_picked, show_summary
from rareswitch.cli.worlds import FINITE

if TYPE_CHECKING:
    from rareswitch.gym.run import RunFolder
    from rareswitch.gym.training import Step


@click.command()
@click.argument("env_id")
@click.option("--episodes", type=click.IntRange(1), required=True, help="Episodes to learn from.")
@click.option(
    "--switches",
    type=click.IntRange(0),
    help="Most new policies after the first.  [default: one for every 20 episodes, at most 59]",
)
@click.option(
    "--schedule",
    help="Rule and its arguments instead of --switches; rareswitch learn --help lists the rules.",
)
@click.option(
    "--exploration",
    help="Exploration, e.g. ensemble,scale=1.  [default: ensemble, which needs no tuning]",
)
@click.option(
    "--beta", type=FINITE, help="Confidence radius β, short for --exploration bonus,beta=β."
)
@share_options
@click.option(
    "--features",
    default="default",
    help="Features: default, one-hot, linear, polynomial,degree=2, fourier,order=3, "
    "radial,components=40, or module:name of your own.",
)
@click.option(
    "--horizon",
    type=click.IntRange(1),
    help="Most steps in an episode.  [default: from the environment]",
)
@click.option(
    "--stages",
    type=click.Choice(["auto", "shared", "own"]),
    default="auto",
    help="Fit each stage on all steps (shared) or on its own steps (own), or let the data choose.",
)
@click.option(
    "--rewards",
    type=FINITE,
    nargs=2,
    metavar="LOW HIGH",
    help="Least and largest reward of a step; a reward outside widens the range.  [default: from "
    "the environment]",
)
@env_arg_option
@click.option(
    "--warm-start",
    type=click.Path(path_type=Path),
    help="Log of another policy's episodes (.jsonl, .parquet), or the folder of a training.",
)
@click.option(
    "--evaluate",
    "fresh",
    type=click.IntRange(0),
    default=500,
    help="Fresh episodes for the recommended policy and the best version; 0 for none.",
)
@click.option("--policies/--no-policies", default=True, help="Keep every deployed policy.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of all randomness.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder of the training.  [default: rareswitch-train-…, named after the settings]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress.")
def train(out: Path | None, as_json: bool, **options: Any) -> None:
    """Learn a policy for a Gymnasium environment.

    ENV_ID is the name of a registered environment, or module:Name. Name is then a class of your
    module or an environment that the module registers; the module may be in the current folder.

    The command chooses features, horizon and the range of rewards from the spaces of the
    environment and a little random play, and prints the reasons. It prints the return of every
    deployed version. It then plays the recommended policy and the best version on the same fresh
    episodes, and computes their exact returns if the environment has a model; if not, random play
    is the baseline.

    The folder has settings.json, the log of every episode with the probabilities of its actions
    (log.jsonl), the learner (learner.bin), every deployed policy (policies/), the recommended
    policy with its features (agent.bin; policy.bin if features are code), picture.png and
    summary.json. After Ctrl-C or a crash, the same command continues and ends with the same files.
    After the end, it prints the results again.

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
    from rareswitch.gym.run import RunFolder

    arguments = {"progress": None, **checked_arguments(options)}
    with refusals():
        settings = settings_of(arguments)
        folder = RunFolder(out or default_path(settings))
        folder.check(settings)
        summary = folder.summary
    if not as_json:
        note_cut_budget(options["switches"], options["episodes"])
    if summary is None:
        summary = finish(folder, arguments, options["env_id"], quiet=as_json)
    elif not as_json:
        show_picked(folder.picked, settings)
        click.echo(f"{folder.path} is finished; these are its results\n")
    if as_json:
        beside = {"settings": settings, "picked": folder.picked, "folder": str(folder.path)}
        click.echo(json.dumps(summary | beside, indent=2))
    else:
        show_summary(summary)
        click.echo(f"folder          {folder.path}")


def note_cut_budget(switches: int | None, episodes: int) -> None:
    """Print a note if there are fewer episodes than the budget of switches needs."""
    if switches is not None and switches >= episodes:
        click.echo(
            f"note: --switches {switches} is more than {episodes} episodes allow: at most "
            f"{episodes - 1} policies follow the first",
            err=True,
        )


def checked_arguments(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options as the arguments of `rareswitch.gym.train`."""
    from rareswitch.gym.run import log_path

    with refusals():
        if options["switches"] is not None and options["schedule"] is not None:
            raise ValueError("--switches and --schedule exclude each other")
        recipe = build_recipe(options)
        env_args = parsed(options["env_args"])
        log = options["warm_start"]
        if log is not None:
            try:
                log_path(log)
            except ValueError as error:
                raise ValueError(f"--warm-start: {error}") from None
    names = ("episodes", "switches", "schedule", "features", "horizon", "rewards", "stages")
    return {name: options[name] for name in (*names, "fresh", "policies", "seed")} | {
        "name": options["env_id"],
        "arguments": env_args,
        "recipe": recipe,
        "warm_start": () if log is None else log,
        "allow": typed_modules(options["env_id"], options["features"], options["schedule"]),
    }


def settings_of(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a training as plain values, for its folder."""
    from rareswitch.gym.run import plain_settings

    aside = ("name", "allow", "progress")
    given = {name: value for name, value in arguments.items() if name not in aside}
    return plain_settings(arguments["name"], **given, actions=None)


def finish(
    folder: RunFolder, arguments: dict[str, Any], env_id: str, *, quiet: bool
) -> dict[str, Any]:
    """Start or continue the training to its end; return the summary."""
    from rareswitch.gym.episode import WorldError
    from rareswitch.gym.train import train

    with refusals():
        world = made_world(env_id, arguments["arguments"], arguments["allow"])
    with Display(folder, quiet=quiet) as display:
        arguments = arguments | {"progress": display.show}
        try:
            training = train(world, folder=folder.path, **arguments)
        except KeyboardInterrupt as error:
            if display.begun:
                display.close()
                click.echo(f"interrupted: {kept(folder, arguments, error)}", err=True)
            raise SystemExit(130) from None
        except WorldError as error:
            if not display.begun:
                raise click.ClickException(told(error)) from None
            fresh = " of the fresh episodes" if display.phase == "fresh episodes" else ""
            told_all = f"{told(error)}{fresh}; {kept(folder, arguments, error)}"
            raise click.ClickException(told_all) from None
        except Exception as error:
            if display.begun:
                click.echo(kept(folder, arguments, error), err=True)
            else:
                with refusals():
                    raise
            raise
    return training.summary | {"finished": True}


def kept(folder: RunFolder, arguments: dict[str, Any], error: BaseException) -> str:
    """Return a sentence with the number of episodes that a folder keeps after an error."""
    with open(folder.log, "rb") as log:
        count = sum(1 for _ in log)
    return folder.told(count, arguments["episodes"], error, "command continues")


class Display(ExitStack):
    """Show the progress of a training, phase by phase."""

    def __init__(self, folder: RunFolder, *, quiet: bool) -> None:
        super().__init__()
        self._folder, self._quiet, self.phase = folder, quiet, ""
        self._report: Report
        self.begun = False

    def show(self, step: Step) -> None:
        """Show one step."""
        if step.phase == "begun":
            self.close()
            self.begun, self.phase = True, ""
            if not self._quiet:
                settings = self._folder.settings or {}
                show_picked(self._folder.picked, settings)
                if step.text:
                    line("note", step.text)
                if step.done:
                    click.echo(f"continues after episode {step.done}, from {self._folder.path}\n")
        elif step.phase == "note":
            if not self._quiet:
                click.echo(f"note: {step.text}", err=True)
        else:
            if step.phase != self.phase:
                self.close()
                self.phase = step.phase
                self._report = self.enter_context(
                    progress(step.phase, step.total, quiet=self._quiet)
                )
            self._report(step.done, step.text)


def default_path(settings: dict[str, Any]) -> Path:
    """Name the folder after its settings, so that different trainings have different folders."""
    import hashlib
    import re

    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    name = re.sub(r"[^A-Za-z0-9.-]", "-", settings["env_id"])[:40]
    return Path(f"rareswitch-train-{name}-{digest[:8]}")
