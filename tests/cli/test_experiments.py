import json
import subprocess
import sys
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager

import numpy as np
import pytest

from cli.terminal import call, refused
from experiments.miniature import ALL, EVERY, GRID, RANDOM, SMALLER, Inline, experiment, toml
from rareswitch.compute import local
from rareswitch.compute.dask import ClusterError
from rareswitch.experiments import PAPER, load
from rareswitch.experiments import run as running
from rareswitch.experiments.results import load_results
from rareswitch.support import drawing, extras
from rareswitch.support.streams import Stream, generator

real_pool = local.local_pool
VERDICTS = {"holds", "does not hold", "undecided"}


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """Work in an empty folder and compute in this process; the pools used are returned."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(drawing, "FORMATS", ("svg",))
    return tmp_path


@pytest.fixture(autouse=True)
def pools(monkeypatch):
    used = []

    @contextmanager
    def inline(workers):
        used.append((workers, executor := Inline()))
        yield executor

    monkeypatch.setattr(local, "local_pool", inline)
    return used


@pytest.fixture
def small(monkeypatch):
    """Make the paper's experiments small."""
    texts = load.paper_specs()
    for large, little in SMALLER.items():
        texts = {name: text.replace(large, little) for name, text in texts.items()}
    monkeypatch.setattr(load, "paper_specs", lambda: texts)


@pytest.fixture
def mine(here):
    path = here / "my.toml"
    path.write_text(toml(), encoding="utf-8")
    return path


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_run_prints_every_arm_and_writes_the_results(here, mine):
    result = call("run", mine)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    runs = load_results(here / "results" / "mini")
    assert runs.experiment == experiment()
    assert len(lines) == len(runs.arms) + 1
    for i, (line, arm) in enumerate(zip(lines, runs.arms, strict=False)):
        mean, low, high = (float(part[0]) for part in runs.means([i]))
        assert line.startswith(arm.label)
        assert f"regret {mean:.4f} [{low:.4f}, {high:.4f}], " in line
        if arm.name == "lsvi-ucb":
            assert "against" not in line
        else:
            drawn = bootstrap_of_the_difference(runs, i, 0)
            assert "{:+.4f} [{:+.4f}, {:+.4f}] against LSVI-UCB, ".format(*drawn) in line
        assert line.endswith(f", {runs.switches[i].mean():.1f} switches")
    assert lines[-1].split() == ["results", "results/mini"]
    assert "fewer than 20 rounds are too narrow; these are of 3" in result.stderr


def test_one_round_has_no_interval(here, mine):
    lines = call("run", mine, "--rounds", 1).stdout.splitlines()
    assert all(" [–], " in line for line in lines[:-1])
    assert sum("[–] against LSVI-UCB" in line for line in lines) == len(lines) - 2


def bootstrap_of_the_difference(runs, arm, baseline):
    """Return the mean of the paired differences with its 95% interval, by resampling rounds."""
    difference = runs.final[arm] - runs.final[baseline]
    rounds = generator(runs.experiment.seed, Stream.BOOTSTRAP).integers(0, 3, (2000, 3))
    low, high = np.percentile(difference[rounds].mean(axis=1), [2.5, 97.5])
    return difference.mean(), low, high


def test_run_as_json_holds_the_figures_of_every_arm(here, mine):
    result = call("run", mine, "--json", "--out", "out")
    data = json.loads(result.stdout)
    assert result.stderr == ""
    runs = load_results(here / "out" / "mini")
    assert data == {
        "out": "out",
        "experiments": {
            "mini": {
                "digest": experiment().digest,
                "baseline": "lsvi-ucb",
                "arms": {
                    arm.name: {
                        "final_average_regret": pytest.approx(runs.final[i].mean()),
                        "interval": pytest.approx([ends[0] for ends in runs.means([i])[1:]]),
                        "difference": pytest.approx(bootstrap_of_the_difference(runs, i, 0))
                        if i
                        else None,
                        "switches": pytest.approx(runs.switches[i].mean()),
                    }
                    for i, arm in enumerate(runs.arms)
                },
            }
        },
    }


def test_scale_options_replace_those_of_the_spec(here, mine, pools):
    options = ("--rounds", 2, "--episodes", 9, "--seed", 5, "--workers", 3)
    assert call("run", mine, *options).exit_code == 0
    assert load_results(here / "results" / "mini").experiment == experiment(
        rounds=2, episodes=9, seed=5
    )
    assert pools[0][0] == 3


def test_results_of_another_scale_are_replaced_with_a_note(here, mine):
    assert "held" not in call("run", mine).stderr
    assert "held" not in call("run", mine).stderr
    said = call("run", mine, "--rounds", 1).stderr
    assert "note: results/mini held 3 rounds of 24 episodes with seed 0, and now holds" in said
    assert "are kept in results/pieces, so the earlier command restores it" in said
    assert "1 rounds of 24 episodes" in call("run", mine).stderr


def test_the_same_command_again_computes_nothing_and_changes_nothing(here, mine, pools):
    call("run", mine)
    before = contents(here / "results" / "mini")
    call("run", mine)
    assert len(pools[0][1].submitted) == 6
    assert pools[1][1].submitted == []
    assert contents(here / "results" / "mini") == before


@pytest.mark.parametrize(
    ("option", "value"),
    [("--rounds", 0), ("--episodes", 0), ("--seed", -1), ("--workers", 0), ("--rounds", "x")],
)
@pytest.mark.parametrize("command", ["run", "reproduce"])
def test_a_bad_scale_is_refused_by_name(here, mine, command, option, value):
    target = mine if command == "run" else "figure1"
    assert option in refused(command, target, option, value)
    assert not (here / "results").exists()


def test_a_bad_spec_is_refused_with_file_and_key_before_anything_is_written(here, mine):
    mine.write_text(toml(rounds=0), encoding="utf-8")
    message = refused("run", mine)
    assert f"{mine}: rounds must be from 1 to 100000; got 0" in " ".join(message.split())
    mine.write_text(toml(), encoding="utf-8")
    assert "batches must be from 1 to 5" in refused("run", mine, "--episodes", 5)
    assert [path.name for path in here.iterdir()] == ["my.toml"]


def test_a_spec_that_cannot_be_read_is_named(here):
    assert "absent.toml: cannot be read" in refused("run", "absent.toml")
    (here / "picture.toml").write_bytes(b"\xff\xd8")
    assert "picture.toml: cannot be read" in refused("run", "picture.toml")
    assert "cannot be read" in refused("run", here)


@pytest.mark.parametrize("command", ["run", "reproduce"])
def test_a_folder_of_something_else_is_refused_and_left_alone(here, mine, small, command):
    foreign = here / "thesis"
    foreign.mkdir()
    (foreign / "chapter1.txt").write_text("words")
    target = mine if command == "run" else "switches"
    message = refused(command, target, "--episodes", 60, "--rounds", 1, "--out", foreign)
    assert "thesis exists and is not a results folder of rareswitch" in message
    assert contents(foreign) == {"chapter1.txt": b"words"}


def test_a_folder_that_cannot_be_made_is_refused(here, mine):
    message = refused("run", mine, "--out", mine / "below")
    assert "cannot be written to" in message
    assert str(mine / "below") in message


def test_a_damaged_piece_is_refused_by_name(here, mine):
    call("run", mine)
    piece = next((here / "results" / "pieces").glob("*.npz"))
    piece.write_bytes(b"damaged")
    message = "".join(refused("run", mine).split())
    assert f"{piece.name}isnotareadableresultfile" in message


def test_reproduce_runs_the_named_experiments_and_checks_their_claims(here, small):
    options = ("--quick", "--episodes", 50)
    result = call("reproduce", "switches", "figure3", *options)
    assert result.exit_code == 0, result.output
    out = here / "results-quick"
    folders = {path.name for path in out.iterdir() if path.is_dir()}
    assert folders == {"pieces", "switches", "figure3"}
    assert load_results(out / "switches").experiment.rounds == 3
    assert "note: intervals of fewer than 20 rounds are too narrow; these are of 3" in result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    for line, name in zip(lines, ["graceful-under", "switches-within-bound"], strict=False):
        assert name in line
        assert line[:14].strip() in VERDICTS
    assert lines[-1].split() == ["report", "results-quick/report.html"]
    page = (out / "report.html").read_text()
    assert "rareswitch reproduce switches figure3 --quick --episodes 50" in page
    assert "intervals of fewer than 20 rounds are too narrow; these are of 3." in page


def test_reproduce_as_json_gives_claims_with_verdicts(here, small):
    result = call("reproduce", "lower-bound", "--rounds", 1, "--episodes", 36, "--json")
    assert result.stderr == ""
    data = json.loads(result.stdout)
    assert set(data) == {"out", "experiments", "claims"}
    assert data["out"] == "results"
    assert list(data["experiments"]) == ["lower-bound"]
    (claim,) = data["claims"]
    assert set(claim) == {"name", "verdict", "evidence"}
    assert (claim["name"], claim["verdict"]) == ("lower-bound-forced", "holds")


def test_reproduce_at_the_paper_s_size_of_the_world(here):
    options = ("--rounds", 1, "--episodes", 50, "--out", "out", "--json")
    data = json.loads(call("reproduce", "switches", *options).stdout)
    assert len(data["experiments"]["switches"]["arms"]) == 11
    arms = load_results(here / "out" / "switches").experiment.arms
    assert {(arm.world.d, arm.world.horizon) for arm in arms} == {(13, 10)}


def test_reproduce_runs_everything_by_default(monkeypatch):
    asked = []

    def record(specs, *rest, **named):
        asked.extend(each.name for each in specs)
        return {}, []

    monkeypatch.setattr(running, "reproduce", record)
    assert call("reproduce", "--json").exit_code == 0
    assert asked == list(PAPER)


def test_reproduce_refuses_unknown_names_and_too_few_episodes(here):
    assert "got figure9" in refused("reproduce", "figure1", "figure9")
    message = refused("reproduce", "figure1", "--episodes", 20)
    assert "figure1.toml" in message
    assert "batches must be from 1 to 20" in message
    assert list(here.iterdir()) == []


def test_plot_draws_again_without_running_anything(here, mine, monkeypatch):
    mine.write_text(toml(arms=EVERY + RANDOM), encoding="utf-8")
    call("run", mine)
    picture = here / "results" / "mini" / "figure.svg"
    before = picture.read_bytes()
    picture.unlink()

    def refuse(*_):
        raise AssertionError("nothing may be computed")

    monkeypatch.setattr(running, "compute", refuse)
    result = call("plot", "results/mini")
    assert result.exit_code == 0
    assert "results/mini/figure.png" in result.stdout
    assert picture.read_bytes() == before


def test_plot_refuses_a_folder_without_results(here):
    assert "holds no results" in refused("plot", here)
    assert "holds no results" in refused("plot", "absent")
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("command", ["reproduce", "run", "plot"])
@pytest.mark.parametrize("library", ["matplotlib", "jinja2"])
def test_a_missing_library_is_named_with_what_to_install(mine, monkeypatch, command, library):
    find = extras.find_spec
    monkeypatch.setattr(
        extras,
        "find_spec",
        lambda name, *rest: None if name == library else find(name, *rest),
    )
    result = call(command, *([] if command == "reproduce" else [mine]))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert library in result.stderr
    assert "pip install '.[experiments]'" in result.stderr


def test_a_cluster_has_its_own_workers_and_needs_its_own_library(mine, monkeypatch):
    assert "--workers" in refused("run", mine, "--cluster", "local:2", "--workers", 2)
    find = extras.find_spec
    monkeypatch.setattr(
        extras,
        "find_spec",
        lambda name, *rest: None if name == "distributed" else find(name, *rest),
    )
    result = call("run", mine, "--cluster", "local:2")
    assert result.exit_code == 1
    assert "distributed" in result.stderr
    assert "pip install '.[cluster]'" in result.stderr


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (BrokenExecutor("A process was\nterminated abruptly"), "A process was terminated abruptly"),
        (ClusterError("worker tcp://x died"), "worker tcp://x died"),
        (OSError(28, "No space left on device"), "[Errno 28] No space left on device"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_machine_that_fails_is_one_line_that_says_what_is_kept(mine, monkeypatch, error, words):
    class Failing(Inline):
        def submit(self, fn, /, *args, **kwargs):
            if self.submitted:
                future = Future()
                future.set_exception(error)
                return future
            return super().submit(fn, *args, **kwargs)

    @contextmanager
    def failing(workers):
        yield Failing()

    monkeypatch.setattr(local, "local_pool", failing)
    result = call("run", mine)
    assert result.exit_code == 1
    assert result.stdout == ""
    message = " ".join(result.stderr.split())
    assert message.startswith(f"Error: {words}; ")
    assert " of 6 pieces are kept in results; the same command continues" in message


def test_a_disk_that_is_full_is_one_line_when_plotting(mine, monkeypatch):
    call("run", mine)

    def full(figure, folder):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(drawing, "save_figure", full)
    result = call("plot", "results/mini")
    assert result.exit_code == 1
    assert "results/mini cannot be written to (No space left on device)" in result.stderr


def test_a_namesake_of_the_paper_does_not_replace_its_results(here, small):
    call("reproduce", "lower-bound", "--rounds", 1, "--episodes", 36)
    other = here / "other.toml"
    text = load.paper_specs()["lower-bound"].replace("episodes = 2160", "episodes = 40")
    other.write_text(text.replace("[18, 36]", "20"), encoding="utf-8")
    message = " ".join(refused("run", other).split())
    assert "choose another name or another --out" in message
    assert call("run", other, "--out", "mine").exit_code == 0


def test_help_loads_neither_numpy_nor_matplotlib():
    code = (
        "import sys, click\n"
        "from rareswitch.cli import experiments\n"
        "for command in (experiments.reproduce, experiments.run, experiments.plot):\n"
        "    command.get_help(click.Context(command))\n"
        "loaded = {'numpy', 'matplotlib'} & sys.modules.keys()\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_ctrl_c_says_what_is_kept_and_the_same_command_goes_on(here, mine, pools, monkeypatch):
    mine.write_text(toml(arms=ALL, rounds=12), encoding="utf-8")

    class Interrupted(Inline):
        def submit(self, fn, /, *args, **kwargs):
            if len(self.submitted) == 2:
                raise KeyboardInterrupt
            return super().submit(fn, *args, **kwargs)

    @contextmanager
    def interrupted(workers):
        yield Interrupted()

    inline = local.local_pool
    monkeypatch.setattr(local, "local_pool", interrupted)
    result = call("run", mine)
    assert result.exit_code == 130
    assert "interrupted: 0 of 12 pieces are kept in results" in result.stderr
    monkeypatch.setattr(local, "local_pool", inline)
    assert call("run", mine).exit_code == 0
    assert np.isfinite(load_results(here / "results" / "mini").regret).all()


def test_results_of_different_specs_share_a_folder(here, mine):
    call("run", mine)
    other = here / "other.toml"
    other.write_text(toml(name="other", arms=GRID), encoding="utf-8")
    call("run", other)
    one, two = (load_results(here / "results" / name) for name in ("mini", "other"))
    np.testing.assert_array_equal(one.regret[1:3], two.regret)


def test_the_help_of_reproduce_lists_every_experiment():
    words = {word.strip(".;,") for word in call("reproduce", "--help").output.split()}
    assert set(PAPER) <= words
    said = " ".join(call("reproduce", "--help").output.split())
    assert "Those of the paper are figure1 figure2 figure3; lower-bound switches bounds" in said


LAKE = """
[world]
kind = "gymnasium"
env = "FrozenLake-v1"
horizon = 4
"""
LAKE_ARM = """
[[arms]]
name = "grid"
schedule = { kind = "uniform-grid", switches = 2 }
"""


def test_returns_are_called_returns(tmp_path):
    spec = tmp_path / "lake.toml"
    text = toml(world=LAKE, arms=LAKE_ARM, defaults="", episodes=10, rounds=2)
    spec.write_text(text, encoding="utf-8")
    options = ("run", spec, "--out", tmp_path / "out", "--workers", 1)
    shown = call(*options).stdout
    runs = load_results(tmp_path / "out" / "mini")
    assert shown.startswith("grid ")
    assert f" return {runs.final.mean():.4f} [" in shown
    assert "], 2.0 switches" in shown
    assert "regret" not in shown
    (arm,) = json.loads(call(*options, "--json").stdout)["experiments"]["mini"]["arms"].values()
    _, low, high = runs.means([0])
    assert arm == {
        "final_average_return": runs.final.mean(),
        "interval": [low[0], high[0]],
        "difference": None,
        "switches": 2.0,
    }


OWN_RULES = """
class Halving:
    def __init__(self, every):
        self.least = every // 2

    def due(self, clock):
        return clock.episode - clock.deployed_at >= self.least


class Faulty:
    def due(self, clock):
        return 1 / (clock.episode - 5) > 0
"""
DUE = "class Halving:\n    def due(self, clock): ...\n"
OWN_ARM = """
[[arms]]
name = "mine"
schedule = { kind = "rules_beside_the_spec:Halving", every = 14 }
"""


@pytest.fixture
def beside(here):
    """Write a spec and, beside it in another folder than the current one, rules of its own."""
    folder = here / "study"
    folder.mkdir()
    (folder / "rules_beside_the_spec.py").write_text(OWN_RULES, encoding="utf-8")
    (folder / "my.toml").write_text(toml(arms=EVERY + OWN_ARM), encoding="utf-8")
    yield folder
    sys.modules.pop("rules_beside_the_spec", None)


def test_a_rule_is_found_beside_the_spec_here_and_in_workers(beside, here, monkeypatch):
    monkeypatch.setattr(local, "local_pool", real_pool)
    before = list(sys.path)
    result = call("run", "study/my.toml", "--workers", 1, "--allow", "rules_beside_the_spec")
    assert result.exit_code == 0, result.output
    assert sys.path == before
    runs = load_results(here / "results" / "mini")
    dates = np.arange(24) % 7 == 0
    assert (runs.deployed[1] == dates).all()
    drawn = (here / "results" / "mini" / "figure.svg").read_bytes()
    (beside / "rules_beside_the_spec.py").unlink()
    assert call("plot", "results/mini").exit_code == 0
    assert (here / "results" / "mini" / "figure.svg").read_bytes() == drawn


def test_an_error_in_a_rule_is_a_few_lines_with_arm_rule_file_and_line(beside, monkeypatch):
    monkeypatch.setattr(local, "local_pool", real_pool)
    text = toml(arms=EVERY + OWN_ARM.replace('Halving", every = 14', 'Faulty"'))
    (beside / "my.toml").write_text(text, encoding="utf-8")
    result = call("run", "study/my.toml", "--workers", 1, "--allow", "rules_beside_the_spec")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("Error"))
    assert lines[first:] == [
        "Error: arm 'mine': rules_beside_the_spec:Faulty raised ZeroDivisionError: "
        "division by zero",
        f"  {beside / 'rules_beside_the_spec.py'}, line 12, in due: "
        "return 1 / (clock.episode - 5) > 0",
        lines[-1],
    ]
    assert " of 2 pieces are kept in results; the same command continues" in lines[-1]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("stays_due = True\n    def due(self, clock):\n        return clock.episode % 5 == 0",
         "Halving has stays_due = True, but it was due before episode 5 and, without a switch, not "
         "before episode 6"),
        ("def due(self, clock):\n        return 'yes'",
         "Halving.due must return a bool; it returned 'yes' before episode 2"),
        ("def due(self, clock):\n        return clock.growth > 1.0",
         "Halving.due must return a bool; it returned array([False, False, False]) before episode"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "learn", "plan"])
def test_a_faulty_rule_is_refused_before_anything_runs(beside, here, command, code, words):
    rule = f"class Halving:\n    def __init__(self, every=14):\n        pass\n\n    {code}\n"
    (beside / "rules_beside_the_spec.py").write_text(rule, encoding="utf-8")
    (here / "rules_beside_the_spec.py").write_text(rule, encoding="utf-8")
    small = ("--episodes", 40, "--horizon", 3, "--dim", 5)
    told = refused(*{
        "run": ("run", "study/my.toml", "--allow", "rules_beside_the_spec"),
        "learn": ("learn", *small, "--schedule", "rules_beside_the_spec:Halving"),
        "plan": ("plan", *small, "--switches", 3, "--candidate", "rules_beside_the_spec:Halving"),
    }[command])  # fmt: skip
    assert words in told
    assert ("arm 'mine'" if command == "run" else "rules_beside_the_spec:Halving: ") in told
    assert not (here / "results").exists()


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (f"{DUE}    def __init__(self, every):\n        {{}}[every]\n", "KeyError: 14"),
        ("import nothing_of_the_kind\n", "No module named 'nothing_of_the_kind'"),
        ("class Halving(:\n", "SyntaxError: invalid syntax"),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_rule_that_cannot_be_made_is_named_before_anything_runs(beside, here, code, words):
    (beside / "rules_beside_the_spec.py").write_text(code, encoding="utf-8")
    message = refused("run", "study/my.toml", "--allow", "rules_beside_the_spec")
    assert "study/my.toml: arm 'mine': " in message
    assert words in message
    assert "rules_beside_the_spec" in message
    assert len(message.splitlines()) < 8
    assert not (here / "results").exists()
