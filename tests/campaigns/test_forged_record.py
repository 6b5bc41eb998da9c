"""A record that breaks a rule, with all links right: `verify` names the row or the entry."""

import copy
import re
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from forgery import Forgery
from rareswitch.campaigns import Campaign, DamagedError, UnavailableError, export, status
from rareswitch.campaigns.rulebook.rows import digest_of
from rareswitch.campaigns.store.tables import artifacts
from small_export import full_campaign
from two_proofs import of_folder, of_store

GONE = object()
COLUMNS = ("kind", "actor", "reason", "at")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Return a campaign with one of everything, and the folder of its export."""
    folder = tmp_path_factory.mktemp("forged")
    campaign = full_campaign(folder / "s.db")
    export(campaign, folder / "out", by="zoe", reason="a proof")
    yield campaign, folder / "out"
    campaign.store.close()


@pytest.fixture
def forgery(original, tmp_path):
    return Forgery(original[1], tmp_path / "forged")


def test_a_record_linked_anew_as_it_was_is_proven(original, forgery):
    before = {name: (forgery.folder / f"{name}.jsonl").read_bytes() for name in forgery.chains}
    forgery.cover_up()
    for name, data in before.items():
        assert (forgery.folder / f"{name}.jsonl").read_bytes() == data
    forgery.put_into(original[0])
    assert of_store(original[0]) == []
    assert of_folder(forgery.folder) == {}


# --- entries --------------------------------------------------------------------------------------

# The kind of an entry, its place among those, other values of its columns or its payload, and the
# problem that is named.
ENTRIES = [
    ("approved", 0, {"candidate": 99}, "candidate must be an entry that waits"),
    ("approved", 0, {"candidate": GONE}, "candidate is missing"),
    ("approved", 0, {"actor": "Schedule"}, "must be a person"),
    ("approved", 0, {"actor": "schedule"}, "must be a person"),
    ("approved", 3, {"actor": "Bo"}, "proposed by bo"),
    ("approved", 3, {"actor": "b\u043e"}, "proposed by bo"),  # a Cyrillic letter
    ("approved", 0, {"actor": " eve"}, "in its normal form"),
    ("approved", 0, {"actor": "e\u200bve"}, "invisible"),
    ("approved", 0, {"reason": ""}, "reason must not be empty"),
    ("approved", 0, {"meaning": "have a look at it"}, "signed with the meaning"),
    ("rejected", 0, {"candidate": 99}, "candidate must be an entry that waits"),
    ("rejected", 0, {"candidate": 6}, "is deployed already"),
    ("rejected", 0, {"meaning": "approve version 3 for deployment"}, "signed with the meaning"),
    ("rejected", 0, {"candidate": GONE}, "must name one proposal"),
    ("rejected", 0, {"amendment": 9}, "must name one proposal"),
    ("deployed", 0, {"seq": 1}, "fitted on no data"),
    ("deployed", 0, {"version": True}, "version cannot be True"),
    ("deployed", 0, {"kind": "forgotten", "episodes": 1}, "begins with a protocol and version 1"),
    ("deployed", 1, {"candidate": 99}, "was not carried out"),
    ("deployed", 1, {"candidate": None}, "was not carried out"),
    ("deployed", 1, {"version": GONE}, "version is missing"),
    ("deployed", 1, {"version": 7}, "version 1 is in force; the decision is about version 7"),
    ("deployed", 1, {"members": 33}, "it is not candidate 6 that was deployed"),
    ("deployed", 1, {"allocation": 12345}, "it is not candidate 6 that was deployed"),
    ("deployed", 1, {"actor": "zoe"}, "was not approved by zoe"),
    ("deployed", 1, {"actor": "schedule"}, "was not approved by schedule"),
    ("deployed", 2, {"version": 2}, "the decision is about version 2"),
    ("candidate", 0, {"evidence": None}, "evidence cannot be None"),
    ("candidate", 0, {"evidence": {"triggers": "all"}}, "triggers must be a list"),
    ("candidate", 0, {"evidence": {"triggers": [7]}}, "quantity is missing"),
    ("candidate", 0, {"version": "2"}, "version cannot be '2'"),
    ("candidate", 0, {"seq": 6}, "seq must be a row from 0 to 5"),
    ("candidate", 0, {"actor": "engine"}, "must be a person"),
    ("candidate", 1, {"seq": 1}, "seq must be a row from 5 to 14"),
    ("candidate", 2, {"seq": 14}, "seq must be a row from 15 to 15"),
    ("candidate", 2, {"version": 4}, "the decision is about version 4"),
    ("candidate", 4, {"actor": "schedule"}, "must be a person"),  # it was not planned
    ("rolled-back", 0, {"to": 50}, "to must be from 1 to 4"),
    ("rolled-back", 0, {"to": -3}, "to must be from 1 to 4"),
    ("rolled-back", 0, {"to": 2}, "its policy is not that of version 2"),
    ("rolled-back", 0, {"to": 4}, "a rollback goes back"),
    ("rolled-back", 0, {"members": 33}, "its policy is not that of version 1"),
    ("rolled-back", 0, {"seq": 43}, "it counts from row 43 of 44 rows"),
    ("rolled-back", 0, {"actor": "engine"}, "must be a person"),
    ("rolled-back", 0, {"reached": GONE}, "reached is missing"),
    ("rolled-back", 0, {"reached": {"episodes": "many"}}, "reached has no head of episodes"),
    ("amended", 0, {"protocol": {}}, ""),
    ("amended", 0, {"digest": "0" * 64}, "the digest of the protocol is another"),
    ("amended", 0, {"amendment": None}, "needs the approval of a second person"),
    ("amended", 0, {"actor": "bo"}, "proposed by bo"),
    ("amended", 0, {"meaning": "so be it"}, "signed with the meaning"),
    ("amended", 0, {"kind": "created"}, "out of place"),
    ("corrected", 0, {"episode_id": GONE}, "episode_id is missing"),
    ("corrected", 0, {"episode_id": "p1"}, "signs for another correction"),
    ("corrected", 0, {"withdrawn": False}, "signs for another correction"),
    ("corrected", 0, {"corrects": 4}, "signs for another correction"),
    ("corrected", 0, {"seq": 3}, "the last row then was 29, not 3"),
    ("corrected", 0, {"actor": "Engine"}, "must be a person"),
    ("cancelled", 0, {"episode_id": "p5"}, "episode p5 was not open"),
    ("cancelled", 0, {"episode_id": "nobody"}, "episode nobody was not open"),
    ("cancelled", 0, {"assignment": 3}, "assignment 3 is not that of episode p29"),
    ("forgotten", 0, {"episodes": 0}, "no episode has a participant"),
    ("forgotten", 0, {"kind": "noted"}, "noted is not a kind of entry"),
    ("forgotten", 0, {"actor": "Engine "}, "must be a person"),
    ("forgotten", 0, {"actor": "engine", "kind": "stopped"}, ""),
    ("created", 0, {"actor": "engine"}, "must be a person"),
    ("created", 0, {"actor": "simulation"}, "creates rehearsals"),
    ("created", 0, {"rehearsal": True}, "creates rehearsals"),
    ("reopening", 0, {"stopped": 2}, "the campaign was stopped by entry 3"),
    ("reopened", 0, {"actor": "bo"}, "proposed by bo"),
    ("reopened", 0, {"reopening": 3}, "needs the approval of a second person"),
    ("reopened", 0, {"meaning": "go on"}, "signed with the meaning"),
    ("stopped", 0, {"rule": "harm"}, "the engine stopped with"),
    ("stopped", 0, {"value": 0.6}, "the engine stopped with"),
    ("stopped", 0, {"threshold": 0.4}, "the engine stopped with"),
    ("stopped", 0, {"margin": 0.1}, "the engine stopped with"),
]


def alter_entry(forgery, kind, place, changes):
    entry = forgery.entries(kind)[place]
    for name, value in changes.items():
        table = entry if name in COLUMNS else entry["payload"]
        if value is GONE:
            del table[name]
        else:
            table[name] = value
    return entry["number"]


def like(forgery, entry, *, before, **changes):
    """Insert a copy of an entry before another, which saw the same rows."""
    twin = copy.deepcopy(entry) | changes
    twin["payload"]["reached"] = copy.deepcopy(before["payload"]["reached"])
    place: int = before["number"]
    forgery.chains["ledger"].insert(place - 1, twin)
    return place


def put(table, name, value):
    table[name] = value


def retype(entry, kind, **payload):
    """Make an entry one of another kind, which says more."""
    entry["kind"] = kind
    entry["payload"] |= payload


def approved_what_is_void(f):
    place = like(f, f.entry(18), before=f.entry(21))
    retype(f.entry(18), "forgotten", episodes=1)
    del f.chains["ledger"][18]  # version 4 is not deployed: its candidate waits until the rollback
    f.entry(19)["payload"]["version"] = 4
    return place - 1


def deployed_by_the_schedule(f):
    """The protocol is amended to let the schedule decide: a candidate still waits for a person."""
    reached = copy.deepcopy(f.entry(8)["payload"]["reached"])
    f.entry(7).update(kind="amended", payload=f.entry(1)["payload"] | {"reached": reached})
    f.entry(7)["payload"] = copy.deepcopy(f.entry(7)["payload"])
    f.amend(f.entry(7), approval={"by": "schedule"})


def approved_after_a_rejection(f):
    place = like(f, f.entry(12), before=f.entry(11))
    f.entry(place)["payload"]["candidate"] = 9


def amended(f, **tables):
    f.amend(f.entry(21), f.entry(22), **tables)


def amended_nothing(f):
    for number in (21, 22):
        f.entry(number)["payload"] |= {k: f.entry(1)["payload"][k] for k in ("protocol", "digest")}


def no_horizon(f):
    del f.entry(1)["payload"]["protocol"]["task"]["horizon"]
    f.amend(f.entry(1))


def cut(f, first, last=None):
    del f.chains["ledger"][first:last]


# An alteration of the ledger, the entry that is named, and the problem.
LEDGERS = [
    (lambda f: like(f, f.entry(7), before=f.entry(9)), 9, "candidate 6 is deployed already"),
    (lambda f: like(f, f.entry(10), before=f.entry(11)), 11, "candidate 9 is rejected already"),
    (approved_after_a_rejection, 11, "candidate 9 is rejected already"),
    (approved_what_is_void, 20, "candidate 17 is void"),
    (lambda f: retype(f.entry(7), "forgotten", episodes=1), 8, "was not approved by eve"),
    (lambda f: cut(f, 24), 24, "the approval was not carried out"),
    (lambda f: retype(f.entry(10), "forgotten", episodes=1), 11, "candidate 9 waits"),
    (deployed_by_the_schedule, 8, "candidate 6 was not approved by eve"),
    (lambda f: f.amend(f.entry(1), budget={"deployments": 1}), 9, "the budget of 1 deployments"),
    (lambda f: cut(f, 20, 21), 21, "needs the approval of a second person"),
    (lambda f: f.amend(f.entry(22), budget={"deployments": 9}), 22, "the amendment in entry 21"),
    (lambda f: amended(f, recipe={"ridge": 2.0}), 21, "must not change [task] or [recipe]"),
    (lambda f: amended(f, budget={"deployments": 1}), 21, "deployments must be at least 3"),
    (lambda f: amended(f, task={"episodes": 40}), 21, "episodes must be more than the 46 recorded"),
    (amended_nothing, 21, "must change something"),
    (lambda f: f.amend(approval={"signers": ["ana", "bo", "zoe"]}), 5,
     "by must be a signer of the protocol (ana, bo, zoe); got eve"),
    (lambda f: f.amend(f.entry(1), approval={"retry_after": 9}), 11, "a row from 23 to 15"),
    (lambda f: cut(f, 3, 4), 4, "a reopening needs the approval"),
    (lambda f: like(f, f.entry(5), before=f.entry(6)), 6, "that data-quality stopped"),
    (lambda f: f.entry(3).update(actor="ana"), 4, "only a campaign that data-quality stopped"),
    (lambda f: cut(f, 3, 5), 4, "the campaign has stopped"),
    (lambda f: f.entry(22).update(kind="stopped"), 23, "the campaign has stopped"),
    (lambda f: like(f, f.entry(3), before=f.entry(4)), 4, "the campaign has stopped"),
    (lambda f: like(f, f.entry(15), before=f.entry(16)), 16, "episode p29 is cancelled already"),
    (lambda f: put(f.entry(26)["payload"]["reached"]["episodes"], 0, 10), 26,
     "it saw fewer episodes than the entry before"),
    (lambda f: like(f, f.entry(14), before=f.entry(15)), 15, "no row was corrected there"),
    (lambda f: f.amend(f.entry(1), stopping=[{"rule": "boredom"}]), 1, "rule must be one of"),
    (lambda f: put(f.entry(1)["payload"]["protocol"]["task"], "dim", 10**12), 1,
     "the digest of the protocol is another"),
    (no_horizon, 1, "KeyError"),
    (lambda f: put(f.entry(26), "payload", []), 26, "it has no payload"),
    (lambda f: put(f.entry(14), "payload", []), 14, "it has no payload"),
]  # fmt: skip


def check_entry(original, forgery, number, said):
    """Check that both forms of a forged record name an entry, and that nothing ends in an error."""
    campaign, _ = original
    forgery.cover_up()
    forgery.put_into(campaign)
    found = of_store(campaign)
    assert [one for one in found if re.search(rf"entry {number}\b", one) and said in one], found
    told = [one for problems in of_folder(forgery.folder).values() for one in problems]
    assert told == found
    with suppress(DamagedError):
        status(Campaign(campaign.store, campaign.name))


@pytest.mark.parametrize(("kind", "place", "changes", "said"), ENTRIES)
def test_an_entry_that_breaks_a_rule_is_named(original, forgery, kind, place, changes, said):
    check_entry(original, forgery, alter_entry(forgery, kind, place, changes), said)


@pytest.mark.parametrize(("alter", "number", "said"), LEDGERS)
def test_a_ledger_that_breaks_a_rule_is_named(original, forgery, alter, number, said):
    alter(forgery)
    check_entry(original, forgery, number, said)


# --- rows -----------------------------------------------------------------------------------------

# A chain, the number of a row, other values of its columns, and the problem that is named.
ROWS = [
    ("episodes", 8, {"learn": False}, "learn must be True, not False"),
    ("episodes", 8, {"late": True}, "late must be False, not True"),
    ("episodes", 1, {"assigned": True}, "assigned must be False, not True"),
    ("episodes", 2, {"assigned": False}, "assigned must be True, not False"),
    ("episodes", 8, {"member": 99}, "of version 2 plays episode"),
    ("episodes", 8, {"version": 1}, "was assigned to version 2; got 1"),
    ("episodes", 8, {"version": 9}, "version 9 does not exist yet"),
    ("episodes", 8, {"total": 1.25}, "its rewards add up to"),
    ("episodes", 8, {"total": 2e200}, "it cannot be checked, OverflowError"),
    ("episodes", 8, {"digest": "0" * 64}, "its digest is not that of the report"),
    ("episodes", 8, {"claims": {"site": "elsewhere"}}, "its digest is not that of the report"),
    *(
        ("episodes", 8, {"claims": claims}, said)
        for claims, said in (
            ({"subgroup": "worse"}, "subgroup must be one of mild, severe|er, unseen, as the"),
            ({"subgroup": 5}, "subgroup must be a text; got 5"),
            ({"subgroup": None}, "subgroup must be a text; got None"),
            ({"subgroup": ["mild"]}, "subgroup must be a text"),
            ({"events": {"headache": 1}}, "events must be of the kinds serious, nausea | é, as"),
            ({"events": {"serious": -1}}, "each count must be from 0"),
            ({"events": {"serious": 0}}, "a record leaves out kinds that did not occur"),
            ({"events": {"serious": 1.5}}, "each count must be a whole number"),
            ({"events": {"serious": True}}, "each count must be a whole number"),
            ({"events": {"\uff53erious": 1}}, "events must be of the kinds serious"),
            ({"events": [["serious", 1]]}, "events must be counts by the kind"),
            ({"events": None}, "events must be counts by the kind"),
            ({"site": 7}, "site must be a text; got 7"),
            ({"dose": "high"}, "claims must be site, began, ended, subgroup, events only"),
            ([], "claims must be a table; got []"),
            (7, "claims must be a table; got 7"),
            (None, "claims must be a table; got None"),
        )
    ),
    ("episodes", 8, {"body": None}, "it has no content"),
    ("episodes", 8, {"episode_id": "p1"}, "episode p1 is recorded already"),
    ("episodes", 8, {"episode_id": "p29"}, "plays episode p29"),
    ("episodes", 8, {"revision": 1}, "is not recorded"),
    ("episodes", 8, {"deviations": 0}, "deviations must be 1, not 0"),
    ("episodes", 9, {"deviations": None}, "not None"),
    ("episodes", 1, {"deviations": 0}, "deviations must be None, not 0"),
    ("episodes", 31, {"revision": 3}, "revision 3 does not follow revision 0"),
    ("episodes", 31, {"revision": 0}, "episode p5 is recorded already"),
    ("episodes", 31, {"version": 1}, "no correction changes it"),
    ("episodes", 31, {"member": 99}, "no correction changes it"),
    ("episodes", 31, {"late": True}, "must not change who played"),
    ("episodes", 31, {"assigned": False}, "must not change who played"),
    ("episodes", 31, {"body": None, "total": 0.0}, "a withdrawal has no content"),
    ("episodes", 29, {"total": 1.0}, "a withdrawal has no content"),
    ("episodes", 29, {"claims": {"site": "x"}}, "a withdrawal has no content"),
    ("assignments", 10, {"version": 1}, "was next, not 1"),
    ("assignments", 10, {"member": 99}, "was next, not 2, 99"),
    ("assignments", 10, {"episode_id": "p1"}, "p1 is "),
    ("assignments", 10, {"salt": "7f"}, "a salt is drawn where the protocol conceals"),
]


def check_row(original, forgery, chain, number, said):
    campaign, _ = original
    forgery.cover_up()
    found = [one for problems in of_folder(forgery.folder).values() for one in problems]
    assert [one for one in found if one.startswith(f"{chain}: row {number}") and said in one], found
    try:
        forgery.put_into(campaign)
    except UnavailableError:  # no store has an episode twice
        return
    assert of_store(campaign) == found


@pytest.mark.parametrize(("chain", "number", "changes", "said"), ROWS)
def test_a_row_that_breaks_a_rule_is_named(original, forgery, chain, number, changes, said):
    forgery.chains[chain][number - 1] |= changes
    check_row(original, forgery, chain, number, said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"site": "x"}', "its claims are not in canonical form"),
        ('{"site":"x","site":"y"}', "its claims are not in canonical form"),
        ("{", "it cannot be checked, JSONDecodeError"),
    ],
)
def test_claims_in_a_store_that_are_no_canonical_text_are_named(original, forgery, text, said):
    forgery.row(8)["claims"] = text
    forgery.cover_up()
    forgery.put_into(original[0])
    found = of_store(original[0])
    assert [one for one in found if one.startswith("episodes: row 8:") and said in one], found


def corrected_to_another_task(f):
    f.row(31)["body"]["features"] = [[3.0, 0.0, 0.0]] * 2


def cancelled_and_recorded(f):
    f.entry(15)["payload"] |= {"episode_id": "p31", "assignment": 21}
    f.entry(15)["payload"]["reached"]["assignments"][0] = 21


def after_a_stop(f):
    retype(f.entry(26), "stopped")
    f.entry(26)["payload"]["reached"]["episodes"][0] -= 3
    f.entry(26)["payload"]["reached"]["assignments"][0] -= 2
    cut(f, 22, 25)


def harmful(f):
    rule = {"rule": "harm", "below": 1.99, "confidence": 0.5}
    f.amend(stopping=[rule, {"rule": "data-quality", "most": 0.5}])


def undeclared(f):
    f.amend(analysis={"subgroups": {"names": ["mild", "severe"]}})


LOGS = [
    (undeclared, "episodes", 2, "subgroup must be one of mild, severe, as the protocol declares"),
    (corrected_to_another_task, "episodes", 31, "feature_norm"),
    (lambda f: retype(f.entry(16), "forgotten", episodes=1), "episodes", 31,
     "it corrects an episode, and no entry signs for it"),
    (cancelled_and_recorded, "episodes", 30, "episode p31 was cancelled"),
    (lambda f: f.amend(intake={"grace": 3}), "episodes", 20, "the grace is 3"),
    (lambda f: f.amend(intake={"assigned": True}), "episodes", 1, "was not assigned"),
    (lambda f: f.amend(intake={"late": "record"}), "episodes", 20, "learn must be False, not True"),
    (lambda f: f.amend(intake={"assigned": True, "concealed": True}), "assignments", 1,
     "a salt is drawn where the protocol conceals"),
    (lambda f: f.amend(f.entry(1), task={"episodes": 10}), "assignments", 11,
     "all 10 planned episodes have begun"),
    (after_a_stop, "assignments", 45, "the campaign has stopped; no episode may begin"),
    (harmful, "episodes", 3, "harm was reached"),
    (lambda f: f.amend(task={"episodes": 20}), "episodes", 20, "episodes was reached (20 has"),
]  # fmt: skip


@pytest.mark.parametrize(("alter", "chain", "number", "said"), LOGS)
def test_a_log_that_breaks_a_rule_is_named(original, forgery, alter, chain, number, said):
    alter(forgery)
    check_row(original, forgery, chain, number, said)


# --- fits -----------------------------------------------------------------------------------------


def replayed(original, forgery):
    """Return the problems of the replay, the only check that fails."""
    campaign, _ = original
    forgery.cover_up()
    forgery.put_into(campaign)
    found = of_folder(forgery.folder)
    assert list(found)[-1] == "replay", found
    assert {*found} <= {"deviations", "replay"}  # another policy, other deviations
    assert of_store(campaign)[-len(found["replay"]) :] == found["replay"]
    return found["replay"]


def evidence(f, number=11):
    return f.entry(number)["payload"]["evidence"]


TOLD = "entry 11, candidate for version 3: its evidence has "
FITS = {
    "a trigger's value": (lambda f: put(evidence(f)["triggers"][0], "value", 9.0), TOLD),
    "a threshold": (lambda f: put(evidence(f)["triggers"][0], "threshold", 9.0), TOLD),
    "a margin": (lambda f: put(evidence(f)["triggers"][0], "margin", 1e-6), TOLD),
    "a trigger reached": (
        lambda f: put(
            evidence(f)["triggers"][1], "reached", not evidence(f)["triggers"][1]["reached"]
        ),
        TOLD,
    ),
    "episodes": (lambda f: put(evidence(f), "episodes", 14), f"{TOLD}episodes 14"),
    "no evidence": (lambda f: put(f.entry(11)["payload"], "evidence", {"triggers": []}), TOLD),
    "disagreement": (lambda f: put(evidence(f), "disagreement", 0.01), f"{TOLD}disagreement 0.01"),
    "gain": (lambda f: put(evidence(f)["gain"], "value", 0.9), f"{TOLD}gain"),
    "changes": (lambda f: put(evidence(f), "changes", []), f"{TOLD}changes []"),
    "subgroups": (
        lambda f: put(evidence(f)["subgroups"][0], "share", 0.0),
        f"{TOLD}subgroups [{{'episodes'",
    ),
    "no subgroups": (lambda f: put(evidence(f), "subgroups", None), f"{TOLD}subgroups None"),
    "warnings": (lambda f: put(evidence(f), "warnings", []), f"{TOLD}warnings []"),
    "an unplanned candidate": (
        lambda f: put(f.entry(23)["payload"], "planned", True),
        "entry 23, candidate for version 6: no new policy was due at row 65",
    ),
    "a seed": (lambda f: f.amend(recipe={"seed": 5}), "entry 2, version 1: the log gives another"),
    "a schedule": (
        lambda f: f.amend(schedule={"kind": "every-episode"}),
        "entry 6, candidate for version 2: a new policy was due at row 1 already",
    ),
}


def changed_reward(f):
    f.row(2)["body"]["rewards"][0] = 0.123
    f.retell(f.row(2))


def changed_feature(f):
    f.row(1)["body"]["features"][0] = [0.5, 0.5, 0.0]
    f.retell(f.row(1))


def changed_correction(f):
    f.row(31)["body"] |= {"features": [[0.5, 0.0, 0.0], [0.0, 1.0, 0.0]]}
    f.retell(f.row(31))


@pytest.mark.parametrize("name", FITS)
def test_evidence_and_dates_are_computed_again(original, forgery, name):
    alter, said = FITS[name]
    alter(forgery)
    assert [one for one in replayed(original, forgery) if one.startswith(said)]


@pytest.mark.parametrize(
    ("alter", "number"), [(changed_reward, 6), (changed_feature, 6), (changed_correction, 17)]
)
def test_every_policy_is_fitted_again(original, forgery, alter, number):
    alter(forgery)
    found = replayed(original, forgery)
    assert [one for one in found if one.startswith(f"entry {number}, ")]


def test_a_policy_that_the_log_does_not_give_is_named(original, forgery):
    """Negated weights under their own digest, in the candidate and in the deployment."""
    policies, old = forgery.folder / "policies", forgery.entry(11)["payload"]["digest"]
    policy = rs.Policy.from_bytes((policies / f"{old}.policy").read_bytes())
    other = replace(policy, weights=-policy.weights)
    (policies / f"{old}.policy").unlink()
    (policies / f"{other.digest}.policy").write_bytes(other.to_bytes())
    for number in (11, 13):
        forgery.entry(number)["payload"]["digest"] = other.digest
    keep(original[0], other.to_bytes())
    assert "entry 11, version 3: the log gives another policy" in replayed(original, forgery)


def keep(campaign, data):
    """Keep bytes as a policy, under their digest."""
    with campaign.store.writing(campaign.name) as connection:
        row = {"campaign": campaign.name, "digest": digest_of(data), "kind": "policy", "data": data}
        connection.execute(artifacts.insert().values(row))


def test_members_that_a_policy_does_not_have_are_named(original, forgery):
    for number in (23, 25):
        forgery.entry(number)["payload"]["members"] = 5
    forgery.cover_up()
    assert of_folder(forgery.folder) == {
        "artifacts": [
            f"ledger: entry {number}: its policy has other members" for number in (25, 23)
        ]
    }


def test_bytes_that_are_not_a_policy_are_named(original, forgery):
    data = b"no policy at all"
    for number in (23, 25):
        forgery.entry(number)["payload"]["digest"] = digest_of(data)
    forgery.cover_up()
    forgery.put_into(original[0])
    keep(original[0], data)
    (found,) = of_store(original[0])
    assert found.startswith(f"artifact {digest_of(data)[:12]} is not a policy")


# --- the built verifier ---------------------------------------------------------------------------


SAMPLE = [
    (approved_after_a_rejection, "ledger: entry 11", "candidate 9 is rejected already"),
    (lambda f: cut(f, 3, 4), "ledger: entry 4", "a reopening needs the approval"),
    (cancelled_and_recorded, "episodes: row 30", "episode p31 was cancelled"),
    (lambda f: f.chains["assignments"][9].update(salt="7f"), "assignments: row 10", "a salt"),
    (lambda f: alter_entry(f, "stopped", 0, {"value": 0.6}), "ledger: entry 3", "engine stopped"),
    (FITS["gain"][0], "entry 11", "its evidence has gain"),
]


@pytest.mark.parametrize(("alter", "where", "said"), SAMPLE)
def test_the_built_verifier_names_it_too(forgery, run_verifier, alter, where, said):
    """One sample of each kind: it asks the same modules."""
    alter(forgery)
    forgery.cover_up()
    done = run_verifier(forgery.folder)
    assert (done.returncode, done.stderr) == (1, "")
    told = done.stdout.splitlines()
    assert [one for one in told if where in one and said in one], told


# --- ledgers that nobody can follow ---------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1])
def test_a_ledger_that_does_not_begin_is_named(original, forgery, left):
    del forgery.chains["ledger"][left:]
    forgery.cover_up()
    assert of_folder(forgery.folder) == {
        "rules": ["ledger: it must begin with the protocol and version 1"]
    }


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        ("{", "JSONDecodeError"),
        ("[" * 100_000, "RecursionError"),
        ("[]", "it has no payload"),
        ("7", "it has no payload"),
        ('{"a": 1}', "not in canonical form"),
        ('{"a":1,"a":1}', "not in canonical form"),
        ('{"a":NaN}', "ValueError"),
    ],
)
def test_a_payload_that_cannot_be_read_is_named(original, forgery, payload, said):
    """Only a store holds it: an export holds values. All readers call it damage."""
    campaign = original[0]
    forgery.entry(26)["payload"] = payload
    forgery.relink("ledger")
    forgery.heads = {name: [len(rows), rows[-1]["link"]] for name, rows in forgery.chains.items()}
    forgery.put_into(campaign)
    (found,) = of_store(campaign)
    assert found.startswith("ledger: entry 26: ")
    assert said in found
    if "canonical" not in said and "ValueError" not in said:
        fresh = Campaign(campaign.store, campaign.name)
        for read in (status, lambda one: export(one, forgery.folder / "o", by="a", reason="b")):
            with pytest.raises(DamagedError, match="entry 26 of the ledger"):
                read(fresh)


NONSENSE = st.sampled_from([None, True, -1, 0, 3, 10**30, 0.5, "", "x", [], {}, [[]], {"a": 1}])


@settings(max_examples=50, deadline=None)
@given(data=st.data())
def test_whatever_an_entry_says_there_is_an_answer(original, tmp_path_factory, data):
    """Any value of any entry is replaced or taken out: verify answers, and status or export too."""
    campaign, folder = original
    forgery = Forgery(folder, tmp_path_factory.mktemp("nonsense") / "out")
    table = data.draw(st.sampled_from(forgery.chains["ledger"]))["payload"]
    while True:
        key = data.draw(st.sampled_from(sorted(table)))
        inner = table[key]
        if isinstance(inner, dict) and inner and data.draw(st.booleans()):
            table = inner
            continue
        if data.draw(st.booleans()):
            del table[key]
        else:
            table[key] = data.draw(NONSENSE)
        break
    forgery.cover_up()
    forgery.put_into(campaign)
    of_store(campaign)
    of_folder(forgery.folder)
    with suppress(DamagedError):
        status(Campaign(campaign.store, campaign.name))
