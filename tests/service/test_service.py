"""The service itself: who is let in by cookie, limits, headers, live events, health, the log."""

import asyncio
import io
import json
import logging
import socket
from typing import ClassVar

import pytest

from cli.terminal import call
from rareswitch.service.limits import Rate
from rareswitch.service.live import live_events
from rareswitch.service.problems import Problem
from rareswitch.service.telemetry import Lines, logger
from running_service import PASSWORD, report_of, run_service, study

ROOT = "/v1/campaigns/doors"


def sign_in(running, role="statistician"):
    running.ask("GET", "/v1/me", role)
    session = running.service.access.sign_in(f"the {role}", PASSWORD)
    running.client.cookies.set("rareswitch_session", session.secret)
    return session


def test_a_store_is_made_only_once_the_service_has_its_address(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        result = call("serve", "--store", f"sqlite:///{tmp_path}/none.db", "--bind", address)
    assert result.exit_code == 1
    assert f"cannot listen on {address}" in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_session_reads_and_changes_only_with_its_csrf_text(running):
    session = sign_in(running)
    assert running.ask("GET", f"{ROOT}/status").status_code == 200
    body = {"reason": "a guideline", "early": True}
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x" * 43}):
        answer = running.ask("POST", f"{ROOT}/candidates", None, body, headers=headers)
        assert answer.status_code == 403
        assert answer.json()["code"] == "csrf"
    headers = {"X-CSRF-Token": session.csrf}
    answer = running.ask("POST", f"{ROOT}/candidates", None, body, headers=headers)
    assert answer.status_code == 202, answer.text
    running.service.access.sign_out(session.secret)
    assert running.ask("GET", f"{ROOT}/status").status_code == 401


def test_every_answer_has_the_headers_of_security(running):
    for path, role in [("/healthz", None), (ROOT, None), (ROOT, "site"), ("/nothing", None)]:
        headers = running.ask("GET", path, role).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers
    secure = run_service(running.service.store, public_url="https://trial.example.org")
    assert "strict-transport-security" in secure.ask("GET", "/healthz").headers


def test_unknown_paths_and_methods_are_problems(running):
    answer = running.ask("GET", "/v1/nothing", "site")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    answer = running.ask("DELETE", ROOT, "administrator")
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]
    for number in ("9" * 30, "-1", "x"):
        answer = running.ask("GET", f"{ROOT}/policies/{number}", "site")
        assert answer.status_code == 404, number
    for query in ("after=-1", "limit=0", "limit=1001", "after=" + "9" * 30, "after=x", "what=1",
                  "after=1&after=2"):  # fmt: skip
        answer = running.ask("GET", f"{ROOT}/ledger?{query}", "auditor")
        assert answer.status_code == 422, query
        assert answer.json()["field"]


def test_a_policy_is_fetched_once(running):
    first = running.ask("GET", f"{ROOT}/policy", "site")
    assert first.headers["etag"] == f'"{running.service.find_campaign("doors").policy().digest}"'
    assert first.headers["x-version"] == "1"
    headers = {"If-None-Match": first.headers["etag"]}
    for path in ("policy", "policies/1"):
        again = running.ask("GET", f"{ROOT}/{path}", "site", headers=headers)
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["etag"] == first.headers["etag"]
    assert running.ask("GET", f"{ROOT}/policies/2", "site").status_code == 404
    features = running.ask("GET", f"{ROOT}/features", "site")
    assert features.status_code == 200


def test_a_caller_who_sends_too_much_waits(store):
    running = run_service(store, rate=3.0)
    running.create(*study())
    answers = [running.ask("GET", "/v1/me", "site") for _ in range(6)]
    statuses = [one.status_code for one in answers]
    assert statuses[:3] == [200] * 3
    assert 429 in statuses
    late = next(one for one in answers if one.status_code == 429)
    assert int(late.headers["retry-after"]) >= 1
    strict = run_service(store, attempts=2.0)
    tried = [strict.ask("GET", "/v1/me", f"rsw_{n}").status_code for n in range(6)]
    assert 429 in tried


def test_a_bucket_fills_again():
    now = [0.0]
    rate = Rate(10.0, clock=lambda: now[0])
    for _ in range(10):
        rate.check("ana")
    with pytest.raises(Problem) as refused:
        rate.check("ana")
    assert refused.value.status == 429
    rate.check("ben")
    now[0] = 0.1
    rate.check("ana")


def test_health_and_readiness(running):
    assert running.ask("GET", "/healthz").json() == {"ok": True}
    assert running.ask("GET", "/readyz").json() == {"ok": True}
    running.service.is_stopping = True
    assert running.ask("GET", "/readyz").status_code == 503
    answer = running.ask("POST", f"{ROOT}/episodes", "site", report_of(1))
    assert answer.status_code == 503
    assert answer.headers["retry-after"]


def test_a_store_that_is_gone_is_not_ready(running):
    running.service.store.path.rename(running.service.store.path.with_suffix(".away"))
    answer = running.ask("GET", "/readyz")
    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"


def test_metrics_count_requests_and_campaigns(running):
    running.ask("POST", f"{ROOT}/episodes", "site", report_of(1))
    text = running.ask("GET", "/metrics", "auditor").text
    route = 'route="/v1/campaigns/{campaign}/episodes"'
    assert f'rareswitch_requests_total{{method="POST",{route},status="201"}} 1.0' in text
    assert 'rareswitch_campaign_recorded{campaign="doors"} 1.0' in text
    assert "berlin" not in text
    other = running.token("site", "another")
    assert "doors" not in running.ask("GET", "/metrics", other).text.replace("{campaign}", "")


def test_the_log_has_neither_secrets_nor_names(running):
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(Lines(as_json=True))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        secret = running.token("site")
        running.ask("POST", f"{ROOT}/episodes", secret, report_of(1, participant="Ada Lovelace"))
        running.ask("POST", f"{ROOT}/episodes", secret, {"id": "berlin:Ada", "rewards": []})
        running.ask("GET", f"{ROOT}/nothing/Ada", secret)
        running.ask("GET", f"{ROOT}/ledger?after=Ada", "auditor")
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    assert [line["status"] for line in lines][:2] == [201, 422]
    assert all({"at", "level", "event", "route", "ms", "who"} <= line.keys() for line in lines)
    for hidden in (secret, "Ada", "Lovelace", "berlin:0001", "the auditor"):
        assert hidden not in written.getvalue()


def who_may(*actions):
    async def may(action):
        return action in actions

    return may


def test_live_events_tell_growth_and_entries(running):
    campaign = running.service.find_campaign("doors")

    class Request:
        headers: ClassVar = {"last-event-id": "1"}

    async def read():
        found = []
        events = live_events(
            running.service, campaign, Request, caller="ana", may=who_may("look", "unblinded")
        ).body_iterator
        async for event in events:
            found.append(event)
            if len(found) == 3:  # how to try again, the heads, and entry 2
                await asyncio.to_thread(campaign.record, report_of(1))
                await asyncio.to_thread(campaign.stop, by="mia", reason="harm")
            if "stopped" in event:
                break
        await events.aclose()
        return found

    _, heads, second, *later = asyncio.run(read())
    assert heads == 'event: heads\ndata: {"assignments": 0, "episodes": 0, "ledger": 2, ' \
        '"refusals": 0}\n\n'  # fmt: skip
    assert second.startswith("id: 2\nevent: entry\n")
    assert any('"episodes": 1' in event for event in later)
    assert later[-1].startswith("id: 3\n")
    assert not running.service.streams


def test_who_may_not_read_the_ledger_hears_of_heads_only(running):
    campaign = running.service.find_campaign("doors")

    class Request:
        headers: ClassVar = {"last-event-id": "0"}

    async def read():
        found = []
        events = live_events(
            running.service, campaign, Request, caller="ana", may=who_may("look")
        ).body_iterator
        async for event in events:
            found.append(event)
            running.service.is_stopping = True
        return found

    assert "entry" not in "".join(asyncio.run(read()))


@pytest.mark.parametrize("last", ["x", "-1", "9" * 30])
def test_a_wrong_cursor_is_refused(running, last):
    answer = running.ask("GET", f"{ROOT}/live", "auditor", headers={"Last-Event-ID": last})
    assert answer.status_code == 422


def test_a_browser_gets_a_page_where_nothing_is_and_a_program_a_problem(running):
    def ask(path, accept):
        return running.client.get(path, headers={"Accept": accept})

    page = ask("/studies-of-last-year", "text/html,*/*")
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "this address does not exist" in page.text
    for path, accept in (("/studies-of-last-year", "*/*"), ("/v1/nothing", "text/html")):
        answer = ask(path, accept)
        assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
