"""`rareswitch plan --scenarios`: files, refusals, and the page that shows it."""

import json
import shutil
import tomllib
from pathlib import Path

import pytest

from cli.terminal import call, refused
from cli.test_campaign_tutorial import blocks, is_printed, steps
from rareswitch.campaigns import Protocol, Study, packed_features
from rareswitch.campaigns.rehearsal.characteristics import (
    Calibration,
    Cell,
    Characteristics,
    Estimate,
)
from rareswitch.cli.plan_scenarios import COLUMNS, calibration, rows, table
from rareswitch.features import Dense, OneHot

ROOT = Path(__file__).parent.parent.parent
STUDY = ROOT / "examples" / "study"
TUTORIALS = ROOT / "docs" / "tutorials"
PROTOCOL = """
name = "small"
[task]
dim = 2
horizon = 1
episodes = 24
[recipe]
exploration = {kind = "ensemble", members = 2}
control = {plays = 0, share = 0.4}
[schedule]
kind = "uniform-grid"
batches = 3
[budget]
deployments = 2
[[stopping]]
rule = "control-superiority"
after = 5
"""
WORLD = """
import numpy as np
from rareswitch.campaigns import OneStep

def arms(seed, gain=0.0):
    return OneStep(lambda rng: (np.eye(2), np.array([0.3, 0.3 + gain])), seed=seed)

def wide(seed):
    return OneStep(lambda rng: (np.eye(3), np.array([0.3, 0.3, 0.3])), seed=seed)

def nothing(seed):
    return 7
"""
HEAD = 'protocol = "protocol.toml"\nrounds = 3\n'
NULL = '[[scenario]]\nname = "null"\nnull = true\nsimulator = "wards:arms"\n'
GAIN = '[[scenario]]\nname = "gain"\nsimulator = "wards:arms"\narguments = {gain = 0.6}\n'
DESIGNS = """
[[design]]
name = "base"
[[design]]
name = "dates"
schedule = {kind = "episode-grid", dates = [1, 7]}
budget = {deployments = 1}
recipe = {control = {share = 0.5}}
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "protocol.toml").write_text(PROTOCOL)
    (tmp_path / "wards.py").write_text(WORLD)
    (tmp_path / "study.toml").write_text(HEAD + NULL + GAIN + DESIGNS)
    return tmp_path


def plan(*more):
    return ("plan", "--scenarios", "study.toml", "--allow", "wards", "--workers", 1, *more)


def test_a_study_is_planned_and_a_design_is_locked(here):
    done = call(*plan("--out", "out", "--calibrate", 0.3))
    assert done.exit_code == 0, done.output
    assert "2 scenarios x 2 designs x 3 rounds: 12 trials" in done.stderr
    lines = done.stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert lines[0] == "null, null"
    assert sum(line.startswith("dates ") for line in lines) == 2
    assert any(line.startswith("dates: control-superiority with confidence") for line in lines)
    assert any(line.startswith("  power at the looks alone in gain ") for line in lines)
    assert "total type I error" not in done.stdout  # three rounds calibrate nothing
    report = json.loads((here / "out" / "characteristics.json").read_text())
    assert {cell["design"] for cell in report["cells"]} == {"base", "dates"}
    assert report["cells"][0]["superiority"]["rounds"] == 3
    assert report["calibration"][0]["power"].keys() == {"gain"}
    agreed = Protocol.from_toml((here / "out" / "protocol-dates.toml").read_text())
    assert (agreed.budget, agreed.recipe.control.share, agreed.name) == (1, 0.5, "small-dates")
    assert (here / "out" / "figure.png").read_bytes().startswith(b"\x89PNG")
    again = call(*plan("--out", "out", "--calibrate", 0.3, "--json"))
    assert json.loads(again.stdout) == report
    assert again.stderr == ""
    init = ("campaign", "init", "--simulation", "out/characteristics.json", "--by", "ana")
    assert call(*init, "out/protocol-dates.toml").exit_code == 0
    other = (here / "out" / "protocol-base.toml").read_text()
    (here / "other.toml").write_text(other.replace("episodes = 24", "episodes = 25"))
    wrong = call(*init, "other.toml", "--store", "sqlite:///other.db")
    assert wrong.exit_code == 1
    assert "all of them differ from it: base, dates" in wrong.stderr
    seed = refused(*plan("--out", "out", "--seed", 9))
    assert "holds trials of other scenarios, designs or code, or of another seed" in seed
    (here / "wards.py").write_text(WORLD.replace("[0.3, 0.3 + gain]", "[0.2, 0.3 + gain]"))
    assert "holds trials of other scenarios" in refused(*plan("--out", "out"))


MAP_WORLD = """
import numpy as np
from rareswitch.campaigns.rehearsal.world import Step

class Silent:
    def begin(self, number):
        return np.eye(2)[:, :2]

    def step(self, place):
        return Step(1.0, None, True)

def silent(seed):
    return Silent()
"""


def test_the_feature_map_is_copied_and_unknown_values_are_explained(here):
    terms, data = packed_features(Dense(OneHot(states=1, actions=2)), ["age"])
    (here / "features.bin").write_bytes(data)
    named = f'[features]\nname = "{terms.name}"\ndigest = "{terms.digest}"\ncolumns = ["age"]\n'
    text = PROTOCOL.replace("horizon = 1", 'horizon = 1\nactions = ["a", "b"]')
    text = text.replace("plays = 0", 'plays = "a"')
    (here / "protocol.toml").write_text(text + named)
    (here / "untold.py").write_text(MAP_WORLD)
    silent = '[[scenario]]\nname = "silent"\nsimulator = "untold:silent"\n'
    (here / "study.toml").write_text(HEAD + silent)
    done = call(*plan("--out", "out", "--allow", "untold"))
    assert done.exit_code == 0, done.output
    assert "\n–        not known in any round: best needs" in done.stdout
    assert (here / "out" / "features.bin").read_bytes() == data
    init = ("campaign", "init", "out/protocol-small.toml", "--by", "ana")
    locked = call(*init, "--simulation", "out/characteristics.json")
    assert locked.exit_code == 0, locked.output


def test_the_world_of_two_visits_on_the_page_can_be_planned_on(here):
    page = (ROOT / "docs" / "switching" / "plan-worlds.md").read_text(encoding="utf-8")
    assert "{literalinclude} ../../examples/study/visits.py" in page
    shutil.copy(STUDY / "visits.py", here)
    sizes = PROTOCOL.replace("dim = 2", "dim = 4").replace("horizon = 1", "horizon = 2")
    (here / "protocol.toml").write_text(sizes)
    helps = '[[scenario]]\nname = "helps"\nsimulator = "visits:trial"\n'
    none = helps.replace("helps", "none")
    (here / "study.toml").write_text(
        f"{HEAD}{none}null = true\n{helps}arguments = {{effect = 0.5}}"
    )
    done = call(*plan("--json", "--allow", "visits"))
    assert done.exit_code == 0, done.output
    none, helps = (cell["mean_return"]["value"] for cell in json.loads(done.stdout)["cells"])
    assert 0.4 < none < helps < 0.9


def test_too_few_claims_write_no_calibrated_protocol(here):
    done = call(*plan("--out", "few", "--calibrate", 0.1))
    words = " ".join(done.stdout.split())
    assert "no calibrated protocol: 0 of 3 null rounds have a claim, and it needs 5, so" in words
    assert "about 50 --rounds" in words
    assert {path.name for path in (here / "few").glob("*.toml")} == {
        "protocol-base.toml", "protocol-dates.toml",
    }  # fmt: skip


def test_the_base_protocol_is_the_only_design_of_a_file_without_designs(here):
    text = HEAD + '[[scenario]]\nname = "drawn"\ninstance = "tabular"\n'
    text += "arguments = {states = 1, actions = 2}\ncircumstances = {missing = 0.5}\n"
    (here / "study.toml").write_text(text)
    report = json.loads(call(*plan("--json")).stdout)
    (cell,) = report["cells"]
    assert (cell["scenario"], cell["design"], cell["null"]) == ("drawn", "small", False)
    assert cell["recorded"]["value"] < 20 < cell["begun"]["value"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NULL, "protocol must be the path of a protocol; got None"),
        ('protocol = "no.toml"\n' + NULL, "protocol no.toml cannot be read"),
        (HEAD, "a study needs a [[scenario]]"),
        (HEAD + "speed = 1\n" + NULL, "study.toml has no key 'speed'; it takes protocol"),
        (HEAD.replace("3", "1") + NULL, "rounds must be from 2 to 100000; got 1"),
        (HEAD + "[circumstances]\ncrashes = 0.1\n" + NULL, "[circumstances] has no key 'crashes'"),
        (HEAD + "[circumstances]\nmissing = 2\n" + NULL, "[circumstances] missing must be"),
        (HEAD + NULL + NULL, "[[scenario]] names must differ; got 'null' twice"),
        (HEAD + '[[scenario]]\nname = "x"\n', "[[scenario]] 'x' exactly one of simulator,"),
        (HEAD + NULL + 'env = "X-v0"\n', "got simulator and env"),
        (HEAD + NULL + "arguments = 3\n", "[[scenario]] 'null' arguments must be a table; got 3"),
        (HEAD + NULL + "arguments = {odd = 1}\n", "[[scenario]] 'null', design 'small': "),
        (HEAD + NULL.replace("arms", "wide"), "world must offer rows of the protocol's task"),
        (HEAD + NULL.replace("arms", "nothing"), "wards:nothing must return a world"),
        (HEAD + NULL.replace("wards:", "os:"), "the module os, which is not allowed"),
        (HEAD + NULL + "[[design]]\n", "[[design]], number 1 name must be a text; got None"),
        (HEAD + NULL + '[[design]]\nname = "d"\nbudjet = 1\n', "[[design]], number 1 has no key"),
        (
            HEAD + NULL + '[[design]]\nname = "d"\nbudget = {deployments = -1}\n',
            "[[design]] 'd' [budget] deployments must be at least 0; got -1",
        ),
    ],
)
def test_an_error_in_the_file_names_its_table_and_key(here, text, message):
    (here / "study.toml").write_text(text)
    assert message in refused(*plan())


def test_options_of_the_two_ways_to_plan_exclude_each_other(here):
    assert "Missing option '--episodes'" in refused("plan", "--dim", 2, "--horizon", 1)
    assert "--scenarios and --switches exclude each other" in refused(*plan("--switches", 3))
    assert "--calibrate needs --scenarios" in refused("plan", "--episodes", 9, "--calibrate", 0.1)
    assert "null = true" in refused(*_without_null(here), "--calibrate", 0.1)
    assert "--workers and --cluster exclude each other" in refused(*plan("--cluster", "local:1"))


def _without_null(here):
    (here / "study.toml").write_text(HEAD + GAIN)
    return plan()


@pytest.mark.parametrize(("claims", "known"), [(4, False), (5, True)])
def test_the_total_error_is_told_of_a_calibrated_protocol_only(claims, known):
    share = Estimate(claims / 200, 0.01, 0.06, 200)
    made = Calibration(
        design="base", asked=0.02, declared=0.9, confidence=share, error=share, power={}
    )
    lines = calibration(made, 0.025)
    total = "  total type I error: 2.0% at the looks plus 2.5% at the end, 4.5% together"
    assert (total in lines) is known
    assert any("no calibrated protocol" in line for line in lines) is not known


def test_nothing_that_the_file_names_runs_before_it_is_allowed(here):
    (here / "wards.py").write_text("raise SystemExit('imported')\n")
    message = refused("plan", "--scenarios", "study.toml")
    assert "allow it by name: --allow wards" in message


def test_a_world_of_your_own_is_rehearsed(here):
    simulate = ("campaign", "simulate", "protocol.toml", "--simulator", "wards:arms")
    done = call(*simulate, "--simulator-arg", "gain=0.6", "--accrual", 2, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["begun"] > 5
    assert "--simulator-arg must be NAME=VALUE" in refused(*simulate, "--simulator-arg", "gain")
    both = refused(*simulate, "--instance", "tabular")
    assert "--instance and --simulator exclude each other" in both


def test_the_page_prints_what_the_command_prints(tmp_path, monkeypatch):
    shutil.copytree(STUDY, tmp_path / "study")
    monkeypatch.chdir(tmp_path / "study")
    page = (ROOT / "docs" / "switching" / "plan-worlds.md").read_text(encoding="utf-8")
    section = page[page.index("## Operating characteristics") :].split("\n## ")[0]
    (console,) = [text for name, text in blocks(section) if not name]
    ((command, said),) = steps(console)
    done = call(*command.split()[1:])
    assert done.exit_code == 0, done.output
    assert is_printed(said, done.stdout), done.stdout
    shown = tomllib.loads(section[section.index("```toml") + 8 :].split("```")[0])
    assert shown.keys() == tomllib.loads(Path("scenarios.toml").read_text()).keys()


def estimates(table):
    return {name: one and Estimate(**one) for name, one in table.items()}


def test_the_page_of_a_study_shows_the_report_that_is_kept_with_it():
    """The report is of today's example, and the page has its rows."""
    report = json.loads((TUTORIALS / "study-characteristics.json").read_text())
    study = Study.read(STUDY / "scenarios.toml", allow=("world",))
    assert study.digest == report["study"]
    page = (TUTORIALS / "design-a-study.md").read_text(encoding="utf-8")
    cells, calibrations = [], []
    for told in report["cells"]:
        known = {name: told.pop(name) for name in ("scenario", "null", "design")}
        cells.append(Cell(**known, values=estimates(told)))
    for told in report["calibration"]:
        known = estimates({name: told[name] for name in ("confidence", "error")})
        known |= {name: told[name] for name in ("design", "asked", "declared")}
        calibrations.append(Calibration(**known, power=estimates(told["power"])))
    found = Characteristics(study=study, cells=tuple(cells), calibrations=tuple(calibrations))
    lines = table(found)
    assert max(map(len, lines)) <= 100
    assert "\n".join(line.rstrip() for line in lines) in page


def test_the_table_has_both_ends_of_an_interval():
    """Half of an interval around 1 claim of 150 would promise errors below 0."""
    values = dict.fromkeys((name for _, name, _ in COLUMNS))
    values |= {"superiority": Estimate.of_share(1, 150), "bias": Estimate(0.0, -0.00004, 0.02, 9)}
    cell = Cell(scenario="null", null=True, design="small", values=values)
    assert [line.split()[:2] for line in rows(cell)] == [
        ["small", "0.7%"], ["from", "0.1%"], ["to", "3.7%"],
    ]  # fmt: skip
    assert rows(cell)[1].endswith(" 0.000")


def test_the_planned_error_is_a_sum_and_instant_signatures_are_noted(here):
    (here / "study.toml").write_text(HEAD + NULL)
    shown = call(*plan("--rounds", 2)).stdout
    planned = "small: error of a claim: 0.025 at the looks plus 0.025 at the end, 0.05 together\n"
    assert planned in shown
    assert "sign at once" not in shown
    signed = PROTOCOL + '[approval]\nby = "second-person"\n'
    (here / "protocol.toml").write_text(signed)
    assert "note: second persons sign at once; [circumstances] signing" in call(*plan()).stdout
    (here / "study.toml").write_text(HEAD + "[circumstances]\nsigning = 3\n" + NULL)
    assert "sign at once" not in call(*plan()).stdout
    (here / "protocol.toml").write_text(PROTOCOL.partition("[[stopping]]")[0])
    assert "error of a claim" not in call(*plan()).stdout
