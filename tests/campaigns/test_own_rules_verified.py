"""Schedules of the user's own: proven by the library, and named by the verifier of one file."""

import json
import subprocess
import sys
from dataclasses import dataclass

import pytest

import rareswitch as rs
from forgery import Forgery, amend
from rareswitch.campaigns import Protocol
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.proof.export import export_campaign
from rareswitch.campaigns.proof.verify_export import verify
from rareswitch.core.clock import Trigger
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from small_export import opened, play, protocol_of
from two_proofs import of_store

K = 48
SIGNED = {"actor": "ana", "reason": "final report"}


@dataclass(frozen=True)
class Weekly:
    """A rule of the user's own that does not tell what it watches."""

    days: int = 9

    def due(self, clock):
        return clock.episode % self.days == 0


@dataclass(frozen=True)
class Certain:
    """A rule of the user's own that tells what it watches, in its own words."""

    least: float = 2.5

    def due(self, clock):
        return bool(clock.growth.min() >= self.least)

    def triggers(self, clock):
        return (Trigger("smallest growth", float(clock.growth.min()), self.least, self.due(clock)),)


OWN = {
    "silent": Weekly(),
    "telling": Certain(),
    "capped": rs.rules.Capped(Weekly(days=5), switches=2),
    "capped twice": rs.rules.Capped(rs.rules.Capped(Certain(), switches=3), switches=2),
}


@pytest.fixture(autouse=True)
def quickly(monkeypatch):
    """Leave out the pictures, which take most of the time."""
    monkeypatch.setattr(export_module, "page", lambda *_: "")


def played(folder, schedule, **changes):
    """Return the folder of the export of a campaign that the library has proven."""
    task = Task(dim=3, horizon=2, episodes=K)
    given = {"task": task, "budget": 10, "stopping": (), "schedule": schedule} | changes
    campaign = opened(folder / "store.db", protocol_of(**given))
    play(campaign, K - 2)
    assert len(campaign.state.candidates) >= 2
    assert of_store(campaign) == []
    export_campaign(campaign, folder / "out", **SIGNED)
    campaign.store.close()
    return folder / "out"


def problems(folder):
    return {check.name: check.wrong for check in verify(folder) if check.wrong}


def unchecked(folder):
    return {check.name: check.unchecked for check in verify(folder) if check.unchecked}


@pytest.mark.parametrize("name", OWN)
def test_what_is_not_checked_is_said(tmp_path, name):
    folder = played(tmp_path, OWN[name])
    assert problems(folder) == {}
    ((check, (said,)),) = unchecked(folder).items()
    numbers = [entry["number"] for entry in Forgery(folder, tmp_path / "f").entries("candidate")]
    kind = "Certain" if name in ("telling", "capped twice") else "Weekly"
    assert check == "triggers"
    assert said == (
        f"test_own_rules_verified:{kind} is a rule of the user's own, which this file does not "
        f"know: whether it asked for candidate {', '.join(map(str, numbers))} was not checked"
    )


def test_it_is_said_to_readers_and_to_programs(tmp_path):
    folder = played(tmp_path, Weekly())

    def told(*more):
        command = [sys.executable, "-I", folder / "verify_export.py", folder, *more]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    lines = told().splitlines()
    place = lines.index("partly triggers: 4 candidates")
    assert "Weekly is a rule of the user's own" in lines[place + 1]
    assert lines[-1] == "VERDICT: all that was checked holds; what was not is said above."
    assert sum(line.startswith("holds  ") for line in lines) == 13
    found = json.loads(told("--json"))
    assert found["holds"] is True
    (said,) = [check["unchecked"] for check in found["checks"] if check["unchecked"]]
    assert "Weekly is a rule of the user's own" in said[0]


def _episodes(forgery):
    forgery.entries("candidate")[-1]["payload"]["evidence"]["episodes"] += 1


def _silent(forgery):
    forgery.entries("candidate")[-1]["payload"]["evidence"] = {}


def _budget(forgery):
    amend(forgery.entries("created")[0], budget={"deployments": 1})


def _total(forgery):
    row = forgery.row(3)
    row["body"]["rewards"][1] /= 2
    forgery.retell(row)


@pytest.mark.parametrize(
    ("alter", "check", "said"),
    [
        (_episodes, "triggers", "episodes, not on"),
        (_silent, "triggers", "says nothing of its trigger"),
        (_budget, "triggers", "no deployment was left at row"),
        (_budget, "decisions", "and the budget is 1"),
        (_total, "triggers", "the weights of its last stage are not those of the regression"),
        (_total, "cohorts", "had a mean return of"),
    ],
)
def test_everything_else_is_checked(tmp_path, alter, check, said):
    folder = played(tmp_path, Weekly(), recipe=Recipe(exploration=rs.Bonus(0.3)))
    forgery = Forgery(folder, tmp_path / "forged")
    alter(forgery)
    forgery.cover_up()
    assert [text for text in problems(forgery.folder)[check] if said in text]


def test_a_cap_that_is_used_up_is_known_whatever_is_in_it(tmp_path):
    folder = played(tmp_path, rs.rules.Capped(Weekly(days=5), switches=3))
    forgery = Forgery(folder, tmp_path / "forged")
    created = forgery.entries("created")[0]
    amend(created, schedule={"switches": 1})
    forgery.cover_up()
    found = problems(forgery.folder)["triggers"]
    assert any("and the episodes say []" in text for text in found)
    ((said,),) = unchecked(forgery.folder).values()
    assert said.endswith("candidate 3 was not checked")


def test_a_known_rule_is_checked_where_it_holds(tmp_path):
    """The user's own rule is amended away: what the next one asks for is checked."""
    task = Task(dim=3, horizon=2, episodes=K)
    campaign = opened(
        tmp_path / "store.db",
        protocol_of(task=task, budget=10, stopping=(), schedule=Weekly(days=5)),
    )
    play(campaign, 20)
    grid = {"kind": "episode-grid", "dates": [1, 25, 30]}
    campaign.amend({"schedule": grid}, actor="eve", reason="dates are easier")
    play(campaign, 20, name="q")
    export_campaign(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    assert problems(tmp_path / "out") == {}
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    last = forgery.entries("candidate")[-1]["payload"]["evidence"]["triggers"][0]
    assert last["quantity"] == "episode"
    last["threshold"] -= 1
    forgery.cover_up()
    assert "candidate" in problems(forgery.folder)["triggers"][0]


def test_a_rule_that_is_no_name_of_any_is_a_problem(tmp_path):
    forgery = Forgery(played(tmp_path, Weekly()), tmp_path / "forged")
    created = forgery.entries("created")[0]
    created["payload"]["protocol"]["schedule"] = {"kind": "weekly"}
    amend(created)
    forgery.cover_up()
    assert "it cannot be checked" in problems(forgery.folder)["triggers"][0]


def test_a_protocol_of_toml_may_name_it():
    protocol = protocol_of(schedule=Weekly(days=4))
    assert Protocol.from_toml(protocol.to_toml()).schedule == Weekly(days=4)
