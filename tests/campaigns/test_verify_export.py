"""The verifier of one file: what it needs, what it runs, and what it names in the files."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from forgery import Forgery
from rareswitch.campaigns import (
    Approval,
    DamagedError,
    Learning,
    Report,
    export,
    verifier,
    verify,
)
from rareswitch.campaigns.proof.exported import SecondGram
from rareswitch.campaigns.proof.one_file import verifier_digest
from rareswitch.campaigns.proof.verifier import opened_export, verify_export
from rareswitch.campaigns.rulebook.rows import NUMBERS, canonical, digest_of, link_of
from rareswitch.core import gram
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.rules.grids import MinimaxGrid
from small_export import episode_of, full_campaign, opened, play, protocol_of
from two_proofs import of_folder

SIGNED = {"by": "ana", "reason": "final report"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the folder of an export, and the digest of its manifest."""
    folder = tmp_path_factory.mktemp("verify")
    campaign = full_campaign(folder / "store.db")
    summary = export(campaign, folder / "out", **SIGNED)
    campaign.store.close()
    return summary.folder, summary.digest


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Return the built verifier."""
    path = tmp_path_factory.mktemp("verifier") / "verify_export.py"
    path.write_bytes(verifier())
    return path


@pytest.fixture
def forgery(exported, tmp_path):
    return Forgery(exported[0], tmp_path / "forged")


def run(*command, **given):
    asked = [sys.executable, *map(str, command)]
    return subprocess.run(asked, capture_output=True, text=True, check=False, timeout=120, **given)


def test_an_export_is_proven(exported):
    folder, digest = exported
    found = verify_export(folder, manifest=digest)
    assert found.verdict == "proven"
    assert [check.name for check in found.checks] == [
        "files", "ledger", "assignments", "refusals", "episodes", "rules", "stops",
        "deviations", "artifacts", "replay", "derived",
    ]  # fmt: skip
    assert not (folder / "verify_export.py").exists()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["verifier"] == verifier_digest() == digest_of(verifier())


def test_the_zip_file_of_an_export_is_proven(exported, file, tmp_path):
    folder, digest = exported
    packed = shutil.make_archive(tmp_path / "pain", "zip", folder.parent, folder.name)
    done = run("-I", file, packed, "--manifest", digest)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.endswith("verdict        proven\n")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["../manifest.json"], "only files of its own folder"),
        (["/manifest.json"], "only files of its own folder"),
        (["out/..\\..\\manifest.json"], "only files of its own folder"),
        (["C:/manifest.json"], "only files of its own folder"),
        (["out/manifest.json"] * 2, "each file once"),
        (["one/manifest.json", "two/manifest.json"], "it has 2"),
        (["out/appendix.md"], "it has 0"),
    ],
)
def test_a_strange_zip_file_is_refused(names, message, tmp_path):
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as packed:
        for name in names:
            packed.writestr(name, "{}")
    with pytest.raises(ValueError, match=message), opened_export(tmp_path / "out.zip"):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["out.zip"]


def test_a_zip_file_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rareswitch.campaigns.proof.verifier.MOST_BYTES", 10)
    with zipfile.ZipFile(tmp_path / "out.zip", "w") as packed:
        packed.writestr("out/manifest.json", "{}" * 6)
    with (
        pytest.raises(ValueError, match="at most 10 bytes; it has 12"),
        opened_export(tmp_path / "out.zip"),
    ):
        pass


def test_a_file_that_is_no_zip_file_is_named(run_verifier, tmp_path):
    (tmp_path / "pain.zip").write_text("no zip")
    done = run_verifier(tmp_path / "pain.zip")
    assert done.returncode == 2
    assert "pain.zip is not an export that can be read" in done.stderr


# --- the file -------------------------------------------------------------------------------------


def test_the_same_package_builds_the_same_bytes():
    asked = "from rareswitch.campaigns.proof.one_file import verifier_digest as d; print(d())"
    told = {
        run("-c", asked, env=os.environ | {"PYTHONHASHSEED": seed}).stdout.strip()
        for seed in ("1", "2")
    }
    assert told == {verifier_digest()}
    compile(verifier(), "verify_export.py", "exec")
    sections = re.findall(rb"^# ==== (\S+)$", verifier(), re.M)
    assert sections == sorted({*sections})
    assert b"rareswitch.campaigns.rulebook.decisions" in sections
    assert not [name for name in sections if b".store" in name or name.endswith(b"export.table")]


ALONE = """
import runpy, sys

class Forbidden:
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in sys.stdlib_module_names and top not in ("numpy", "rareswitch"):
            raise ModuleNotFoundError(f"{name} is forbidden")

sys.meta_path.insert(0, Forbidden())
sys.path[:0] = [sys.argv[1]]
sys.argv[:] = sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
finally:
    strange = {name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names
    print(sorted(name for name in strange if "cython" not in name), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def numpy_alone(tmp_path_factory):
    """Return a folder that has NumPy and nothing else."""
    folder = tmp_path_factory.mktemp("numpy")
    for path in Path(np.__file__).parents[1].glob("numpy*"):
        if "dist-info" not in path.name:
            (folder / path.name).symlink_to(path)
    return folder


def test_it_needs_numpy_alone(exported, file, numpy_alone):
    folder, digest = exported
    done = run("-I", "-S", "-c", ALONE, numpy_alone, file, folder, "--manifest", digest)
    assert (done.returncode, done.stderr) == (0, "['__main__', 'numpy', 'rareswitch']\n")
    lines = done.stdout.splitlines()
    assert sum(line.endswith(" rows: holds") for line in lines) == 10
    assert lines[-3].startswith("derived  ")
    assert lines[-3].endswith(" rows: partly")
    left_out = "unchecked: episodes.parquet, which pyarrow reads; episodes.jsonl is exact"
    assert lines[-2].strip() == left_out
    assert lines[-1] == "verdict        proven, except for the parts named as unchecked"


POISON = ("json", "numpy", "typing", "importlib", "warnings", "argparse", "hashlib", "pyarrow",
          "rareswitch", "contextlib", "collections")  # fmt: skip


def test_files_that_lie_around_are_not_run(exported, file, tmp_path):
    """Beside the verifier, in the export where it is started, and an installed package."""
    marker, installed = tmp_path / "ran", tmp_path / "installed"
    shutil.copytree(exported[0], tmp_path / "out")
    shutil.copy(file, tmp_path / "out" / "verify_export.py")
    installed.mkdir()
    code = f"open({str(marker)!r}, 'a').write(__name__); raise SystemExit('poisoned')"
    for name in POISON:
        (tmp_path / "out" / f"{name}.py").write_text(code)
    (installed / "rareswitch.py").write_text(code)
    done = run(
        tmp_path / "out" / "verify_export.py",
        exported[0],
        cwd=tmp_path / "out",
        env=os.environ | {"PYTHONPATH": str(installed)},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not marker.exists()


def test_exit_codes_and_documents(exported, file, run_verifier, forgery):
    good = run_verifier(exported[0], "--json")
    assert good.returncode == 0
    found = json.loads(good.stdout)
    assert (found["ok"], found["verdict"]) == (True, "proven")
    forgery.row(7)["received"] = "yesterday"
    forgery.write()
    bad = run("-I", file, forgery.folder, "--json")
    assert bad.returncode == 1
    (check,) = [one for one in json.loads(bad.stdout)["checks"] if one["name"] == "episodes"]
    assert check["problems"] == ["episodes: row 7 was altered"]
    assert check["outcome"] == "FAILS"
    assert "verdict        NOT proven" in run_verifier(forgery.folder).stdout


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"format": 2}', '{"format": 1}'])
def test_a_folder_that_is_not_an_export_is_refused(run_verifier, tmp_path, manifest):
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    done = run_verifier(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "is not an export that can be read" in done.stderr
    assert "Traceback" not in done.stderr


def schedule_of_strangers(f, command):
    f.amend(schedule={"kind": "subprocess:Popen", "args": command})


def exploration_of_strangers(f, command):
    f.amend(recipe={"exploration": {"kind": "subprocess:Popen", "args": command}})


@pytest.mark.parametrize("alter", [schedule_of_strangers, exploration_of_strangers])
def test_nothing_that_an_export_names_is_run(run_verifier, forgery, tmp_path, alter):
    alter(forgery, ["touch", str(tmp_path / "ran")])
    forgery.cover_up()
    done = run_verifier(forgery.folder, "--json")
    assert not (tmp_path / "ran").exists()
    assert done.stderr == ""
    (check,) = [one for one in json.loads(done.stdout)["checks"] if one["name"] == "replay"]
    assert [one for one in check["unchecked"] + check["problems"] if "subprocess" in one]


# --- files that somebody altered ------------------------------------------------------------------


def test_another_manifest_is_named(exported):
    folder, digest = exported
    said = f"manifest.json is {digest}, not {'0' * 64}"
    assert of_folder(folder, manifest="0" * 64) == {"files": [said]}


def test_a_tail_that_was_cut_off_is_known_elsewhere(exported, run_verifier, forgery, tmp_path):
    """All links of the shorter record are right: only its manifest or an anchor can tell."""
    folder, digest = exported
    heads = json.loads((folder / "manifest.json").read_text())["heads"]
    anchor = tmp_path / "heads.jsonl"
    anchor.write_text(json.dumps({"heads": heads}) + "\n")
    del forgery.chains["ledger"][-1:]
    forgery.cover_up()
    assert not set(of_folder(forgery.folder)) & {"ledger", "rules", "replay"}
    assert of_folder(forgery.folder, manifest=digest)["files"]
    done = run_verifier(forgery.folder, "--anchor", anchor)
    assert done.returncode == 1
    assert "ledger: row 26 was seen elsewhere, and is missing here" in done.stdout
    assert run_verifier(folder, "--anchor", anchor).returncode == 0


def test_junk_of_systems_is_no_problem_and_strangers_are(exported, tmp_path):
    folder = tmp_path / "out"
    shutil.copytree(exported[0], folder)
    (folder / ".DS_Store").write_bytes(b"x")
    (folder / "policies" / "Thumbs.db").write_bytes(b"x")
    assert of_folder(folder) == {}
    (folder / "protocol/revision-3.json").write_text("{}")
    (folder / "report.html").unlink()
    policy = next((folder / "policies").glob("*.policy"))
    policy.unlink()
    found = of_folder(folder)
    assert set(found["files"]) == {
        "report.html is missing",
        f"policies/{policy.name} is missing",
        "protocol/revision-3.json is not part of the export",
    }
    assert found["artifacts"] == [f"artifact {policy.stem[:12]} is missing"]


@pytest.mark.parametrize("length", [10**12, -1])
@pytest.mark.parametrize("chain", NUMBERS)
def test_a_head_beyond_all_rows_ends_at_once(forgery, chain, length):
    forgery.cover_up()
    forgery.heads[chain][0] = length
    forgery.rehash(heads=forgery.heads)
    assert [one for one in of_folder(forgery.folder)[chain] if one.startswith(f"{chain}: row")]


def swap(text, old, new):
    assert old in text
    return text.replace(old, new, 1)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("cohorts.json", '"recorded": 1', '"recorded": 2'),
        ("cohorts.json", '"low": ', '"low": 1'),
        ("cohorts.csv", "planned", "unplanned"),
        ("sites.csv", "site 1", "site 2"),
        ("report.html", "harm suspected", "as planned"),
        ("appendix.md", "harm suspected", "as planned"),
        ("data-dictionary.md", "Return", "Return, doubled"),
        ("protocol/revision-1.toml", "most = 0.5", "most = 0.9"),
        ("protocol/revision-1.toml", "\n[budget]", "\n# agreed: harm below 0.9\n[budget]"),
        ("protocol/revision-2.json", '"deployments":6', '"deployments":7'),
    ],
)
def test_a_derived_file_that_was_altered_is_named_though_the_manifest_has_it(
    forgery, name, old, new
):
    path = forgery.folder / name
    path.write_text(swap(path.read_text(), old, new))
    forgery.rehash()
    ((check, (found,)),) = of_folder(forgery.folder).items()
    assert check == "derived"
    assert found.startswith(name)


@pytest.mark.parametrize("name", ["letter.pdf", "numpy.py", "protocol/revision-9.toml"])
def test_a_file_that_was_added_is_named_though_the_manifest_has_it(forgery, name):
    (forgery.folder / name).write_text("approved")
    forgery.rehash()
    assert of_folder(forgery.folder) == {"derived": [f"{name} is not a file that the record gives"]}


def test_a_policy_under_the_name_of_another_is_named(forgery):
    one, other, *_ = sorted((forgery.folder / "policies").iterdir())
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
    forgery.rehash()
    assert of_folder(forgery.folder) == {
        "derived": [
            f"policies/{path.name} is not a file that the record gives" for path in (one, other)
        ]
    }


def doubled(table):
    rows = table.to_pylist()
    rows[4]["total"] = 2.0
    return rows


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (doubled, "row 5 is not the row of the log"),
        (lambda table: table.to_pylist()[:-1], "has other columns, or not 65 rows"),
        (lambda table: [row | {"more": 1} for row in table.to_pylist()], "has other columns"),
        (None, "cannot be read, ArrowInvalid"),
    ],
)
def test_a_table_that_was_altered_is_named(forgery, alter, said):
    path = forgery.folder / "episodes.parquet"
    if alter is None:
        path.write_bytes(b"PAR1 and nothing else PAR1")
    else:
        table = pyarrow.parquet.read_table(path)
        rows = alter(table)
        schema = table.schema if set(rows[0]) == set(table.schema.names) else None
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)
    forgery.rehash()
    (found,) = of_folder(forgery.folder)["derived"]
    assert found.startswith("episodes.parquet")
    assert said in found


def test_a_table_is_left_out_where_its_library_is_missing(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    found = verify_export(exported[0])
    assert found.ok
    assert found.unchecked == ["episodes.parquet, which pyarrow reads; episodes.jsonl is exact"]


# --- rows that somebody altered -------------------------------------------------------------------


@settings(max_examples=40, deadline=None)
@given(
    chain=st.sampled_from(sorted(NUMBERS)),
    done=st.sampled_from(["flip", "delete", "swap", "repeat", "insert", "field"]),
    here=st.floats(0, 0.999),
    there=st.floats(0, 0.999),
    bit=st.integers(0, 7),
)
def test_any_alteration_of_rows_is_named(exported, chain, done, here, there, bit):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(exported[0], folder)
        path = folder / f"{chain}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        place, to = int(here * len(lines)), int(there * len(lines))
        number, line = place + 1, bytearray(lines[place])
        if done == "flip":
            line[int(there * len(line))] ^= 1 << bit
            lines[place] = bytes(line)
        elif done == "delete":
            del lines[place]
        elif done == "repeat":
            lines.insert(to, lines[place])
        elif done == "swap":
            lines[place], lines[to] = lines[to], lines[place]
            number = 0 if place == to else min(place, to) + 1  # the row that comes too late
        else:
            row = json.loads(line)
            if done == "insert":
                row[NUMBERS[chain]] = number = len(lines) + 1
                lines.insert(place, canonical(row).encode() + b"\n")
            else:
                column = sorted(row)[int(there * len(row))]
                row[column] = _other(row[column])
                lines[place] = canonical(row).encode() + b"\n"
        path.write_bytes(b"".join(lines))
        found = of_folder(folder)
        if not number:
            assert found == {}
            return
        assert f"{chain}.jsonl was altered" in found["files"]
        told = [one for problems in found.values() for one in problems]
        assert [one for one in told if re.search(_naming(number), one)], told


def _naming(number):
    """Return a pattern of the problems that name a row, a line, or a stretch of rows with it."""
    return rf"\b(?:row|rows|line|to) {number}\b"


def _other(value):
    """Return another value of the same kind."""
    if value is None:
        return "x"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value[::-1] + "x"
    return value | {"more": 1}


@pytest.mark.parametrize("text", ["1", "1.00", "true", '"1.0"', "1.0000000000000002"])
def test_another_text_for_a_number_is_named(forgery, text):
    path = forgery.folder / "episodes.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    changed = re.sub(r'("first_features":\[\[)1\.0', rf"\g<1>{text}", lines[3])
    assert changed != lines[3]
    path.write_text("".join([*lines[:3], changed, *lines[4:]]))
    told = [one for problems in of_folder(forgery.folder).values() for one in problems]
    assert [one for one in told if one.startswith(("episodes: line 4", "episodes: row 4"))]


def _cut(rows):
    del rows[-2:]


def _swapped(rows):
    rows[3], rows[4] = rows[4], rows[3]


def _longer(rows):
    row = rows[-1] | {"number": 47, "episode_id": "new"}
    rows.append(row | {"link": link_of("assignments", rows[-1]["link"], row | {"salt": None})})


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (_cut, ["rows 45 to 46 are missing"]),
        (lambda rows: rows.insert(5, rows[2]), ["row 3 is out of its place"]),
        (_swapped, ["row 4 is missing", "row 4 is out of its place"]),
        (_longer, ["row 47 is not the last row written, 46"]),
        (lambda rows: rows[3].update(number=0), ["row 0 is out of its place", "row 4 is missing"]),
        (lambda rows: rows[3].pop("member"), ["row 4 is missing"]),
        (lambda rows: rows[9].update(link="f" * 64), ["row 10 was altered"]),
    ],
)
def test_rows_that_were_moved_are_named(forgery, alter, said):
    alter(forgery.chains["assignments"])
    forgery.write()
    found = of_folder(forgery.folder)["assignments"]
    assert [one.removeprefix("assignments: ").partition(",")[0] for one in found
            if "ledger" not in one] == [one.partition(",")[0] for one in said]  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(which=st.floats(0, 0.999), where=st.floats(0, 0.999), bit=st.integers(0, 7))
def test_any_flipped_bit_of_any_file_is_named(exported, which, where, bit):
    original, digest = exported
    paths = sorted(path for path in original.rglob("*") if path.is_file())
    name = paths[int(which * len(paths))].relative_to(original)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "copy"
        shutil.copytree(original, folder)
        data = bytearray((folder / name).read_bytes())
        data[int(where * len(data))] ^= 1 << bit
        (folder / name).write_bytes(data)
        try:
            found = of_folder(folder, manifest=digest)
        except (ValueError, KeyError, TypeError, AttributeError, DamagedError):
            assert name.name == "manifest.json"
            return
        started = "manifest.json is " if name.name == "manifest.json" else f"{name.as_posix()} was"
        assert [one for one in found["files"] if one.startswith(started)]


# --- fits -----------------------------------------------------------------------------------------

K = 48
BONUS = Recipe(exploration=rs.Bonus(0.3))
CAMPAIGNS = {
    "determinant-growth": {"schedule": rs.DeterminantGrowth(eta=6.0)},
    "total-growth": {"schedule": rs.rules.TotalGrowth(eta=40.0)},
    "adaptive-budget": {"schedule": rs.rules.AdaptiveBudget(switches=4)},
    "uniform-grid": {"schedule": rs.UniformGrid(batches=5)},
    "balanced-grid": {"schedule": rs.UniformGrid(batches=5, spread="balanced")},
    "geometric-grid": {"schedule": rs.rules.GeometricGrid(batches=5)},
    "minimax-grid": {"schedule": MinimaxGrid(batches=4)},
    "episode-grid": {"schedule": rs.rules.EpisodeGrid(dates=(1, 7, 20, 31))},
    "every-episode": {"schedule": rs.EveryEpisode(), "budget": 40},
    "capped": {"schedule": rs.rules.Capped(rs.DeterminantGrowth(eta=3.0), switches=3)},
    "shared": {"task": Task(dim=3, horizon=3, episodes=K, stages="shared")},
    "one-hot": {"task": Task(dim=3, horizon=2, episodes=K, one_hot=True)},
    "one-hot-shared": {"task": Task(dim=3, horizon=3, episodes=K, stages="shared", one_hot=True)},
    "blocks": {"task": Task(dim=3, horizon=2, episodes=K, blocks=3),
               "schedule": rs.DeterminantGrowth(eta=6.0), "budget": 20},
    "bonus-blocks": {"recipe": BONUS, "task": Task(dim=3, horizon=3, episodes=K, stages="auto",
                                                   blocks=3)},
    "wide": {"task": Task(dim=20_000, horizon=2, episodes=K, one_hot=True)},
    "wide-shared": {"task": Task(dim=20_000, horizon=3, episodes=K, stages="shared", one_hot=True),
                    "schedule": rs.DeterminantGrowth(eta=6.0)},
    "wide-bonus": {"recipe": BONUS, "task": Task(dim=20_000, horizon=3, episodes=K, stages="auto",
                                                 one_hot=True)},
    "longer-features": {"task": Task(dim=3, horizon=2, episodes=K, feature_norm=2.0)},
    "small-ridge": {"recipe": Recipe(ridge=1e-6), "schedule": rs.DeterminantGrowth(eta=6.0),
                    "budget": 20},
    "bonus": {"recipe": BONUS},
    "bonus-shared": {"recipe": BONUS, "task": Task(dim=3, horizon=3, episodes=K, stages="shared")},
    "bonus-one-hot": {"recipe": BONUS, "task": Task(dim=3, horizon=2, episodes=K, one_hot=True)},
    "rule-alone": {"approval": Approval()},
}  # fmt: skip


def played(folder, episodes=K - 2, **changes):
    """Return the folder of the export of a campaign."""
    task = Task(dim=3, horizon=2, episodes=K)
    protocol = protocol_of(**{"task": task, "budget": 10, "stopping": ()} | changes)
    campaign = opened(folder / "store.db", protocol)
    play(campaign, episodes)
    export(campaign, folder / "out", **SIGNED)
    campaign.store.close()
    return folder / "out"


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_rule_and_every_fit_is_computed_again(tmp_path, name):
    folder = played(tmp_path, **CAMPAIGNS[name])
    assert of_folder(folder) == {}
    forgery = Forgery(folder, tmp_path / "forged")
    candidates = forgery.entries("candidate")
    assert len(candidates) >= 2
    last = candidates[-1]["payload"]["evidence"]["triggers"][0]
    last["threshold"] += 1 if last["quantity"] == "episode" else 1e-7
    row = next(row for row in forgery.chains["episodes"] if len(row["body"]["rewards"]) == 2)
    row["body"]["rewards"][1] /= 2
    forgery.retell(row)
    forgery.cover_up()
    found = of_folder(forgery.folder)["replay"]
    assert [one for one in found if "its evidence has triggers" in one]
    assert [one for one in found if "the log gives another policy" in one]


@pytest.mark.parametrize(
    "shape", [{}, {"stages": "shared"}, {"stages": "auto"}, {"one_hot": True}, {"blocks": 3}]
)
def test_a_wrong_determinant_is_found_by_the_second_computation(tmp_path, monkeypatch, shape):
    """Learner and replay are wrong alike; the second computation shares no code with them."""
    for kind in (gram.Gram, gram.OneHotGram):
        real = kind.of_ridge

        def wrong(*given, real=real, **more):
            made = real(*given, **more)
            return made._replace(logdet=made.logdet + 1e-6)

        monkeypatch.setattr(kind, "of_ridge", wrong)
    task = Task(dim=3, horizon=2, episodes=K, **shape)
    folder = played(tmp_path, task=task, schedule=rs.DeterminantGrowth(eta=6.0))
    found = of_folder(folder)["replay"]
    assert len(found) >= 2
    assert all("log det Λ of pool 0 is " in one for one in found)


@pytest.mark.parametrize(("dim", "blocks"), [(4, 1), (4, 2), (100_000, 1)])
@pytest.mark.parametrize("stages", ["own", "shared", "auto"])
def test_the_second_computation_has_the_determinants_of_the_matrices(stages, dim, blocks):
    """Of thousands of rows, some of which were withdrawn later; a large dimension is a table."""
    rng, one_hot = np.random.default_rng(0), dim > 4
    task = Task(
        dim=dim,
        horizon=3,
        episodes=2000,
        stages=stages,
        feature_norm=9.0,
        one_hot=one_hot,
        blocks=blocks,
    )
    halves = np.repeat(np.eye(blocks), 4 // blocks, axis=1)

    def steps():
        if one_hot:
            return rng.integers(50, size=3)
        return rng.standard_normal((3, 4)) * halves[rng.integers(blocks, size=3)]

    protocol = protocol_of(task=task, recipe=Recipe(ridge=0.5), budget=4)
    episodes = [
        rs.Episode(features=steps(),
                   rewards=rng.random(3),
                   next_features=[np.arange(4) if one_hot else np.eye(4)] * 2)
        for _ in range(500)
    ]  # fmt: skip
    second, learner = SecondGram(protocol.plain), protocol.learner()
    for one in episodes:
        learner.absorb(one)
        second._add(Report(id="p", episode=one).body, 1)
    for one in episodes[:40]:
        learner.correct(one, None)
        second._add(Report(id="p", episode=one).body, -1)
    assert second.differs(learner.clock) is None
    wrong = replace(learner.clock, logdet=learner.clock.logdet + (1e-3 if one_hot else 1e-6))
    assert "log det Λ of pool 0" in second.differs(wrong)


def test_the_file_proves_the_policies_of_a_wide_table(tmp_path, run_verifier):
    folder = played(tmp_path, **CAMPAIGNS["wide"])
    policies = [rs.Policy.from_bytes(path.read_bytes()) for path in folder.glob("policies/*")]
    assert len(policies) >= 3
    assert {policy.table is None for policy in policies} == {False}
    found = run_verifier(folder, "--json")
    assert json.loads(found.stdout)["verdict"] == "proven", found


def test_thirty_corrections_and_withdrawals_are_proven(tmp_path):
    """Each candidate is that of a learner that met the corrected episodes only."""
    task = Task(dim=3, horizon=2, episodes=120)
    protocol = protocol_of(task=task, budget=8, stopping=(), recipe=BONUS,
                           schedule=rs.UniformGrid(batches=6))  # fmt: skip
    campaign = opened(tmp_path / "store.db", protocol)
    rng, log = np.random.default_rng(3), {}

    def drawn():
        return episode_of(rng, one_hot=False, short=False)

    compared = 0
    with Learning(campaign) as learning:
        for k in range(110):
            log[f"p{k}"] = drawn()
            campaign.record(f"p{k}", log[f"p{k}"])
            if k % 7 == 6:  # two of these three in the same step
                log[f"p{k - 4}"] = drawn()
                again = Report(id=f"p{k - 4}", episode=log[f"p{k - 4}"])
                campaign.correct(again, **SIGNED)
                campaign.withdraw(f"p{k - 5}", **SIGNED)
                del log[f"p{k - 5}"]
            if (candidate := learning.step()) is not None:
                campaign.approve(candidate.number, by="eve", reason="as planned")
                fresh = protocol.learner()
                for version in campaign.state.versions[1:-1]:
                    fresh.deploy(campaign.policy(version.version))
                fresh.absorb(*log.values())
                fitted, found = fresh.fit(), campaign.policy()
                assert np.allclose(found.weights, fitted.weights, 1e-9, 1e-9)
                assert np.allclose(found.whitener, fitted.whitener, 1e-9, 1e-9)
                compared += 1
    assert compared == 5
    found = verify(campaign)
    assert found.verdict == "proven"
    assert all("equal bytes" in remark for remark in found.checks[-1].remarks)
    assert len([one for one in campaign.entries if one.kind == "corrected"]) == 30
    export(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    again = verify_export(tmp_path / "out")
    assert again.verdict == "proven"
    (replay,) = [check for check in again.checks if check.name == "replay"]
    assert replay.remarks == found.checks[-1].remarks
