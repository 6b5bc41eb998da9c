"""A campaign from the command line: every command in words and in JSON, and its refusals."""

import json
import os
import pkgutil
import shutil
import signal
import sqlite3
from contextlib import nullcontext
from inspect import isroutine
from pathlib import Path
from types import SimpleNamespace

import click
import pytest

import rareswitch as rs
import rareswitch.cli
from cli.terminal import call, refused
from observers import NAMES, TABLE
from rareswitch import campaigns
from rareswitch.campaigns import Approval, Protocol, packed_features
from rareswitch.cli.campaign import SECTIONS, campaign
from rareswitch.cli.campaign_look import BAR, _bar, changed_keys, needed_approval

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
DATA_QUALITY = '\n[[stopping]]\nrule = "data-quality"\nmost = 0.1\n'
GOLDEN = Path(__file__).parent.parent / "golden"
ALONE = 'note: versions come into force without a person: [approval] by = "schedule"'
BOTH = [[1.0, 0.0], [0.0, 1.0]]


def report(name, action=0, **more):
    plain = {"id": name, "features": [BOTH[action]], "rewards": [float(action)]}
    return json.dumps(plain | {"first_features": BOTH, "actions": [action]} | more)


def begun(folder, monkeypatch, protocol=PROTOCOL):
    monkeypatch.chdir(folder)
    monkeypatch.delenv("RARESWITCH_STORE", raising=False)
    monkeypatch.setenv("RARESWITCH_ACTOR", "ana")
    (folder / "protocol.toml").write_text(protocol)
    result = call("campaign", "init", "protocol.toml")
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def doors(tmp_path, monkeypatch):
    """A campaign in the current folder, signed by ana unless another is named."""
    return begun(tmp_path, monkeypatch)


@pytest.fixture
def clinic(tmp_path, monkeypatch):
    """A campaign of two visits whose sites report raw observations."""
    terms, data = packed_features(TABLE, ("severity",))
    task = rs.Task(dim=TABLE.dim, horizon=2, episodes=30, one_hot=True)
    agreed = Protocol(
        name="clinic",
        task=task,
        schedule=rs.UniformGrid(batches=3),
        budget=2,
        actions=NAMES,
        features=terms,
    )
    (tmp_path / "features.bin").write_bytes(data)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RARESWITCH_ACTOR", "ana")
    (tmp_path / "protocol.toml").write_text(agreed.to_toml())
    spoken("init", "protocol.toml", "--feature-map", "features.bin")
    return tmp_path


def spoken(*arguments, status=0):
    """Return what a command of the campaign says in JSON."""
    result = call("campaign", *arguments, "--json")
    assert result.exit_code == status, result.output
    return json.loads(result.stdout)


def said(*arguments, status=0):
    """Return the text that a command prints for people."""
    result = call("campaign", *arguments)
    assert result.exit_code == status, result.output
    return result.stdout


def recorded(folder, count, first=0):
    lines = [report(f"p{i}", i % 2) for i in range(first, first + count)]
    (folder / "reports.jsonl").write_text("\n".join(lines))
    return spoken("import", "reports.jsonl")


def proposed(folder):
    """Return the candidate that six episodes make due."""
    recorded(folder, 6)
    (candidate,) = spoken("learn")["candidates"]
    return candidate


# Help


def test_every_verb_is_in_a_section_of_the_help():
    listed = [command for commands in SECTIONS.values() for command in commands]
    assert {command.name for command in listed} == set(campaign.commands)
    inner = list(campaign.commands["protocol"].commands.values())
    for module in pkgutil.iter_modules(rareswitch.cli.__path__):
        if module.name.startswith("campaign"):
            names = vars(__import__(f"rareswitch.cli.{module.name}", fromlist=["_"]))
            made = [value for value in names.values() if isinstance(value, click.Command)]
            assert all(one in [*listed, *inner, campaign] for one in made), module.name


def test_the_help_lists_verbs_by_section_and_cuts_nothing():
    text = call("campaign", "--help").stdout
    titles = [line[:-1] for line in text.splitlines() if line[:-1] in SECTIONS]
    assert titles == ["Set up", "Field", "Decide", "Look", "Prove and keep"]
    assert "…" not in text
    assert "..." not in text.partition("Options:")[2]
    for command in campaign.commands.values():
        assert len(command.help.partition("\n")[0]) <= 45, command.name
        assert call("campaign", command.name, "--help").exit_code == 0


def test_every_verb_is_a_function_of_its_name():
    for name in campaign.commands:
        function = getattr(campaigns, {"import": "import_reports"}.get(name, name))
        assert isroutine(function) or callable(function), name
        assert not isinstance(function, type)


def test_without_the_extra_every_command_names_it(doors, monkeypatch):
    monkeypatch.setattr("rareswitch.support.extras.find_spec", lambda name: None)
    (doors / "one.json").write_text(report("ada"))
    verbs = {
        "record": ["one.json"], "import": ["one.json"], "act": ["a", "--observation", "{}"],
        "verifier": ["--out", "v.py"], "learn": [], "status": [], "migrate": [],
        "init": ["protocol.toml"], "simulate": ["protocol.toml"],
    }  # fmt: skip
    for name, arguments in verbs.items():
        result = call("campaign", name, *arguments)
        assert result.exit_code == 1, name
        assert "pip install '.[campaigns]'" in result.stderr
    assert call("campaign", "protocol", "validate", "protocol.toml").exit_code == 1


# Set up


def test_init_prints_the_digest_and_a_head_to_keep(doors):
    shown = said("init", "protocol.toml")
    again = spoken("init", "protocol.toml")
    assert (again["campaign"], again["version"]) == ("doors", 1)
    assert f"protocol       SHA-256 {again['protocol']}" in shown
    kept = shown.splitlines()[-1].removeprefix("keep this head elsewhere: ")
    assert kept == said("head").strip()
    assert json.loads(kept) == again["head"]


def test_the_same_name_with_another_protocol_is_a_conflict(doors):
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
    assert said in refused("campaign", "protocol", "validate", "bad.toml")
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".toml"] == ["bad.toml"]


def test_a_protocol_is_validated_without_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.toml").write_text(PROTOCOL)
    digest = Protocol.from_toml(PROTOCOL).digest
    shown = said("protocol", "validate", "p.toml")
    assert shown.splitlines()[0] == f"valid: doors, SHA-256 {digest}"
    assert "concealed is not set, which needs assigned = true: who knows the protocol" in shown
    assert [path.name for path in tmp_path.iterdir()] == ["p.toml"]


def test_one_policy_has_no_member_to_conceal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = '\n[recipe]\nexploration = {kind = "bonus", beta = 1.0}\n'
    (tmp_path / "p.toml").write_text(PROTOCOL + one)
    shown = said("protocol", "validate", "p.toml")
    assert shown.startswith("valid: doors")
    assert "concealed" not in shown


def test_a_rule_of_your_own_runs_only_if_its_module_is_allowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RARESWITCH_ACTOR", "ana")
    (tmp_path / "fifths.py").write_text(
        "from dataclasses import dataclass\n\n\n"
        "@dataclass(frozen=True)\nclass EveryFifth:\n    shift: int = 0\n\n"
        "    def due(self, clock):\n        return clock.episode % 5 == self.shift\n\n"
        "    def deployment_limit(self, task, ridge):\n        return 8\n"
    )
    own = PROTOCOL.replace('kind = "spread-budget"\nswitches = 3', 'kind = "fifths:EveryFifth"')
    (tmp_path / "own.toml").write_text(own)
    allowed = ("--allow", "fifths")
    for verb in (("protocol", "validate"), ("init",)):
        assert "--allow fifths" in refused("campaign", *verb, "own.toml")
        said(*verb, "own.toml", *allowed)
    lines = [report(f"p{i}", i % 2) for i in range(6)]
    (tmp_path / "reports.jsonl").write_text("\n".join(lines))
    said("import", "reports.jsonl")
    assert "--allow fifths" in call("campaign", "learn").stderr
    assert "--allow fifths" in call("campaign", "propose", "--reason", "look").stderr
    assert len(spoken("learn", *allowed)["candidates"]) == 1
    assert spoken("status")["waiting"]["version"] == 2
    assert "unchecked" in spoken("verify")["verdict"]
    assert spoken("verify", *allowed)["verdict"] == "proven"
    (tmp_path / "more.toml").write_text("episodes = 60\n")
    assert "--allow fifths" in call("campaign", "amend", "more.toml", "--reason", "slow").stderr
    assert spoken("amend", "more.toml", "--reason", "slow", *allowed)["kind"] == "amendment"


def test_revisions_of_the_protocol_are_shown_and_compared(doors):
    assert said("protocol", "diff") == "both are revision 1\n"
    (doors / "more.toml").write_text("episodes = 60\n\n[budget]\ndeployments = 4\n")
    number = spoken("amend", "more.toml", "--reason", "slow")["entry"]
    changes = "budget.deployments: 3 → 4\ntask.episodes: 40 → 60"
    status = said("status").splitlines()
    place = status.index(f"decision       amendment {number} by ana: slow")
    assert "\n".join(line.strip() for line in status[place + 1 : place + 3]) == changes
    assert status[place + 3].strip() == (
        f"needs approval by any person but ana: rareswitch campaign approve {number} --by NAME "
        "--reason TEXT"
    )
    same = call("campaign", "approve", number, "--by", "Ana", "--reason", "mine")
    assert same.exit_code == 1
    assert "another person has to approve" in same.stderr
    done = said("approve", number, "--by", "ben", "--reason", "agreed")
    assert done == "revision 2 of the protocol is in force, approved by ben\n"
    assert said("protocol", "diff").strip() == changes
    assert spoken("protocol", "diff", 2, 1)["changes"][1] == "task.episodes: 60 → 40"
    assert spoken("protocol", "show", "--revision", 1)["task"]["episodes"] == 40
    shown = Protocol.from_toml(said("protocol", "show"))
    assert shown.task.episodes == 60
    tables = [line for line in said("protocol", "show").splitlines() if line.startswith("[")]
    assert tables[0] == "[task]"
    assert tables[-1] == "[intake]"
    assert "revision must be from 1 to 2" in call("campaign", "protocol", "diff", 1, 3).stderr
    assert "both be given, or neither" in refused("campaign", "protocol", "diff", 1)


def test_changed_keys_name_tables_keys_and_both_values():
    old = {"a": {"x": 1, "gone": "so"}, "same": [1]}
    new = {"a": {"x": 2}, "same": [1], "rules": [{"rule": "harm"}]}
    assert list(changed_keys(old, new)) == [
        "a.x: 1 → 2", 'a.gone: "so" → (not set)', 'rules: (not set) → [{"rule": "harm"}]',
    ]  # fmt: skip


# Field


def test_an_assignment_is_the_same_whenever_it_is_asked_for(doors):
    (first,) = spoken("assign", "ada")
    (again,) = spoken("assign", "ada")
    assert first["new"]
    assert not again["new"]
    assert first | {"new": False} == again
    assert spoken("status")["open"] == 1
    assert "as before" in said("assign", "ada")
    assert [one["episode_id"] for one in spoken("open")] == ["ada"]


def test_an_assigned_episode_that_never_began_is_cancelled(doors):
    spoken("assign", "ada")
    assert spoken("cancel", "ada", "--reason", "did not come")["new"] is True
    assert said("cancel", "ada", "--reason", "did not come") == "cancelled ada, as before\n"
    assert spoken("open") == []
    assert "ana cancelled ada: did not come" in said("ledger")


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
    assert result.stderr.startswith("conflict: episode ada is recorded already, as row 1")
    assert spoken("status")["refused"] == 1  # the conflict is on the register
    (doors / "lines.jsonl").write_text(f"{report('ada', rewards=[0.5])}\n{report('ada')}\n")
    assert call("campaign", "import", "lines.jsonl").stdout == "1 known, 1 conflict\n"


@pytest.mark.parametrize("form", ["pretty object", "array", "lines"])
def test_reports_are_an_object_an_array_or_lines(doors, form):
    one, two = json.loads(report("ada")), json.loads(report("ben", 1))
    text = {
        "pretty object": json.dumps(one, indent=2),
        "array": json.dumps([one, two], indent=2),
        "lines": f"{json.dumps(one)}\n\n{json.dumps(two)}\n",
    }[form]
    (doors / "some.json").write_text(text)
    found = spoken("record", "some.json")
    assert isinstance(found, dict) == (form == "pretty object")
    seqs = [one["seq"] for one in ([found] if isinstance(found, dict) else found)]
    assert seqs == ([1] if form == "pretty object" else [1, 2])
    assert spoken("import", "some.json")["known"] == len(seqs)


@pytest.mark.parametrize(
    "text",
    ["", "id,reward\na,1\n", '{"id": "a",\n "rewards"', "[1, 2]", '{"name": "Emil"}', "[{}]"],
)
def test_input_that_is_no_report_is_refused_and_not_registered(doors, text):
    (doors / "wrong.json").write_text(text)
    for verb in ("record", "import"):
        message = refused("campaign", verb, "wrong.json")
        assert "not a report: " in message
        assert "Emil" not in message
    assert spoken("refusals") == []
    assert spoken("status")["recorded"] == 0


def test_one_wrong_line_keeps_all_lines_of_a_record_out(doors):
    (doors / "some.jsonl").write_text(f'{report("a")}\n{{"id": \n')
    refused("campaign", "record", "some.jsonl")
    assert spoken("status")["recorded"] == 0


def test_answers_of_several_reports_are_one_json_document(doors):
    lines = [report("a"), report("b", rewards=[2.0]), report("a", rewards=[0.5])]
    (doors / "some.jsonl").write_text("\n".join(lines))
    recorded_, refusal, conflict = spoken("record", "some.jsonl", status=1)
    assert recorded_["seq"] == 1
    assert (refusal["code"], refusal["refusal"]) == ("refused", 1)
    assert (conflict["code"], conflict["seq"]) == ("conflict", 1)
    result = call("campaign", "record", "some.jsonl")
    assert result.stdout.startswith("row 1  version 1  member ")
    first, second = result.stderr.splitlines()
    assert first.startswith("refused: rewards must")
    assert second.startswith("conflict: episode a")
    assert spoken("status")["refused"] == 2  # each counts once


def test_a_wrong_file_stops_no_campaign(tmp_path, monkeypatch):
    begun(tmp_path, monkeypatch, PROTOCOL + DATA_QUALITY)
    (tmp_path / "site.csv").write_text("id;age\n" + "p1;63\n" * 50)
    result = call("campaign", "import", "site.csv")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: the protocol's [features] has no columns: reports hold rows of features\n"
    )
    (tmp_path / "site.jsonl").write_text((tmp_path / "site.csv").read_text())
    refused("campaign", "import", "site.jsonl")
    (tmp_path / "site.txt").write_text(report("a"))
    assert "must end in .jsonl, .json, .parquet or .csv" in refused(
        "campaign", "import", "site.txt"
    )
    assert spoken("status")["refused"] == 0


def test_a_stop_by_data_quality_is_lifted_by_two_persons(tmp_path, monkeypatch):
    begun(tmp_path, monkeypatch, PROTOCOL + DATA_QUALITY)
    recorded(tmp_path, 9)
    bad = [report(f"bad{i}", rewards=[2.0 + i]) for i in range(40)]
    (tmp_path / "bad.jsonl").write_text("\n".join(bad))
    spoken("import", "bad.jsonl", status=1)
    assert "data-quality" in spoken("status")["stopped"]
    number = spoken("reopen", "--reason", "a wrong file")["reopening"]
    assert f"reopening {number} by ana: a wrong file" in (shown := said("status"))
    assert f"needs approval by any person but ana: rareswitch campaign approve {number}" in shown
    done = said("approve", number, "--by", "ben", "--reason", "agreed")
    assert done == "the campaign runs again, approved by ben\n"
    assert spoken("status")["stopped"] is None


def test_refused_reports_are_counted_and_the_others_are_recorded(doors):
    lines = [report("a"), report("../etc"), report("b", rewards=[2.0]), "[]", report("c")]
    (doors / "some.jsonl").write_text("\n".join(lines))
    result = call("campaign", "import", "some.jsonl")
    assert result.exit_code == 1
    assert result.stdout == "2 recorded, 2 refused, 1 unreadable\n"
    assert "report 2: id must be" in result.stderr
    assert "report 3: rewards must" in result.stderr
    assert "report 4: a report must be a JSON object" in result.stderr
    assert spoken("status")["refused"] == 2
    assert [one["episode_id"] for one in spoken("refusals", "--after", 1)] == ["b"]
    assert said("refusals", "--limit", 1).splitlines()[-1] == "for more: --after 1"


def test_an_interrupted_import_is_run_again(doors, monkeypatch):
    lines = [report(f"p{i}", i % 2) for i in range(8)]
    (doors / "reports.jsonl").write_text("\n".join(lines))
    with monkeypatch.context() as patched:
        patched.setattr("rareswitch.campaigns.campaign.IMPORTED_TOGETHER", 3)
        pressed = "rareswitch.cli.campaign_field.interruptible"
        patched.setattr(pressed, lambda: nullcontext(lambda: True))
        result = call("campaign", "import", "reports.jsonl")
    assert result.exit_code == 1
    assert "interrupted after 1 report; run it again" in result.stderr
    found = spoken("import", "reports.jsonl")
    assert (found["known"], found["recorded"]) == (3, 5)


def test_parquet_is_imported_like_json_lines(doors):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    rows = [json.loads(report(f"p{i}", i % 2)) for i in range(5)]
    rows.append(json.loads(report("nan")) | {"rewards": [float("nan")]})
    parquet.write_table(pa.Table.from_pylist(rows), doors / "reports.parquet")
    found = spoken("import", "reports.parquet", status=1)
    assert (found["recorded"], found["refused"]) == (5, 1)
    assert spoken("refusals")[0]["episode_id"] == "nan"
    assert {name: count for name, count in recorded(doors, 5).items() if count} == {"known": 5}
    parquet.write_table(pa.table({"age": [1]}), doors / "other.parquet")
    assert "not a report" in refused("campaign", "import", "other.parquet")


def test_subgroups_and_events_are_imported_and_listed(tmp_path, monkeypatch):
    import pyarrow as pa
    import pyarrow.parquet as parquet

    text = """
    [analysis]
    events = ["nausea", "serious"]
    subgroups = {names = ["mild", "severe"]}
    """
    begun(tmp_path, monkeypatch, PROTOCOL + text)
    rows = [json.loads(report(f"p{i}", i % 2)) for i in range(3)]
    rows[0] |= {"subgroup": "mild", "events": {"nausea": 2, "serious": None}}
    rows[1] |= {"subgroup": None, "events": {"nausea": 0, "serious": None}}
    rows[2] |= {"subgroup": "severe", "events": None}
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "struct.parquet")
    kinds = pa.map_(pa.string(), pa.int64())
    events = pa.array([[("serious", 1), ("nausea", 0)], [("serious", 1), ("serious", 2)]], kinds)
    more = pa.Table.from_pylist([json.loads(report(f"q{i}")) for i in range(2)])
    parquet.write_table(more.append_column("events", events), tmp_path / "map.parquet")
    (tmp_path / "more.jsonl").write_text(report("r", events={"nausea": 1, "serious": 0}))
    assert spoken("import", "struct.parquet")["recorded"] == 3
    assert spoken("import", "map.parquet", status=1)["refused"] == 1
    assert spoken("import", "more.jsonl")["recorded"] == 1
    found = [one["report"] for one in spoken("episodes")]
    assert [(one["id"], one.get("subgroup"), one.get("events")) for one in found] == [
        ("p0", "mild", {"nausea": 2}),
        ("p1", None, {}),
        ("p2", "severe", None),
        ("q0", None, {"serious": 1}),
        ("r", None, {"nausea": 1}),
    ]


def test_csv_with_raw_columns_is_imported_and_wrong_rows_are_listed(clinic):
    (clinic / "visits.csv").write_text(
        "id,step,severity,action,reward\n"
        "p1,1,2,low,0.5\np1,2,3,high,1\np2,1,9,low,0.5\np3,1,4,middle,0.25\n"
    )
    result = call("campaign", "import", "visits.csv")
    assert result.exit_code == 1
    assert result.stdout == "2 recorded, 1 unreadable\n"
    assert result.stderr == "line 4: severity must be a whole number from 1 to 5\n"
    assert spoken("refusals") == []
    assert [one["episode_id"] for one in spoken("episodes")] == ["p1", "p3"]
    (clinic / "visits.csv").write_text("id,step,action,reward\np4,1,low,1\n")
    assert "severity" in refused("campaign", "import", "visits.csv")


def test_a_feature_map_that_does_not_suit_the_task_is_not_locked(clinic):
    text = (clinic / "protocol.toml").read_text(encoding="utf-8")
    (clinic / "wrong.toml").write_text(text.replace(f"dim = {TABLE.dim}", "dim = 7"))
    init = ("campaign", "init", "wrong.toml", "--feature-map", "features.bin")
    message = refused(*init, "--store", "sqlite:///wrong.db")
    assert f"[task] dim must be {TABLE.dim}, as in the feature map; got 7" in message


def test_init_finds_the_feature_map_beside_the_protocol(clinic):
    init = ("campaign", "init", "protocol.toml")
    assert call(*init, "--store", "sqlite:///other.db").exit_code == 0
    (clinic / "features.bin").write_bytes(b"another map")
    result = call(*init, "--store", "sqlite:///third.db")
    assert result.exit_code == 1
    assert "features must be the file with the protocol's digest" in result.stderr
    (clinic / "features.bin").unlink()
    message = refused(*init, "--store", "sqlite:///third.db")
    assert "features.bin does not exist: name the file of the map with --feature-map" in message


def test_validate_checks_the_feature_map_beside_the_protocol(clinic):
    validate = ("protocol", "validate", "protocol.toml")
    shown = said(*validate)
    assert "\nthe feature map features.bin fits the task\n" in shown
    assert shown.endswith(f"\n{ALONE}\n")
    text = (clinic / "protocol.toml").read_text(encoding="utf-8")
    (clinic / "wrong.toml").write_text(text.replace(f"dim = {TABLE.dim}", "dim = 7"))
    message = refused("campaign", "protocol", "validate", "wrong.toml")
    assert f"[task] dim must be {TABLE.dim}, as in the feature map; got 7" in message
    (clinic / "features.bin").unlink()
    notes = spoken("protocol", "validate", "wrong.toml")["notes"]
    assert notes[0] == "the feature map is not checked: features.bin does not exist"
    assert notes[-1] == ALONE


def test_validate_adds_the_errors_of_a_claim(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    study = Path(__file__).parents[2] / "examples" / "study" / "protocol.toml"
    (tmp_path / "p.toml").write_bytes(study.read_bytes())
    *_, error, open_to_all, alone = said("protocol", "validate", "p.toml").splitlines()
    assert open_to_all.startswith("note: [intake] concealed is not set: who knows the protocol")
    assert error == "error of a claim: 0.01 at the looks plus 0.015 at the end, 0.025 together"
    assert alone == ALONE
    text = (tmp_path / "p.toml").read_text() + '[approval]\nby = "second-person"\n'
    (tmp_path / "p.toml").write_text(text)
    assert ALONE not in said("protocol", "validate", "p.toml")


@pytest.mark.parametrize(
    ("changes", "noted", "silent"),
    [
        ({"episodes = 600": "episodes = 102"},
         "note: first = 100 of 102 episodes: at most 2 reports are left for all learned versions; "
         "the burn-in has no control to compare with", "largest return"),
        ({"episodes = 600": "episodes = 199"},
         "note: first = 100 of 199 episodes: at most 99 reports are left", "largest return"),
        ({"episodes = 600": "episodes = 200"}, "note: [intake] concealed is not set", "first ="),
        ({"horizon = 1": "horizon = 3"},
         "note: the largest return is 3, 1 for each step: if only one step can have a reward, "
         "intervals at any time are wider than needed", "first ="),
        ({"horizon = 1": "horizon = 3", "[analysis]": '[analysis]\nmissing = "worst"'},
         'wider than needed, and missing = "worst" counts 3 for the control', "first ="),
        ({"assigned = true": "assigned = true\nconcealed = true"},
         "note: versions come into force", "concealed"),
    ],
)  # fmt: skip
def test_validate_notes_weak_points(tmp_path, monkeypatch, changes, noted, silent):
    monkeypatch.chdir(tmp_path)
    text = (Path(__file__).parents[2] / "examples" / "study" / "protocol.toml").read_text()
    text = text.replace("after = 200", "after = 2")
    for old, new in changes.items():
        assert old in text, text
        text = text.replace(old, new)
    (tmp_path / "p.toml").write_text(text)
    shown = said("protocol", "validate", "p.toml")
    assert noted in shown
    assert silent not in shown


def test_act_names_the_treatment_first(clinic):
    seen = ("--observation", '{"severity": 2}')
    first, more = said("act", "ada", *seen).splitlines()
    told = spoken("act", "ada", *seen)
    assert first == told["action"] in NAMES
    assert more == (f"version 1, member {told['member']}, probability {told['probability']:.4g}")
    earlier = ("--earlier", json.dumps([[{"severity": 2}, first]]))
    assert spoken("act", "ada", *seen, *earlier)["stage"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--observation", '{"severity": 9}'), "severity must be a whole number from 1 to 5"),
        (("--observation", "{severity"), "--observation must be JSON"),
        (("--observation", '{"severity": 1}', "--earlier", "{}"), "--earlier must be a list of"),
        (
            ("--observation", '{"severity": 1}', "--earlier", '[[{"severity": 1}, "none"]]'),
            "action must be one of low, middle, high",
        ),
    ],
)
def test_an_observation_that_is_wrong_assigns_nothing(clinic, options, message):
    assert message in refused("campaign", "act", "ada", *options)
    assert spoken("status")["assigned"] == 0


def test_observations_need_columns(doors):
    (doors / "raw.jsonl").write_text(
        report("a") + '\n{"id": "b", "observations": [{"age": 1}], "actions": [0], "rewards": [1]}'
    )
    found = spoken("import", "raw.jsonl", status=1)
    assert (found["recorded"], found["not_allowed"]) == (1, 1)
    assert "has no columns" in call("campaign", "act", "c", "--observation", "{}").stderr


def test_corrections_withdrawals_and_forgetting(doors):
    (doors / "one.json").write_text(report("ada", participant="Ada Lovelace"))
    spoken("record", "one.json")
    (doors / "one.json").write_text(report("ada", rewards=[0.25]))
    assert spoken("correct", "one.json", "--reason", "misread")["seq"] == 2
    assert spoken("correct", "one.json", "--reason", "misread")["new"] is False
    assert spoken("withdraw", "ada", "--reason", "consent")["seq"] == 3
    assert said("withdraw", "ada", "--reason", "consent").endswith(", as before\n")
    assert spoken("forget", "Ada Lovelace", "--reason", "asked") == {"episodes": 1}
    unknown = call("campaign", "forget", "Person 11", "--reason", "asked")
    assert unknown.exit_code == 1
    assert "no episode has a participant of that name" in unknown.stderr
    assert spoken("status")["withdrawn"] == 1
    shown = said("ledger")
    assert "ana corrected ada: misread" in shown
    assert "ana withdrew ada: consent" in shown
    assert "Lovelace" not in shown
    assert [row["withdrawn"] for row in spoken("episodes")] == [False, False, True]
    (doors / "one.json").write_text('{"name": 1}')
    assert "not a report" in refused("campaign", "correct", "one.json", "--reason", "again")


def test_the_policy_in_force_is_written_for_those_who_act(doors):
    from rareswitch import Policy

    told = spoken("policy", "--out", "policy.bin")
    policy = Policy.from_bytes((doors / "policy.bin").read_bytes())
    assert policy.digest == told["digest"]
    assert spoken("assign", "ada")[0]["member"] == policy.allocate("ada")
    assert "version must be from 1 to 1" in call("campaign", "policy", "--version", 3).stderr


# Decide


def test_a_candidate_waits_for_a_second_person_and_is_in_force_then(doors):
    candidate = proposed(doors)
    assert candidate["status"] == "waiting"
    assert candidate["version"] == 2
    number = candidate["number"]
    shown = said("status")
    sentence = f"candidate {number} for version 2: fitted on {candidate['evidence']['episodes']}"
    assert f"decision       {sentence} episodes, proposed by schedule" in shown
    assert f"needs approval by any person: rareswitch campaign approve {number} --by" in shown
    assert sentence in said("candidates")
    behind = spoken("status")["rows"] - spoken("status")["folded"]
    assert f"{behind} new episodes wait for the pending decision" in shown
    result = call("campaign", "approve", number, "--by", "schedule", "--reason", "mine")
    assert result.exit_code == 2
    assert "by must be a person" in result.stderr
    assert spoken("approve", number, "--by", "ben", "--reason", "reviewed")["version"] == 2
    assert said("approve", number, "--by", "ben", "--reason", "reviewed") == (
        "version 2 is in force, approved by ben, as before\n"
    )
    assert spoken("status")["spent"] == 1
    kinds = [entry["kind"] for entry in spoken("ledger", "--last", 3)]
    assert kinds == ["candidate", "approved", "deployed"]
    assert "approved by ben: reviewed" in said("candidates")
    assert spoken("candidates")[0]["decision"]["by"] == "ben"


def test_a_rejected_candidate_leaves_the_version_in_force_and_is_asked_again(doors):
    number = proposed(doors)["number"]
    assert spoken("reject", number, "--by", "ben", "--reason", "too few") == {"rejected": number}
    found = spoken("status")
    assert (found["version"], found["asked_again"]) == (1, 7)
    line = "decision       no decision is pending; the schedule is asked again at episode 7"
    assert line in said("status")
    wait = "no policy is due: after a rejection the schedule is asked at row 7\ntrigger: "
    assert said("learn").startswith(wait)
    recorded(doors, 1, first=6)
    assert "decision       no decision is pending\n" in said("status")
    assert f"ben rejected candidate {number}: too few" in said("ledger")


def test_learn_prints_one_document_whatever_happens(doors):
    assert spoken("learn") == {"candidates": [], "triggers": spoken("status")["triggers"]}
    assert said("learn").startswith("no policy is due\ntrigger: ")
    number = proposed(doors)["number"]
    again = spoken("learn")
    assert again["candidates"] == []
    assert again["triggers"]
    assert said("learn").startswith(f"candidate {number} needs approval by any person: ")
    spoken("stop", "--reason", "over")
    assert said("learn") == "the campaign has stopped: over\n"


def test_nothing_is_proposed_before_it_is_due_unless_it_is_early(doors):
    recorded(doors, 1)
    nothing = spoken("propose", "--reason", "look")
    assert nothing["candidate"] is None
    assert nothing["triggers"]
    early = spoken("propose", "--early", "--reason", "guideline")["candidate"]
    assert early["planned"] is False
    assert early["proposer"] == "ana"
    assert "needs approval by any person but ana: " in said("status")


def test_only_signers_are_asked_to_sign():
    signers = Approval(by="second-person", signers=("Ana", "ben", "carl"))
    line = needed_approval(7, "ana", signers)
    assert line.startswith("needs approval by ben or carl: rareswitch campaign approve 7 ")


class Outage:
    """A learner whose store is away at some steps; Ctrl-C is pressed at the last."""

    def __init__(self, monkeypatch, down):
        self.steps, self.down, self.entered = 0, down, 0
        real, enter = campaigns.Learning.step, campaigns.Learning.__enter__
        monkeypatch.setattr("rareswitch.cli.campaign_decide._pause", self.pause)
        self.pauses = []

        def step(learning):
            self.steps += 1
            if self.steps in self.down:
                raise campaigns.UnavailableError("the store cannot be read: gone")
            if self.steps > max(self.down) + 2:
                os.kill(os.getpid(), signal.SIGINT)
            return real(learning)

        def count(learning):
            self.entered += 1
            return enter(learning)

        monkeypatch.setattr(campaigns.Learning, "step", step)
        monkeypatch.setattr(campaigns.Learning, "__enter__", count)

    def pause(self, seconds, pressed):
        self.pauses.append(seconds)


def test_a_learner_that_follows_survives_an_outage(doors, monkeypatch):
    recorded(doors, 6)
    outage = Outage(monkeypatch, down=range(2, 12))
    result = call("campaign", "learn", "--follow")
    assert result.exit_code == 0, result.output
    gone = "the store cannot be read: gone; trying again until Ctrl-C\n"
    assert result.stdout.count(gone) == 1
    assert result.stdout.count("the store is available again\n") == 1
    assert result.stdout.count("needs approval by any person: ") == 1
    assert outage.pauses[:10] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0, 30.0, 30.0]
    assert outage.entered == 11  # the lock is taken again each time


def test_a_learner_that_follows_tells_events_as_lines_of_json(doors, monkeypatch):
    recorded(doors, 6)
    spoken("stop", "--reason", "the sponsor withdrew")
    Outage(monkeypatch, down=[3])
    result = call("campaign", "learn", "--follow", "--json")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert [event["event"] for event in events] == ["stopped", "unavailable", "available"]
    assert events[0]["reason"] == "the sponsor withdrew"
    assert events[1]["code"] == "unavailable"


def test_no_decision_is_pending_after_the_end(doors):
    proposed(doors)
    spoken("stop", "--reason", "the sponsor withdrew")
    shown = said("status")
    assert "decision       no decision is pending\n" in shown
    assert "campaign       doors, stopped (the sponsor withdrew)" in shown
    unknown = call("campaign", "status", "--campaign", "none").stderr
    assert "sqlite:///" in unknown
    assert "pysqlite" not in unknown


def test_a_rollback_an_amendment_and_the_end_are_on_record(doors):
    spoken("approve", proposed(doors)["number"], "--by", "ben", "--reason", "reviewed")
    assert spoken("rollback", 1, "--reason", "harm")["version"] == 3
    assert "ana rolled back to version 1: harm" in said("ledger")
    assert "ana, back to 1" in said("status")
    assert spoken("stop", "--reason", "the sponsor withdrew") == {"stopped": True}
    found = spoken("status")
    assert found["rollbacks"] == 1
    assert found["stopped"] == "the sponsor withdrew"
    result = call("campaign", "assign", "late")
    assert result.exit_code == 1
    assert "stopped" in result.stderr


def test_where_the_schedule_decides_one_person_amends(tmp_path, monkeypatch):
    begun(tmp_path, monkeypatch, PROTOCOL.replace("second-person", "schedule"))
    (tmp_path / "more.toml").write_text("episodes = 60\n")
    done = spoken("amend", "more.toml", "--reason", "slow")
    assert (done["kind"], done["revision"]) == ("amended", 2)
    assert spoken("status")["planned_episodes"] == 60
    recorded(tmp_path, 6)
    assert "in force as version 2" in said("learn")


# Look


def test_status_speaks_of_episodes_and_not_of_rows(doors):
    recorded(doors, 2)
    spoken("assign", "ada")
    (doors / "bad.json").write_text(report("bad", rewards=[2.0]))
    call("campaign", "record", "bad.json")
    shown = said("status")
    assert "1 assigned and not reported, 0 from a replaced version, 1 report refused" in shown
    assert "in force from episode" in shown
    assert "mean return [95% interval, valid at any time]" in shown
    assert "2 new episodes wait for the learner" in shown
    length, link = spoken("status")["heads"]["ledger"]
    assert f"ledger         {length} entries; link of the last: {link[:12]}…\n" in shown
    assert link not in shown


def test_a_bar_is_full_only_at_the_end():
    assert _bar(7.889, 7.98) == f"[{'#' * (BAR - 1)}.]"
    assert _bar(8, 7.98) == f"[{'#' * BAR}]"
    assert _bar(-1, 0) == f"[{'.' * BAR}]"


def test_a_line_of_the_ledger_is_one_line_whatever_a_store_holds(doors):
    forged = "so\n    9  2026-11-17T00:00:00  ben approved candidate 3: fine"
    assert "must be one line" in refused("campaign", "stop", "--reason", forged)
    with sqlite3.connect(doors / "campaign.db") as store:
        store.execute("UPDATE ledger SET reason = ? WHERE number = 2", [forged])
    store.close()
    assert len(said("ledger").splitlines()) == 2


def test_sites_and_campaigns_are_listed(doors):
    lines = [report(f"p{i}", i % 2, site=f"s{i % 2}") for i in range(4)]
    (doors / "r.jsonl").write_text("\n".join(lines))
    spoken("import", "r.jsonl")
    assert [(one["site"], one["mean_return"]) for one in spoken("sites")] == [("s0", 0), ("s1", 1)]
    assert [line.split()[0] for line in said("sites").splitlines()] == ["site", "s0", "s1"]
    spoken("withdraw", "p0", "--reason", "consent withdrawn")
    (doors / "r.json").write_text(report("p2", 1, site="s0"))
    spoken("correct", "r.json", "--reason", "typo")
    north, south = spoken("sites")
    assert (north["episodes"], north["mean_return"]) == (1, 1.0)
    assert south["episodes"] == 2
    assert spoken("list") == ["doors"]
    assert said("list") == "doors\n"


def test_reading_changes_no_byte_of_a_backup(doors):
    proposed(doors)
    spoken("backup", "backup.db")
    before = (doors / "backup.db").read_bytes()
    os.chmod(doors / "backup.db", 0o444)
    there = ("--store", "sqlite:///backup.db")
    for verb in (
        "status", "ledger", "list", "head", "candidates", "episodes", "open", "refusals", "sites",
        "verify", "policy",
    ):  # fmt: skip
        said(verb, *there)
    said("protocol", "show", *there)
    said("protocol", "diff", *there)
    assert (doors / "backup.db").read_bytes() == before
    assert sorted(path.name for path in doors.glob("backup.db*")) == ["backup.db"]


# Prove and keep


def test_verify_proves_and_names_the_row_that_was_altered(doors):
    proposed(doors)
    assert spoken("verify")["ok"]
    assert said("verify").endswith("verdict        proven\n")
    with sqlite3.connect(doors / "campaign.db") as store:
        store.execute("UPDATE episodes SET total = 0.75 WHERE seq = 4")
    store.close()
    shown = said("verify", status=1)
    assert "row 4" in shown
    assert shown.endswith("verdict        NOT proven\n")


def test_verify_refuses_a_store_that_lost_rows_since_a_head_was_kept(doors):
    recorded(doors, 3)
    assert len(said("head").splitlines()) == 1
    (doors / "heads.jsonl").write_text(said("head"))
    spoken("backup", "old.db")
    recorded(doors, 3, first=3)
    with open(doors / "heads.jsonl", "a") as heads:
        heads.write(said("head", "--json"))
    assert spoken("verify", "--anchor", "heads.jsonl")["ok"]
    old = ("--store", "sqlite:///old.db", "--anchor", "heads.jsonl")
    assert "row 6 was seen elsewhere, and is missing here" in said("verify", *old, status=1)
    (doors / "other.jsonl").write_text('{"campaign": "windows", "heads": {}}\n')
    assert "a head of the campaign doors" in refused(
        "campaign", "verify", "--anchor", "other.jsonl"
    )
    (doors / "other.jsonl").write_text("[1]\n")
    assert "only lines of `head`" in refused("campaign", "verify", "--anchor", "other.jsonl")


def test_the_verifier_is_written_with_its_digest(doors):
    from hashlib import sha256

    result = call("campaign", "verifier")
    assert result.stdout_bytes == campaigns.verifier()
    digest = sha256(result.stdout_bytes).hexdigest()
    assert result.stderr == f"SHA-256 {digest}\n"
    assert call("campaign", "verifier", "--out", "v.py").stdout == "written        v.py\n"
    assert (doors / "v.py").read_bytes() == result.stdout_bytes
    assert "--out must name a file" in refused("campaign", "verifier", "--json")
    assert "rareswitch campaign python" not in said("verifier", "--help")


def test_a_terminal_is_not_filled_with_the_verifier(doors, monkeypatch):
    terminal = SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("rareswitch.cli.campaign_prove.sys", terminal)
    assert "--out must name a file" in refused("campaign", "verifier")


def test_an_export_of_a_trial_is_written_and_on_record(doors):
    recorded(doors, 3)
    shown = said("export", "final", "--reason", "final report")
    assert shown.startswith("written        final\nmanifest       SHA-256 ")
    assert (doors / "final" / "report.html").is_file()
    assert "ana exported the record: final report" in said("ledger")


def test_a_backup_restores_to_the_same_ledger(doors):
    recorded(doors, 6)
    assert spoken("backup", "backup.db")["campaigns"] == ["doors"]
    there = ["--store", "sqlite:///restored.db"]
    before = (doors / "backup.db").read_bytes()
    done = spoken("restore", "backup.db", *there)
    assert done == {"file": "backup.db", "campaigns": ["doors"]}
    assert (doors / "backup.db").read_bytes() == before
    assert sorted(path.name for path in doors.glob("backup.db*")) == ["backup.db"]
    assert spoken("status", *there) == spoken("status")
    assert spoken("verify", *there)["ok"]
    assert "exists already" in refused("campaign", "backup", "backup.db")


def test_restore_names_the_file_that_was_given(doors):
    (doors / "notes.db").write_text("not a store")
    result = call("campaign", "restore", "notes.db", "--store", "sqlite:///new.db")
    assert result.exit_code == 1
    assert "notes.db" in result.stderr


def test_migrate_says_from_which_revision_to_which(doors):
    shutil.copy(GOLDEN / "campaign-0.1.0.db", doors / "old.db")
    old = ("--store", "sqlite:///old.db")
    before = (doors / "old.db").read_bytes()
    result = call("campaign", "status", *old)
    assert result.exit_code == 1
    assert "`rareswitch campaign migrate` brings it to the schema 0003" in result.stderr
    assert (doors / "old.db").read_bytes() == before
    assert said("migrate", *old) == "the store went from revision 0001 to revision 0003\n"
    assert spoken("migrate", *old) == {"from": "0003", "to": "0003"}
    assert spoken("list", *old)


def test_a_store_that_is_not_there_and_a_name_that_is_unknown_are_refused(doors):
    assert "there is no store" in refused("campaign", "status", "--store", "sqlite:///no.db")
    assert "SQLite or PostgreSQL" in refused("campaign", "status", "--store", "mysql://x/y")
    result = call("campaign", "status", "--campaign", "windows")
    assert result.exit_code == 1
    assert "no campaign windows" in result.stderr


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ana:hunter2@127.0.0.1:1/trial?connect_timeout=1",
        "postgresql://ana@127.0.0.1:1/trial?connect_timeout=1&password=hunter2",
        "sqlite:///trial.db?password=hunter2",
        "mysql://ana:hunter2@db/trial",
        "postgresql://ana:hunter2@db:port/trial",
    ],
)
def test_a_password_in_an_address_is_never_printed(doors, address):
    for verb in (("status",), ("init", "protocol.toml"), ("migrate",)):
        result = call("campaign", *verb, "--store", address)
        assert result.exit_code != 0
        assert "hunter2" not in result.output
