"""A plan writes the protocol of its recommendation, which a campaign can be begun with."""

import hashlib
import json
import tomllib

import pytest

import rareswitch as rs
from cli.terminal import call
from rareswitch.campaigns import Campaign, Intake, Protocol, open_store

SIZES = ("plan", "--episodes", 100, "--horizon", 3, "--dim", 2)
OWN = """
from dataclasses import dataclass


@dataclass(frozen=True)
class EveryTenth:
    shift: int = 0

    def due(self, clock):
        return clock.episode % 10 == self.shift

    def deployment_limit(self, task, ridge):
        return 10


class Opaque:
    def __init__(self, odd=True):
        self.odd = odd

    def due(self, clock):
        return clock.episode == 50

    def deployment_limit(self, task, ridge):
        return 1
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rareswitch.support.drawing.FORMATS", ("svg",))
    return tmp_path


def planned(folder, *arguments):
    result = call(*arguments, "--out", folder)
    assert result.exit_code == 0, result.output
    text = (folder / "protocol.toml").read_text(encoding="utf-8")
    return Protocol.from_toml(text, allow=["tenths"]), text


def test_the_protocol_is_the_recommendation_with_the_digest_of_its_report(here):
    protocol, text = planned(here / "dose finding", *SIZES, "--switches", 7, "--ridge", 0.5)
    made = rs.plan(rs.Task(episodes=100, horizon=3, dim=2), switches=7, ridge=0.5)
    assert protocol.name == "dose-finding"
    assert protocol.task == made.task
    assert protocol.schedule == made.recommended.candidate.schedule
    assert protocol.recipe.exploration == made.exploration
    assert protocol.recipe.ridge == 0.5
    assert protocol.budget == 7
    assert protocol.intake == Intake()
    report = (here / "dose finding" / "plan.json").read_bytes()
    assert protocol.simulation == hashlib.sha256(report).hexdigest()
    assert text.startswith("# A protocol for `rareswitch campaign`")
    assert Protocol.from_toml(protocol.to_toml()) == protocol
    assert tomllib.loads(text) == protocol.plain


def test_its_comments_stay_true_when_it_is_edited(here):
    _, text = planned(here / "trial", *SIZES, "--switches", 7)
    comments = [line for line in text.splitlines() if line.startswith("#")]
    settings = [line for line in text.splitlines() if " = " in line and line not in comments]
    assert 'by = "schedule"' in settings
    for setting in settings:  # an editor that replaces it changes no comment
        assert not any(setting in comment for comment in comments)
    for word in ("signers", "concealed", "columns", "--feature-map", "--simulation"):
        assert any(word in comment for comment in comments), word
    edited = text.replace('by = "schedule"', 'by = "second-person"')
    edited = edited.replace("assigned = false", "assigned = true")
    assert [line for line in edited.splitlines() if line.startswith("#")] == comments
    (here / "edited.toml").write_text(edited, encoding="utf-8")
    assert call("campaign", "protocol", "validate", "edited.toml").exit_code == 0


def test_a_campaign_begins_with_both(here):
    protocol, _ = planned(here / "trial", *SIZES, "--switches", 7)
    report = (here / "trial" / "plan.json").read_bytes()
    with open_store(here / "store.db", create=True) as store:
        campaign = Campaign.create(store, protocol, by="ana", simulation=report)
        assert campaign.protocol == protocol
    done = call(
        "campaign", "init", "trial/protocol.toml", "--simulation", "trial/plan.json",
        "--by", "ana", "--store", "sqlite:///again.db", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["protocol"] == protocol.digest


def test_without_a_budget_it_is_what_the_rule_promises(here):
    (here / "less.py").write_text(
        "from rareswitch.sim.outcome import Outcome\n\n\n"
        "def play(task, schedule, recipe, seeds):\n"
        "    left = 0.0 if getattr(schedule, 'batches', 0) == 11 else 9.0\n"
        "    return [Outcome(regret=left, deployments=11, switches=1) for _ in seeds]\n"
    )
    protocol, _ = planned(here / "aim", *SIZES, "--price", 0.01, "--simulator", "less:play")
    recommended = json.loads((here / "aim" / "plan.json").read_text())["recommended"]
    assert protocol.budget == int(recommended.rpartition("at most ")[2]) > 1


def test_a_rule_of_your_own_goes_into_it_by_its_name(here):
    (here / "tenths.py").write_text(OWN)
    arguments = (*SIZES, "--switches", 12, "--simulator", "worst:play", "--rounds", 2)
    (here / "worst.py").write_text(
        "from rareswitch.sim.outcome import Outcome\n\n\n"
        "def play(task, schedule, recipe, seeds):\n"
        "    regret = 1.0 if type(schedule).__name__ in ('EveryTenth', 'Opaque') else 90.0\n"
        "    return [Outcome(regret=regret, deployments=2, switches=1) for _ in seeds]\n"
    )
    protocol, text = planned(here / "own", *arguments, "--candidate", "tenths:EveryTenth,shift=3")
    assert 'kind = "tenths:EveryTenth"' in text
    assert protocol.schedule.shift == 3
    opaque = call(*arguments, "--candidate", "tenths:Opaque,odd=false", "--out", here / "opaque")
    assert opaque.exit_code == 0
    assert "no protocol.toml is written: a rule of your own must be a dataclass" in opaque.stderr
    assert not (here / "opaque" / "protocol.toml").exists()
    assert (here / "opaque" / "plan.json").exists()


def test_where_the_extra_is_missing_the_rest_is_written_and_one_line_says_so(here, monkeypatch):
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    result = call(*SIZES, "--switches", 7, "--out", "plan")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("no protocol.toml is written: sqlalchemy")
    assert line.endswith("pip install '.[campaigns]' in a checkout of rareswitch")
    assert [path.name for path in (here / "plan").iterdir()] == ["plan.json"]


def test_an_environment_tells_its_features_and_the_worth_of_an_early_end(here):
    protocol, _ = planned(
        here / "lake", "plan", "--episodes", 40, "--env", "FrozenLake-v1", "--switches", 3,
        "--horizon", 8, "--rounds", 2, "--workers", 1, "--beta", 1, "--rewards", -1, 1,
    )  # fmt: skip
    assert protocol.task.one_hot
    assert protocol.task.end_reward == 0.5
    assert protocol.task.stages == "auto"
    assert protocol.features.name
    assert len(protocol.features.digest) == 64
