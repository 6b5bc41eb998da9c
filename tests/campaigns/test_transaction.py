"""One transaction: rows are linked as they are stored, and cohorts are kept with them."""

from campaign_builders import chain, check_chains, create
from rareswitch.campaigns.rulebook.attribution import Assigned
from rareswitch.campaigns.rulebook.rows import CHAINS, GENESIS, link_of
from rareswitch.campaigns.store.rows import heads_of
from rareswitch.campaigns.store.transaction import Transaction


def begin(connection, campaign, **more):
    heads = heads_of(connection, "trial")
    return Transaction(connection, "trial", state=campaign.state, heads=heads, now="now", **more)


def test_a_row_with_or_without_its_optional_column_is_linked_as_it_is_stored(store):
    campaign = create(store)
    with store.writing("trial") as connection:
        transaction = begin(connection, campaign, ids=["p0", "p1"])
        transaction.assign("p0", Assigned(1, 0, None))
        transaction.assign("p1", Assigned(1, 0, "ab"))
        assert [transaction.assignment_number(name) for name in ("p0", "p1")] == [1, 2]
        transaction.write()
    plain, salted = chain(campaign, "assignments")
    assert (plain.salt, salted.salt) == (None, "ab")
    check_chains(campaign)
    told = {name: getattr(salted, name) for name in CHAINS["assignments"]._fields}
    assert salted.link == link_of("assignments", plain.link, told)
    assert salted.link != link_of("assignments", plain.link, told | {"salt": None})
    row = {"version": 1, "member": 0, "assigned": "now"}
    assert plain.link == link_of(
        "assignments", GENESIS, {"number": 1, "episode_id": "p0", "salt": None, **row}
    )
    with store.writing("trial") as connection:
        assert begin(connection, campaign).assignment_number("p1") == 2


def test_rows_that_are_not_written_are_not_there(store):
    campaign = create(store)
    with store.writing("trial") as connection:
        begin(connection, campaign).assign("p0", Assigned(1, 0, None))
    assert chain(campaign, "assignments") == []
    check_chains(campaign)
