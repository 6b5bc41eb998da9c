"""A qualification holds for a sound installation, and every check of it can fail."""

import ast
import base64
import dataclasses
import gzip
import hashlib
import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sqlalchemy as sa

import rareswitch
from cli.terminal import call, refused
from rareswitch.campaigns import NotAllowedError, open_store
from rareswitch.campaigns.proof.checks import Check
from rareswitch.campaigns.qualification import drills, golden, installation, operation
from rareswitch.campaigns.qualification import qualify as module
from rareswitch.campaigns.qualification.golden import golden_report
from rareswitch.campaigns.qualification.installation import LibraryLine
from rareswitch.campaigns.qualification.qualify import qualify, requirements

ROOT = Path(__file__).parents[2]
CHECKS = [
    "versions", "libraries", "installed files", "golden fits", "golden record", "golden campaign",
    "alterations are noticed", "crash drill", "no room on disk", "backup and restore",
]  # fmt: skip


# The whole


@pytest.fixture
def few_kills(monkeypatch):
    """Let the crash drill kill three processes in place of ten."""
    monkeypatch.setitem(drills.check_crashes.__kwdefaults__, "kills", 3)


@pytest.mark.usefixtures("few_kills")
def test_a_sound_installation_is_qualified_with_a_report_to_sign(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out = Path("report")
    done = call("qualify", "--out", out, "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    data = (out / "qualification.json").read_bytes()
    assert json.loads(data) == told
    assert [check["name"] for check in told["installation"] + told["operation"]] == CHECKS
    assert all(check["rows"] for check in told["installation"] + told["operation"])
    assert told["ok"]
    assert [line["meaning"] for line in told["signatures"]] == ["performed by", "reviewed by"]
    page = (out / "qualification.html").read_text(encoding="utf-8")
    assert hashlib.sha256(data).hexdigest() in page
    for words in (told["verdict"], "performed by", "reviewed by", "lsvi.py", *CHECKS):
        assert words in page
    assert told["machine"]["one-file verifier"].split()[1] in page
    assert sorted(path.name for path in out.iterdir()) == [
        "qualification.html", "qualification.json",
    ]  # fmt: skip
    assert "without a report" in refused("qualify", "--out", out)
    assert (out / "qualification.json").read_bytes() == data


def test_the_command_ends_with_status_1_when_a_check_fails(tmp_path, monkeypatch):
    def some(*_):
        return {"one": lambda: Check(name="one", rows=1), "two": lambda: 1 / 0}

    monkeypatch.setattr(module, "_checks", some)
    done = call("qualify", "--out", tmp_path / "report")
    assert done.exit_code == 1
    assert "ZeroDivisionError: division by zero" in done.output
    assert "NOT qualified" in done.output
    assert "NOT qualified" in (tmp_path / "report" / "qualification.html").read_text()


@pytest.mark.usefixtures("few_kills")
def test_drills_run_in_an_empty_database_of_a_server(tmp_path, postgres):
    url = postgres.create_database()
    found = qualify(tmp_path / "report", store=url)
    assert [check.problems for check in found.checks] == [[]] * len(CHECKS)
    assert found.store.startswith("postgresql://")
    with pytest.raises(NotAllowedError, match=r"empty database; .* has the campaign drill"):
        qualify(tmp_path / "again", store=url)
    with pytest.raises(ValueError, match="store must be postgresql"):
        qualify(tmp_path / "file", store=f"sqlite:///{tmp_path / 'trial.db'}")


# Installation


@pytest.fixture
def site(tmp_path):
    """Install the package as a wheel does: files, and a RECORD of their hashes."""
    folder = tmp_path / "site"
    source = Path(rareswitch.__file__).parent
    shutil.copytree(
        source, folder / "rareswitch", ignore=shutil.ignore_patterns("__pycache__", ".*")
    )
    about = folder / "rareswitch-0.1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.4\nName: rareswitch\nVersion: 0.1.0\n")
    lines = ["rareswitch/__pycache__/agent.cpython-311.pyc,,", "../../bin/rareswitch,sha256=x,3"]
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest = hashlib.sha256(path.read_bytes()).digest()
        told = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        lines.append(f"{path.relative_to(folder).as_posix()},sha256={told},{path.stat().st_size}")
    (about / "RECORD").write_text("\n".join(lines) + "\n")
    return folder


def files_in(site, monkeypatch):
    """Return the check of the files of a package that is installed in a folder."""
    monkeypatch.setenv("PYTHONPATH", str(site))
    code = (
        "import json\nfrom rareswitch.campaigns.qualification.installation import *\n"
        "found = check_files(files())\n"
        "print(json.dumps([found.outcome, found.problems, found.rows]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=site.parent
    )
    return json.loads(done.stdout)


def test_files_as_the_wheel_had_them_hold(site, monkeypatch):
    outcome, problems, rows = files_in(site, monkeypatch)
    assert (outcome, problems) == ("holds", [])
    assert rows > 250


def test_altered_missing_and_added_files_are_named(site, monkeypatch):
    package = site / "rareswitch"
    with (package / "core" / "lsvi.py").open("a") as file:
        file.write("\n")
    (package / "py.typed").unlink()
    (package / "core" / "more.py").write_text("")
    outcome, problems, _ = files_in(site, monkeypatch)
    assert outcome == "FAILS"
    assert problems == [
        "rareswitch/core/lsvi.py is altered",
        "rareswitch/core/more.py is not recorded",
        "rareswitch/py.typed is missing",
    ]


def test_an_editable_install_says_that_its_files_are_unchecked(site, monkeypatch):
    about = site / "rareswitch-0.1.0.dist-info"
    (about / "direct_url.json").write_text('{"url": "file:///x", "dir_info": {"editable": true}}')
    outcome, problems, rows = files_in(site, monkeypatch)
    assert (outcome, problems) == ("partly", [])
    assert rows > 250


def test_libraries_that_miss_or_are_too_old_are_named():
    lines = [
        LibraryLine("numpy", "", "2.2", "1.26.4"),
        LibraryLine("alembic", "campaigns", "1.14", ""),
        LibraryLine("gymnasium", "gym", "1.1", ""),
        LibraryLine("click", "", "8.2", "8.2"),
    ]
    assert installation.check_libraries(lines).problems == [
        "numpy must be 2.2 or later; found 1.26.4",
        "alembic is not installed",
    ]
    assert installation.check_libraries([]).outcome == "partly"


def test_every_library_of_the_package_is_listed_with_its_version():
    found = {(line.name, line.needed_by): line for line in installation.libraries()}
    assert found["numpy", ""].earliest == "2.2"
    assert found["numpy", ""].installed == np.__version__
    assert found["psycopg", "postgres"].earliest == "3.2"
    assert not {"test", "dev"} & {line.needed_by for line in found.values()}


def test_a_requirement_of_another_form_is_no_library_that_is_skipped(monkeypatch):
    told = SimpleNamespace(requires=["numpy @ file:///x"])
    monkeypatch.setattr(installation, "_distribution", lambda: told)
    with pytest.raises(ValueError, match="requirement must be NAME>=VERSION"):
        installation.libraries()


def test_an_old_database_library_is_named(monkeypatch):
    monkeypatch.setattr(installation, "EARLIEST_SQLITE", (99,))
    assert installation.check_versions().problems == [
        f"SQLite must be 99 or later; found {sqlite3.sqlite_version}"
    ]


# Golden results


@pytest.fixture
def own_golden(tmp_path, monkeypatch):
    """Give a copy of the golden results that a test may alter."""
    folder = tmp_path / "golden"
    shutil.copytree(golden.FOLDER, folder)
    for place in (golden, operation):
        monkeypatch.setattr(place, "FOLDER", folder)
    return folder


def alter_results(folder, **changes):
    path = folder / "golden.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_golden_results_are_the_ones_that_are_made_now(tmp_path):
    golden.make(tmp_path / "golden")
    made = json.loads((tmp_path / "golden" / "golden.json").read_text())
    kept = golden.golden_results()
    del made["store"], kept["store"]  # a golden store keeps its old schema
    if made["numerics"] == kept["numerics"]:
        assert made == kept
    assert {**made["heads"], "ledger": None} == {**kept["heads"], "ledger": None}


def test_a_golden_digest_that_was_altered_is_named(own_golden):
    told = golden.golden_results()["policies"]
    alter_results(own_golden, policies=told | {"paper": "0" * 64})
    assert operation.check_fits().problems == [
        "paper: the golden policy is not the one of golden.json"
    ]
    del told["ensemble"]
    alter_results(own_golden, policies=told)
    assert operation.check_fits().problems[0] == (
        "golden.json must have the policies paper, ensemble, floor, one-hot"
    )


@pytest.mark.parametrize(
    ("same", "shift", "problems"),
    [
        (True, 0.0, []),
        (True, 1e-13, ["gives other bytes with the same libraries and processor"]),
        (False, 1e-13, []),
        (False, 1e-6, ["differs by more than 1e-09"]),
    ],
)
def test_a_fit_is_compared_exactly_or_to_rounding(own_golden, monkeypatch, same, shift, problems):
    fitted = dict(golden.golden_policies())
    for name, policy in fitted.items():  # as if the golden results were made here
        (own_golden / f"{name}.policy").write_bytes(policy.to_bytes())
    alter_results(own_golden, policies={name: policy.digest for name, policy in fitted.items()})
    if shift:
        weights = fitted["ensemble"].weights * (1.0 + shift)
        fitted["ensemble"] = dataclasses.replace(fitted["ensemble"], weights=weights)
    monkeypatch.setattr(operation, "golden_policies", lambda: fitted.items())
    monkeypatch.setattr(operation, "same_numerics", lambda told: same)
    found = operation.check_fits()
    assert ("exact comparison" in found.remarks[0]) == same
    assert found.problems == [f"ensemble: the fit {problem}" for problem in problems]


def test_the_golden_record_is_proven_and_an_altered_one_is_not(tmp_path, own_golden):
    (tmp_path / "one").mkdir()
    assert operation.check_golden_record(tmp_path / "one").problems == []
    path = tmp_path / "altered.db"
    golden.unpack_golden_store(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM episodes WHERE seq = 46")
    (own_golden / golden.STORE).write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "two").mkdir()
    problems = operation.check_golden_record(tmp_path / "two").problems
    assert problems[0] == "the golden store is not the one of golden.json"
    assert any("episodes" in problem for problem in problems[1:])


def test_golden_heads_that_differ_are_named(tmp_path, own_golden):
    told = golden.golden_results()
    told["heads"]["episodes"][1] = "0" * 64
    alter_results(own_golden, heads=told["heads"], versions=9)
    with open_store(tmp_path / "store.db", create=True) as store:
        problems = operation.check_golden_campaign(store, tmp_path).problems
    assert len(problems) == 2
    assert problems[0].startswith("episodes: the head is 46 02253957bde5; the golden head is 46 00")
    assert problems[1] == "version must be 9; got 6"


def test_an_export_that_the_one_file_verifier_rejects_fails(tmp_path, monkeypatch):
    program = b'print(\'{"verdict": "NOT proven", "checks": [{"problems": ["bad"]}]}\'); exit(1)'
    monkeypatch.setattr(operation, "verifier", lambda: program)
    with open_store(tmp_path / "store.db", create=True) as store:
        problems = operation.check_golden_campaign(store, tmp_path).problems
    assert problems == ["one-file verifier: status 1, bad"]


def test_proofs_that_notice_nothing_fail(tmp_path, monkeypatch):
    with open_store(tmp_path / "store.db", create=True) as store:
        operation.check_golden_campaign(store, tmp_path)
    blind = SimpleNamespace(ok=True, problems=[])
    monkeypatch.setattr(operation, "verify", lambda campaign: blind)
    monkeypatch.setattr(operation, "verifier", lambda: b"print('{\"checks\": []}')")
    assert operation.check_alterations(tmp_path).problems == [
        "verify did not name the altered row: no problem",
        "one-file verifier did not name the altered row: no problem",
    ]


# Drills


@pytest.fixture
def drilled(tmp_path):
    with open_store(tmp_path / "drill.db", create=True) as store:
        campaign = drills.create_drill(store)
        acknowledged = {k: campaign.record(golden_report(k)).seq for k in range(6)}
        yield campaign, acknowledged


def test_nothing_is_lost_or_twice_in_a_sound_store(drilled):
    assert drills.lost_or_twice(*drilled) == []


def test_a_store_that_loses_a_row_is_noticed(drilled):
    campaign, acknowledged = drilled
    with campaign.store.writing(campaign.name) as connection:
        connection.exec_driver_sql("DELETE FROM episodes WHERE seq = 4")
    problems = drills.lost_or_twice(campaign, acknowledged)
    assert "episode p3 was acknowledged as row 4, and is lost" in problems
    assert "the rows of the log are not numbered from 1 without a gap" in problems
    assert any(problem.startswith("verify: ") for problem in problems)


def test_a_row_that_is_there_twice_or_elsewhere_is_noticed(drilled):
    campaign, acknowledged = drilled
    columns = [row[1] for row in rows_of(campaign, "PRAGMA table_info(episodes)")]
    copied = ", ".join({"seq": "7", "revision": "1"}.get(name, name) for name in columns)
    with campaign.store.writing(campaign.name) as connection:
        connection.exec_driver_sql(f"INSERT INTO episodes SELECT {copied} FROM episodes LIMIT 1")
    problems = drills.lost_or_twice(campaign, acknowledged)
    assert problems[:2] == [
        "episode p0 was acknowledged as row 1, and is row 7",
        "episode p0 is recorded 2 times",
    ]


def rows_of(campaign, statement):
    with campaign.store.reading() as connection:
        return connection.exec_driver_sql(statement).all()


@pytest.fixture
def lying(monkeypatch):
    """Let drills run a process that answers before it records."""
    names = SimpleNamespace(__name__="lying_recorder", NAME="drill", STORE="RARESWITCH_STORE")
    monkeypatch.setattr(drills, "recorder", names)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "tests"))


@pytest.mark.usefixtures("lying")
def test_the_crash_drill_notices_answers_before_the_commit(tmp_path):
    address = str(tmp_path / "drill.db")
    with open_store(address, create=True) as store:
        problems = drills.check_crashes(store, address, kills=2).problems
    assert "episode p3 was acknowledged as row 4, and is lost" in problems


@pytest.mark.usefixtures("lying")
def test_the_drill_without_room_notices_that_nothing_was_refused(tmp_path):
    problems = drills.check_room(tmp_path).problems
    assert problems[0].startswith("no report was refused")
    assert "episode p0 was acknowledged as row 1, and is lost" in problems


def test_a_process_that_cannot_record_is_told_with_its_error(tmp_path):
    with (
        open_store(tmp_path / "drill.db", create=True) as store,
        pytest.raises(RuntimeError, match=r"gave no 5 answers: .*there is no store"),
    ):
        drills.check_crashes(store, str(tmp_path / "other.db"), kills=1)


def test_a_store_that_does_not_wait_for_the_disk_is_noticed(tmp_path):
    address = str(tmp_path / "drill.db")
    with open_store(address, create=True) as store:
        store.engine.dispose()
        sa.event.listen(
            store.engine, "connect", lambda one, _: one.execute("PRAGMA synchronous=NORMAL")
        )
        problems = drills.check_crashes(store, address, kills=1).problems
    assert problems == ["synchronous must be 2; got 1"]


def test_a_backup_or_a_restoration_that_loses_a_row_is_noticed(drilled, tmp_path, monkeypatch):
    campaign, _ = drilled
    assert drills.check_backup(campaign.store, fresh(tmp_path / "sound")).problems == []

    def losing(store, path):
        names = backup(store, path)
        shorten(path)
        return names

    backup = drills.backup
    monkeypatch.setattr(drills, "backup", losing)
    problems = drills.check_backup(campaign.store, fresh(tmp_path / "losing")).problems
    assert "the restored store has other heads than the store that was copied" not in problems
    assert any(problem.startswith("the restored store: episodes") for problem in problems)

    def forgetful(path, target):
        restore(path, target)
        with target.writing("drill") as connection:
            connection.exec_driver_sql("UPDATE heads SET length = 1 WHERE chain = 'episodes'")

    restore = drills.restore
    monkeypatch.setattr(drills, "backup", backup)
    monkeypatch.setattr(drills, "restore", forgetful)
    problems = drills.check_backup(campaign.store, fresh(tmp_path / "forgetful")).problems
    assert "the restored store has other heads than the store that was copied" in problems


def test_a_backup_of_another_moment_is_noticed(drilled, tmp_path, monkeypatch):
    campaign, _ = drilled
    drills.backup(campaign.store, tmp_path / "early.db")
    backup = drills.backup

    def stale(store, path):
        if path.name == "writing.db":
            shutil.copy(tmp_path / "early.db", path)
        else:
            backup(store, path)

    monkeypatch.setattr(drills, "backup", stale)
    problems = drills.check_backup(campaign.store, fresh(tmp_path / "stale")).problems
    assert len(problems) == 1
    assert problems[0].startswith("the backup has 6 rows; the store had from ")


def fresh(folder):
    folder.mkdir()
    return folder


def shorten(path):
    """Remove the last row of a backup."""
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM episodes WHERE seq = (SELECT max(seq) FROM episodes)")


# Requirements


def test_every_requirement_names_tests_that_exist():
    found = requirements()
    assert [one["number"] for one in found] == list(range(1, 27))
    for one in found:
        assert {*one} == {"number", "text", "tests"}
        assert one["tests"], one["number"]
        for name in one["tests"]:
            path, _, test = name.partition("::")
            tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
            names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
            assert test.startswith("test_"), name
            assert test in names, name
