"""One transaction: rows are linked as they are stored, and cohorts are kept with them."""

import sqlalchemy as sa

from campaign_builders import chain, check_chains, create, fill, report
from rareswitch.campaigns.rulebook.attribution import Assigned
from rareswitch.campaigns.rulebook.rows import CHAINS, GENESIS, link_of
from rareswitch.campaigns.store import rows as statements
from rareswitch.campaigns.store.rows import heads_of, rows_found
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


def test_a_commit_asks_for_its_own_episodes_and_not_for_the_whole_log(store, monkeypatch):
    campaign = create(store)
    fill(campaign, range(20))
    asked = []

    def watch(connection, statement, values):
        if "names" in values:
            asked.append((statement, values))
        return rows_found(connection, statement, values)

    monkeypatch.setattr(statements, "rows_found", watch)
    campaign.record(report(20))
    with store.reading() as connection:
        if not store.is_sqlite:  # a server that knows few rows may well read them all
            connection.execute(sa.text("SET LOCAL enable_seqscan = off"))
        for statement, values in asked:
            text, given = statements._compiled(connection.dialect, statement)
            explain = "EXPLAIN QUERY PLAN " if store.is_sqlite else "EXPLAIN "
            with statements._cursor(connection) as cursor:
                cursor.execute(explain + text, given(values))
                plan = str(cursor.fetchall())
            assert "one_revision" in plan or "one_assignment" in plan, plan
    assert asked
