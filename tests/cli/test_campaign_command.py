"""A campaign from the command line: every command in words and in JSON, and what it refuses."""

import json

import pytest

from cli.terminal import call, refused

PROTOCOL = """
name = "doors"

[task]
dim = 2
horizon = 1
episodes = 40
actions = ["left", "right"]

[schedule]
kind = "spread-budget"
switches = 3

[budget]
deployments = 3

[approval]
by = "second-person"
"""
BOTH = [[1.0, 0.0], [0.0, 1.0]]


def report(name, action=0, **more):
    plain = {"id": name, "features": [BOTH[action]], "rewards": [float(action)]}
    return json.dumps(plain | {"first_features": BOTH, "actions": [action]} | more)


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """A campaign in the current folder, signed by ana unless another is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RARESWITCH_ACTOR", "ana")
    (tmp_path / "protocol.toml").write_text(PROTOCOL)
    assert call("campaign", "init", "protocol.toml").exit_code == 0
    return tmp_path


def spoken(*arguments):
    """Return what a command of the campaign says in JSON."""
    result = call("campaign", *arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def recorded(folder, count, first=0):
    lines = [report(f"p{i}", i % 2) for i in range(first, first + count)]
    (folder / "reports.jsonl").write_text("\n".join(lines))
    return spoken("import", "reports.jsonl")


def test_the_same_protocol_again_is_the_campaign_that_is_there(doors):
    again = spoken("init", "protocol.toml")
    assert again["campaign"] == "doors"
    assert again["version"] == 1
    (doors / "protocol.toml").write_text(PROTOCOL.replace("40", "41"))
    result = call("campaign", "init", "protocol.toml")
    assert result.exit_code == 1
    assert "another protocol" in result.stderr


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("dim = 2", "[task] needs dim"),
        ('kind = "spread-budget"', "[schedule] kind must be a name"),
        ("deployments = 3", "[budget] needs deployments"),
        ("[task]", "a protocol"),
    ],
)
def test_a_protocol_is_refused_by_table_and_key(tmp_path, monkeypatch, wrong, said):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.toml").write_text(PROTOCOL.replace(wrong, ""))
    assert said in refused("campaign", "init", "bad.toml", "--by", "ana")


def test_an_assignment_is_the_same_whenever_it_is_asked_for(doors):
    (first,) = spoken("assign", "ada")
    (again,) = spoken("assign", "ada")
    assert first["new"]
    assert not again["new"]
    assert first | {"new": False} == again
    assert spoken("status")["open"] == 1
    assert "as before" in call("campaign", "assign", "ada").stdout


def test_a_report_is_recorded_once_and_a_second_body_is_a_conflict(doors):
    (doors / "one.json").write_text(report("ada"))
    (expected,) = spoken("assign", "ada")
    found = spoken("record", "one.json")
    assert (found["seq"], found["version"], found["late"], found["new"]) == (1, 1, False, True)
    assert found["member"] == expected["member"]
    assert spoken("record", "one.json")["new"] is False
    (doors / "one.json").write_text(report("ada", rewards=[0.5]))
    result = call("campaign", "record", "one.json")
    assert result.exit_code == 1
    assert "another content" in result.stderr


def test_what_is_refused_is_counted_and_the_rest_is_recorded(doors):
    lines = [report("a"), report("../etc"), report("b", rewards=[2.0]), report("c")]
    (doors / "some.jsonl").write_text("\n".join(lines))
    result = call("campaign", "import", "some.jsonl")
    assert result.exit_code == 1
    assert result.stdout == "2 recorded, 2 refused\n"
    assert "report 2: id must be" in result.stderr
    assert "report 3: rewards must" in result.stderr
    assert spoken("status")["refused"] == 2


def test_parquet_is_imported_like_json_lines(doors):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = [json.loads(report(f"p{i}", i % 2)) for i in range(5)]
    parquet.write_table(pa.Table.from_pylist(rows), doors / "reports.parquet")
    assert spoken("import", "reports.parquet")["recorded"] == 5
    assert recorded(doors, 5) == {
        "recorded": 0, "known": 5, "refused": 0, "conflicts": 0, "not_allowed": 0,
    }  # fmt: skip


def test_a_candidate_waits_for_a_second_person_and_is_in_force_then(doors):
    recorded(doors, 6)
    candidate = spoken("learn")
    assert candidate["status"] == "waiting"
    assert candidate["version"] == 2
    number = candidate["number"]
    shown = call("campaign", "status").stdout
    assert f"candidate      {number}, for version 2" in shown
    assert "waits for" in shown
    result = call("campaign", "approve", number, "--by", "schedule", "--reason", "mine")
    assert result.exit_code == 1
    assert "another person" in result.stderr
    assert spoken("approve", number, "--by", "ben", "--reason", "reviewed")["version"] == 2
    assert spoken("status")["spent"] == 1
    kinds = [entry["kind"] for entry in spoken("ledger", "--last", 3)]
    assert kinds == ["candidate", "approved", "deployed"]


def test_a_rejected_candidate_leaves_the_version_in_force(doors):
    recorded(doors, 6)
    number = spoken("learn")["number"]
    assert spoken("reject", number, "--by", "ben", "--reason", "too few") == {"rejected": number}
    assert spoken("status")["version"] == 1


def test_nothing_is_proposed_before_it_is_due_unless_it_is_early(doors):
    recorded(doors, 1)
    nothing = spoken("propose", "--reason", "look")
    assert nothing["candidate"] is None
    assert nothing["triggers"]
    early = spoken("propose", "--early", "--reason", "guideline")
    assert early["planned"] is False
    assert early["proposer"] == "ana"


def test_nobody_is_waited_for_after_the_end(doors):
    recorded(doors, 6)
    spoken("learn")
    waits = call("campaign", "status").stdout
    assert "waits for      a decision by someone other than schedule" in waits
    spoken("stop", "--reason", "the sponsor withdrew")
    assert "waits for      nobody" in call("campaign", "status").stdout
    assert "sqlite:///" in (said := call("campaign", "status", "--campaign", "none").stderr)
    assert "pysqlite" not in said


def test_a_rollback_an_amendment_and_the_end_are_on_record(doors):
    recorded(doors, 6)
    spoken("approve", spoken("learn")["number"], "--by", "ben", "--reason", "reviewed")
    assert spoken("rollback", 1, "--reason", "harm")["version"] == 3
    (doors / "more.toml").write_text("episodes = 60\n")
    assert spoken("amend", "more.toml", "--reason", "slow")["revision"] == 2
    assert spoken("stop", "--reason", "the sponsor withdrew") == {"stopped": True}
    found = spoken("status")
    assert found["rollbacks"] == 1
    assert found["planned_episodes"] == 60
    assert found["stopped"] == "the sponsor withdrew"
    result = call("campaign", "assign", "late")
    assert result.exit_code == 1
    assert "stopped" in result.stderr


def test_corrections_withdrawals_and_forgetting(doors):
    (doors / "one.json").write_text(report("ada", participant="Ada Lovelace"))
    spoken("record", "one.json")
    (doors / "one.json").write_text(report("ada", rewards=[0.25]))
    assert spoken("correct", "one.json", "--reason", "misread")["seq"] == 2
    assert spoken("withdraw", "ada", "--reason", "consent")["seq"] == 3
    assert spoken("forget", "Ada Lovelace", "--reason", "asked") == {"episodes": 1}
    assert spoken("status")["recorded"] == 0


def test_verify_proves_and_names_what_was_altered(doors):
    import sqlite3

    recorded(doors, 6)
    spoken("learn")
    assert spoken("verify")["ok"]
    assert call("campaign", "verify").stdout.endswith("verdict        proven\n")
    with sqlite3.connect(doors / "campaign.db") as store:
        store.execute("UPDATE episodes SET total = 0.75 WHERE seq = 4")
    store.close()
    result = call("campaign", "verify")
    assert result.exit_code == 1
    assert "episodes: row 4 is not what was written" in result.stdout


def test_a_backup_restores_to_the_same_ledger(doors):
    recorded(doors, 6)
    assert spoken("backup", "backup.db")["campaigns"] == ["doors"]
    there = ["--store", "sqlite:///restored.db"]
    before = (doors / "backup.db").read_bytes()
    assert spoken("restore", "backup.db", *there) == {"campaigns": ["doors"]}
    assert (doors / "backup.db").read_bytes() == before
    assert sorted(path.name for path in doors.glob("backup.db*")) == ["backup.db"]
    assert spoken("status", *there) == spoken("status")
    assert spoken("verify", *there)["ok"]
    assert "there already" in refused("campaign", "backup", "backup.db")


def test_the_policy_in_force_is_written_for_those_who_act(doors):
    from rareswitch import Policy

    told = spoken("policy", "--out", "policy.bin")
    policy = Policy.from_bytes((doors / "policy.bin").read_bytes())
    assert policy.digest == told["digest"]
    assert spoken("assign", "ada")[0]["member"] == policy.allocate("ada")


def test_a_store_that_is_not_there_and_a_name_that_is_unknown_are_refused(doors):
    assert "there is no store" in refused("campaign", "status", "--store", "sqlite:///no.db")
    assert "SQLite or PostgreSQL" in refused("campaign", "status", "--store", "mysql://x/y")
    result = call("campaign", "status", "--campaign", "windows")
    assert result.exit_code == 1
    assert "no campaign windows" in result.stderr
