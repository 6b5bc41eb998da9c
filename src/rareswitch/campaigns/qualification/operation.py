"""Operation: golden results are reproduced, and alterations are detected."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.checks import Check
from rareswitch.campaigns.proof.export.export import export
from rareswitch.campaigns.proof.one_file import verifier
from rareswitch.campaigns.proof.replay import TOLERANCE, nearly_equal
from rareswitch.campaigns.proof.stored import verify
from rareswitch.campaigns.qualification.golden import (
    FOLDER,
    STORE,
    golden_policies,
    golden_results,
    play_golden_campaign,
    unpack_golden_store,
)
from rareswitch.campaigns.qualification.numerics import numerics, same_numerics
from rareswitch.campaigns.rulebook.rows import Head, digest_of
from rareswitch.campaigns.status import heads
from rareswitch.campaigns.store import Store, migrate, open_store
from rareswitch.core.policy import Policy

LONGEST_PROOF = 120  # time limit of the one-file verifier in seconds


def check_fits() -> Check:
    """Fit the golden learners, and compare each policy with the bytes in the package."""
    check, results = Check(name="golden fits"), golden_results()
    exact = same_numerics(results["numerics"])
    check.remarks.append(_which(exact, results["numerics"]))
    fitted = dict(golden_policies())
    if {*fitted} != {*results["policies"]}:
        check.fail(f"golden.json must have the policies {', '.join(fitted)}")
    for name, policy in fitted.items():
        check.rows += 1
        data, told = (FOLDER / f"{name}.policy").read_bytes(), results["policies"].get(name)
        if digest_of(data) != told:
            check.fail(f"{name}: the golden policy is not the one of golden.json")
        elif policy.digest == told:
            check.remarks.append(f"{name}: equal bytes")
        elif exact:
            check.fail(f"{name}: the fit gives other bytes with the same libraries and processor")
        elif not nearly_equal(policy, Policy.from_bytes(data)):
            check.fail(f"{name}: the fit differs by more than {TOLERANCE:g}")
        else:
            check.remarks.append(f"{name}: equal to {TOLERANCE:g}")
    return check


def _which(exact: bool, made: Mapping[str, str]) -> str:
    told = ", ".join(f"{name} {value}" for name, value in made.items())
    if exact:
        return f"exact comparison: the golden results were made with the same numerics ({told})"
    mine = ", ".join(f"{name} {value}" for name, value in numerics().items())
    return (
        f"comparison to {TOLERANCE:g}: the golden results were made with other numerics ({told}; "
        f"here {mine})"
    )


def check_golden_record(folder: Path) -> Check:
    """Migrate a copy of the golden store, and verify its campaign."""
    check, results = Check(name="golden record"), golden_results()
    if digest_of((FOLDER / STORE).read_bytes()) != results["store"]:
        check.fail("the golden store is not the one of golden.json")
    path = folder / "golden.db"
    unpack_golden_store(path)
    applied = migrate(path)
    check.remarks.append(f"migrations applied to a copy: {', '.join(applied) or 'none'}")
    with open_store(path, read_only=True) as store:
        campaign = Campaign(store, "golden")
        check.rows = heads(campaign)["episodes"].length
        check.problems += _other_heads(heads(campaign), results["heads"])
        _prove(check, campaign)
    return check


def check_golden_campaign(store: Store, folder: Path) -> Check:
    """Play the golden campaign again; verify it, and its export with the one-file verifier."""
    check, results = Check(name="golden campaign"), golden_results()
    campaign = play_golden_campaign(store)
    found, told = heads(campaign), dict(results["heads"])
    check.rows = found["episodes"].length
    if same_numerics(results["numerics"]):
        check.remarks.append("exact comparison of all four chains")
    else:
        del told["ledger"]  # it contains digests of policies
        check.remarks.append("exact comparison of all chains but the ledger: other numerics")
    check.problems += _other_heads(found, told)
    if campaign.version != results["versions"]:
        check.fail(f"version must be {results['versions']}; got {campaign.version}")
    _prove(check, campaign)
    exported = export(campaign, folder / "export", by="qualification", reason="a check")
    status, said = _one_file(folder / "export", folder, "--manifest", exported.digest)
    check.remarks.append(f"one-file verifier: {said.get('verdict', said)}")
    if status or said.get("verdict") != "proven":
        check.fail(f"one-file verifier: status {status}, {_problems(said)}")
    return check


def check_alterations(folder: Path) -> Check:
    """Alter a row of the golden store and of the export; both verifiers must name the row."""
    check = Check(name="alterations are noticed", rows=2)
    path = folder / "altered.db"
    unpack_golden_store(path)
    migrate(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE episodes SET total = total + 0.125 WHERE seq = 7")
    with open_store(path, read_only=True) as store:
        found = verify(Campaign(store, "golden"))
    _must_name(check, "verify", found.ok, found.problems, "episodes: row 7")
    altered = folder / "altered"
    shutil.copytree(folder / "export", altered)
    lines = (altered / "episodes.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    lines[6] = lines[6].replace('"version":1', '"version":2', 1)
    (altered / "episodes.jsonl").write_text("".join(lines), encoding="utf-8")
    status, said = _one_file(altered, folder)
    problems = [problem for one in said.get("checks", ()) for problem in one["problems"]]
    _must_name(check, "one-file verifier", status == 0, problems, "episodes: row 7")
    return check


def _must_name(check: Check, who: str, ok: bool, problems: list[str], row: str) -> None:
    if ok or not any(problem.startswith(row) for problem in problems):
        check.fail(f"{who} did not name the altered row: {'; '.join(problems) or 'no problem'}")
    else:
        check.remarks.append(f"{who}: {next(one for one in problems if one.startswith(row))}")


def _prove(check: Check, campaign: Campaign) -> None:
    found = verify(campaign)
    check.remarks.append(f"verify: {found.verdict}")
    check.problems += [f"verify: {problem}" for problem in found.problems + found.unchecked]


def _other_heads(found: Mapping[str, Head], told: Mapping[str, Any]) -> list[str]:
    return [
        f"{chain}: the head is {found[chain].length} {found[chain].link[:12]}; the golden head is "
        f"{length} {link[:12]}"
        for chain, (length, link) in told.items()
        if found[chain] != Head(length, link)
    ]


def _one_file(exported: Path, folder: Path, *more: str) -> tuple[int, dict[str, Any]]:
    """Run the one-file verifier without the installed package; return its status and answer."""
    path = folder / "verify_export.py"
    path.write_bytes(verifier())
    done = subprocess.run(
        [sys.executable, "-I", str(path), str(exported), "--json", *more],
        cwd=folder, capture_output=True, text=True, encoding="utf-8", timeout=LONGEST_PROOF,
    )  # fmt: skip
    try:
        said: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = {"error": done.stderr.strip()[-500:]}
    return done.returncode, said


def _problems(said: Mapping[str, Any]) -> str:
    found = [problem for one in said.get("checks", ()) for problem in one["problems"]]
    return "; ".join(found) or str(said.get("error") or said.get("verdict"))
