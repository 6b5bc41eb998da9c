"""Tampering with a store: whatever row is altered, removed or moved, `verify` names it."""

import json

import numpy as np
import pytest
import sqlalchemy as sa

from campaign_builders import chain, create, propose, report
from golden.make_campaign import story
from rareswitch.campaigns import Approval, Campaign, Intake, open_store
from rareswitch.campaigns.proof.verify import verify
from rareswitch.campaigns.store.tables import CHAINS, artifacts, cohorts, heads, metadata
from rareswitch.support import codec


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def written(request, tmp_path_factory):
    """Return a campaign in which there is one of everything, and all rows of its store."""
    if request.param == "sqlite":
        url = tmp_path_factory.mktemp("verify") / "store.db"
    else:
        url = request.getfixturevalue("postgres").create_database()
    with open_store(url, create=True) as store:
        campaign = story(store)
        with store.reading() as connection:
            rows = {
                table: [row._asdict() for row in connection.execute(sa.select(table))]
                for table in metadata.sorted_tables
            }
        yield campaign, rows


@pytest.fixture
def campaign(written):
    """Return the campaign as it was written, whatever the test before did to it."""
    campaign, rows = written
    with campaign.store.writing(campaign.name) as connection:
        for table, values in rows.items():
            connection.execute(table.delete())
            connection.execute(table.insert(), values)
    return campaign


def problems(campaign):
    """Return what somebody finds who opens the campaign now."""
    return verify(Campaign(campaign.store, campaign.name)).problems


def row_at(name, number):
    table, column = CHAINS[name]
    return table, table.c[column] == number


def put(campaign, name, place, /, **values):
    table, where = row_at(name, place)
    with campaign.store.writing(campaign.name) as connection:
        assert connection.execute(table.update().where(where).values(**values)).rowcount == 1


def other(column, value):
    """Return another value for a column, as little another as may be."""
    if value is None:
        return b"" if column == "body" else "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1])
    if column in ("claims", "payload"):
        return json.dumps(json.loads(value) | {"more": 1})
    return value + "x"


def test_nothing_is_wrong_with_what_was_written(campaign):
    assert problems(campaign) == []


@pytest.mark.parametrize("name", CHAINS)
def test_a_value_that_was_altered_is_named(campaign, name):
    """Every column of the first row and of the last."""
    table, number = CHAINS[name]
    rows = chain(campaign, name)
    columns = [column.name for column in table.columns]
    for row in {rows[0], rows[-1]}:
        for column in set(columns) - {"campaign", number}:
            kept = getattr(row, column)
            put(campaign, name, getattr(row, number), **{column: other(column, kept)})
            said = problems(campaign)
            assert any(f"{name}: row {getattr(row, number)} is not" in one for one in said), (
                column,
                said,
            )
            put(campaign, name, getattr(row, number), **{column: kept})
    assert problems(campaign) == []


@pytest.mark.parametrize("name", CHAINS)
def test_a_row_that_was_removed_is_named(campaign, name):
    table, number = CHAINS[name]
    rows = chain(campaign, name)
    for row in (rows[0], rows[len(rows) // 2], rows[-1]):
        table, where = row_at(name, getattr(row, number))
        with campaign.store.writing(campaign.name) as connection:
            connection.execute(table.delete().where(where))
        said = problems(campaign)
        place = getattr(row, number)
        assert any(f"{name}: row {place} is missing" in one for one in said) or any(
            f"{name}: rows {place} to {place} are missing" in one for one in said
        ), said
        with campaign.store.writing(campaign.name) as connection:
            connection.execute(table.insert().values(row._asdict()))
    assert problems(campaign) == []


@pytest.mark.parametrize("name", CHAINS)
def test_two_rows_that_changed_places_are_named(campaign, name):
    _, number = CHAINS[name]
    last = len(chain(campaign, name))
    for place, new in ((last, 10_000), (last - 1, last), (10_000, last - 1)):
        put(campaign, name, place, **{number: new})
    said = problems(campaign)
    for place in (last - 1, last):
        assert any(f"{name}: row {place} is not" in one for one in said), said


def test_rows_cut_off_with_their_head_are_missed_by_the_ledger(campaign):
    """Somebody shortens the log and its head: the ledger knows how long it was."""
    rows = chain(campaign, "episodes")
    cut = rows[-4]
    table, _ = CHAINS["episodes"]
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(table.delete().where(table.c.seq > cut.seq))
        connection.execute(
            heads.update().where(heads.c.chain == "episodes").values(length=cut.seq, link=cut.link)
        )
    said = problems(campaign)
    assert any(f"episodes: rows {cut.seq + 1} to {rows[-1].seq} are" in one for one in said), said


def test_a_head_that_was_moved_is_noticed(campaign):
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(
            heads.update().where(heads.c.chain == "ledger").values(length=heads.c.length + 1)
        )
    assert any(one.startswith("ledger: ") for one in problems(campaign))


def test_a_policy_that_was_altered_or_removed_is_named(campaign):
    digest = campaign.state.versions[2].digest
    where = artifacts.c.digest == digest
    with campaign.store.writing(campaign.name) as connection:
        data = bytes(connection.execute(sa.select(artifacts.c.data).where(where)).scalar_one())
        connection.execute(artifacts.update().where(where).values(data=data[:-1] + b"x"))
    assert problems(campaign) == [f"artifact {digest[:12]} was altered"]
    with campaign.store.writing(campaign.name) as connection:
        connection.execute(artifacts.delete().where(where))
    assert problems(campaign) == [f"artifact {digest[:12]} is missing"]


@pytest.mark.parametrize(
    "change",
    [
        {"features": None},
        {"features": np.eye(3)[:1]},
        {"lengths": np.array([2])},
        {"colour": np.zeros(1)},
    ],
)
def test_a_body_that_holds_no_episode_is_named(store, change):
    """Its checksum and all links are right: whoever wrote it knew how."""
    campaign = create(store)
    wrong = report(1)
    arrays = codec.unpack("report", wrong.body).arrays | change
    arrays = {name: array for name, array in arrays.items() if array is not None}
    vars(wrong)["body"] = codec.pack("report", {}, arrays)
    campaign.take(report(0))
    campaign.take(wrong)
    (found,) = problems(campaign)
    assert found.startswith("episodes: row 2: its body cannot be read")


@pytest.mark.parametrize(
    ("rows", "why"),
    [
        (np.eye(4), "dimension 3; got 4"),
        (3.0 * np.eye(3), "no longer than feature_norm"),
        (np.full((3, 3), np.nan), "no longer than feature_norm"),
        (np.arange(3), "rows of features"),
    ],
)
def test_a_body_of_another_task_is_named(store, rows, why):
    campaign = create(store)
    other = report(1)
    arrays = {"features": rows[:2], "rewards": np.zeros(2), "next_features": rows}
    arrays["lengths"] = np.array([len(rows)])
    vars(other)["body"] = codec.pack("report", {}, arrays)
    vars(other)["episode"] = report(1, rewards=[0.0, 0.0]).episode
    for one in (report(0), other, report(2)):
        campaign.take(one)
    (found,) = problems(campaign)
    assert found.startswith("episodes: row 2: episode must have ")
    assert why in found


def of_another_task(number, **told):
    """Return a report whose body is of four dimensions, by somebody who knew how to write it."""
    wrong, rows = report(number, rewards=[0.0, 0.0], **told), np.eye(4)
    arrays = {"features": rows[:2], "rewards": np.zeros(2), "next_features": rows}
    vars(wrong)["body"] = codec.pack("report", {}, arrays | {"lengths": np.array([4])})
    return wrong


@pytest.mark.parametrize("unlearnt", ["late", "corrected", "correction"])
def test_a_body_that_nothing_is_learnt_from_is_looked_at_too(store, unlearnt):
    """The replay does not meet what is late and only recorded, nor what was corrected since."""
    campaign = create(store, intake=Intake(late="record"), approval=Approval(by="second-person"))
    signed = {"actor": "ana", "reason": "a test"}
    campaign.take(of_another_task(0) if unlearnt == "corrected" else report(0))
    if unlearnt == "late":
        campaign.take(report(1))
        candidate = propose(campaign, planned=False, actor="bo")
        campaign.approve(candidate.number, **signed)
        late = campaign.take(of_another_task(2, version=1))
        assert late.late
    else:
        if unlearnt == "correction":
            campaign.correct(of_another_task(0), **signed)
        campaign.correct(report(0), **signed)
    row = {"late": 3, "corrected": 1, "correction": 2}[unlearnt]
    wanted = f"episodes: row {row}: episode must have features of dimension 3; got 4"
    assert wanted in problems(campaign)


def test_a_cohort_that_was_altered_is_named(campaign):
    with campaign.store.writing(campaign.name) as connection:
        kept = connection.execute(sa.select(cohorts.c.state).where(cohorts.c.version == 2)).scalar()
        connection.execute(
            cohorts.update().where(cohorts.c.version == 2).values(state=raised(kept))
        )
    assert any("cohort of version 2" in one for one in problems(campaign))


def test_an_intake_that_was_altered_is_named(campaign):
    with campaign.store.writing(campaign.name) as connection:
        kept = connection.execute(sa.select(cohorts.c.state).where(cohorts.c.version == 0)).scalar()
        connection.execute(
            cohorts.update().where(cohorts.c.version == 0).values(state=raised(kept))
        )
    (found,) = problems(campaign)
    assert found.startswith("cohort of the intake: ")


def raised(state):
    """Return what is kept of a cohort with another sum, whatever its form."""
    values = json.loads(state)
    if isinstance(values, dict):
        return json.dumps(values | {"total": values["total"] + 1})
    return json.dumps([values[0], values[1] + 1, *values[2:]])
