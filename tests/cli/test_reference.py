"""The reference of the command line is that of the commands as they are."""

import importlib.util
from pathlib import Path

import pytest

from rareswitch.cli import main

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("cli_reference", DOCS / "cli_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_commands_say(reference):
    stale = "docs/cli.md is stale: run `python docs/cli_reference.py`"
    assert reference.PAGE.read_text(encoding="utf-8") == reference.render(), stale


def test_every_command_and_option_is_on_the_page(reference):
    page = reference.render()
    for name, command in main.commands.items():
        assert f"## rareswitch {name}" in page
        for option in command.params:
            assert option.opts[0] in page or option.name.upper() in page
