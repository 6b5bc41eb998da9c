import json
import subprocess
import sys

import click
import pytest

import rareswitch
from cli.terminal import call
from rareswitch.cli import main


def test_the_commands_are_those_of_the_project():
    assert set(main.commands) >= {"learn", "reproduce", "run", "plot"}


def test_the_version_is_that_of_the_package():
    assert call("--version").stdout == f"rareswitch, version {rareswitch.__version__}\n"


@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_every_command_and_where_to_start(flag):
    shown = call(flag).stdout
    assert "Start here:" in shown
    for name in main.commands:
        assert f"\n  {name} " in shown


@pytest.mark.parametrize("name", main.commands)
def test_every_command_explains_itself_with_an_example(name):
    shown = call(name, "--help").stdout
    assert "Example" in shown
    assert f"      rareswitch {name} " in shown or f"  rareswitch {name}" in shown
    options = [p for p in main.commands[name].params if isinstance(p, click.Option)]
    assert all(option.help or option.name == "out" for option in options)


@pytest.mark.parametrize("name", sorted(set(main.commands) - {"plot"}))
def test_every_command_but_plot_speaks_json(name):
    assert "--json" in {flag for p in main.commands[name].params for flag in p.opts}


def test_every_example_of_a_command_is_one_it_would_accept():
    for name, command in main.commands.items():
        examples = [
            line.split()[2:]
            for line in (command.help or "").splitlines()
            if line.strip().startswith(f"rareswitch {name}")
        ]
        assert examples, name
        for arguments in examples:
            command.make_context(name, arguments)


def test_an_unknown_command_is_refused():
    result = call("lern")
    assert result.exit_code == 2
    assert "lern" in result.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["reproduce", "--help"], ["learn", "--help"]])
def test_help_loads_no_heavy_library(arguments):
    code = (
        "import json, sys\n"
        "from rareswitch.cli import main\n"
        f"main({arguments!r}, standalone_mode=False)\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert "rareswitch" in loaded
    assert not loaded & {"pydantic", "matplotlib", "rich", "jinja2", "pandas", "polars", "scipy"}
