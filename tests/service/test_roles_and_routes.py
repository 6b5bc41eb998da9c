"""Every route with every role: exactly the allowed ones answer, and nothing leaks elsewhere."""

import re

import pytest

from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.access import ALLOWED, ROLES
from rareswitch.service.api import ENDPOINTS
from rareswitch.service.endpoint import ANYBODY, SIGNED_IN
from running_service import report_of, run_service, study

GRANTED = [role for role in ROLES if role != "public"]
VALUES = {"version": "1", "number": "1", "episode_id": "berlin:0001", "event_id": "berlin:0001",
          "token_id": "none", "account": "nobody"}  # fmt: skip
# The actions of the routes, told again: who changes a route's action changes this table too.
ACTIONS = {
    "list_campaigns": SIGNED_IN, "read_campaign": "look", "read_status": "unblinded",
    "read_analysis": "unblinded", "read_sites": "unblinded", "read_policy": "policy",
    "read_version": "policy", "read_features": "policy", "read_protocol": "look",
    "read_heads": "look", "read_ledger": "unblinded", "read_refusals": "unblinded",
    "read_episodes": "unblinded", "follow": "look", "make_export": "export",
    "verify_campaign": "export", "read_interim": "export", "read_health": ANYBODY,
    "read_readiness": ANYBODY, "read_metrics": SIGNED_IN, "read_openapi": SIGNED_IN,
    "assign": "assign", "read_open": "assign", "act": "assign", "record": "report",
    "correct": "correct", "withdraw": "correct", "cancel": "correct", "forget": "forget",
    "create_campaign": "create", "read_candidates": "unblinded", "read_candidate": "unblinded",
    "propose": "propose", "read_signing": "unblinded", "read_amendment_signing": "amend",
    "approve": "approve", "reject": "approve", "comment": "comment", "roll_back": "rollback",
    "countersign": "approve", "amend": "amend", "approve_amendment": "approve",
    "reject_amendment": "approve", "reopen": "reopen", "approve_reopening": "approve",
    "reject_reopening": "approve", "stop": "stop", "read_me": SIGNED_IN, "read_tokens": SIGNED_IN,
    "issue_token": SIGNED_IN, "revoke_token": SIGNED_IN, "read_accounts": "accounts",
    "invite": "accounts", "grant_role": "accounts", "withdraw_role": "accounts",
    "disable_account": "accounts", "enable_account": "accounts", "reset_password": "accounts",
    "read_access_log": "accounts", "read_proposal": "unblinded", "rank_actions": "assign",
    "reward_event": "report",
    "activate_event": "report",
}  # fmt: skip
REFUSED = (401, 403, 404)


def path_of(endpoint, campaign="doors"):
    values = VALUES | {"campaign": campaign}
    return re.sub(r"\{(\w+)(:\w+)?\}", lambda part: values[part[1]], endpoint.path)


def send(running, endpoint, role, campaign="doors"):
    body = {} if endpoint.method in ("POST", "PUT") else None
    return running.ask(endpoint.method, path_of(endpoint, campaign), role, body)


def is_refused(answer, action):
    """Return whether the guard refused, and not the handler."""
    if answer.status_code not in (401, 403):
        return False
    return answer.json()["code"] in ("sign-in", "forbidden", "token")


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    folder = tmp_path_factory.mktemp("matrix")
    with open_store(f"sqlite:///{folder / 'store.db'}", create=True) as store:
        found = run_service(store)
        found.create(*study())
        yield found


def test_the_table_has_every_route():
    assert {one.name: one.action for one in ENDPOINTS} == ACTIONS


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
@pytest.mark.parametrize("role", [*GRANTED, None])
def test_exactly_the_allowed_roles_pass_the_guard(running, endpoint, role):
    if endpoint.name in ("follow", "stop"):  # a stream without an end; the end of the others
        return
    answer = send(running, endpoint, role)
    action = endpoint.action
    allowed = (
        action == ANYBODY
        or (role is not None and action == SIGNED_IN)
        or (role is not None and role in ALLOWED.get(action, ()))
    )
    assert answer.status_code < 500, answer.text
    assert is_refused(answer, action) != allowed, (answer.status_code, answer.text)
    if role is None and not allowed:
        assert answer.status_code == 401


@pytest.mark.parametrize("role", [*GRANTED, None])
def test_the_stop_and_the_stream_have_guards_too(running, role):
    stop = next(one for one in ENDPOINTS if one.name == "stop")
    answer = send(running, stop, role)  # an empty body stops nothing
    assert is_refused(answer, "stop") != (role in ALLOWED["stop"])
    if role is None:
        assert running.ask("GET", "/v1/campaigns/doors/live").status_code == 401


@pytest.fixture(scope="module")
def two_campaigns(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    with open_store(f"sqlite:///{folder / 'store.db'}", create=True) as store:
        found = run_service(store)
        found.create(*study())
        found.create(*study("secret"))
        found.tokens = {role: found.token(role, "doors") for role in GRANTED}
        yield found


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda one: f"{one.method} {one.path}")
def test_a_role_in_one_campaign_opens_no_other(two_campaigns, endpoint):
    running = two_campaigns
    if "{campaign}" not in endpoint.path:
        return
    for role in GRANTED:
        there = send(running, endpoint, role, "secret")
        nowhere = send(running, endpoint, role, "nothing")
        assert there.status_code == nowhere.status_code == 404, (role, there.text)
        assert there.json() == nowhere.json()
    assert [one["name"] for one in running.ask("GET", "/v1/campaigns", "auditor").json()] == [
        "doors"
    ]


def test_a_site_sees_no_returns(waiting):
    running, _ = waiting
    status = running.ask("GET", "/v1/campaigns/doors/status", "auditor").json()
    means = [repr(one["mean"]) for one in status["versions"] if one["mean"] is not None]
    assert means
    for endpoint in ENDPOINTS:
        if endpoint.method != "GET" or endpoint.name in ("follow", "read_openapi"):
            continue
        answer = send(running, endpoint, "site")
        if answer.status_code == 200:
            text = answer.content.decode("latin-1")
            assert not any(mean in text for mean in means), endpoint.path
            assert '"mean' not in text, endpoint.path
            assert '"evidence"' not in text, endpoint.path


def test_everybody_may_look_where_the_protocol_says_so(store):
    running = run_service(store)
    protocol, features = study()
    Campaign.create(
        store, type(protocol).from_plain(protocol.plain | {"access": {"public": True}}), by="ana",
        features=features,
    )  # fmt: skip
    running.create(*study("secret"))
    assert running.ask("GET", "/v1/campaigns/doors").status_code == 200
    assert running.ask("GET", "/v1/campaigns/doors/heads").status_code == 200
    for endpoint in ENDPOINTS:
        if endpoint.action in (ANYBODY, "look") or "{campaign}" not in endpoint.path:
            continue
        assert send(running, endpoint, None).status_code == 401, endpoint.path
    assert running.ask("GET", "/v1/campaigns/secret").status_code == 401


def test_expired_revoked_and_malformed_tokens_open_nothing(running):
    access = running.service.access
    good = running.token("auditor", name="kim")
    assert running.ask("GET", "/v1/me", good).status_code == 200
    (token,) = [one for one in access.tokens() if one.account == "kim"]
    from rareswitch.campaigns.access import operator

    access.revoke_token(token.id, by=operator("ops"))
    assert running.ask("GET", "/v1/me", good).status_code == 401
    late = running.token("auditor", name="kim", days=1e-9)
    assert running.ask("GET", "/v1/me", late).status_code == 401
    altered = good[:-2] + ("aa" if good[-2:] != "aa" else "bb")
    for wrong in (altered, good.upper(), "rsw_", "rsw__", "x" * 5000, good[:20], f"{good}x"):
        assert running.ask("GET", "/v1/me", wrong).status_code == 401, wrong
    for header in ("Basic YTpi", "Bearer", "bearer ", good):
        answer = running.client.get("/v1/me", headers={"Authorization": header})
        assert answer.status_code == 401, header


def test_a_site_with_a_broken_report_leaks_no_other_episode(running):
    answer = running.ask("POST", "/v1/campaigns/doors/episodes", "site", report_of(1))
    assert answer.status_code in (200, 201)
    running.tokens["lima"] = running.token("site", site="lima")
    answer = running.ask("POST", "/v1/campaigns/doors/episodes", "lima", report_of(1))
    assert answer.status_code == 403
    assert "seq" not in answer.text
