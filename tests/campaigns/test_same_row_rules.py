"""The two verifiers ask the same of rows: whatever a row must not say, both name it."""

import re
import shutil

import pytest

from campaign_builders import chain
from forged_store import write_again
from forgery import Forgery
from golden.make_campaign import story
from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.proof import verify_export
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.proof.export import export_campaign
from rareswitch.campaigns.proof.verify_export import verify
from rareswitch.campaigns.record.canonical import canonical
from two_proofs import of_store


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return the folder of a store in which there is one of everything, and of its export."""
    folder = tmp_path_factory.mktemp("rows")
    with pytest.MonkeyPatch.context() as patch, open_store(folder / "s.db", create=True) as store:
        patch.setattr(export_module, "page", lambda *_: "")
        export_campaign(story(store), folder / "out", actor="zoe", reason="a proof")
    return folder


@pytest.fixture
def campaign(original, tmp_path):
    shutil.copy(original / "s.db", tmp_path / "s.db")
    with open_store(tmp_path / "s.db") as store:
        yield Campaign(store, "trial")


@pytest.fixture
def forgery(original, tmp_path):
    return Forgery(original / "out", tmp_path / "forged")


def rows(campaign, name="episodes", **wanted):
    found = chain(campaign, name)
    return [row for row in found if all(getattr(row, k) == v for k, v in wanted.items())]


def marked_assigned(campaign):
    row = rows(campaign, assigned=False, revision=0)[3]
    return "episodes", row.seq, {"assigned": True}


def marked_not_assigned(campaign):
    row = rows(campaign, assigned=True, revision=0)[3]
    return "episodes", row.seq, {"assigned": False}


def emptied(campaign):
    row = rows(campaign, revision=0)[-1]
    return "episodes", row.seq, {"body": None}


def with_another_digest(campaign):
    row = rows(campaign, revision=0)[4]
    return "episodes", row.seq, {"digest": "0" * 64}


def with_other_claims(campaign):
    row = rows(campaign, revision=0)[4]
    return "episodes", row.seq, {"claims": {"site": "elsewhere"}}


def a_revision_left_out(campaign):
    (row, _) = [row for row in rows(campaign) if row.revision]
    return "episodes", row.seq, {"revision": 2}


def of_another_version(campaign):
    (row, _) = [row for row in rows(campaign) if row.revision]
    return "episodes", row.seq, {"version": row.version + 1}


def corrected_as_assigned(campaign):
    (row, _) = [row for row in rows(campaign) if row.revision]
    return "episodes", row.seq, {"assigned": not row.assigned}


def withdrawn_instead(campaign):
    (row, _) = [row for row in rows(campaign) if row.revision]
    return "episodes", row.seq, {"body": None}


@pytest.mark.parametrize(
    "alter",
    [
        marked_assigned, marked_not_assigned, emptied, with_another_digest, with_other_claims,
        a_revision_left_out, of_another_version, corrected_as_assigned, withdrawn_instead,
    ],
)  # fmt: skip
def test_both_name_the_row(campaign, forgery, alter):
    name, number, values = alter(campaign)
    stored = {key: canonical(v) if isinstance(v, dict) else v for key, v in values.items()}
    write_again(campaign, name, number, **stored)
    of_the_library = of_store(campaign)
    assert any(f"{name}: row {number}: " in one for one in of_the_library), of_the_library
    forgery.chains[name][number - 1] |= values
    forgery.cover_up()
    of_the_file = {check.name: check.wrong for check in verify(forgery.folder)}[name]
    assert any(re.match(rf"row {number} \(", one) for one in of_the_file), of_the_file


def test_both_name_what_came_after_a_stop(campaign, forgery):
    """The stop is said to have come before the last rows and assignments."""

    def sooner(reached):
        for name in ("episodes", "assignments"):
            reached[name][0] -= 3

    *_, stopped, exported = campaign.entries
    assert (stopped.kind, exported.kind) == ("stopped", "exported")
    for entry in (stopped, exported):
        sooner(entry.payload["reached"])
        write_again(campaign, "ledger", entry.number, payload=canonical(entry.payload))
    sooner(forgery.chains["ledger"][-1]["payload"]["reached"])
    found = of_store(campaign)
    assert any("assignments: row" in one and "had stopped" in one for one in found), found
    assert any("it was not assigned before the campaign had stopped" in one for one in found)
    forgery.cover_up()
    told = {check.name: check.wrong for check in verify(forgery.folder)}
    assert any("came after the campaign stopped" in one for one in told["assignments"])
    assert any("was not assigned before the campaign stopped" in one for one in told["episodes"])


def test_both_name_members_that_a_policy_does_not_have(campaign, forgery):
    entries = campaign.entries
    (first,) = [one for one in entries if one.kind == "deployed" and one.payload["version"] == 1]
    for one in entries:
        if one.payload.get("digest") == first.payload["digest"]:
            told = one.payload | {"members": 1}
            write_again(campaign, "ledger", one.number, payload=canonical(told))
            forgery.chains["ledger"][one.number - 1]["payload"]["members"] = 1
    alike = [
        one.version for one in campaign.state.versions if one.digest == first.payload["digest"]
    ]
    for name, number in (("episodes", "seq"), ("assignments", "number")):
        for row in chain(campaign, name):
            if row.version in alike:
                write_again(campaign, name, getattr(row, number), member=0)
                forgery.chains[name][getattr(row, number) - 1]["member"] = 0
    found = of_store(campaign)
    assert any(f"ledger: entry {first.number}: its policy" in one for one in found), found
    forgery.cover_up()
    told = {check.name: check.wrong for check in verify(forgery.folder)}
    assert any("is not allocated as version 1 is" in one for one in told["policies"])


def test_a_return_that_no_episode_has_is_named():
    """Of a store, the proof of stops shows the same."""
    story = verify_export.Story(revisions=[{"task": {"horizon": 2}, "intake": {}}])
    log = verify_export.Log(story, {})
    row = {"seq": 1, "episode_id": "a", "revision": 0, "claims": {}, "digest": "", "total": 3.0}
    played = {"version": 1, "member": 0, "assigned": False, "late": False, "learn": True}
    log.look(row | played | {"body": {"rewards": [1.5, 1.5]}}, "")
    assert "row 1 (a) has a return of 3.0, which no episode of this task has" in log.wrong
