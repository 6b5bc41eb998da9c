"""The two verifiers know the same rules: whatever a ledger must not say, both name the entry."""

import copy
import json

import pytest

from forged_store import first, forge_ledger, kept
from forgery import Forgery, amend
from golden.make_campaign import story
from rareswitch.campaigns import open_store
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.proof.export import export_campaign
from rareswitch.campaigns.proof.verify_export import verify
from two_proofs import of_store


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a campaign in which there is one of everything, and the folder of its export."""
    folder = tmp_path_factory.mktemp("rules")
    with pytest.MonkeyPatch.context() as patch, open_store(folder / "s.db", create=True) as store:
        patch.setattr(export_module, "page", lambda *_: "")
        campaign = story(store)
        export_campaign(campaign, folder / "out", actor="zoe", reason="a proof")
        yield campaign, folder / "out"


def candidate_of(entries, kind, place=0):
    """Return an entry about a candidate, and that candidate's."""
    entry = first(entries, kind, place)
    return entry, entries[entry["payload"]["candidate"] - 1]


def like(entry, **changes):
    """Return another entry that was written where this one was."""
    return copy.deepcopy(entry) | changes


def another_waits(entries):
    rejected = first(entries, "rejected")
    place = entries.index(rejected)
    entries[place] = like(rejected, kind="forgotten", payload=rejected["payload"] | {"episodes": 0})
    return first(entries[place:], "candidate")


def approved_again(entries):
    approved = first(entries, "approved")
    entry = like(approved)
    entries.insert(entries.index(approved) + 2, entry)  # it is deployed by then
    return entry


def rejected_again(entries):
    rejected = first(entries, "rejected")
    entry = like(rejected)
    entries.insert(entries.index(rejected) + 1, entry)
    return entry


def approved_what_was_rejected(entries):
    rejected, candidate = candidate_of(entries, "rejected")
    meaning = f"approve version {candidate['payload']['version']} for deployment"
    entry = like(rejected, kind="approved", payload=rejected["payload"] | {"meaning": meaning})
    entries.insert(entries.index(rejected) + 1, entry)
    return entry


def approved_by_the_proposer(entries):
    approved, candidate = candidate_of(entries, "approved")
    approved["actor"] = f" {candidate['actor'].upper()}"
    return approved


def approved_in_other_words(entries):
    approved = first(entries, "approved")
    approved["payload"]["meaning"] = "have a look at it"
    return approved


def rejected_in_other_words(entries):
    rejected = first(entries, "rejected")
    rejected["payload"]["meaning"] = "approve version 2 for deployment"
    return rejected


def fitted_in_the_future(entries):
    candidate = first(entries, "candidate")
    candidate["payload"]["seq"] = candidate["payload"]["reached"]["episodes"][0] + 1
    return candidate


def fitted_in_the_past(entries):
    candidate = first(entries, "candidate", 3)
    candidate["payload"]["seq"] = 1
    return candidate


def candidate_for_another_version(entries):
    candidate = first(entries, "candidate", 2)
    candidate["payload"]["version"] += 1
    return candidate


def never_approved(entries):
    approved, _ = candidate_of(entries, "approved")
    place = entries.index(approved)
    entries[place] = like(approved, kind="forgotten", payload=approved["payload"] | {"episodes": 0})
    return entries[place + 1]


def without_a_candidate(entries):
    deployed = first(entries, "deployed", 1)
    deployed["payload"]["candidate"] = None
    return deployed


def other_members(entries):
    deployed = first(entries, "deployed", 1)
    deployed["payload"]["members"] += 1
    return deployed


def other_allocation(entries):
    deployed = first(entries, "deployed", 1)
    deployed["payload"]["allocation"] = 12345
    return deployed


def first_on_data(entries):
    deployed = first(entries, "deployed")
    deployed["payload"]["seq"] = 1
    return deployed


def later_by_the_schedule(entries):
    """The protocol is amended to let the schedule decide: what waits waits for a person still."""
    approved = first(entries, "approved")
    place = entries.index(approved)
    protocol = json.loads(json.dumps(entries[0]["payload"]["protocol"]))
    entry = like(approved, kind="amended")
    entry["payload"] = {"protocol": protocol, "reached": approved["payload"]["reached"]}
    amend(entry, approval={"by": "schedule"})
    entries[place] = entry
    return entries[place + 1]


def rolled_back_to_the_one_in_force(entries):
    rolled = first(entries, "rolled-back")
    place = entries.index(rolled)
    last = [e for e in entries[:place] if e["kind"] == "deployed"][-1]["payload"]
    rolled["payload"] |= {key: last[key] for key in ("digest", "members", "allocation")}
    rolled["payload"]["to"] = last["version"]
    return rolled


def rolled_back_to_another_policy(entries):
    rolled = first(entries, "rolled-back")
    rolled["payload"]["to"] = 2
    return rolled


def rolled_back_with_other_members(entries):
    rolled = first(entries, "rolled-back")
    rolled["payload"]["members"] += 1
    return rolled


def rolled_back_at_another_row(entries):
    rolled = first(entries, "rolled-back")
    rolled["payload"]["seq"] -= 1
    return rolled


def amended_what_is_settled(entries):
    amended = first(entries, "amended")
    amend(amended, recipe={"ridge": 2.0})
    return amended


def amended_nothing(entries):
    amended = first(entries, "amended")
    amended["payload"] |= {key: entries[0]["payload"][key] for key in ("protocol", "digest")}
    return amended


def amended_below_what_is_spent(entries):
    amended = first(entries, "amended")
    amend(amended, budget={"deployments": 1})
    return amended


def amended_after_a_stop(entries):
    entry = like(first(entries, "amended"))
    stopped = first(entries, "stopped")
    entry["payload"]["reached"] = stopped["payload"]["reached"]
    amend(entry, budget={"deployments": 9})
    entries.insert(entries.index(stopped) + 1, entry)
    return entry


def stopped_again(entries):
    stopped = first(entries, "stopped")
    entry = like(stopped)
    entries.insert(entries.index(stopped) + 1, entry)
    return entry


def created_again(entries):
    amended = first(entries, "amended")
    amended["kind"] = "created"
    return amended


def another_digest(entries):
    amended = first(entries, "amended")
    amended["payload"]["digest"] = "0" * 64
    return amended


def no_budget_left(entries):
    amend(entries[0], budget={"deployments": 1})
    return first(entries, "candidate", 2)


def of_no_known_kind(entries):
    forgotten = first(entries, "forgotten")
    forgotten["kind"] = "noted"
    return forgotten


def by_the_engine(entries):
    forgotten = first(entries, "forgotten")
    forgotten["actor"] = "Engine "
    return forgotten


def created_by_the_engine(entries):
    entries[0]["actor"] = "engine"
    return entries[0]


def rolled_back_by_the_engine(entries):
    rolled = first(entries, "rolled-back")
    rolled["actor"] = "engine"
    return rolled


def unknown_candidate(entries):
    rejected = first(entries, "rejected")
    rejected["payload"]["candidate"] = 99
    return rejected


def no_first_version(entries):
    deployed = first(entries, "deployed")
    deployed["kind"] = "forgotten"
    deployed["payload"]["episodes"] = 0
    return deployed


FORGED = [
    another_waits, approved_again, rejected_again, approved_what_was_rejected,
    approved_by_the_proposer, approved_in_other_words, rejected_in_other_words,
    fitted_in_the_future, fitted_in_the_past, candidate_for_another_version, never_approved,
    without_a_candidate, other_members, other_allocation, first_on_data, later_by_the_schedule,
    rolled_back_to_the_one_in_force, rolled_back_to_another_policy,
    rolled_back_with_other_members, rolled_back_at_another_row, amended_what_is_settled,
    amended_nothing, amended_below_what_is_spent, amended_after_a_stop, stopped_again,
    created_again, another_digest, no_budget_left, of_no_known_kind, by_the_engine,
    created_by_the_engine, rolled_back_by_the_engine, unknown_candidate, no_first_version,
]  # fmt: skip


@pytest.mark.parametrize("alter", FORGED)
def test_both_name_the_entry(written, tmp_path, alter):
    campaign, folder = written
    places = []

    def altering(entries):
        entry = alter(entries)
        places.append(next(n for n, one in enumerate(entries, start=1) if one is entry))

    with kept(campaign):
        forge_ledger(campaign, altering)
        of_the_library = of_store(campaign)
    forgery = Forgery(folder, tmp_path / "forged")
    altering(forgery.chains["ledger"])
    forgery.cover_up()
    of_the_file = {check.name: check.wrong for check in verify(forgery.folder)}["decisions"]
    (number,) = set(places)
    assert any(f"ledger: entry {number}: " in one for one in of_the_library), of_the_library
    assert any(f"entry {number} (" in one for one in of_the_file), of_the_file


def test_both_say_nothing_of_what_is_right(written, tmp_path):
    campaign, folder = written
    assert of_store(campaign) == []
    forgery = Forgery(folder, tmp_path / "forged")
    forgery.cover_up()
    assert not any(check.wrong for check in verify(forgery.folder))
