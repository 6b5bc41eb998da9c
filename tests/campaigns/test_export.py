"""What an export holds, file by file, against the store."""

import csv
import json
import re
import signal
import subprocess
import sys
import weakref

import numpy as np
import pyarrow.parquet
import pytest
import sqlalchemy as sa

import rareswitch as rs
from rareswitch.campaigns import Campaign, Learning, Protocol, Report, open_store
from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.proof.export.export import export
from rareswitch.campaigns.proof.export.rows import LINES, PARQUET_COLUMNS
from rareswitch.campaigns.report_values import report_from
from rareswitch.campaigns.rulebook.rows import CHAINS, OPTIONAL, canonical, digest_of
from rareswitch.campaigns.store.rows import rows_of
from rareswitch.campaigns.store.tables import artifacts, episodes
from rareswitch.campaigns.store.transaction import count_again
from rareswitch.cli.campaign_look import candidate_text
from rareswitch.rules import EpisodeGrid
from small_export import (
    SECRET,
    SIMULATION,
    episode_of,
    full_campaign,
    opened,
    play,
    protocol_of,
    ticking,
)
from two_proofs import of_folder

SIGNED = {"by": "ana", "reason": "final report"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return a campaign, its export and the summary of that."""
    folder = tmp_path_factory.mktemp("export")
    campaign = full_campaign(folder / "store.db")
    yield campaign, folder / "out", export(campaign, folder / "out", **SIGNED)
    campaign.store.close()


def lines(folder, chain):
    return [json.loads(line) for line in (folder / f"{chain}.jsonl").read_text().splitlines()]


def stored(campaign, chain):
    """Return the rows of a chain, those of the ledger without the last, which notes the export."""
    with campaign.store.reading() as connection:
        rows = [row._asdict() for row in rows_of(connection, chain, campaign.name)]
    return rows[:-1] if chain == "ledger" else rows


def cohorts(folder):
    return {row["version"]: row for row in json.loads((folder / "cohorts.json").read_text())}


def cohorts_of(campaign):
    """Return the cohorts as the store counts them again."""
    with campaign.store.reading() as connection:
        return count_again(connection, campaign.name, campaign.state)[0]


def versions_of(campaign, condition):
    """Count episodes by version under a condition."""
    with campaign.store.reading() as connection:
        rows = connection.execute(
            sa.select(episodes.c.version, sa.func.count())
            .where(condition)
            .group_by(episodes.c.version)
        )
        return dict(map(tuple, rows))


def test_all_files_are_there(exported):
    _, folder, summary = exported
    names = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    policies = {name for name in names if name.startswith("policies/")}
    assert len(policies) == 6  # of five versions, one twice, and of a rejected candidate
    assert names - policies == {
        "appendix.md", "assignments.jsonl", "cohorts.csv", "cohorts.json", "episodes.jsonl",
        "data-dictionary.md", "episodes.parquet", "ledger.jsonl", "manifest.json",
        "protocol/revision-1.json", "protocol/revision-1.toml", "protocol/revision-2.json",
        "protocol/revision-2.toml", "refusals.jsonl", "report.html", "simulation.json", "sites.csv",
    }  # fmt: skip
    assert summary.files == len(names)
    assert json.loads(json.dumps(summary.plain))["rows"]["episodes"] == 65


@pytest.mark.parametrize("chain", CHAINS)
def test_every_row_is_exported_with_all_its_columns(exported, chain):
    campaign, folder, _ = exported
    rows, found = stored(campaign, chain), lines(folder, chain)
    assert len(rows) == len(found) > 0
    for row, line in zip(rows, found, strict=True):
        assert set(line) == {k for k in row if row[k] is not None or k not in OPTIONAL}
        for name, value in line.items():
            if name in ("claims", "payload"):
                assert canonical(value) == row[name]
            elif name == "body" and value is not None:
                told = report_from({"id": row["episode_id"], **value})
                assert told.body == row["body"]  # the very bytes
            else:
                assert value == row[name]
                assert type(value) is type(row[name])


def test_the_table_has_a_row_for_each_row_of_the_log(exported):
    campaign, folder, _ = exported
    table = pyarrow.parquet.read_table(folder / "episodes.parquet").to_pylist()
    rows = stored(campaign, "episodes")
    last = {row["episode_id"]: row["seq"] for row in rows}
    as_told, computed, met = [], 0, set()
    for row, found in zip(rows, table, strict=True):
        for name in ("seq", "episode_id", "revision", "version", "member", "assigned", "late",
                     "learn", "received", "link"):  # fmt: skip
            assert found[name] == row[name]
        claims = json.loads(row["claims"])
        texts = ("site", "began", "ended", "subgroup")
        assert [found[name] for name in texts] == [claims.get(name) for name in texts]
        events = None if found["events"] is None else json.loads(found["events"])
        assert events == claims.get("events")
        met |= {found["subgroup"], found["events"]}
        assert found["current"] is (
            last[row["episode_id"]] == row["seq"] and row["body"] is not None
        )
        if row["body"] is None:
            assert found["total"] is found["rewards"] is found["steps"] is None
            continue
        report = Report.from_body(row["body"], id="x")
        assert found["total"] == row["total"]
        assert found["rewards"] == report.episode.rewards.tolist()
        assert found["features"] == report.episode.features.tolist()
        assert found["steps"] == len(report.episode)
        assert found["cut_off"] is (len(report.episode.next_features) == found["steps"])
        for name in ("actions", "recommended"):
            told = getattr(report, name)
            assert found[name] == (None if told is None else told.tolist())
        as_told.append(report.propensities is not None)
        if as_told[-1]:
            assert found["propensities"] == report.propensities.tolist()
        elif report.actions is None:
            assert found["propensities"] is None
        else:
            policy = campaign.policy(row["version"])
            chance = policy.propensities(0, report.first_features)[report.actions[0]]
            given = found["propensities"]
            computed += given is not None
            assert (given is None) or given[0] == pytest.approx(chance, rel=1e-12)
        assert found["offered"][1:] == [3] * (found["steps"] - 1)
        assert found["offered"][0] == (None if report.first_features is None else 3)
    assert sum(row["overridden"] or 0 for row in table if row["current"]) == 11
    assert 0 < sum(as_told) < len(as_told)
    assert computed > 5
    assert met == {None, "mild", "severe|er", "{}", '{"nausea | é":2,"serious":1}'}


def test_cohorts_are_those_of_the_log(exported):
    campaign, folder, _ = exported
    found, state = cohorts(folder), campaign.state
    assert list(found) == [version.version for version in state.versions]
    late = versions_of(campaign, episodes.c.late & (episodes.c.revision == 0))
    assert late == {1: 1}
    counted = cohorts_of(campaign)
    for version in state.versions:
        row = found[version.version]
        seen = counted[version.version]
        assert row["episodes"] == seen.observations
        if seen.mean is not None:
            told = [row[name] for name in ("mean_return", "low", "high")]
            expected = [2 * end for end in (seen.mean, *seen.bounds(0.95))]
            assert told == pytest.approx(expected, rel=1e-9)
            assert told == [float(f"{value:.10g}") for value in told]
        assert row["late"] == late.get(version.version, 0)
        assert (row["digest"], row["fitted_on"]) == (version.digest, version.seq)
        assert (row["in_force_since"], row["in_force_at"]) == (version.since, version.entry.at)
    assert [row["origin"] for row in found.values()] == [
        "first", "planned", "planned", "planned", "rollback", "unplanned"
    ]  # fmt: skip
    assert [row["recorded"] - row["episodes"] for row in found.values()] == [1, 0, 0, 0, 0, 0]
    assert [row["withdrawn"] for row in found.values()] == [1, 0, 0, 0, 0, 0]
    assert [row["corrected"] for row in found.values()] == [0, 1, 0, 0, 0, 0]
    assert sum(row["assigned"] for row in found.values()) == len(stored(campaign, "assignments"))
    assert sum(row["missing"] for row in found.values()) == 3  # 9, 19, … that were assigned
    assert sum(row["cancelled"] for row in found.values()) == 1
    assert sum(row["overridden_steps"] for row in found.values()) == 11
    assert sum(row["overridden"] for row in found.values()) == 11  # one step of each
    table = pyarrow.parquet.read_table(folder / "episodes.parquet").to_pylist()
    told = [row for row in table if row["current"] and row["recommended"] is not None]
    assert sum(row["with_recommendation"] for row in found.values()) == len(told) > 11
    with open(folder / "cohorts.csv", newline="") as file:
        table = list(csv.DictReader(file))
    for row, plain in zip(table, found.values(), strict=True):
        assert row == {key: "" if value is None else str(value) for key, value in plain.items()}


def test_a_corrected_episode_counts_in_its_first_place(tmp_path):
    """An interval that holds at every look depends on the order of what was seen."""
    campaign = opened(
        tmp_path / "store.db", protocol_of(stopping=(), budget=0, schedule=rs.EveryEpisode())
    )
    for k in range(80):
        rewards = [0.5 + 0.1 * (k % 2)]
        episode = rs.Episode(features=np.eye(3)[[0]], rewards=rewards, next_features=[])
        campaign.record(f"p{k}", episode)
    other = rs.Episode(features=np.eye(3)[[0]], rewards=[0.0], next_features=[])
    campaign.correct(Report(id="p0", episode=episode), by="bo", reason="typo")
    for _ in range(3):  # sent again, it is one correction, and one withdrawal
        campaign.correct(Report(id="p0", episode=other), by="bo", reason="another")
        campaign.withdraw("p9", by="bo", reason="asked to")
    export(campaign, tmp_path / "out", **SIGNED)
    seen = cohorts_of(campaign)[1]
    (row,) = cohorts(tmp_path / "out").values()
    assert 0.0 < row["low"] < row["high"] < 2.0
    assert (row["episodes"], row["corrected"], row["withdrawn"]) == (79, 1, 1)
    text = (tmp_path / "out" / "appendix.md").read_text()
    assert "Episodes corrected: 1. Episodes withdrawn: 1." in text
    table = pyarrow.parquet.read_table(tmp_path / "out" / "episodes.parquet").to_pylist()
    assert [found["seq"] for found in table if not found["current"]] == [1, 10, 81, 83]
    assert [row["low"], row["high"]] == pytest.approx([2 * e for e in seen.bounds(0.95)], rel=1e-9)
    campaign.store.close()


def test_what_made_a_version_due_is_told(exported):
    campaign, folder, _ = exported
    found = cohorts(folder)
    for candidate in campaign.state.candidates.values():
        if candidate.status != "deployed":
            continue
        row, told = found[candidate.version], candidate.evidence["triggers"]
        assert row["proposed_by"] == candidate.proposer
        assert row["put_in_force_by"] == "eve"
        assert row["observed"] in [trigger["value"] for trigger in told]
        assert row["margin"] == row["observed"] - row["threshold"]
        assert (row["margin"] >= 0.0) is candidate.planned
    assert found[1]["quantity"] is found[5]["quantity"] is None


def test_protocols_policies_and_simulation_are_those_on_record(exported):
    campaign, folder, _ = exported
    state = campaign.state
    for number, protocol in enumerate(state.revisions, start=1):
        text = (folder / f"protocol/revision-{number}.json").read_text()
        assert digest_of(text) == protocol.digest
        toml = (folder / f"protocol/revision-{number}.toml").read_text()
        assert Protocol.from_toml(toml).plain == protocol.plain
    assert state.revisions[1].budget == 6
    for version in state.versions:
        data = (folder / f"policies/{version.digest}.policy").read_bytes()
        assert rs.Policy.from_bytes(data).digest == version.digest
    assert (folder / "simulation.json").read_bytes() == SIMULATION


def test_the_manifest_is_entered_into_the_ledger(exported):
    campaign, folder, summary = exported
    last = campaign.entries[-1]
    data = (folder / "manifest.json").read_bytes()
    assert last.kind == "exported"
    assert (last.actor, last.reason) == ("ana", "final report")
    assert last.payload["digest"] == summary.digest == digest_of(data)
    manifest = json.loads(data)
    assert manifest["campaign"] == "small"
    assert manifest["software"]["numpy"] == np.__version__
    assert manifest["heads"]["ledger"] == [last.number - 1, campaign.entries[-2].link]
    for name, digest in manifest["files"].items():
        assert digest_of((folder / name).read_bytes()) == digest
    assert of_folder(folder, manifest=summary.digest) == {}


def test_a_rejected_amendment_decides_about_no_candidate(tmp_path):
    campaign = full_campaign(tmp_path / "store.db")
    amendment = campaign.amend({"budget": {"deployments": 9}}, by="bo", reason="more again")
    campaign.reject(amendment.number, by="eve", reason="that is enough")
    export(campaign, tmp_path / "out", by="ana", reason="final report")
    assert "that is enough" not in (tmp_path / "out" / "appendix.md").read_text(encoding="utf-8")
    assert of_folder(tmp_path / "out") == {}
    campaign.store.close()


def test_who_took_part_is_not_exported(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    episode = rs.Episode(features=np.eye(3)[[0]], rewards=[1.0], next_features=[])
    campaign.record("p1", episode, participant=SECRET)
    export(campaign, tmp_path / "out", **SIGNED)
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or SECRET.encode() not in path.read_bytes()
    campaign.store.close()


def test_only_the_report_of_an_ended_study_is_called_final(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    export(campaign, tmp_path / "running", **SIGNED)
    campaign.stop(by="ana", reason="enough")
    export(campaign, tmp_path / "ended", **SIGNED)
    titles = {
        name: (tmp_path / name / "appendix.md").read_text(encoding="utf-8").partition("\n")[0]
        for name in ("running", "ended")
    }
    assert titles["running"].endswith(": report of a study that has not ended")
    assert titles["ended"].endswith(": final report")
    campaign.store.close()


def test_no_decision_is_pending_after_a_stop(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of(schedule=EpisodeGrid(dates=(1, 3))))
    play_to_candidate(campaign)
    number = campaign.state.waiting.number
    export(campaign, tmp_path / "running", **SIGNED)
    campaign.stop(by="ana", reason="enough")
    export(campaign, tmp_path / "ended", **SIGNED)
    texts = [
        (tmp_path / name / "appendix.md").read_text(encoding="utf-8")
        for name in ("running", "ended")
    ]
    assert f"| Pending decision | candidate {number} |" in texts[0]
    assert "| waiting |" in texts[0]
    assert f"| Pending decision | none: candidate {number} was not decided |" in texts[1]
    assert "| not decided |" in texts[1]
    assert "| waiting |" not in texts[1]
    (shown,) = rs.campaigns.candidates(campaign)
    assert shown["owed"] is None
    last = candidate_text(campaign, shown)[-1]
    assert last == "not decided: the campaign has stopped"
    campaign.store.close()


def play_to_candidate(campaign):
    """Record episodes until a candidate waits for an approval."""
    rng = np.random.default_rng(0)
    with Learning(campaign) as learning:
        for k in range(4):
            campaign.record(f"p{k}", episode_of(rng, one_hot=False, short=False))
        assert learning.step().status == "waiting"


def test_the_appendix_tells_what_checklists_ask_for(exported):
    campaign, folder, _ = exported
    text = (folder / "appendix.md").read_text()
    asked = ["Summary", "(3a)", "(ACE 3b)", "(ACE 3c)", "5 iii)", "5 i)", "5 vi)", "(ACE 7b)",
             "(ACE 12b)", "(13a)", "(14b)", "(ACE 14c)", "(ACE 14c)", "(17a)", "(18)", "(ICH E20",
             "(ACE 24b)"]  # fmt: skip
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(asked)
    for heading, item in zip(headings, asked, strict=True):
        assert item in heading
    assert campaign.state.revisions[0].digest in text
    assert "| bo | episode p2, recorded in row 3 | consent \\<b\\>withdrawn\\</b\\> |" in text
    assert "| 16 | corrected |" in text
    assert "typo \\| form" in text
    assert "| 20 | rolled-back |" in text
    assert "| 22 | amended |" in text
    assert 'protocol revision 2: budget: \\{"deployments":4\\} → \\{"deployments":6\\}' in text
    assert "| 23 | 6 | no |" in text
    assert "| bo | a candidate for version 6 that was not due | interim |" in text
    assert "names of participants erased: 57 episodes" in text
    assert "rejected | eve |" in text
    assert "| rewards must lie in \\[0, 1\\] | 16 |" in text
    assert "| Assigned and not reported | 3 of 46 |" in text
    assert "| Another action given than recommended | 11 episodes, at 11 steps |" in text
    assert "1 amendment, 1 unplanned candidate, 1 rollback, corrections and withdrawals: " in text
    assert "Episodes corrected: 1. Episodes withdrawn: 1." in text


def test_the_data_dictionary_explains_every_column(exported):
    _, folder, _ = exported
    text = (folder / "data-dictionary.md").read_text()
    parquet = pyarrow.parquet.read_schema(folder / "episodes.parquet").names
    assert sorted(PARQUET_COLUMNS) == sorted(parquet)
    for chain, row in CHAINS.items():
        assert sorted(LINES[chain]) == sorted(row._fields)
    headers = {
        f"{name}.csv": (folder / f"{name}.csv").read_text().splitlines()[0].split(",")
        for name in ("cohorts", "sites")
    }
    headers["episodes.parquet"] = parquet
    headers |= {f"{chain}.jsonl": list(row._fields) for chain, row in CHAINS.items()}
    parts = dict(part.split("\n", 1) for part in text.split("\n## ")[1:])
    for name, columns in headers.items():
        (part,) = [part for heading, part in parts.items() if name in heading.split(", ")]
        explained = re.findall(r"^\| (\S+) \| \S.*\. \|$", part.replace("\\_", "_"), re.M)
        assert sorted(explained) == sorted(columns)


def test_the_report_stands_alone(exported):
    _, folder, _ = exported
    html = (folder / "report.html").read_text()
    assert html.count("<svg") == 3
    assert not re.findall(r"(?:src|href)=\"(?!#)|url\(|@import", html)
    assert "<script" not in html
    assert "consent &lt;b&gt;withdrawn&lt;/b&gt;" in html
    assert "not yet" in html


def test_what_is_there_is_not_overwritten(exported, tmp_path):
    campaign, _, _ = exported
    (tmp_path / "note.txt").write_text("mine")
    entries = len(campaign.entries)
    with pytest.raises(FileExistsError, match="must be empty or new"):
        export(campaign, tmp_path, **SIGNED)
    with pytest.raises(FileExistsError, match="must be empty or new"):
        export(campaign, tmp_path / "note.txt", **SIGNED)
    with pytest.raises(ValueError, match="reason must not be empty"):
        export(campaign, tmp_path / "new", by="ana", reason=" ")
    assert [path.name for path in tmp_path.iterdir()] == ["note.txt"]
    assert len(campaign.entries) == entries


def test_an_error_leaves_nothing(exported, tmp_path, monkeypatch):
    campaign, _, _ = exported
    entries = len(campaign.entries)

    def fail(*_):
        raise OSError("no room")

    monkeypatch.setattr(export_module, "derived_files", fail)
    (tmp_path / "out").mkdir()
    with pytest.raises(OSError, match="no room"):
        export(campaign, tmp_path / "out", **SIGNED)
    assert [path.name for path in tmp_path.rglob("*")] == ["out"]
    assert len(campaign.entries) == entries
    monkeypatch.undo()
    export(campaign, tmp_path / "out", **SIGNED)  # an empty folder will do
    assert of_folder(tmp_path / "out") == {}


KILLED = """
import os, signal, sys
from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.proof.export import export

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

setattr(export, sys.argv[3], die)
with open_store(sys.argv[1]) as store:
    export.export(Campaign(store, "small"), sys.argv[2], by="ana", reason="killed")
"""


@pytest.mark.parametrize("where", ["derived_files", "_manifest"])
def test_a_kill_leaves_nothing_that_looks_complete(exported, tmp_path, where):
    campaign, _, _ = exported
    entries = len(campaign.entries)
    target = tmp_path / "out"
    command = [sys.executable, "-c", KILLED, str(campaign.store.path), str(target), where]
    done = subprocess.run(command, check=False, timeout=120)
    assert done.returncode == -signal.SIGKILL
    assert not target.exists()
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".out.")
    assert left.name.endswith(".incomplete")
    assert not (left / "manifest.json").exists()
    assert len(campaign.entries) == entries


def test_an_export_is_of_one_moment(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    play(campaign, 20)
    other = Campaign(open_store(tmp_path / "store.db"), "small")
    told = []

    def meanwhile(what, done, of):
        told.append((what, done, of))
        play(other, 30, name="q", seed=1)

    before = campaign.entries
    summary = export(campaign, tmp_path / "out", progress=meanwhile, **SIGNED)
    assert told == [("episodes", 18, 18)]
    assert summary.rows == {"episodes": 18, "assignments": 15, "refusals": 0, "ledger": len(before)}
    assert other.entries[-1].number > len(before) + 1  # more had happened
    assert len(cohorts(tmp_path / "out")) == summary.versions < len(campaign.state.versions)
    assert of_folder(tmp_path / "out") == {}
    campaign.store.close()
    other.store.close()


def test_a_later_export_holds_the_note_of_the_earlier(exported, tmp_path):
    campaign, _, summary = exported
    export(campaign, tmp_path / "out", **SIGNED)
    noted = [row for row in lines(tmp_path / "out", "ledger") if row["kind"] == "exported"]
    assert noted[0]["payload"]["digest"] == summary.digest
    assert of_folder(tmp_path / "out") == {}


def test_both_stores_export_the_same(store, tmp_path):
    times = ticking()
    here = Campaign.create(store, protocol_of(), by="ana", clock=lambda: next(times))
    file = opened(tmp_path / "file.db", protocol_of())
    for name, campaign in (("here", here), ("file", file)):
        play(campaign, 25)
        campaign.withdraw("p2", by="bo", reason="asked to")
        export(campaign, tmp_path / name, **SIGNED)
        assert of_folder(tmp_path / name) == {}
    for path in (tmp_path / "file").rglob("*"):
        if path.is_file():
            twin = tmp_path / "here" / path.relative_to(tmp_path / "file")
            assert twin.read_bytes() == path.read_bytes()
    assert len(here.state.versions) > 2
    file.store.close()


def test_a_campaign_without_episodes_is_exported(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    export(campaign, tmp_path / "out", **SIGNED)
    assert of_folder(tmp_path / "out") == {}
    html = (tmp_path / "out" / "report.html").read_text()
    assert "No candidate was proposed" in html
    assert "<svg" not in html
    assert pyarrow.parquet.read_table(tmp_path / "out" / "episodes.parquet").num_rows == 0
    campaign.store.close()


def test_damage_is_said(tmp_path):
    campaign = opened(tmp_path / "store.db", protocol_of())
    play(campaign, 5)
    with campaign.store.writing("small") as connection:
        connection.execute(artifacts.update().values(data=b"other"))
    with pytest.raises(DamagedError, match="was altered"):
        export(campaign, tmp_path / "out", **SIGNED)
    with campaign.store.writing("small") as connection:
        connection.execute(episodes.update().where(episodes.c.seq == 3).values(body=b"other"))
        policy = campaign.protocol.learner().policy.to_bytes()
        connection.execute(artifacts.update().values(data=policy))
    with pytest.raises(DamagedError, match="row 3 of the log"):
        export(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()


def test_rows_are_written_as_they_are_read(tmp_path, monkeypatch):
    campaign = opened(tmp_path / "store.db", protocol_of(stopping=()))
    episode = rs.Episode(features=np.eye(3)[[0]], rewards=[1.0], next_features=[])
    for _ in campaign.record_all(Report(id=f"p{k}", episode=episode) for k in range(119)):
        pass
    held, most, sizes = weakref.WeakSet(), [], []
    real = export_module.report_of

    def counted(row):
        report = real(row)
        held.add(report)
        return report

    def progress(what, done, of):
        (part,) = tmp_path.glob(".out.*")
        sizes.append((part / "episodes.jsonl").stat().st_size)
        most.append(len(held))

    monkeypatch.setattr("rareswitch.campaigns.store.rows.READ_TOGETHER", 10)
    monkeypatch.setattr(export_module, "REPORTED_EVERY", 10)
    monkeypatch.setattr(export_module, "report_of", counted)
    export(campaign, tmp_path / "out", progress=progress, **SIGNED)
    assert len(sizes) == 12
    assert sizes[5] > 0.2 * sizes[-1] > 0
    assert max(most) <= 2
    campaign.store.close()
