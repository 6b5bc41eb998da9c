"""Permission to import code: a person names the module on the command line."""

import re
from collections.abc import Callable
from typing import Any

import click

allow_option: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--allow",
    multiple=True,
    metavar="MODULE",
    help="Allow rareswitch to import this module. May be repeated.",
)


def typed_modules(*texts: str | None) -> tuple[str, ...]:
    """Return the modules in options; a person who types module:name allows the module.

    >>> typed_modules("my_rules:Weekly,day=3", "fourier,order=2", None)
    ('my_rules',)
    """
    found = (name for text in texts if text for name in re.findall(r"([\w.]+):", text))
    return tuple(dict.fromkeys(found))
