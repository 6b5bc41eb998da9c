import json
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

import rareswitch
from cli.terminal import call
from rareswitch.cli import main


def every_command(group=main, before=()):
    """Return the commands by their words, those of groups among them."""
    found = {}
    for name, command in group.commands.items():
        words = (*before, name)
        found[" ".join(words)] = command
        if isinstance(command, click.Group):
            found |= every_command(command, words)
    return found


COMMANDS = every_command()
FILES = (".toml", ".json", ".jsonl", ".parquet", ".db", ".csv", ".bin")  # that examples read


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


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself_with_an_example(name):
    shown = call(*name.split(), "--help").stdout
    assert "Example" in shown or isinstance(COMMANDS[name], click.Group)
    assert f"rareswitch {name}" in shown.partition("Usage:")[2].partition("\n")[2]
    options = [p for p in COMMANDS[name].params if isinstance(p, click.Option)]
    assert all(option.help or option.name == "out" for option in options)


# `plot` draws, and `serve` answers over HTTP.
ANSWERING = sorted(
    name
    for name, command in COMMANDS.items()
    if name not in ("plot", "serve", "campaign protocol") and not isinstance(command, click.Group)
)


@pytest.mark.parametrize("name", ANSWERING)
def test_every_command_that_prints_an_answer_speaks_json(name):
    assert "--json" in {flag for p in COMMANDS[name].params for flag in p.opts}


def test_every_example_of_a_command_is_one_it_would_accept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    root = click.Context(main, **main.context_settings)  # a command keeps its first way to help
    for name, command in COMMANDS.items():
        if isinstance(command, click.Group):
            continue
        words = len(name.split())
        examples = [
            shlex.split(line.partition(" >")[0])[1 + words :]  # a redirection is the shell's
            for line in (command.help or "").splitlines()
            if line.strip().startswith(f"rareswitch {name}")
        ]
        assert examples, name
        for arguments in examples:
            for word in arguments:
                if Path(word).suffix in FILES:
                    Path(word).parent.mkdir(parents=True, exist_ok=True)
                    Path(word).touch()
            command.make_context(name, arguments, parent=root).close()


def test_an_unknown_command_is_refused():
    result = call("lern")
    assert result.exit_code == 2
    assert "lern" in result.stderr


def loaded_by(code):
    """Return the top-level modules that a fresh Python has loaded after running some code."""
    listing = (
        "\nimport json, sys\nprint(json.dumps(sorted({n.partition('.')[0] for n in sys.modules})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + listing], capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout.splitlines()[-1]))


def third_party(modules):
    found = {name for name in modules - sys.stdlib_module_names if not name.startswith("_")}
    return found - {"rareswitch", "cython_runtime"}  # the latter is NumPy's


@pytest.mark.parametrize(
    "arguments",
    [[], ["reproduce"], ["learn"], ["plan"], ["run"], ["train"], ["evaluate"], ["compare"]],
)
def test_help_loads_click_and_nothing_else(arguments):
    before = third_party(loaded_by(""))
    code = (
        f"from rareswitch.cli import main\nmain({[*arguments, '--help']!r}, standalone_mode=False)"
    )
    assert third_party(loaded_by(code)) - before == {"click"}


def test_the_package_loads_nothing_and_the_learner_only_numpy():
    before = third_party(loaded_by(""))
    assert third_party(loaded_by("import rareswitch")) == before
    everything = (
        "import rareswitch as rs\n"
        "[getattr(rs, name) for name in rs.__all__ if name not in ('campaigns', 'gym')]"
    )
    assert third_party(loaded_by(everything)) - before == {"numpy"}


def test_every_name_at_the_top_exists_and_no_other():
    assert len(rareswitch.__all__) <= 24
    for name in rareswitch.__all__:
        assert getattr(rareswitch, name) is not None
        assert name in dir(rareswitch)
    with pytest.raises(AttributeError, match="no attribute 'Lerner'"):
        rareswitch.Lerner  # noqa: B018


def test_help_costs_little_more_than_click():
    """Help loads Click, the standard library and the files of this package: nothing else."""
    ours = "import sys; from rareswitch.cli import main; main(['--help'], standalone_mode=False)"
    told = "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)"
    done = subprocess.run(
        [sys.executable, "-c", f"{ours}; {told}"], capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.split()) - set(sys.stdlib_module_names) - {"__main__"}
    before = subprocess.run(
        [sys.executable, "-c", f"import sys; {told}"], capture_output=True, text=True, check=True
    )
    assert loaded - set(before.stderr.split()) == {"click", "rareswitch"}


def test_the_package_runs_as_a_module():
    command = [sys.executable, "-m", "rareswitch", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"rareswitch, version {rareswitch.__version__}\n"


def test_a_closed_standard_error_is_no_obstacle(tmp_path):
    command = [
        sys.executable,
        "-m",
        "rareswitch",
        "learn",
        "--dim",
        "5",
        "--episodes",
        "30",
        "--json",
    ]
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" 2>&-', "sh", *command], capture_output=True, cwd=tmp_path
    )
    assert done.returncode == 0
    assert json.loads(done.stdout)["episodes"] == 30
