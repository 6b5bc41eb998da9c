"""Schemas: migrated stores are what this version expects, and stores of every version open."""

import shutil
import sqlite3
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import campaign_builders
from campaign_builders import chain, check_chains, create, report
from rareswitch.campaigns import Campaign, Learning, UnavailableError, open_store
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.store.schema import MIGRATIONS, NEWEST
from rareswitch.campaigns.store.tables import metadata

GOLDEN = Path(campaign_builders.__file__).parent / "golden"
LINKS = {
    "episodes": (32, "d0c11f836a00c408e4f9f232821c54cdfcff5a94c7a94baad4524fff176ea1be"),
    "assignments": (16, "b60188ea868010bbbde108509e492ca7239c31e3307784512d93b8aa7e5ba153"),
    "refusals": (2, "b24cb174e200a876dcb149e0600044db383b557ba5726fb8c5bfee0b8ebfc5b6"),
    "ledger": (28, "18fe96c2f4968d91f677bc49d59af84f80baa6f8146829cdce6feecebe2a802e"),
}
# Version, row it was fitted at, rows when it came into force, version whose policy it is.
VERSIONS = [
    (1, 0, 0, None),
    (2, 7, 7, None),
    (3, 11, 11, None),
    (4, 14, 14, None),
    (5, 18, 18, None),
    (6, 20, 20, 1),
    (7, 23, 23, None),
    (8, 28, 28, None),
]


def test_a_migrated_store_has_the_tables_of_this_version(store):
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
        assert context.get_current_revision() == NEWEST


def test_keys_and_what_may_be_missing_are_those_of_this_version(store):
    """What Alembic does not compare."""
    found = sa.inspect(store.engine)
    for table in metadata.sorted_tables:
        assert found.get_pk_constraint(table.name)["constrained_columns"] == [
            column.name for column in table.primary_key
        ]
        assert {c["name"]: c["nullable"] for c in found.get_columns(table.name)} == {
            column.name: column.nullable for column in table.columns
        }


def test_the_newest_migration_is_the_last():
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert scripts.get_heads() == [NEWEST]


def test_opening_again_changes_nothing(store, store_url):
    campaign = create(store)
    with open_store(store_url) as again:
        assert Campaign(again, "trial").entries == campaign.entries


def test_a_store_of_a_newer_version_is_refused_in_plain_words(store, store_url):
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    with pytest.raises(UnavailableError, match="written by a newer version of rareswitch"):
        open_store(store_url)
    with store.engine.begin() as connection:
        left = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        assert left == "9999"


def test_another_database_is_left_alone(tmp_path):
    path = tmp_path / "photographs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table photographs (name text)")
    connection.close()
    with pytest.raises(UnavailableError, match="holds something else: photographs"):
        open_store(path, create=True)
    with sqlite3.connect(path) as connection:
        assert connection.execute("select name from sqlite_master").fetchall() == [("photographs",)]
    connection.close()


def test_migrations_are_part_of_the_package():
    assert (MIGRATIONS / "env.py").exists()
    assert (MIGRATIONS / "script.py.mako").exists()


@pytest.fixture
def golden(tmp_path):
    """Open a copy of the store that version 0.1.0 wrote."""
    copy = tmp_path / "campaign.db"
    shutil.copy(GOLDEN / "campaign-0.1.0.db", copy)
    with open_store(copy) as store:
        yield Campaign(store, "trial")


def test_a_golden_store_is_read_as_it_was_written(golden):
    check_chains(golden)
    heads = {name: (len(rows), rows[-1].link) for name in LINKS if (rows := chain(golden, name))}
    assert heads == LINKS
    state = golden.state
    assert [(v.version, v.seq, v.since, v.rollback_to) for v in state.versions] == VERSIONS
    assert [one.status for one in state.candidates.values()] == ["rejected"] + ["deployed"] * 6
    assert (state.spent, state.left, state.protocol.budget) == (6, 1, 7)
    assert state.stopped.reason == "enough for a test"
    assert verify(golden).problems == []


def test_a_golden_store_goes_on(golden):
    assert golden.take(report(0, site="0", participant="person 0")).seq == 1
    assert golden.take(report(99, id="open")).seq == 33
    golden.roll_back(2, actor="cyd", reason="a test")
    with Learning(golden) as learning:
        assert learning.step() is None
    check_chains(golden)
    assert verify(golden).problems == []
