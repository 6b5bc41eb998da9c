"""Decisions over HTTP: candidates, signatures, rollbacks, amendments and the end."""

import pytest
import tomli_w

from authenticator import SoftwarePasskey
from rareswitch.campaigns import UnavailableError, learn, verify
from rareswitch.campaigns.access import operator
from rareswitch.campaigns.learning.learning import Learning
from rareswitch.campaigns.learning.requests import answer_request, request_of
from running_service import PASSWORD, report_of, signed, study

ROOT = "/v1/campaigns/doors"


def if_match(candidate):
    return {"If-Match": f'"{candidate.digest}"'}


def test_a_second_person_signs_and_the_version_is_in_force(waiting):
    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    first = running.ask("PUT", path, "approver", signed(), headers=if_match(candidate))
    assert first.status_code == 200, first.text
    assert first.json() == {"version": 2, "digest": candidate.digest, "deployed": True}
    again = running.ask("PUT", path, "approver", signed(), headers=if_match(candidate))
    assert again.json() == first.json()
    entries = running.ask("GET", f"{ROOT}/ledger", "auditor").json()
    assert [one["kind"] for one in entries[-2:]] == ["approved", "deployed"]
    assert entries[-2]["payload"]["signature"]["method"] == "password"
    assert entries[-2]["actor"] == "the approver"
    assert PASSWORD not in str(entries)
    assert verify(running.service.find_campaign("doors")).ok


def test_a_decision_is_about_the_policy_that_was_looked_at(waiting):
    running, candidate = waiting
    for what in ("approval", "rejection"):
        path = f"{ROOT}/candidates/{candidate.number}/{what}"
        for headers in ({}, {"If-Match": '"' + "0" * 64 + '"'}, {"If-Match": "*"}):
            answer = running.ask("PUT", path, "approver", signed(), headers=headers)
            assert answer.status_code == 412, answer.text
            assert answer.json()["digest"] == candidate.digest
    path = f"{ROOT}/candidates/{candidate.number + 100}/approval"
    assert running.ask("PUT", path, "approver", signed()).status_code == 404


def test_a_decision_needs_a_signature(waiting):
    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    passkey = {"credential": "aaaa", "authenticator_data": "aaaa", "client_data": "aaaa",
               "signature": "aaaa", "head": "0" * 64}  # fmt: skip
    for signature, status in {
        None: 422,
        (): 422,
        (("password", "wrong password, surely"),): 403,
        (("passkey", "unknown"),): 403,
        (("password", PASSWORD), ("passkey", "unknown")): 422,
    }.items():
        body = {"reason": "reviewed"}
        if signature is not None:
            told = dict(signature)
            body["signature"] = told | ({"passkey": passkey} if "passkey" in told else {})
        answer = running.ask("PUT", path, "approver", body, headers=if_match(candidate))
        assert answer.status_code == status, answer.text
        assert PASSWORD not in answer.text
        if status == 403:
            wrong = {"password": "The password is wrong", "passkey": "The passkey is not yours"}
            assert answer.json()["title"] == wrong[signature[0][0]]
    assert running.service.find_campaign("doors").version == 1


def test_a_passkey_signs(waiting):
    running, candidate = waiting
    running.ask("GET", ROOT, "approver")  # makes the account
    key, account = SoftwarePasskey(7), running.service.access.account("the approver")
    register(running, account, key)
    query = f"signing?decision=approve&number={candidate.number}"
    to_sign = running.ask("GET", f"{ROOT}/{query}", "approver").json()
    campaign = running.service.find_campaign("doors")
    assert to_sign["meaning"] == "approve version 2 for deployment"
    told = key.sign(campaign.to_sign("approve", candidate.number))
    names = ("credential", "authenticator_data", "client_data", "signature", "head")
    body = {"reason": "reviewed", "signature": {"passkey": {name: told[name] for name in names}}}
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    moved = {"passkey": {**body["signature"]["passkey"], "head": "0" * 64}}
    wrong = running.ask(
        "PUT", path, "approver", {**body, "signature": moved}, headers=if_match(candidate)
    )
    assert wrong.status_code in (409, 422), wrong.text
    done = running.ask("PUT", path, "approver", body, headers=if_match(candidate))
    assert done.status_code == 200, done.text
    found = verify(campaign)
    assert found.ok
    assert "passkey" in found.text
    kinds = [one["kind"] for one in running.ask("GET", f"{ROOT}/ledger", "auditor").json()]
    assert kinds[-3:] == ["registered", "approved", "deployed"]


def register(running, account, key):
    """Put a passkey of a software authenticator into the store, as a registration does."""
    from rareswitch.campaigns.access.tables import passkeys
    from rareswitch.campaigns.rulebook.signatures import to_base64url

    with running.service.access.changing() as connection:
        connection.execute(
            passkeys.insert().values(
                credential=key.credential, account=account.account, algorithm=key.algorithm,
                public=to_base64url(key.public), relying_party=key.relying_party, label="key",
                created=0.0,
            )
        )  # fmt: skip


def test_a_candidate_is_rejected_and_commented(waiting):
    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}"
    body = {"reason": "few severe patients"}
    answer = running.ask("POST", f"{path}/comments", "auditor", body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["kind"] == "commented", answer.text
    body = {"reason": "checked", "reviewed": True}
    assert running.ask("POST", f"{path}/comments", "auditor", body).status_code == 422
    answer = running.ask("POST", f"{path}/comments", "auditor", signed("checked", reviewed=True))
    assert answer.json()["payload"]["meaning"] == f"reviewed candidate {candidate.number}"
    answer = running.ask(
        "PUT", f"{path}/rejection", "approver", signed("no"), headers=if_match(candidate)
    )
    assert answer.status_code == 200
    found = running.ask("GET", path, "auditor").json()
    assert found["status"] == "rejected"
    late = running.ask("PUT", f"{path}/approval", "approver", signed(), headers=if_match(candidate))
    assert late.status_code == 409


def test_a_moved_version_is_a_conflict(waiting):
    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    running.ask("PUT", path, "approver", signed(), headers=if_match(candidate))
    campaign = running.service.find_campaign("doors")
    more = [report_of(number) for number in range(200, 301)]
    running.ask("POST", f"{ROOT}/episodes", "site", more)
    (second,) = learn(campaign)
    back = running.ask("POST", f"{ROOT}/rollbacks", "monitor", signed("harm", to=1))
    assert back.status_code == 200, back.text
    assert back.json()["version"] == 3, back.text
    path = f"{ROOT}/candidates/{second.number}/approval"
    answer = running.ask("PUT", path, "approver", signed(), headers=if_match(second))
    assert answer.status_code == 409, answer.text
    assert answer.json()["code"] == "moved", answer.text


def test_an_amendment_needs_two_persons(running):
    body = signed("more patients", changes={"episodes": 400})
    answer = running.ask("POST", f"{ROOT}/amendments", "statistician", body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["kind"] == "amendment", answer.text
    number = answer.json()["number"]
    path = f"{ROOT}/amendments/{number}/approval"
    done = running.ask("PUT", path, "approver", signed("agreed"))
    assert done.status_code == 200, done.text
    assert done.json()["kind"] == "amended", done.text
    assert running.ask("GET", f"{ROOT}/protocol", "site").json()["task"]["episodes"] == 400
    first = running.ask("GET", f"{ROOT}/protocol?revision=1", "site").json()
    assert first["task"]["episodes"] == 300
    assert running.ask("GET", f"{ROOT}/protocol?revision=9", "site").status_code == 404
    wrong = signed("x", changes={"task": {"dim": 7}})
    assert running.ask("POST", f"{ROOT}/amendments", "statistician", wrong).status_code in (
        409,
        422,
    )


def test_a_campaign_is_stopped(running):
    assert running.ask("POST", f"{ROOT}/stop", "site", signed()).status_code == 403
    assert running.ask("POST", f"{ROOT}/stop", "monitor", signed("harm")).status_code == 200
    answer = running.ask("POST", f"{ROOT}/assignments", "site", {"id": "berlin:1"})
    assert answer.status_code == 409
    assert answer.json()["code"] == "not-allowed"


def test_a_proposal_waits_for_the_learner(running):
    reports = [report_of(number) for number in range(30)]
    running.ask("POST", f"{ROOT}/episodes", "site", reports)
    body = {"reason": "a new guideline", "early": True}
    answer = running.ask("POST", f"{ROOT}/candidates", "statistician", body)
    assert answer.status_code == 202, answer.text
    assert running.ask("POST", f"{ROOT}/candidates", "statistician", body).status_code == 409
    campaign = running.service.find_campaign("doors")
    with Learning(campaign) as learning:
        assert answer_request(learning)
        assert not answer_request(learning)
    (found,) = running.ask("GET", f"{ROOT}/candidates", "auditor").json()
    assert found["proposer"] == "the statistician"
    assert not found["planned"]


def test_a_proposal_waits_for_a_store_that_is_unavailable(running, monkeypatch):
    running.ask("POST", f"{ROOT}/episodes", "site", [report_of(number) for number in range(30)])
    body = {"reason": "a new guideline", "early": True}
    assert running.ask("POST", f"{ROOT}/candidates", "statistician", body).status_code == 202
    campaign = running.service.find_campaign("doors")
    with Learning(campaign) as learning:
        with monkeypatch.context() as patched:
            patched.setattr(campaign, "propose", unavailable)
            with pytest.raises(UnavailableError):
                answer_request(learning)
        assert request_of(campaign)["outcome"] is None
        assert answer_request(learning)
    assert request_of(campaign)["outcome"].startswith("candidate ")


def unavailable(*_, **__):
    raise UnavailableError("the disk is gone")


def test_a_campaign_is_created(running):
    protocol, features = study("windows")
    import base64

    body = {"protocol": tomli_w.dumps(without_none(protocol.plain)), "reason": "agreed",
            "features": base64.b64encode(features).decode()}  # fmt: skip
    assert running.ask("POST", "/v1/campaigns", "statistician", body).status_code == 403
    answer = running.ask("POST", "/v1/campaigns", "administrator", body)
    assert answer.status_code == 201, answer.text
    assert answer.json()["protocol"] == protocol.digest
    listed = running.ask("GET", "/v1/campaigns", "auditor").json()
    assert [one["name"] for one in listed] == ["doors", "windows"]
    for wrong in ("x = [", "", "name = 1", {"name": "x"}, {"task": 3}, {"name": "y", "task": {}}):
        answer = running.ask("POST", "/v1/campaigns", "administrator", {"protocol": wrong})
        assert answer.status_code == 422, (wrong, answer.text)


def without_none(plain):
    from rareswitch.campaigns.rulebook.rows import without_none

    return without_none(plain)


def test_an_export_is_a_zip_that_the_verifier_of_one_file_accepts(waiting, tmp_path):
    import io
    import subprocess
    import sys
    import zipfile

    from rareswitch.campaigns import verifier

    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    running.ask("PUT", path, "approver", signed(), headers=if_match(candidate))
    answer = running.ask("POST", f"{ROOT}/exports", "auditor", {"reason": "inspection"})
    assert answer.headers["content-type"] == "application/zip", answer.text
    zipfile.ZipFile(io.BytesIO(answer.content)).extractall(tmp_path)
    (tmp_path / "verify_export.py").write_bytes(verifier())
    said = subprocess.run(
        [sys.executable, "verify_export.py", "doors", "--manifest", answer.headers["x-manifest"]],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stdout + said.stderr
    checked = running.ask("POST", f"{ROOT}/verification", "auditor").json()
    assert checked["ok"], checked


def test_a_token_in_the_name_of_a_disabled_account_signs_nothing(waiting):
    running, candidate = waiting
    path = f"{ROOT}/candidates/{candidate.number}/approval"
    running.ask("GET", ROOT, "approver")
    running.service.access.disable("the approver", by=operator("ops"))
    answer = running.ask("PUT", path, "approver", signed(), headers=if_match(candidate))
    assert answer.status_code == 401
