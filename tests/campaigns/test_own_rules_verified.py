"""Rules of the user's own: proven where their module is allowed, named as unchecked elsewhere, and
never run because a store or an export names them.
"""

from dataclasses import dataclass

import pytest

import rareswitch as rs
from forgery import Forgery
from rareswitch.campaigns import Campaign, Protocol, backup, export, open_store, status, verify
from rareswitch.campaigns.proof.verifier import verify_export
from rareswitch.core.clock import Trigger
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from small_export import opened, play, protocol_of
from two_proofs import of_folder, of_store

K = 48
SIGNED = {"by": "ana", "reason": "final report"}
HERE = (__name__,)


@dataclass(frozen=True)
class Weekly:
    """A rule of the user's own without triggers."""

    days: int = 9

    def due(self, clock):
        return clock.episode % self.days == 0


@dataclass(frozen=True)
class Certain:
    """A rule of the user's own with a trigger in its own words."""

    least: float = 2.5

    def due(self, clock):
        return bool(clock.growth.min() >= self.least)

    def triggers(self, clock):
        return (Trigger("smallest growth", float(clock.growth.min()), self.least, self.due(clock)),)


class Bold(rs.Bonus):
    """An exploration of the user's own."""


OWN = {
    "silent": {"schedule": Weekly()},
    "telling": {"schedule": Certain()},
    "capped": {"schedule": rs.rules.Capped(Weekly(days=5), switches=2)},
    "capped twice": {"schedule": rs.rules.Capped(rs.rules.Capped(Certain(), switches=3), 2)},
    "exploring": {"recipe": Recipe(exploration=Bold(0.3))},
}


def played(folder, **changes):
    """Return a campaign with candidates of an own rule."""
    task = Task(dim=3, horizon=2, episodes=K)
    campaign = opened(
        folder / "store.db", protocol_of(**{"task": task, "budget": 10, "stopping": ()} | changes)
    )
    play(campaign, K - 2)
    assert len(campaign.state.candidates) >= 2
    return campaign


@pytest.mark.parametrize("name", OWN)
def test_an_own_rule_is_checked_where_it_is_allowed_and_named_elsewhere(tmp_path, name):
    campaign = played(tmp_path, **OWN[name])
    export(campaign, tmp_path / "out", **SIGNED)
    for allow, proven in ((HERE, "proven"), ((), None)):
        opened_again = Campaign(campaign.store, campaign.name, allow=allow)
        for found in (verify(opened_again), verify_export(tmp_path / "out", allow=allow)):
            assert found.ok
            if proven:
                assert found.verdict == proven
                continue
            assert found.verdict == "proven, except for the parts named as unchecked"
            (said,) = found.unchecked
            assert __name__ in said
            assert said.startswith("whether" if name == "exploring" else "when the schedule asked")
    campaign.store.close()


def _episodes(f):
    f.entries("candidate")[-1]["payload"]["evidence"]["episodes"] += 1


def _evidence(f):
    f.entries("candidate")[-1]["payload"]["evidence"]["disagreement"] = 0.0


def _reward(f):
    row = f.row(3)
    row["body"]["rewards"][0] /= 2
    f.retell(row)


def _trigger(f):
    f.entries("candidate")[-1]["payload"]["evidence"]["triggers"][0]["threshold"] += 1


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (_episodes, "its evidence has episodes"),
        (_evidence, "its evidence has disagreement"),
        (_reward, "the log gives another policy"),
        (_trigger, None),
    ],
)
def test_all_but_the_rule_is_checked_without_it(tmp_path, alter, said):
    campaign = played(tmp_path, schedule=Certain())
    export(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    alter(forgery)
    forgery.cover_up()
    wanted = said or "its evidence has triggers"
    assert [one for one in of_folder(forgery.folder, allow=HERE)["replay"] if wanted in one]
    found = of_folder(forgery.folder).get("replay", [])
    assert bool([one for one in found if wanted in one]) is (said is not None)


def test_a_known_rule_is_checked_where_it_holds(tmp_path):
    """The own rule is amended away: the dates of the next rule are checked without it."""
    task = Task(dim=3, horizon=2, episodes=K)
    protocol = protocol_of(task=task, budget=10, stopping=(), schedule=Weekly(days=5))
    campaign = opened(tmp_path / "store.db", protocol)
    play(campaign, 20)
    grid = {"kind": "episode-grid", "dates": [1, 25, 30]}
    amendment = campaign.amend({"schedule": grid}, by="eve", reason="dates are easier")
    campaign.approve(amendment.number, by="bo", reason="agreed")
    play(campaign, 20, name="q")
    export(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    assert of_folder(tmp_path / "out") == {}
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    last = forgery.entries("candidate")[-1]["payload"]["evidence"]["triggers"][0]
    assert last["quantity"] == "episode"
    last["threshold"] -= 1
    forgery.cover_up()
    assert "its evidence has triggers" in of_folder(forgery.folder)["replay"][0]


def test_a_rule_that_does_not_exist_is_a_problem(tmp_path):
    campaign = played(tmp_path, schedule=Weekly())
    export(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    forgery.amend(schedule={"kind": "weekly"})
    forgery.cover_up()
    (found,) = of_folder(forgery.folder)["replay"]
    assert found.startswith("entry 1 cannot be replayed, ValueError: kind must be one of")


@pytest.mark.parametrize("table", ["schedule", "exploration"])
def test_nothing_that_a_store_names_is_run(tmp_path, table):
    """Not by verify, status, export, the policy or a backup, whoever relinked the store."""
    campaign = played(tmp_path)
    export(campaign, tmp_path / "out", **SIGNED)
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    hostile = {"kind": "subprocess:Popen", "args": ["touch", str(tmp_path / "ran")]}
    forgery.amend(**{"schedule": hostile} if table == "schedule" else
                  {"recipe": {"exploration": hostile}})  # fmt: skip
    forgery.cover_up()
    forgery.put_into(campaign)
    campaign.store.close()
    with open_store(tmp_path / "store.db") as store:
        strange = Campaign(store, "small")
        assert of_store(strange) == []
        assert [one for one in verify(strange).unchecked if "subprocess" in one]
        assert status(strange).version == len(strange.state.versions)
        strange.policy()
        strange.policy_bytes(1)
        export(strange, tmp_path / "again", **SIGNED)
        backup(store, tmp_path / "backup.db")
        with pytest.raises(ValueError, match="subprocess"):
            strange.protocol  # noqa: B018 only who asks for the schedule is refused
    assert not (tmp_path / "ran").exists()


def test_a_protocol_of_toml_may_name_an_own_rule():
    protocol = protocol_of(schedule=Weekly(days=4))
    read = Protocol.from_toml(protocol.to_toml(), allow=HERE)
    assert read.schedule == Weekly(days=4)
