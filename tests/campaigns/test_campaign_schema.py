"""Schemas: migrated stores are what this version expects, and stores of every version open."""

import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory

import campaign_builders
from campaign_builders import chain, check_chains, create, report
from rareswitch.campaigns import Campaign, Learning, UnavailableError, open_store, verify
from rareswitch.campaigns.access.tables import metadata as access_metadata
from rareswitch.campaigns.rulebook import rows
from rareswitch.campaigns.store import migrate
from rareswitch.campaigns.store.schema import MIGRATIONS, NEWEST, apply_migrations
from rareswitch.campaigns.store.tables import metadata, snapshots

GOLDEN = Path(campaign_builders.__file__).parent / "golden"
LATER = ["0002", "0003"]  # migrations after the first
LINKS = {
    "episodes": (32, "0a6ac42f6e1e21b713c27f0716fa77eac6d397caee01a9aaa5b34044355f8718"),
    "assignments": (16, "5e00d9ce127728558035a67646342fa283963b736fb29bbaaebc12204d6fe487"),
    "refusals": (2, "32c1cf021aac595818ce1ea3eb70e6ab3f4478d0351ef07e3674f24db306348e"),
    "ledger": (26, "1972cf85b0af95ad46c75f245ad0e37d7e6a386c760790ce9667b17bbed3f329"),
}
# Version, row it was fitted at, rows when it came into force, version whose policy it is.
VERSIONS = [
    (1, 0, 0, None),
    (2, 7, 7, None),
    (3, 11, 11, None),
    (4, 16, 16, None),
    (5, 19, 19, 1),
    (6, 23, 23, None),
    (7, 26, 26, None),
]


def test_a_migrated_store_has_the_tables_of_this_version(store):
    with store.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, [metadata, access_metadata]) == []
        assert context.get_current_revision() == NEWEST


def test_keys_and_what_may_be_missing_are_those_of_this_version(store):
    """What Alembic does not compare."""
    found = sa.inspect(store.engine)
    for table in (*metadata.sorted_tables, *access_metadata.sorted_tables):
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
        assert list(Campaign(again, "trial").entries) == list(campaign.entries)


def test_a_store_of_a_newer_version_is_refused_in_plain_words(store, store_url):
    with store.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    store.close()
    for open_or_migrate in (
        open_store,
        lambda url: open_store(url, create=True),
        lambda url: open_store(url, read_only=True),
        migrate,
    ):
        with pytest.raises(UnavailableError, match="written by a newer version of rareswitch"):
            open_or_migrate(store_url)
    with store.engine.begin() as connection:
        left = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
        assert left == "9999"


def test_another_database_is_left_alone(tmp_path):
    path = tmp_path / "photographs.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table photographs (name text)")
    connection.close()
    before = path.read_bytes()
    for options in ({"create": True}, {}, {"read_only": True}):
        with pytest.raises(UnavailableError, match="not a rareswitch store: it has a table photog"):
            open_store(path, **options)
    with pytest.raises(UnavailableError, match="not a rareswitch store"):
        migrate(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_migrations_are_part_of_the_package():
    assert (MIGRATIONS / "env.py").exists()
    assert (MIGRATIONS / "script.py.mako").exists()


@pytest.fixture
def golden(tmp_path):
    """Open a migrated copy of the store that version 0.1.0 wrote."""
    copy = tmp_path / "campaign.db"
    shutil.copy(GOLDEN / "campaign-0.1.0.db", copy)
    assert migrate(copy) == LATER
    with open_store(copy) as store:
        yield Campaign(store, "trial")


@pytest.mark.parametrize("options", [{}, {"create": True}, {"read_only": True}])
def test_opening_a_store_of_an_older_schema_names_the_command(tmp_path, options):
    copy = tmp_path / "campaign.db"
    shutil.copy(GOLDEN / "campaign-0.1.0.db", copy)
    with pytest.raises(
        UnavailableError, match=r"campaign\.db has the schema 0001 .*`rareswitch campaign migrate`"
    ):
        open_store(copy, **options)
    with sqlite3.connect(copy) as connection:
        assert connection.execute("select version_num from alembic_version").fetchone() == ("0001",)
    connection.close()


def test_migrating_again_applies_nothing(store, store_url):
    campaign = create(store)
    assert migrate(store_url) == []
    assert len(campaign.entries) == 2


def test_migrating_keeps_the_chains_and_drops_snapshots(golden):
    with golden.store.reading() as connection:
        assert connection.execute(sa.select(snapshots)).all() == []
        for chain_name, optional in (("episodes", "deviations"), ("assignments", "salt")):
            table = metadata.tables[chain_name]
            found = connection.execute(sa.select(table.c[optional]).distinct()).scalars().all()
            assert found == [None]


def test_a_server_is_migrated_by_many_at_once(postgres):
    url = postgres.create_database()
    engine = sa.create_engine(url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rareswitch.campaigns.store.schema.NEWEST", "0001")
        assert apply_migrations(engine, url) == ["0001"]
    with pytest.raises(UnavailableError, match="has the schema 0001"):
        open_store(url)
    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
        applied = [one.submit(migrate, url), other.submit(migrate, url)]
        assert sorted(done.result() for done in applied) == [[], LATER]
    engine.dispose()
    open_store(url).close()


def test_what_is_empty_is_created_only_where_that_was_asked(store_url):
    if store_url.startswith("sqlite"):
        Path(store_url.removeprefix("sqlite:///")).touch()
    for options in ({}, {"read_only": True}):
        with pytest.raises(UnavailableError, match="`rareswitch campaign init` creates one"):
            open_store(store_url, **options)
    with pytest.raises(UnavailableError, match=r"there is no store in .* to migrate"):
        migrate(store_url)
    with open_store(store_url, create=True) as store:
        create(store)


@pytest.mark.parametrize("chain_name", rows.CHAINS)
def test_the_columns_of_a_chain_are_the_fields_of_its_rows(chain_name):
    table = metadata.tables[chain_name]
    names = {column.name for column in table.columns}
    caches = {"place"} if chain_name == "episodes" else set()
    assert names == {"campaign", *rows.CHAINS[chain_name]._fields, *caches}
    key = [column.name for column in table.primary_key]
    assert key == ["campaign", rows.NUMBERS[chain_name]]
    for name in {*rows.OPTIONAL} & names:
        assert table.c[name].nullable


def test_a_golden_store_is_read_as_it_was_written(golden):
    check_chains(golden)
    heads = {name: (len(rows), rows[-1].link) for name in LINKS if (rows := chain(golden, name))}
    assert heads == LINKS
    state = golden.state
    assert [(v.version, v.seq, v.since, v.rollback_to) for v in state.versions] == VERSIONS
    statuses = [one.status for one in state.candidates.values()]
    assert statuses == ["rejected", *["deployed"] * 3, "rejected", *["deployed"] * 2]
    assert (state.spent, state.left, state.terms.budget) == (5, 0, 5)
    assert state.stopped.reason == "enough for a test"
    assert verify(golden).problems == []


def test_a_golden_store_goes_on(golden):
    assert golden.record(report(0, site="0", participant="person 0")).seq == 1
    assert golden.record(report(99, id="open")).seq == 33
    golden.rollback(2, by="cyd", reason="a test")
    with Learning(golden) as learning:
        assert learning.step() is None
    check_chains(golden)
    assert verify(golden).problems == []
