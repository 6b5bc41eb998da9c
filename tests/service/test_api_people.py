"""Accounts and tokens over HTTP."""

import pytest

from running_service import PASSWORD


def test_a_person_is_invited_and_gets_roles(running):
    body = {"name": "Cyd Lin", "grants": [{"campaign": "doors", "role": "auditor"}]}
    answer = running.ask("POST", "/v1/accounts", "administrator", body)
    assert answer.status_code == 201, answer.text
    link = answer.json()["link"]
    assert link.startswith("http://localhost:8000/invitations/")
    access = running.service.access
    access.accept(link.rpartition("/")[2], PASSWORD)
    grant = {"campaign": "doors", "role": "monitor"}
    path = "/v1/accounts/Cyd%20Lin"
    assert running.ask("POST", f"{path}/grants", "administrator", grant).status_code == 204
    (found,) = [
        one for one in running.ask("GET", "/v1/accounts", "administrator").json()
        if one["name"] == "Cyd Lin"
    ]  # fmt: skip
    assert {one["role"] for one in found["grants"]} == {"auditor", "monitor"}
    answer = running.ask("POST", f"{path}/withdrawn-grants", "administrator", grant)
    assert answer.status_code == 204
    assert running.ask("DELETE", path, "administrator").status_code == 204
    assert access.account("Cyd Lin").disabled
    assert running.ask("POST", f"{path}/enabling", "administrator").status_code == 204
    reset = running.ask("POST", f"{path}/reset", "administrator")
    assert reset.status_code == 201
    log = running.ask("GET", "/v1/access-log?limit=1000", "administrator")
    assert PASSWORD not in log.text
    assert reset.json()["link"].rpartition("/")[2] not in log.text
    assert len({one["number"] for one in log.json()}) == len(log.json())


def test_a_token_is_issued_used_and_revoked(running):
    grants = [{"campaign": "doors", "role": "site", "site": "lima"}]
    body = {"label": "gateway", "grants": grants}
    answer = running.ask("POST", "/v1/tokens", "administrator", body)
    assert answer.status_code == 201, answer.text
    told = answer.json()
    me = running.ask("GET", "/v1/me", told["secret"]).json()
    assert me["grants"] == grants
    assert not me["person"]
    listed = running.ask("GET", "/v1/tokens", "administrator")
    assert told["secret"] not in listed.text
    assert running.ask("DELETE", f"/v1/tokens/{told['id']}", "auditor").status_code == 404
    assert running.ask("DELETE", f"/v1/tokens/{told['id']}", "administrator").status_code == 204
    assert running.ask("GET", "/v1/me", told["secret"]).status_code == 401


@pytest.mark.parametrize("grant", [
    {"campaign": "doors", "role": "king"},
    {"campaign": "doors", "role": "site"},
    {"campaign": "doors", "role": "auditor", "site": "lima"},
    {"campaign": "a/b", "role": "auditor"},
    {"campaign": "doors", "role": "public"},
    {"campaign": "doors"},
])  # fmt: skip
def test_a_wrong_grant_is_refused(running, grant):
    body = {"label": "x", "grants": [grant]}
    assert running.ask("POST", "/v1/tokens", "administrator", body).status_code == 422
    assert running.ask("POST", "/v1/accounts/x/grants", "administrator", grant).status_code in (
        404, 422,
    )  # fmt: skip


def test_nobody_gives_a_role_that_is_not_theirs(running):
    body = {"label": "x", "grants": [{"campaign": "doors", "role": "administrator"}]}
    for role in ("auditor", "statistician", "approver", "monitor"):
        assert running.ask("POST", "/v1/tokens", role, body).status_code == 403, role
    own = {"label": "x", "grants": [{"campaign": "doors", "role": "auditor"}], "personal": True}
    assert running.ask("POST", "/v1/tokens", "site", own).status_code == 403
    # A token makes no other token in a person's name: the person signs in for that.
    assert running.ask("POST", "/v1/tokens", "auditor", own).status_code == 403
    session = running.service.access.sign_in("the auditor", PASSWORD)
    running.client.cookies.set("rareswitch_session", session.secret)
    headers = {"X-CSRF-Token": session.csrf}
    answer = running.ask("POST", "/v1/tokens", None, own, headers=headers)
    assert answer.status_code == 201, answer.text
