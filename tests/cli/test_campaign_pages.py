"""Pages about campaigns: the example protocol is valid, and every command is explained."""

import re
import shlex
from pathlib import Path

import click
import pytest

from rareswitch.campaigns import Protocol
from rareswitch.campaigns.protocol import KEYS, TABLES
from rareswitch.cli import main

PAGES = Path(__file__).parent.parent.parent / "docs" / "campaigns"
TEXTS = {page.name: page.read_text(encoding="utf-8") for page in sorted(PAGES.glob("*.md"))}
COMMAND = re.compile(r"^(?:\$ )?(?:.* \| )?(rareswitch campaign .*)$", re.MULTILINE)


def commands():
    """Yield (page, command) for each command in a console block."""
    for page, text in TEXTS.items():
        for block in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            for line in COMMAND.findall(block):
                yield page, line.split(" >> ")[0]


def campaign_commands(group=main.commands["campaign"], path=""):
    """Yield the name of each command of `rareswitch campaign`."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from campaign_commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}"


def test_the_example_protocol_is_valid_and_has_every_table():
    page = TEXTS["protocol.md"]
    example = page[page.index("```toml\n") + 8 :].split("```")[0]
    protocol = Protocol.from_toml(example.replace("…", "ab" * 32))
    assert {*protocol.plain} == {*TABLES}


@pytest.mark.parametrize("table", KEYS)
def test_the_page_of_the_protocol_names_every_key(table):
    for key in KEYS[table]:
        assert re.search(rf"\b{key}\b", TEXTS["protocol.md"]), f"{key} of [{table}]"


@pytest.mark.parametrize(("page", "line"), [*commands()])
def test_a_command_of_a_page_takes_its_options(page, line):
    words = shlex.split(line)[1:]
    context = click.Context(main, info_name="rareswitch")
    command = main
    while isinstance(command, click.Group):
        name, command, words = command.resolve_command(context, words)
        context = click.Context(command, info_name=name, parent=context)
    command.make_parser(context).parse_args(args=words)  # refuses an option that there is not


@pytest.mark.parametrize("name", [*campaign_commands()])
def test_every_command_is_on_a_page(name):
    assert any(re.search(rf"(?:`|campaign ){name}\b", text) for text in TEXTS.values())
