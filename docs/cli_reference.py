"""Write docs/cli.md, the reference of the command line, from the commands themselves.

Run it after changing a command: `python docs/cli_reference.py`. A test fails when it is stale.
"""

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
    for name, command in sorted(main.commands.items()):
        parts.append(_section(f"rareswitch {name}", command, root))
        if isinstance(command, click.Group):
            group = click.Context(command, info_name=name, parent=root)
            for sub, inner in sorted(command.commands.items()):
                parts.append(_section(f"rareswitch {name} {sub}", inner, group))
    return "\n".join(parts)


def _section(title: str, command: click.Command, parent: click.Context | None) -> str:
    settings = main.context_settings if parent is None else {}
    context = click.Context(command, info_name=title.split()[-1], parent=parent, **settings)
    context.terminal_width = 100
    return f"## {title}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
