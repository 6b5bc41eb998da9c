"""A plan for an environment of Gymnasium: its options, its simulator, and what to run then."""

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

# The options that say how an environment is learnt, as `setting_of` and `train` take them too.
ASKED = ("features", "horizon", "rewards", "stages")
OWN = ("features", "rewards", "stages", "env_args", "workers")


def environment_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that are about environments only."""
    options = (
        click.option("--env", help="An environment of Gymnasium to simulate, or module:Name."),
        click.option(
            "--features", help="--env: as for rareswitch train.  [default: by the observations]"
        ),
        click.option(
            "--rewards",
            type=FINITE,
            nargs=2,
            metavar="LOW HIGH",
            help="--env: least and largest reward of a step.",
        ),
        click.option(
            "--stages",
            type=click.Choice(["auto", "shared", "own"]),
            help="--env: whether stages learn from all steps (shared), from their own, or the data "
            "choose.  [default: auto]",
        ),
        env_arg_option,
        click.option(
            "--workers",
            type=click.IntRange(1),
            help="--env, --scenarios: processes that play rounds.  [default: all cores]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def check_environment_options(settings: dict[str, Any]) -> None:
    """Refuse options of environments without one, and other worlds beside one."""
    if settings["env"] is None:
        for name in OWN:
            if settings[name]:
                raise ValueError(f"{_option(name)} is for an environment: give --env too")
        return
    for name in ("instance", "simulator", "dim"):
        if settings[name] is not None:
            raise ValueError(f"--env and --{name} exclude each other")


def environment_simulator(
    settings: dict[str, Any], progress: Callable[[int, int], None]
) -> WorldSimulator:
    """Return the simulator of the environment that the options name."""
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
    """Return how an environment is learnt, as plain values."""
    return {
        "features": setting.features.name,
        "horizon": setting.horizon,
        "rewards": [setting.rewards.low, setting.rewards.high],
        "stages": setting.stages,
        "reasons": setting.reasons,
    }


def train_command(made: Plan, settings: dict[str, Any]) -> str | None:
    """Return the `rareswitch train` that plays the recommended rule, if it can be written."""
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
    """Return Python that learns the environment with the recommended rule."""
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
    """Return what was said of how the environment is learnt."""
    return {name: settings[name] for name in ASKED if settings[name] is not None}


def _typed(settings: dict[str, Any]) -> tuple[str, ...]:
    """Return the modules that a person typed, and so allowed."""
    return typed_modules(settings["env"], settings["features"])


def _option(name: str) -> str:
    return "--" + name.removesuffix("s").replace("_", "-") if name == "env_args" else f"--{name}"
