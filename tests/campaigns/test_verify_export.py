"""The verifier of one file: what it names, and what it needs."""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rareswitch as rs
from forgery import NUMBERS, Forgery, amend
from rareswitch.campaigns import Approval
from rareswitch.campaigns.proof import verify_export
from rareswitch.campaigns.proof.export import export as export_module
from rareswitch.campaigns.proof.export import export_campaign
from rareswitch.campaigns.proof.verify_export import verify
from rareswitch.campaigns.record.canonical import canonical, linked
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.rules.grids import MinimaxGrid
from small_export import full_campaign, opened, play, protocol_of

SIGNED = {"actor": "ana", "reason": "final report"}


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Return the folder of an export, and the digest of its manifest."""
    folder = tmp_path_factory.mktemp("verify")
    campaign = full_campaign(folder / "store.db")
    summary = export_campaign(campaign, folder / "out", **SIGNED)
    campaign.store.close()
    return summary.folder, summary.digest


@pytest.fixture
def forgery(exported, tmp_path):
    return Forgery(exported[0], tmp_path / "forged")


def problems(folder, digest=None):
    return {check.name: check.wrong for check in verify(folder, digest) if check.wrong}


def test_an_export_holds(exported):
    folder, digest = exported
    assert problems(folder, digest) == {}
    assert len(verify(folder)) == 14


def test_another_manifest_is_told(exported):
    assert problems(exported[0], "0" * 64) == {"files": ["manifest.json is another one"]}


# --- without the package --------------------------------------------------------------------------

ALONE = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
try:
    import rareswitch
except ModuleNotFoundError:
    sys.argv[:] = sys.argv[2:]
    runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return how to run a verifier where there is NumPy, and nothing else but Python."""
    folder = tmp_path_factory.mktemp("numpy")
    for path in Path(np.__file__).parents[1].glob("numpy*"):
        if "dist-info" not in path.name:
            (folder / path.name).symlink_to(path)

    def run(verifier, *arguments):
        command = [sys.executable, "-I", "-S", "-c", ALONE, folder, verifier, *arguments]
        return subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, check=False, timeout=60
        )

    return run


def test_it_needs_numpy_alone(exported, alone):
    folder, digest = exported
    done = alone(folder / "verify_export.py", folder, "--manifest", digest)
    assert (done.returncode, done.stderr) == (0, "")
    *checks, verdict = done.stdout.splitlines()
    assert len(checks) == 14
    assert all(line.startswith("holds  ") for line in checks)
    assert verdict == "VERDICT: all of it holds."


def test_it_fails_with_the_rows_by_name(forgery, alone):
    forgery.row(7)["received"] = "yesterday"
    forgery.write()
    done = alone(forgery.folder / "verify_export.py", forgery.folder)
    assert done.returncode == 1
    assert "FAILS  chain of episodes: 65 rows\n         row 7 was altered\n" in done.stdout
    assert done.stdout.endswith("VERDICT: this is NOT what was recorded.\n")
    told = alone(forgery.folder / "verify_export.py", forgery.folder, "--json")
    assert told.returncode == 1
    found = json.loads(told.stdout)
    assert found["holds"] is False
    wrong = {"wrong": ["row 7 was altered"], "unchecked": []}
    assert {"name": "chain of episodes", "of": "65 rows"} | wrong in found["checks"]


@pytest.mark.parametrize("manifest", [None, "{", "[]", '{"format": 2}', '{"format": 1}'])
def test_what_is_no_export_is_said(exported, alone, tmp_path, manifest):
    if manifest is not None:
        (tmp_path / "manifest.json").write_text(manifest)
    done = alone(exported[0] / "verify_export.py", tmp_path)
    assert done.returncode == 2
    assert "no export that can be read" in done.stderr


# --- whoever alters a file ------------------------------------------------------------------------


def naming(wrong, number):
    """Return the problems that name a row, by its number or its line."""
    return [text for text in wrong if re.search(rf"\b(?:row|line) {number}\b", text)]


@st.composite
def altered_lines(draw):
    """Choose what is done to which rows of which chain, as shares of its length."""
    chain = draw(st.sampled_from(sorted(NUMBERS)))
    done = draw(st.sampled_from(["flip", "delete", "swap", "repeat", "insert", "field"]))
    return chain, done, draw(st.floats(0, 0.999)), draw(st.floats(0, 0.999))


@settings(max_examples=100, deadline=None)
@given(choice=altered_lines(), bit=st.integers(0, 7))
def test_any_alteration_of_rows_is_named(exported, choice, bit):
    chain, done, here, there = choice
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "copy"
        shutil.copytree(exported[0], folder)
        path = folder / f"{chain}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        place = int(here * len(lines))
        number, line = place + 1, bytearray(lines[place])
        if done == "flip":
            line[int(there * len(line))] ^= 1 << bit
            lines[place] = bytes(line)
        elif done == "delete":
            del lines[place]
        elif done == "repeat":
            lines.insert(int(there * len(lines)), lines[place])
        elif done == "swap":
            other = int(there * len(lines))
            lines[place], lines[other] = lines[other], lines[place]
            number = 0 if place == other else min(place, other) + 1  # the one that came too late
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
        found = problems(folder)
        if number:
            assert f"{chain}.jsonl was altered" in found["files"]
            assert naming(found[f"chain of {chain}"], number)
        else:
            assert found == {}


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
    assert '"features":[[1.0,' in lines[3] or '"features":[[0.0,' in lines[3]
    lines[3] = re.sub(r'("first_features":\[\[)1\.0', rf"\g<1>{text}", lines[3])
    path.write_text("".join(lines))
    assert naming(problems(forgery.folder)["chain of episodes"], 4)


def test_one_altered_row_does_not_blame_others(forgery):
    forgery.row(10)["link"] = "f" * 64
    forgery.row(20)["total"] = 0.0
    forgery.write()
    assert problems(forgery.folder)["chain of episodes"] == [
        "row 10 was altered", "row 20 was altered"
    ]  # fmt: skip


def _tail(rows):
    del rows[-2:]


def _again(rows):
    rows.insert(5, rows[2])


def _swapped(rows):
    rows[3], rows[4] = rows[4], rows[3]


def _swapped_and_altered(rows):
    _swapped(rows)
    rows[3]["assigned"] = "another time"


def _longer(rows):
    row = rows[-1] | {"number": 47, "episode_id": "new"}
    del row["link"]
    rows.append(row | {"link": linked(rows[-1]["link"], row)})


def _other_last(rows):
    row = rows[-1] | {"assigned": "another time"}
    del row["link"]
    rows[-1] = row | {"link": linked(rows[-2]["link"], row)}


def _no_number(rows):
    rows[3]["number"] = 0


def _no_column(rows):
    del rows[3]["member"]


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (_tail, ["row 45 is missing", "row 46 is missing"]),
        (_again, ["row 3 is there again, in line 6"]),
        (_swapped, ["row 4 is out of its place, in line 5"]),
        (_swapped_and_altered, ["row 4 is out of its place, in line 5", "row 5 was altered"]),
        (_longer, ["row 47 was added after the export"]),
        (_other_last, ["row 46 is not the one that was last when it was exported"]),
        (_no_number, ["line 4 is no row: its number is 0", "row 4 is missing"]),
    ],
)
def test_what_was_done_to_rows_is_told(forgery, alter, said):
    alter(forgery.chains["assignments"])
    forgery.write()
    assert problems(forgery.folder)["chain of assignments"] == said


def test_a_row_without_a_column_is_none(forgery):
    _no_column(forgery.chains["assignments"])
    forgery.write()
    first, second = problems(forgery.folder)["chain of assignments"]
    assert first.startswith("line 4 is no row: its columns are assigned, episode_id, link, number")
    assert second == "row 4 is missing"


@settings(max_examples=50, deadline=None)
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
            found = problems(folder, digest)
        except (ValueError, KeyError, TypeError, AttributeError):
            assert name.name == "manifest.json"
            return
        if name.name == "manifest.json":
            assert "manifest.json is another one" in found["files"]
        else:
            assert f"{name.as_posix()} was altered" in found["files"]


def test_a_missing_and_a_strange_file_are_named(forgery):
    (forgery.folder / "report.html").unlink()
    policy = next((forgery.folder / "policies").iterdir())
    policy.unlink()
    (forgery.folder / "protocol/revision-3.json").write_text("{}")
    found = problems(forgery.folder)
    assert set(found["files"]) == {
        "report.html is missing",
        f"policies/{policy.name} is missing",
        "protocol/revision-3.json is not part of the export",
    }
    assert policy.stem in found["policies"][0]


# --- whoever knows how rows are linked ------------------------------------------------------------


def test_a_cover_up_of_nothing_holds(forgery, exported):
    forgery.cover_up()
    assert problems(forgery.folder) == {}
    assert problems(forgery.folder, exported[1])  # but it is another manifest


def test_the_ledger_remembers_how_far_the_chains_were(forgery):
    entries = [entry["payload"]["reached"] for entry in forgery.chains["ledger"]]
    kept = json.loads(json.dumps(entries))
    forgery.row(4)["received"] = "another time"
    forgery.cover_up()
    for entry, reached in zip(forgery.chains["ledger"], kept, strict=True):
        entry["payload"]["reached"] = reached
    forgery.relink("ledger")
    forgery.write()
    manifest = json.loads((forgery.folder / "manifest.json").read_text())
    manifest["heads"]["ledger"][1] = forgery.chains["ledger"][-1]["link"]
    (forgery.folder / "manifest.json").write_text(json.dumps(manifest))
    found = problems(forgery.folder)["reached"]
    assert found[0] == "entry 3 saw another row 5 of episodes"
    assert len(found) == 19


def _learn(forgery):
    forgery.row(9)["learn"] = False


def _other_version(forgery):
    forgery.row(11)["version"] = 1  # it was assigned to another


def _no_version(forgery):
    forgery.row(12)["version"] = 9


def _member(forgery):
    forgery.row(8)["member"] += 1


def _late(forgery):
    forgery.row(8)["late"] = True


def _assigned(forgery):
    forgery.row(8)["assigned"] = not forgery.row(8)["assigned"]


def _total(forgery):
    forgery.row(8)["total"] += 1e-6


def _digest(forgery):
    forgery.row(8)["digest"] = "0" * 64


def _claims(forgery):
    forgery.row(8)["claims"]["began"] = "2020-01-01"


def _emptied(forgery):
    forgery.row(8)["body"] = None


def _twice(forgery):
    forgery.row(8)["episode_id"] = forgery.row(1)["episode_id"]


def _corrects_another(forgery):
    forgery.entries("corrected")[0]["payload"]["episode_id"] = "p1"


def _corrects_nothing(forgery):
    forgery.entries("corrected")[0]["payload"]["seq"] = 3


def _correction_changes_version(forgery):
    next(row for row in forgery.chains["episodes"] if row["revision"])["version"] = 3


def _grace(forgery):
    for entry in (*forgery.entries("created"), *forgery.entries("amended")):
        amend(entry, intake={"grace": 3})


def _must_be_assigned(forgery):
    for entry in (*forgery.entries("created"), *forgery.entries("amended")):
        amend(entry, intake={"assigned": True})


def _late_only_recorded(forgery):
    for entry in (*forgery.entries("created"), *forgery.entries("amended")):
        amend(entry, intake={"late": "record"})


def _assigned_version(forgery):
    forgery.chains["assignments"][9]["version"] = 1


def _assigned_member(forgery):
    forgery.chains["assignments"][9]["member"] += 1


def _assigned_again(forgery):
    forgery.chains["assignments"][9]["episode_id"] = forgery.chains["assignments"][8]["episode_id"]


def _signed_by_proposer(forgery):
    forgery.entries("approved")[-1]["actor"] = "bo"


def _never_signed(forgery):
    forgery.entries("approved")[1]["kind"] = "noted"


def _rejected_deployed(forgery):
    number = forgery.entries("rejected")[0]["payload"]["candidate"]
    forgery.entries("deployed")[2]["payload"]["candidate"] = number


def _over_budget(forgery):
    for entry in (*forgery.entries("created"), *forgery.entries("amended")):
        amend(entry, budget={"deployments": 2})


def _jump(forgery):
    forgery.entries("deployed")[2]["payload"]["version"] = 4


def _other_policy(forgery):
    first = forgery.entries("deployed")[0]["payload"]
    forgery.entries("deployed")[2]["payload"]["digest"] = first["digest"]


def _rolled_back_elsewhere(forgery):
    forgery.entries("rolled-back")[0]["payload"]["to"] = 2


def _rolled_back_earlier(forgery):
    forgery.entries("rolled-back")[0]["payload"]["seq"] -= 1


def _amended_seed(forgery):
    amend(forgery.entries("amended")[0], recipe={"seed": 5})


def _protocol_digest(forgery):
    forgery.entries("amended")[0]["payload"]["digest"] = "0" * 64


def _stopped_before(forgery):
    forgery.entries("amended")[0]["kind"] = "stopped"


def _created_again(forgery):
    forgery.entries("amended")[0]["kind"] = "created"


def _fitted_in_the_future(forgery):
    forgery.entries("candidate")[0]["payload"]["seq"] = 60


def _planned_later(forgery):
    """The first candidate, fitted a row later; its policy stays as it is."""
    for kind, place in (("candidate", 0), ("deployed", 1)):
        forgery.entries(kind)[place]["payload"]["seq"] += 1


def _spent_budget(forgery):
    amend(forgery.entries("created")[0], budget={"deployments": 1})


def _waits_longer(forgery):
    amend(forgery.entries("created")[0], approval={"retry_after": 9})


def _harmful(forgery):
    for entry in (*forgery.entries("created"), *forgery.entries("amended")):
        entry["payload"]["protocol"]["stopping"] = [
            {"rule": "harm", "below": 1.99, "confidence": 0.5}
        ]
        amend(entry)


def _fewer_planned(forgery):
    amend(forgery.entries("amended")[0], task={"episodes": 40})


def _engine_stops(forgery):
    entry = forgery.chains["ledger"][-1]
    entry |= {"kind": "stopped", "actor": "engine", "reason": "harm: so"}
    entry["payload"] |= {"rule": "harm", "value": 0.0, "threshold": 0.01, "margin": -0.01}


def _refused_elsewhere(forgery):
    forgery.chains["refusals"][1]["seq"] -= 20


def _entered_between(forgery):
    reached = forgery.entries("rolled-back")[0]["payload"]["reached"]
    reached["refusals"][0] += 1


def _first_on_data(forgery):
    forgery.entries("deployed")[0]["payload"]["seq"] = 1


def _members(forgery):
    for kind in ("candidate", "deployed"):
        forgery.entries(kind)[-1]["payload"]["members"] = 5


def _no_simulation(forgery):
    (forgery.folder / "simulation.json").unlink()


def _trigger(forgery):
    forgery.entries("candidate")[2]["payload"]["evidence"]["triggers"][0]["value"] += 1e-6


def _threshold(forgery):
    forgery.entries("candidate")[2]["payload"]["evidence"]["triggers"][0]["threshold"] -= 1e-6


def _reached(forgery):
    forgery.entries("candidate")[2]["payload"]["evidence"]["triggers"][1]["reached"] = True


def _planned(forgery):
    forgery.entries("candidate")[-1]["payload"]["planned"] = True


def _counted(forgery):
    forgery.entries("candidate")[2]["payload"]["evidence"]["episodes"] += 1


def _silent(forgery):
    forgery.entries("candidate")[2]["payload"]["evidence"] = {}


def _feature(forgery):
    row = forgery.row(1)
    row["body"]["features"][0] = [0.5, 0.5, 0.0]
    forgery.retell(row)


def _corrected_feature(forgery):
    row = next(row for row in forgery.chains["episodes"] if row["revision"] and row["body"])
    row["body"] |= {"features": [[0.5, 0.0, 0.0], [0.0, 1.0, 0.0]]}
    forgery.retell(row)


def _reward(forgery):
    row = forgery.row(8)
    row["body"]["rewards"][0] = 0.123
    forgery.retell(row)


def _never_rejected(forgery):
    forgery.entries("rejected")[0]["kind"] = "forgotten"


def _decided_again(forgery):
    forgery.entries("rejected")[0]["payload"]["candidate"] = 3


def _revision_left_out(forgery):
    next(row for row in forgery.chains["episodes"] if row["revision"])["revision"] = 3


def _cohort(forgery):
    path = forgery.folder / "cohorts.json"
    cohorts = json.loads(path.read_text())
    cohorts[2]["episodes"] += 1
    path.write_text(json.dumps(cohorts))


def _broken_cohorts(forgery):
    (forgery.folder / "cohorts.json").write_text("[1]")


def _altered_policy(forgery):
    digest = forgery.entries("deployed")[2]["payload"]["digest"]
    (forgery.folder / "policies" / f"{digest}.policy").write_bytes(b"another")


@pytest.mark.parametrize(
    ("alter", "check", "said"),
    [
        (_learn, "episodes", "row 9 (p8) is marked learn = False"),
        (_other_version, "episodes", "was assigned to version"),
        (_no_version, "episodes", "names version 9, and 2 was in force"),
        (_member, "episodes", "which the allocation does not give"),
        (_late, "episodes", "is marked late = True"),
        (_assigned, "episodes", "is marked assigned = "),
        (_total, "episodes", "its rewards add up to another"),
        (_digest, "episodes", "has another digest than the report"),
        (_claims, "episodes", "has another digest than the report"),
        (_emptied, "episodes", "has no content"),
        (_twice, "episodes", "is recorded already"),
        (_corrects_another, "episodes", "is a correction that nobody signed for"),
        (_corrects_nothing, "episodes", "row 3 corrects nothing"),
        (_correction_changes_version, "episodes", "changes who played what it corrects"),
        (_grace, "episodes", "names version 1, which was replaced"),
        (_must_be_assigned, "episodes", "was not assigned, and the protocol asks so"),
        (_late_only_recorded, "episodes", "is marked learn = True"),
        (_assigned_version, "assignments", "row 10 "),
        (_assigned_member, "assignments", "row 10 "),
        (_assigned_again, "assignments", "an episode was assigned twice"),
        (_signed_by_proposer, "decisions", "was signed by bo, who proposed it"),
        (_never_signed, "decisions", "that is waiting, not approved by a second person"),
        (_rejected_deployed, "decisions", "that is rejected, not approved by a second person"),
        (_over_budget, "decisions", "3 deployments after the first, and the budget is 2"),
        (_jump, "decisions", "is about version 4, and the next is 3"),
        (_other_policy, "decisions", "puts something else in force than the candidate"),
        (_rolled_back_elsewhere, "decisions", "does not put the policy of version 2 in force"),
        (_rolled_back_earlier, "decisions", "not from the last"),
        (_amended_seed, "decisions", "changes what recorded episodes were counted by"),
        (_protocol_digest, "decisions", "has a protocol of another digest"),
        (_stopped_before, "decisions", "comes after the campaign stopped"),
        (_created_again, "decisions", "must be the first entry"),
        (_fitted_in_the_future, "decisions", "was fitted on the log up to row 60"),
        (_first_on_data, "decisions", "must be fitted on no data"),
        (_members, "policies", "is not allocated as version 6 is"),
        (_no_simulation, "protocol", "the report of its simulation is not there"),
        (_trigger, "triggers", "candidate 8 says"),
        (_threshold, "triggers", "candidate 8 says"),
        (_reached, "triggers", "candidate 8 is said to have reached another trigger"),
        (_planned, "triggers", "candidate 18 is said to be planned, and none was due"),
        (_counted, "triggers", "candidate 8 was fitted on"),
        (_silent, "triggers", "candidate 8 says nothing of its trigger"),
        (_feature, "triggers", "candidate 3 says"),
        (_corrected_feature, "triggers", "candidate 13 says"),
        (_planned_later, "triggers", "candidate 3: the rule asked for a policy by row 5 already"),
        (_spent_budget, "triggers", "candidate 8: no deployment was left at row "),
        (_waits_longer, "triggers", "and the rule was to be asked from row "),
        (_harmful, "stops", "harm was reached, "),
        (_fewer_planned, "stops", "after entry 17 episodes was reached, 45, and it went on"),
        (_engine_stops, "stops", "stops by harm, 0.0, and nothing was looked at there"),
        (_refused_elsewhere, "stops", "refusal 2 did not come after row 6"),
        (_entered_between, "stops", "entry 16 was not written where it says"),
        (_reward, "cohorts", "version 2 had a mean return of"),
        (_never_signed, "decisions", "is of no known kind"),
        (_never_rejected, "decisions", "comes while another waits"),
        (_decided_again, "decisions", "is about a candidate that is deployed"),
        (_stopped_before, "episodes", "was not assigned before the campaign stopped"),
        (_stopped_before, "assignments", "came after the campaign stopped"),
        (_revision_left_out, "episodes", "corrects a row that is not there"),
        (_cohort, "cohorts", "version 3 played 17 episodes"),
        (_broken_cohorts, "cohorts", "it cannot be checked"),
        (_altered_policy, "policies", "(version 3): it was altered"),
    ],
)
def test_what_the_rules_forbid_is_named_though_the_links_are_right(forgery, alter, check, said):
    alter(forgery)
    forgery.cover_up()
    found = problems(forgery.folder)
    assert not any(name.startswith(("chain", "files", "reached")) for name in found)
    assert [text for text in found[check] if said in text]


# --- every rule and every kind of features --------------------------------------------------------

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
    "one-hot-shared": {
        "task": Task(dim=3, horizon=3, episodes=K, stages="shared", one_hot=True),
    },
    "longer-features": {
        "task": Task(dim=3, horizon=2, episodes=K, feature_norm=2.0),
        "schedule": rs.SpreadBudget(switches=4),
    },
    "small-ridge": {
        "recipe": Recipe(ridge=1e-6),
        "schedule": rs.DeterminantGrowth(eta=6.0),
        "budget": 20,
    },
    "bonus": {"recipe": BONUS},
    "bonus-shared": {
        "recipe": BONUS,
        "task": Task(dim=3, horizon=3, episodes=K, stages="shared"),
    },
    "bonus-one-hot": {
        "recipe": BONUS,
        "task": Task(dim=3, horizon=2, episodes=K, one_hot=True),
    },
    "rule-alone": {"approval": Approval()},
}


@pytest.fixture
def quickly(monkeypatch):
    """Leave out the pictures, which take most of the time."""
    monkeypatch.setattr(export_module, "page", lambda *_: "")


@pytest.mark.parametrize("name", CAMPAIGNS)
def test_every_rule_is_computed_again(tmp_path, quickly, name):
    task = Task(dim=3, horizon=2, episodes=K)
    protocol = protocol_of(**{"task": task, "budget": 10, "stopping": ()} | CAMPAIGNS[name])
    campaign = opened(tmp_path / "store.db", protocol)
    play(campaign, K - 2)
    export_campaign(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    assert problems(tmp_path / "out") == {}
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    candidates = forgery.entries("candidate")
    assert len(candidates) >= 2
    last = candidates[-1]["payload"]["evidence"]["triggers"][0]
    last["threshold"] += 1 if last["quantity"] == "episode" else 1e-7
    forgery.cover_up()
    assert set(problems(forgery.folder)) == {"triggers"}


@pytest.mark.parametrize("name", ["bonus", "bonus-shared", "bonus-one-hot"])
def test_the_regression_of_the_last_stage_is_computed_again(tmp_path, quickly, name):
    protocol = protocol_of(**{"stopping": (), "budget": 10} | CAMPAIGNS[name])
    campaign = opened(tmp_path / "store.db", protocol)
    play(campaign, 20)
    export_campaign(campaign, tmp_path / "out", **SIGNED)
    campaign.store.close()
    forgery = Forgery(tmp_path / "out", tmp_path / "forged")
    step = 0 if name == "bonus-shared" else 1  # all steps count for the last, or its own
    row = next(row for row in forgery.chains["episodes"] if len(row["body"]["rewards"]) == 2)
    row["body"]["rewards"][step] /= 2
    forgery.retell(row)
    forgery.cover_up()
    found = problems(forgery.folder)
    assert set(found) == {"triggers", "cohorts"}
    assert found["triggers"][0].endswith(
        "the weights of its last stage are not those of the regression"
    )


@pytest.mark.parametrize("stages", ["own", "shared"])
def test_sums_are_those_of_the_matrices(stages):
    """Thousands of rows, folded in parts, have the determinants and the solution of Λ itself."""
    rng = np.random.default_rng(0)
    task = Task(dim=4, horizon=3, episodes=2000, stages=stages)
    schedule = rs.DeterminantGrowth(eta=2.0)
    protocol = protocol_of(task=task, recipe=Recipe(ridge=0.5), schedule=schedule)
    sums = verify_export.Sums(protocol.plain)
    features, rewards = rng.standard_normal((2000, 3, 4)), rng.random((2000, 3))
    for rows, earned in zip(features.tolist(), rewards.tolist(), strict=True):
        sums.add({"features": rows, "rewards": earned})
    pools = [[0], [1], [2]] if stages == "own" else [[0, 1], [0, 1, 2]]
    found = sums.known()
    for pool, chosen in enumerate(pools):
        rows = features[:, chosen].reshape(-1, 4)
        gram = 0.5 * np.eye(4) + rows.T @ rows
        assert found["logdet"][pool] == pytest.approx(np.linalg.slogdet(gram)[1], rel=1e-12)
        assert found["trace"][pool] == pytest.approx(np.trace(gram), rel=1e-12)
    solution = np.linalg.solve(gram, rows.T @ rewards[:, pools[-1]].reshape(-1))
    np.testing.assert_allclose(found["last"], solution, rtol=1e-9)
    assert found["episode"] == 2001
    assert sums.steps.tolist() == [len(chosen) for chosen in pools]


def test_another_protocol_beside_the_ledger_is_named(forgery):
    path = forgery.folder / "protocol/revision-2.json"
    path.write_text(path.read_text().replace('"deployments":6', '"deployments":7'))
    assert problems(forgery.folder) == {
        "files": ["protocol/revision-2.json was altered"],
        "protocol": ["protocol/revision-2.json is another protocol than the ledger has"],
    }


def test_it_imports_nothing_of_the_package():
    text = Path(verify_export.__file__).read_text()
    names = re.findall(r"^(?:from|import) (\w+)", text, re.M)
    assert set(names) - set(sys.stdlib_module_names) == {"numpy"}
