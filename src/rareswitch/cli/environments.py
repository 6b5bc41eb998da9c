"""Environments on the command line: their options, their making and their errors."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rareswitch.gym.setting import Setting

env_arg_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--env-arg",
    "env_args",
    multiple=True,
    metavar="NAME=VALUE",
    help="Argument of the environment, with a value in JSON: is_slippery=false. May be repeated.",
)

# As texts they would be true: an environment would get the opposite of False.
PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


@contextmanager
def refusals() -> Iterator[None]:
    """Turn invalid options into a usage error, and an error of a world into one line."""
    from rareswitch.gym.episode import WorldError

    try:
        yield
    except WorldError as error:
        raise click.ClickException(told(error)) from None
    except (TypeError, ValueError, FileNotFoundError) as error:
        if getattr(
            error, "__notes__", None
        ):  # raised by the environment's code, not by the options
            raise
        option = "--" if str(error).startswith("schedule ") else ""
        raise click.UsageError(f"{option}{error}") from None


def told(error: Exception) -> str:
    """Return the message of a world's error, with options instead of Python arguments."""
    return str(error).replace("give the range as Rewards(low, high)", "give --rewards LOW HIGH")


def parsed(arguments: Sequence[str], option: str = "--env-arg") -> dict[str, Any]:
    """Parse arguments NAME=VALUE; a value that is not JSON is text.

    >>> parsed(["is_slippery=false", "map_name=8x8"])
    {'is_slippery': False, 'map_name': '8x8'}
    """
    found: dict[str, Any] = {}
    for text in arguments:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier() or name in found:
            raise ValueError(f"{option} must be NAME=VALUE, each name once; got {text!r}")
        if value in PYTHON_WORDS:
            raise ValueError(f"{option} {text}: the value is JSON; write {PYTHON_WORDS[value]}")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def made_world(env_id: str, arguments: dict[str, Any], allow: Collection[str]) -> Any:
    """Make an environment by name; its module may be in the current folder."""
    from rareswitch.gym.setting import made

    try:
        world = made(env_id, arguments, allow=allow)
    except (ImportError, TypeError, ValueError) as error:
        raise ValueError(f"ENV_ID {env_id}: {error}") from None
    click.get_current_context().call_on_close(getattr(world, "close", lambda: None))
    return world


def setting_asked(world: Any, settings: dict[str, Any], allow: Collection[str]) -> Setting:
    """Return the setting of a world under the settings of a training."""
    from rareswitch.gym.setting import setting_of

    names = ("features", "horizon", "rewards", "stages", "seed")
    return setting_of(world, **{name: settings[name] for name in names}, allow=allow)
