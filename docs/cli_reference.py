"""Make the page docs/reference/cli.md from the help of the commands; conf.py calls it."""

from collections.abc import Iterator
from pathlib import Path

import click

from rareswitch.cli import main

INTRODUCTION = """\
# Command line

This page contains the `--help` text of every command. Every command except `plot` and `serve` has
`--json`, for scripts.
"""


def write(path: Path) -> None:
    """Write the page if it has changed; Sphinx reads it again only then."""
    page = render()
    if not path.exists() or path.read_text(encoding="utf-8") != page:
        path.write_text(page, encoding="utf-8")


def render() -> str:
    """Return the help of the program and of every command as a page."""
    root = click.Context(main, info_name="rareswitch", **main.context_settings)
    parts = [INTRODUCTION, _section("rareswitch", main, None)]
    return "\n".join([*parts, *_inner("rareswitch", main, root)])


def _inner(path: str, group: click.Group, parent: click.Context) -> Iterator[str]:
    """Yield the help of the commands of a group and of its subgroups."""
    for name, command in sorted(group.commands.items()):
        yield _section(f"{path} {name}", command, parent)
        if isinstance(command, click.Group):
            inside = click.Context(command, info_name=name, parent=parent)
            yield from _inner(f"{path} {name}", command, inside)


def _section(title: str, command: click.Command, parent: click.Context | None) -> str:
    settings = main.context_settings if parent is None else {}
    context = click.Context(
        command, info_name=title.split()[-1], parent=parent, **settings
    )
    context.terminal_width = 88
    level = "#" * max(2, len(title.split()))
    return f"{level} {title}\n\n```text\n{command.get_help(context)}\n```\n"
