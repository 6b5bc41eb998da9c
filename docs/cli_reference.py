"""Write docs/cli.md, the reference of the command line, from the commands themselves.

Run it after changing a command: `python docs/cli_reference.py`. A test fails when it is stale.
"""

from collections.abc import Iterator
from pathlib import Path

import click

from rareswitch.cli import main

PAGE = Path(__file__).parent / "cli.md"


def render() -> str:
    """Return the page: the help of the program and of every command."""
    parts = [
        "# Command line\n",
        "This page contains the `--help` text of every command.\n",
        _section("rareswitch", main, None),
    ]
    root = click.Context(main, info_name="rareswitch", **main.context_settings)
    return "\n".join([*parts, *_inner("rareswitch", main, root)])


def _inner(path: str, group: click.Group, parent: click.Context) -> Iterator[str]:
    """Yield the help of the commands of a group, and of the groups in it."""
    for name, command in sorted(group.commands.items()):
        yield _section(f"{path} {name}", command, parent)
        if isinstance(command, click.Group):
            inside = click.Context(command, info_name=name, parent=parent)
            yield from _inner(f"{path} {name}", command, inside)


def _section(title: str, command: click.Command, parent: click.Context | None) -> str:
    settings = main.context_settings if parent is None else {}
    context = click.Context(command, info_name=title.split()[-1], parent=parent, **settings)
    context.terminal_width = 100
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
