"""A plan for a Gymnasium environment: its options, its simulator, and the command to run then."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import typed_modules
from rareswitch.cli.environments import env_arg_option, parsed
from rareswitch.cli.worlds import FINITE

if TYPE_CHECKING:
    from rareswitch.gym.setting import Setting
    from rareswitch.gym.simulator import WorldSimulator
    from rareswitch.planning.plan import Plan

# The options that are arguments of `setting_of` and `train` too.
ASKED = ("features", "horizon", "rewards", "stages")
OWN = ("features", "rewards", "stages", "env_args", "workers")


def environment_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of environments."""
    options = (
        click.option("--env", help="Gymnasium environment to simulate, or module:Name."),
        click.option(
            "--features", help="--env: see rareswitch train.  [default: by observation space]"
        ),
        click.option(
            "--rewards",
            type=FINITE,
            nargs=2,
            metavar="LOW HIGH",
            help="--env: least and largest reward of a step.  [default: from the environment]",
        ),
        click.option(
            "--stages",
            type=click.Choice(["auto", "shared", "own"]),
            help="--env: fit each stage on all steps (shared) or on its own steps (own), or let "
            "the data choose.  [default: auto]",
        ),
        env_arg_option,
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="--env, --scenarios: worker processes.  [default: all cores]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_environment_options(settings: dict[str, Any]) -> None:
    """Raise for options of environments without --env, and for --env with another world."""
    if settings["env"] is None:
        for name in OWN:
            if settings[name]:
                other = " or --scenarios" if name == "workers" else ""
                raise ValueError(f"{_option(name)} needs --env{other}")
        return
    for name in ("instance", "simulator", "dim"):
        if settings[name] is not None:
            raise ValueError(f"--env and --{name} exclude each other")


def environment_simulator(
    settings: dict[str, Any], progress: Callable[[int, int], None]
) -> WorldSimulator:
    """Return the simulator of --env."""
    from rareswitch.gym.simulator import world_simulator

    try:
        return world_simulator(
            settings["env"],
            arguments=parsed(settings["env_args"]),
            episodes=settings["episodes"],
            workers=min(settings["workers"] or os.cpu_count() or 1, settings["rounds"]),
            progress=progress,
            allow=_typed(settings),
            **_asked(settings),
        )
    except ImportError as error:
        raise ValueError(f"--env {settings['env']}: {error}") from None


def picked(setting: Setting) -> dict[str, Any]:
    """Return the setting of an environment as plain values."""
    return {
        "features": setting.features.name,
        "horizon": setting.horizon,
        "rewards": [setting.rewards.low, setting.rewards.high],
        "stages": setting.stages,
        "reasons": setting.reasons,
    }


def train_command(made: Plan, settings: dict[str, Any]) -> str | None:
    """Return the `rareswitch train` command of the recommended rule; None if options cannot."""
    options = made.paste.options()
    if options is None or made.recipe.ridge != 1.0:  # training has no other ridge
        return None
    words = ["rareswitch", "train", settings["env"], "--episodes", str(made.task.episodes)]
    for name, value in _asked(settings).items():
        values = map(repr, value) if isinstance(value, tuple) else [str(value)]
        words += [_option(name), *values]
    for argument in settings["env_args"]:
        words += ["--env-arg", argument]
    return shlex.join([*words, *options])


def train_code(made: Plan, settings: dict[str, Any]) -> str:
    """Return Python code that learns the environment with the recommended rule."""
    given, modules = parsed(settings["env_args"]), _typed(settings)
    allow = f", allow={modules!r}" if modules else ""
    world = json.dumps(settings["env"], ensure_ascii=False) + (f", {given!r}" if given else "")
    asked = "".join(f", {name}={value!r}" for name, value in _asked(settings).items())
    lines = [
        *made.paste.imports,
        "from rareswitch.gym import play, setting_of",
        "from rareswitch.gym.setting import made",
        "",
        f"world = made({world}{allow})",
        f"setting = setting_of(world{asked}{allow})",
        "learner = setting.learner(",
        *(f"    {argument}" for argument in made.paste.arguments),
        f"    episodes={made.task.episodes},",
        ")",
        "for game in play(",
        "    learner,",
        "    world,",
        "    setting.features,",
        f"    episodes={made.task.episodes},",
        "    rewards=setting.rewards,",
        "    actions=setting.actions,",
        "):",
        "    print(game)",
    ]
    return "\n".join(lines)


def _asked(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the given options of the setting."""
    return {name: settings[name] for name in ASKED if settings[name] is not None}


def _typed(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the modules that a person typed and thereby allowed."""
    return typed_modules(settings["env"], settings["features"])


def _option(name: str) -> str:
    return "--" + name.removesuffix("s").replace("_", "-") if name == "env_args" else f"--{name}"
