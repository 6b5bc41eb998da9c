"""A ledger that says nonsense, linked as it must be: `verify` names the entry, and never fails."""

import copy

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from forged_store import first, forge_ledger, kept
from golden.make_campaign import story
from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.record.canonical import canonical, digest_of
from rareswitch.campaigns.store.tables import artifacts


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return a campaign in which there is one of everything."""
    with open_store(tmp_path_factory.mktemp("forged") / "store.db", create=True) as store:
        yield story(store)


@pytest.fixture
def campaign(written):
    """Return the campaign as it was written, whatever the test does to its ledger."""
    with kept(written):
        yield written


def problems(campaign):
    return verify(Campaign(campaign.store, campaign.name)).problems


def test_a_ledger_linked_anew_as_it_was_is_right(campaign):
    forge_ledger(campaign, lambda entries: None)
    assert problems(campaign) == []


def _unknown_approved(entries):
    first(entries, "approved")["payload"]["candidate"] = 99


def _unknown_rejected(entries):
    first(entries, "rejected")["payload"]["candidate"] = 99


def _unknown_deployed(entries):
    first(entries, "deployed", 1)["payload"]["candidate"] = 99


def _no_candidate(entries):
    del first(entries, "approved")["payload"]["candidate"]


def _no_version(entries):
    del first(entries, "deployed", 1)["payload"]["version"]


def _no_evidence(entries):
    first(entries, "candidate")["payload"]["evidence"] = None


def _strange_triggers(entries):
    first(entries, "candidate")["payload"]["evidence"]["triggers"] = [7, {"value": "high"}]


def _triggers_in_a_word(entries):
    first(entries, "candidate")["payload"]["evidence"]["triggers"] = "all"


def _no_reached(entries):
    del first(entries, "rolled-back")["payload"]["reached"]


def _other_reached(entries):
    first(entries, "rolled-back")["payload"]["reached"]["episodes"] = "many"


def _no_chain_reached(entries):
    del first(entries, "rolled-back")["payload"]["reached"]["refusals"]


def _no_object(entries):
    first(entries, "forgotten")["payload"] = "[]"


def _no_json(entries):
    first(entries, "forgotten")["payload"] = "{"


def _deep(entries):
    first(entries, "forgotten")["payload"] = "[" * 100_000


def _version_is_a_text(entries):
    first(entries, "candidate")["payload"]["version"] = "2"


def _version_is_true(entries):
    first(entries, "deployed")["payload"]["version"] = True


def _version_out_of_order(entries):
    first(entries, "deployed", 1)["payload"]["version"] = 7


def _version_again(entries):
    first(entries, "deployed", 2)["payload"]["version"] = 2


def _rolled_back_to_nothing(entries):
    first(entries, "rolled-back")["payload"]["to"] = 50


def _rolled_back_to_less(entries):
    first(entries, "rolled-back")["payload"]["to"] = -3


def _no_protocol(entries):
    first(entries, "amended")["payload"]["protocol"] = {}


def _no_such_rule(entries):
    payload = first(entries, "created")["payload"]
    payload["protocol"]["schedule"] = {"kind": "yearly"}
    payload["digest"] = digest_of(canonical(payload["protocol"]))


def _huge(entries):
    first(entries, "created")["payload"]["protocol"]["task"]["dim"] = 10**12


def _corrects_nobody(entries):
    del first(entries, "corrected")["payload"]["episode_id"]


def _internal_kind(entries):
    first(entries, "forgotten")["kind"] = "put-in-force"


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (_unknown_approved, "there is no candidate 99"),
        (_unknown_rejected, "there is no candidate 99"),
        (_unknown_deployed, "there is no candidate 99"),
        (_no_candidate, "its candidate is missing"),
        (_no_version, "its version is missing"),
        (_no_evidence, "its evidence cannot be None"),
        (_strange_triggers, "its trigger's quantity is missing"),
        (_triggers_in_a_word, "its triggers are no list"),
        (_no_reached, "its reached is missing"),
        (_other_reached, "its reached has no head of episodes"),
        (_no_chain_reached, "its reached has no head of refusals"),
        (_no_object, "it says nothing"),
        (_no_json, "it cannot be read, JSONDecodeError"),
        (_deep, "it cannot be read, RecursionError"),
        (_version_is_a_text, "its version cannot be '2'"),
        (_version_is_true, "its version cannot be True"),
        (_version_out_of_order, "version 7"),
        (_version_again, "version 2"),
        (_rolled_back_to_nothing, "version 50"),
        (_rolled_back_to_less, "version -3"),
        (_no_protocol, "the digest of the protocol is another"),
        (_no_such_rule, "it cannot be followed, ValueError: [schedule] kind must be one of"),
        (_huge, "the digest of the protocol is another"),
        (_corrects_nobody, "its episode_id is missing"),
        (_internal_kind, "put-in-force is no kind of entry"),
    ],
)
def test_an_entry_that_is_nonsense_is_named(campaign, alter, said):
    numbers = []

    def altering(entries):
        before = copy.deepcopy(entries)
        alter(entries)
        numbers.extend(
            entry["number"]
            for entry, old in zip(entries, before, strict=True)
            if repr(entry) != repr(old)  # True is no 1
        )

    forge_ledger(campaign, altering)
    found = problems(campaign)
    (number,) = numbers
    assert any(f"ledger: entry {number}: " in one and said in one for one in found), found


@pytest.mark.parametrize("left", [0, 1])
def test_a_ledger_that_does_not_begin_is_named(campaign, left):
    def cut(entries):
        del entries[left:]

    forge_ledger(campaign, cut)
    assert any("it must begin with the protocol and version 1" in one for one in problems(campaign))


def test_a_policy_that_is_none_is_named(campaign):
    data = b"no policy at all"
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(
            artifacts.insert().values(
                campaign=campaign.name, digest=digest_of(data), kind="policy", data=data
            )
        )

    def swap(entries):
        last = [entry for entry in entries if entry["kind"] == "candidate"][-1]
        number = entries.index(last) + 1
        for entry in entries:
            if entry is last or entry["payload"].get("candidate") == number:
                entry["payload"] |= {"digest": digest_of(data)}

    forge_ledger(campaign, swap)
    found = problems(campaign)
    assert any(f"artifact {digest_of(data)[:12]} is no policy" in one for one in found), found
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(sa.delete(artifacts).where(artifacts.c.digest == digest_of(data)))


NONSENSE = st.sampled_from([None, True, -1, 0, 3, 10**30, 0.5, "", "x", [], {}, [[]], {"a": 1}])


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_whatever_an_entry_says_verify_answers(written, data):
    """Any value of any entry is replaced or taken out; nothing else than an answer may come."""

    def alter(entries):
        table = data.draw(st.sampled_from(entries))["payload"]
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
            return

    with kept(written):
        forge_ledger(written, alter)
        problems(written)
