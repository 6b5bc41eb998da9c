"""The reference of the command line is made from the commands."""

import importlib.util
from pathlib import Path

import click
import pytest

from rareswitch.cli import main

DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture(scope="module")
def reference():
    spec = importlib.util.spec_from_file_location("cli_reference", DOCS / "cli_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def commands(group, path="rareswitch"):
    for name, command in group.commands.items():
        yield f"{path} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} {name}")


def test_every_command_and_option_is_on_the_page(reference):
    sections = {}
    for line in reference.render().splitlines():
        if line.startswith("#"):
            _, _, title = line.partition(" ")
            sections[title] = []
        sections[title].append(line)
    for path, command in commands(main):
        text = "\n".join(sections[path])
        for option in command.params:
            hidden = getattr(option, "hidden", False)
            shown = option.metavar or option.name.upper()  # as an argument stands in the usage
            assert hidden or option.opts[0] in text or shown in text


def test_every_command_but_two_has_json():
    silent = {
        path
        for path, command in commands(main)
        if not isinstance(command, click.Group)
        and not any("--json" in option.opts for option in command.params)
    }
    assert silent == {"rareswitch plot", "rareswitch serve"}


def test_the_page_is_written_only_where_it_has_changed(reference, tmp_path):
    page = tmp_path / "cli.md"
    reference.write(page)
    assert page.read_text(encoding="utf-8") == reference.render()
    page.chmod(0o444)
    before = page.stat().st_mtime_ns
    reference.write(page)
    assert page.stat().st_mtime_ns == before
