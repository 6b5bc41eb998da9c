"""Tampering with a store: whatever row is altered, removed or moved, `verify` names it."""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
import sqlalchemy as sa

from campaign_builders import chain, create, propose, report
from rareswitch.campaigns import (
    Approval,
    Campaign,
    DamagedError,
    Intake,
    backup,
    heads,
    migrate,
    open_store,
    status,
    verify,
)
from rareswitch.campaigns.rulebook.rows import NUMBERS
from rareswitch.campaigns.store.tables import artifacts, cohorts, metadata, progress, snapshots
from rareswitch.campaigns.store.tables import heads as head_rows
from rareswitch.support import codec
from small_export import full_campaign
from two_proofs import of_store

SIGNED = {"by": "ana", "reason": "a test"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def written(request, tmp_path_factory):
    """Return a campaign in which there is one of everything, and all rows of its store."""
    if request.param == "sqlite":
        url = tmp_path_factory.mktemp("verify") / "store.db"
    else:
        url = request.getfixturevalue("postgres").create_database()
    campaign = full_campaign(url)
    with campaign.store.reading() as connection:
        rows = {
            table: [row._asdict() for row in connection.execute(sa.select(table))]
            for table in metadata.sorted_tables
        }
    yield campaign, rows
    campaign.store.close()


@pytest.fixture
def campaign(written):
    """Return the campaign as it was written, whatever the test before did to it."""
    campaign, rows = written
    with campaign.store.writing(campaign.name) as connection:
        for table, values in rows.items():
            connection.execute(table.delete())
            if values:
                connection.execute(table.insert(), values)
    return campaign


def at(name, number):
    table = metadata.tables[name]
    return table, table.c[NUMBERS[name]] == number


def run(campaign, *statements):
    with campaign.store.writing(campaign.name) as connection:
        for statement in statements:
            assert connection.execute(statement).rowcount in (1, -1)  # -1: not told


def put(campaign, name, place, /, **values):
    table, where = at(name, place)
    run(campaign, table.update().where(where).values(**values))


def other(column, value):
    """Return another value for a column, as little another as may be."""
    if value is None:
        return {"body": b"", "deviations": 0}.get(column, "x")
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if column in ("claims", "payload"):
        return json.dumps(json.loads(value) | {"more": 1})
    return value + "x"


def test_a_store_as_it_was_written_is_proven(campaign):
    found = verify(Campaign(campaign.store, campaign.name))
    assert found.verdict == "proven"
    assert [check.outcome for check in found.checks] == ["holds"] * 9
    assert len(found.checks[-1].remarks) == 6
    assert all(remark.endswith("equal bytes") for remark in found.checks[-1].remarks)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_value_that_was_altered_is_named(campaign, name):
    """Every column of the first row and of the last."""
    rows, number = chain(campaign, name), NUMBERS[name]
    for row in {rows[0], rows[-1]}:
        place = getattr(row, number)
        for column in {*row._fields} - {number}:
            kept = getattr(row, column)
            put(campaign, name, place, **{column: other(column, kept)})
            assert f"{name}: row {place} was altered" in of_store(campaign), column
            put(campaign, name, place, **{column: kept})
    assert of_store(campaign) == []


@pytest.mark.parametrize("written", ["sqlite"], indirect=True)  # a server refuses such values
@pytest.mark.parametrize("value", [b"\xff", "a text", 1.5, None])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_value_of_another_type_is_named(campaign, name, value):
    """SQLite keeps values of any type in any column, and so may a hostile file."""
    row, number = chain(campaign, name)[-1], NUMBERS[name]
    place, columns = getattr(row, number), metadata.tables[name].c
    for column in row._fields:
        kept = getattr(row, column)
        alike = bool(value) is kept or kept == value  # a flag is read by its truth
        if alike or (value is None and not columns[column].nullable):
            continue
        put_raw(campaign, name, column, place, value)
        assert [one for one in of_store(campaign) if one.startswith(name)], column
        with suppress(DamagedError):
            status(Campaign(campaign.store, campaign.name))
        put_raw(campaign, name, column, value if column == number else place, kept)


def put_raw(campaign, name, column, place, value):
    """Write a value past the types of the table."""
    with campaign.store.writing(campaign.name) as connection:
        update = f"UPDATE {name} SET {column} = ? WHERE {NUMBERS[name]} = ?"
        connection.exec_driver_sql(update, (value, place))


@pytest.mark.parametrize("name", NUMBERS)
def test_a_row_that_was_removed_is_named(campaign, name):
    rows = chain(campaign, name)
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        place = getattr(row, NUMBERS[name])
        table, where = at(name, place)
        run(campaign, table.delete().where(where))
        assert f"{name}: row {place} is missing" in of_store(campaign)
        run(campaign, table.insert().values(row._asdict() | {"campaign": campaign.name}))
    assert of_store(campaign) == []


@pytest.mark.parametrize("name", NUMBERS)
def test_two_rows_that_changed_places_are_named(campaign, name):
    last = len(chain(campaign, name))
    for place, new in ((last, 10_000), (last - 1, last), (10_000, last - 1)):
        put(campaign, name, place, **{NUMBERS[name]: new})
    found = of_store(campaign)
    assert {f"{name}: row {place} was altered" for place in (last - 1, last)} <= {*found}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("place", [-1, 0, 1000])
def test_a_row_that_was_added_is_named(campaign, name, place):
    row = chain(campaign, name)[-1]._asdict() | {NUMBERS[name]: place, "campaign": campaign.name}
    row |= {"episode_id": "new"} if "episode_id" in row else {}
    run(campaign, metadata.tables[name].insert().values(row))
    found = of_store(campaign)
    assert [one for one in found if f"{name}: row {place} " in one], found


def test_rows_cut_off_with_their_head_are_missed_by_the_ledger_and_by_an_anchor(campaign):
    """Somebody shortens the log and its head: the ledger knows how long it was."""
    anchor = heads(campaign)
    rows = chain(campaign, "episodes")
    cut, table = rows[-4], metadata.tables["episodes"]
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(table.delete().where(table.c.seq > cut.seq))
        where = head_rows.c.chain == "episodes"
        moved = head_rows.update().where(where).values(length=cut.seq, link=cut.link)
        connection.execute(moved)
    found = of_store(campaign)
    assert [one for one in found if f"episodes: rows {cut.seq + 1} to {rows[-1].seq} are" in one]
    anchored = verify(Campaign(campaign.store, campaign.name), anchors=[anchor]).problems
    assert anchored[0] == f"episodes: row {rows[-1].seq} was seen elsewhere, and is missing here"


def test_an_anchor_of_another_row_is_named(campaign):
    anchor = heads(campaign)
    assert verify(campaign, anchors=[anchor]).ok
    anchor["ledger"] = anchor["ledger"]._replace(link="0" * 64)
    (found,) = verify(campaign, anchors=[anchor]).problems
    assert found == "ledger: row 26 is not the row that was seen elsewhere"


@pytest.mark.parametrize("name", NUMBERS)
def test_a_head_that_was_moved_or_removed_is_noticed(campaign, name):
    mine = head_rows.c.chain == name
    for values in ({"length": head_rows.c.length + 1}, {"length": 10**12}, {"link": "0" * 64}):
        kept = heads(campaign)[name]
        run(campaign, head_rows.update().where(mine).values(**values))
        assert [one for one in of_store(campaign) if one.startswith(f"{name}: ")]
        run(campaign, head_rows.update().where(mine).values(**kept._asdict()))
    run(campaign, head_rows.delete().where(mine))
    with pytest.raises(DamagedError, match=f"the head of {name} is missing"):
        of_store(campaign)


def test_a_policy_that_was_altered_or_removed_is_named(campaign):
    digest = campaign.state.versions[2].digest
    where = artifacts.c.digest == digest
    with campaign.store.reading() as connection:
        data = bytes(connection.execute(sa.select(artifacts.c.data).where(where)).scalar_one())
    run(campaign, artifacts.update().where(where).values(data=data[:-1] + b"x"))
    assert of_store(campaign) == [f"artifact {digest[:12]} was altered"]
    run(campaign, artifacts.delete().where(where))
    assert of_store(campaign) == [f"artifact {digest[:12]} is missing"]


@pytest.mark.parametrize(("table", "column"), [(cohorts, "state"), (snapshots, "data"),
                                               (progress, "state")])  # fmt: skip
def test_caches_prove_nothing_and_harm_nothing(campaign, table, column):
    """They are no part of the record: a damaged cache is made again."""
    before = status(Campaign(campaign.store, campaign.name))
    damage = b"damaged" if table is snapshots else '{"intake":[1]}'
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(table.update().values({column: damage}))
    assert of_store(campaign) == []
    again = status(Campaign(campaign.store, campaign.name))
    assert (again.versions, again.heads) == (before.versions, before.heads)


# --- bodies ---------------------------------------------------------------------------------------


def with_body(number, arrays, **told):
    """Return a report whose body was written by somebody who knew how."""
    wrong = report(number, rewards=[0.0, 0.0], **told)
    vars(wrong)["body"] = codec.pack("report", {}, arrays)
    vars(wrong).pop("digest", None)
    return wrong


def of_rows(rows):
    offered = {"next_features": rows, "lengths": np.array([len(rows)])}
    return {"features": rows[:2], "rewards": np.zeros(2)} | offered


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"rewards": np.zeros(2)}, "features"),
        (of_rows(np.eye(3)) | {"features": np.eye(3)[:1]}, ""),
        (of_rows(np.eye(3)) | {"lengths": np.array([2])}, ""),
        (of_rows(np.eye(3)) | {"colour": np.zeros(1)}, ""),
        (of_rows(np.eye(4)), "dimension 3; got 4"),
        (of_rows(3.0 * np.eye(3)), "no longer than feature_norm"),
        (of_rows(np.full((3, 3), np.nan)), "no longer than feature_norm"),
        (of_rows(np.arange(3)), "rows of features"),
    ],
)
def test_a_body_that_holds_no_episode_of_the_task_is_named(store, arrays, said):
    """Its checksum and all links are right."""
    campaign = create(store)
    for one in (report(0), with_body(1, arrays), report(2)):
        campaign.record(one)
    found = of_store(campaign)
    assert [one for one in found if one.startswith("episodes: row 2: ") and said in one], found


@pytest.mark.parametrize("unlearnt", ["late", "corrected", "correction"])
def test_a_body_that_no_fit_learns_from_is_checked_too(store, unlearnt):
    """The replay meets neither late episodes that are only recorded, nor corrected ones."""
    campaign = create(store, intake=Intake(late="record"), approval=Approval(by="second-person"))
    wrong = of_rows(np.eye(4))
    campaign.record(with_body(0, wrong) if unlearnt == "corrected" else report(0))
    if unlearnt == "late":
        campaign.record(report(1))
        evidence = {"triggers": []}
        candidate = propose(campaign, planned=False, by="bo", evidence=evidence)
        campaign.approve(candidate.number, **SIGNED)
        assert campaign.record(with_body(2, wrong, version=1)).late
    else:
        if unlearnt == "correction":
            campaign.correct(with_body(0, wrong), **SIGNED)
        campaign.correct(report(0), **SIGNED)
    row = {"late": 3, "corrected": 1, "correction": 2}[unlearnt]
    found = of_store(campaign)
    assert [one for one in found if f"episodes: row {row}: " in one and "got 4" in one], found


# --- copies ---------------------------------------------------------------------------------------


def files(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.iterdir()}


def test_neither_a_backup_nor_a_sealed_folder_changes_by_a_byte(tmp_path):
    campaign = full_campaign(tmp_path / "store.db")
    sealed = tmp_path / "sealed"
    sealed.mkdir()
    backup(campaign.store, sealed / "backup.db")
    campaign.store.close()
    shutil.copy(tmp_path / "store.db", sealed / "store.db")
    before = files(sealed)
    os.chmod(sealed, 0o555)
    try:
        for name in ("backup.db", "store.db"):
            with open_store(sealed / name, read_only=True) as store:
                assert verify(Campaign(store, "small")).verdict == "proven"
                status(Campaign(store, "small"))
    finally:
        os.chmod(sealed, 0o755)
    assert files(sealed) == before


GOLDEN = Path(__file__).parents[1] / "golden" / "campaign-0.1.0.db"


def test_a_store_of_an_earlier_version_is_proven(tmp_path):
    shutil.copy(GOLDEN, tmp_path / "old.db")
    migrate(tmp_path / "old.db")
    with open_store(tmp_path / "old.db") as store:
        assert of_store(Campaign(store, "trial")) == []
