"""Attacks on a running service: by strangers, sites, thieves, and people who want to sign alone."""

import asyncio
import html
import json
import re
import socket
import sys
import threading
import time
from typing import ClassVar
from urllib.parse import urlencode

import pytest
import uvicorn

from rareswitch.campaigns import Approval, Protocol
from rareswitch.campaigns.access import Grant, operator
from rareswitch.campaigns.access.errors import ForbiddenError
from rareswitch.campaigns.reading import read_json
from rareswitch.campaigns.rulebook.names import checked_names
from rareswitch.service import server
from rareswitch.service.app import COOKIE
from rareswitch.service.live import MOST_OF_ONE, live_events
from rareswitch.service.problems import Problem
from running_service import PASSWORD, report_of, run_service, signed, study

ROOT = "/v1/campaigns/doors"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def sign_in(running, role):
    """Let a person of a role sign in with a browser; return the session."""
    running.ask("GET", "/v1/me", role)
    session = running.service.access.sign_in(f"the {role}", PASSWORD)
    running.client.cookies.set(COOKIE, session.secret)
    return session


class Following:
    """A stream of live events, read in the test's own loop."""

    headers: ClassVar = {"last-event-id": "0"}


def stream_of(running, monkeypatch, **who):
    """Return the events of a caller who follows the study over the service's own endpoint."""
    made = []
    monkeypatch.setattr(
        sys.modules["rareswitch.service.api.look"],
        "live_events",
        lambda *given, **named: made.append(live_events(*given, **named)) or {},
    )
    answer = running.ask("GET", f"{ROOT}/live", **who)
    assert answer.status_code == 200, answer.text
    return made[0].body_iterator


async def read_until(events, wanted, *, most=50):
    found = []
    async for event in events:
        found.append(event)
        if wanted in event or len(found) >= most:
            break
    return "".join(found)


# Nothing is seen without a role


@pytest.mark.parametrize("ended", ["revoked", "disabled", "withdrawn"])
def test_a_live_stream_ends_with_the_right_to_follow_it(running, monkeypatch, ended):
    access, ops = running.service.access, operator("ops")
    secret = running.token("auditor", name="kim")
    events = stream_of(running, monkeypatch, role=secret)
    campaign = running.service.find_campaign("doors")

    async def follow():
        await read_until(events, "event: heads")
        if ended == "revoked":
            (token,) = access.tokens("kim")
            access.revoke_token(token.id, by=ops)
        elif ended == "disabled":
            access.disable("kim", by=ops)
        else:
            access.withdraw_grant("kim", Grant("*", "auditor"), by=ops)
        await asyncio.to_thread(campaign.stop, by="mia", reason="a secret harm")
        return await asyncio.wait_for(read_until(events, "never"), 20)

    later = asyncio.run(follow())
    assert later == ""
    assert not running.service.streams


def test_a_live_stream_of_a_session_ends_when_the_person_signs_out(running, monkeypatch):
    session = sign_in(running, "auditor")
    events = stream_of(running, monkeypatch)
    campaign = running.service.find_campaign("doors")

    async def follow():
        await read_until(events, "event: heads")
        running.service.access.sign_out(session.secret)
        await asyncio.to_thread(campaign.stop, by="mia", reason="a secret harm")
        return await asyncio.wait_for(read_until(events, "never"), 20)

    assert asyncio.run(follow()) == ""


def test_a_page_that_is_only_followed_does_not_keep_its_session_open(running):
    access, now = running.service.access, [1e9]
    running.ask("GET", "/v1/me", "auditor")
    access.clock = lambda: now[0]
    session = access.sign_in("the auditor", PASSWORD)
    for _ in range(70):
        now[0] += 60.0
        access._cache.clear()
        found = access.principal_of_session(session.secret, used=False)
    assert found is None


def test_a_site_is_told_nothing_of_a_candidate_by_the_bytes_to_sign(waiting):
    running, candidate = waiting
    sam = running.token("site", name="sam")  # an account, not a device
    asked = f"{ROOT}/signing?decision=approve&number={candidate.number}"
    answer = running.ask("GET", asked, sam)
    assert answer.status_code == 403
    assert candidate.digest not in answer.text
    assert running.ask("GET", asked, "approver").status_code == 200


# Hostile requests


@pytest.mark.parametrize("text", ["a=" + "[" * 4000 + "]" * 4000, "a=" + "{a=" * 2000])
def test_nested_toml_is_refused(running, text):
    answer = running.ask("POST", "/v1/campaigns", "administrator", {"protocol": text})
    assert answer.status_code == 422
    assert answer.json()["field"] == "protocol"
    session = sign_in(running, "statistician")
    body = f"csrf={session.csrf}&changes={text}&reason=x&password=y".replace("=[", "%3D[")
    answer = running.ask("POST", "/studies/doors/amend", None, body.encode(), headers=FORM)
    assert 400 <= answer.status_code < 500


@pytest.mark.parametrize("role", ["site", None])
def test_a_number_of_many_digits_in_a_path_is_not_found(running, role, caplog):
    running.client = type(running.client)(running.app, base_url="http://localhost:8000")
    for part in ("policies", "candidates"):
        answer = running.ask("GET", f"{ROOT}/{part}/{'9' * 5000}", role)
        assert answer.status_code == 404, answer.text


# Many requests


def test_a_device_is_not_slowed_down_by_another_of_the_same_label(store):
    running = run_service(store, rate=3.0)
    running.create(*study())
    berlin, lima = (running.token("site", site=site) for site in ("berlin", "lima"))
    flood = [running.ask("GET", "/v1/me", berlin).status_code for _ in range(8)]
    assert 429 in flood
    assert running.ask("GET", "/v1/me", lima).status_code == 200


def test_wrong_tokens_of_strangers_keep_no_good_token_out(store):
    running = run_service(store, attempts=2.0)
    running.create(*study())
    good = running.token("site")
    wrong = [running.ask("GET", "/v1/me", f"rsw_{n}").status_code for n in range(8)]
    assert 429 in wrong
    assert running.ask("GET", "/v1/me", good).status_code == 200


def test_pages_for_everybody_are_limited_too(store):
    running = run_service(store, rate=3.0)
    statuses = [running.ask("GET", "/").status_code for _ in range(8)]
    assert 429 in statuses


def test_one_caller_cannot_take_all_streams(running):
    campaign = running.service.find_campaign("doors")

    async def may(action):
        return True

    async def follow():
        opened = []
        for _ in range(MOST_OF_ONE):
            events = live_events(
                running.service, campaign, Following, caller="mallory", may=may
            ).body_iterator
            await anext(events)
            opened.append(events)
        with pytest.raises(Problem) as refused:
            live_events(running.service, campaign, Following, caller="mallory", may=may)
        assert refused.value.status == 429
        live_events(running.service, campaign, Following, caller="ana", may=may)
        for events in opened:
            await events.aclose()

    asyncio.run(follow())
    assert not running.service.streams


def test_a_stranger_who_guesses_passwords_keeps_no_approver_from_signing(waiting):
    running, _ = waiting
    running.ask("GET", "/v1/me", "monitor")
    for _ in range(20):
        running.ask("POST", "/sign-in", None, b"name=the+monitor&password=guess", headers=FORM)
    answer = running.ask("POST", f"{ROOT}/stop", "monitor", signed("harm"))
    assert answer.status_code == 200, answer.text
    assert running.ask("POST", f"{ROOT}/assignments", "site",
                       {"id": report_of(900)["id"]}).status_code == 409  # fmt: skip


def test_a_flood_of_sign_ins_leaves_room_for_others(running, monkeypatch):
    entered, leave = threading.Semaphore(0), threading.Event()

    def slow(*_, **__):
        entered.release()
        leave.wait(20)
        raise ValueError("password must be right")

    monkeypatch.setattr(running.service.access, "sign_in", slow)
    statuses = []

    def guess():
        answer = running.ask("POST", "/sign-in", None, b"name=x&password=y", headers=FORM)
        statuses.append(answer.status_code)

    threads = [threading.Thread(target=guess) for _ in range(12)]
    for thread in threads:
        thread.start()
    for _ in range(4):
        assert entered.acquire(timeout=20)
    end = time.monotonic() + 20
    while len(statuses) < 8 and time.monotonic() < end:
        time.sleep(0.05)
    assert statuses == [429] * 8
    leave.set()
    for thread in threads:
        thread.join()
    assert statuses.count(422) == 4
    answer = running.ask("POST", "/sign-in", None, b"name=x&password=y", headers=FORM)
    assert answer.status_code == 422


def test_only_a_few_verifications_run_at_once(running):
    with running.service.few("verification", 2), running.service.few("verification", 2):
        answer = running.ask("POST", f"{ROOT}/verification", "auditor")
        assert (answer.status_code, answer.json()["code"]) == (429, "busy")
    assert running.ask("POST", f"{ROOT}/verification", "auditor").status_code == 200


def test_names_that_come_twice_are_found_in_one_pass():
    names = [f"n{number}" for number in range(300_000)]
    began = time.process_time()
    text = "{" + ",".join(f'"{name}":1' for name in [*names, names[-1]]) + "}"
    with pytest.raises(ValueError, match="'n299999' occurs twice"):
        read_json(text)
    with pytest.raises(ValueError, match="'n299999' twice"):
        checked_names("actions", [*names, names[-1]])
    assert time.process_time() - began < 20.0  # minutes if each name is looked for in all others


def test_large_bodies_are_not_read_in_the_loop(running, monkeypatch):
    loops, read = [], read_json

    def watched(data):
        try:
            loops.append(asyncio.get_running_loop())
        except RuntimeError:
            loops.append(None)
        return read(data)

    monkeypatch.setattr("rareswitch.service.endpoint.read_json", watched)
    body = json.dumps([report_of(1)] * 1000).encode() + b" " * 200_000
    assert running.ask("POST", f"{ROOT}/episodes", "site", body).status_code == 200
    body = json.dumps({"id": "berlin:1", "observation": {"severity": 1}}).encode() + b" " * 200_000
    assert running.ask("POST", f"{ROOT}/act", "site", body).status_code == 200
    assert loops == [None, None]


def test_open_episodes_of_other_sites_are_not_read_one_by_one(running, monkeypatch):
    lima = running.token("site", site="lima")
    ids = [f"lima:{number}" for number in range(50)]
    assert running.ask("POST", f"{ROOT}/assignments", lima, {"ids": ids}).status_code == 200
    body = {"ids": ["berlin:1", "berlin:2", "berlin:3"]}
    assert running.ask("POST", f"{ROOT}/assignments", "site", body).status_code == 200
    store, reads, reading = running.service.store, [], running.service.store.reading
    monkeypatch.setattr(store, "reading", lambda: reads.append(1) or reading())
    found = running.ask("GET", f"{ROOT}/assignments?limit=1", "site").json()
    assert [one["episode_id"] for one in found] == ["berlin:1"]
    asked = f"{ROOT}/assignments?limit=1&after={found[-1]['number']}"
    found = running.ask("GET", asked, "site").json()
    assert [one["episode_id"] for one in found] == ["berlin:2"]
    assert len(reads) < 20


@pytest.fixture
def address(monkeypatch):
    """Serve a page over connections with short deadlines; return its address."""
    monkeypatch.setattr(server, "HEADERS_WITHIN", 0.5)
    monkeypatch.setattr(server, "BODY_WITHIN", 0.5)

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    config = uvicorn.Config(
        app, http=server.Connection, ws="none", port=0, lifespan="off", log_config=None
    )
    found = uvicorn.Server(config)
    opened = config.bind_socket()
    thread = threading.Thread(target=found.run, kwargs={"sockets": [opened]})
    thread.start()
    while not found.started:
        time.sleep(0.01)
    yield opened.getsockname()
    found.should_exit = True
    thread.join()


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ",
     b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc"],
)  # fmt: skip
def test_a_request_that_never_arrives_is_closed(address, sent):
    with socket.create_connection(address, timeout=20) as connection:
        connection.sendall(sent)
        assert connection.recv(100) == b""


def drip(connection):
    connection.sendall(b"GET / HTTP/1.1\r\n")
    for _ in range(200):
        connection.sendall(b"X-Slow: 1\r\n")
        time.sleep(0.1)


def test_a_request_that_drips_is_closed(address):
    with (
        socket.create_connection(address, timeout=20) as connection,
        pytest.raises((ConnectionResetError, BrokenPipeError)),
    ):
        drip(connection)


def test_requests_one_after_another_are_answered(address):
    with socket.create_connection(address, timeout=20) as connection:
        for body in (b"", b"abc"):
            head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
            connection.sendall(head + body)
            assert connection.recv(1000).startswith(b"HTTP/1.1 204")
            time.sleep(1.0)


# Access that stays, and access in another name


def test_no_device_is_an_administrator(running):
    with pytest.raises(ForbiddenError, match="needs an account"):
        running.service.access.issue_token(
            "script", [Grant("*", "administrator")], by=operator("ops")
        )
    grants = [{"campaign": "*", "role": "administrator"}]
    body = {"label": "script", "grants": grants}
    assert running.ask("POST", "/v1/tokens", "administrator", body).status_code == 403


def test_a_stolen_token_makes_no_other_token_that_outlives_it(running):
    for role in ("statistician", "administrator"):
        body = {"label": "mine", "grants": [{"campaign": "*", "role": role}], "personal": True}
        assert running.ask("POST", "/v1/tokens", role, body).status_code == 403
    del body["personal"]
    body["grants"][0]["role"] = "statistician"
    assert running.ask("POST", "/v1/tokens", "statistician", body).status_code == 403
    session = sign_in(running, "statistician")
    csrf = {"X-CSRF-Token": session.csrf}
    assert running.ask("POST", "/v1/tokens", None, body, headers=csrf).status_code == 201


def test_a_person_sees_and_revokes_every_token_in_their_name(running):
    running.token("auditor", name="kim")  # issued at the keyboard, by another
    kim = running.token("auditor", name="kim")
    running.token("monitor", name="mia")
    found = running.ask("GET", "/v1/tokens", kim).json()
    assert [one["account"] for one in found] == ["kim", "kim"]
    assert running.ask("DELETE", f"/v1/tokens/{found[0]['id']}", kim).status_code == 204
    (mias,) = running.service.access.tokens("mia")
    assert running.ask("DELETE", f"/v1/tokens/{mias.id}", kim).status_code == 404
    assert running.ask("GET", "/v1/tokens", "site").json() == []


# Pages of others


@pytest.mark.parametrize(
    ("origin", "host", "public", "status"),
    [
        ("http://evil.example:8000", "evil.example:8000", "http://localhost:8000", 403),
        ("https://evil.example", "trial.example.org", "https://trial.example.org", 403),
        ("http://trial.example.org", "trial.example.org", "https://trial.example.org", 403),
        ("null", "localhost:8000", "http://localhost:8000", 403),
        ("http://localhost:9", "localhost:8000", "http://localhost:8000", 403),
        ("http://localhost:8000", "localhost:8000", "http://localhost:8000", 401),
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "http://localhost:8000", 401),
        ("http://[::1]:8000", "[::1]:8000", "http://localhost:8000", 401),
        ("https://trial.example.org", "10.0.0.7:8000", "https://trial.example.org", 401),
        (None, "localhost:8000", "http://localhost:8000", 401),
    ],
)
def test_forms_of_other_pages_do_not_sign_in(store, origin, host, public, status):
    running = run_service(store, public_url=public)
    headers = FORM | {"Host": host} | ({} if origin is None else {"Origin": origin})
    answer = running.ask("POST", "/sign-in", None, b"name=x&password=y", headers=headers)
    assert answer.status_code == status


def test_no_other_host_can_set_the_cookie_of_a_secure_service(store):
    running = run_service(store, public_url="https://trial.example.org")
    running.client.base_url = "https://trial.example.org"
    running.ask("GET", "/v1/me", "auditor")
    body = f"name=the+auditor&password={PASSWORD.replace(' ', '+')}".encode()
    answer = running.ask("POST", "/sign-in", None, body, headers=FORM)
    assert answer.status_code == 303
    cookie = next(
        one for one in answer.headers.get_list("set-cookie") if "rareswitch_session" in one
    )
    assert cookie.startswith("__Host-rareswitch_session=rss_")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= {*cookie.split("; ")}
    assert running.ask("GET", "/v1/me").status_code == 200
    secret = running.client.cookies["__Host-rareswitch_session"]
    running.client.cookies.clear()
    running.client.cookies.set(COOKIE, secret)  # as a page without TLS could
    assert running.ask("GET", "/v1/me").status_code == 401


# What an error tells


def test_a_store_that_is_gone_tells_strangers_no_path(running):
    path = running.service.store.path
    path.rename(path.with_suffix(".away"))
    answer = running.ask("GET", "/readyz")
    assert answer.status_code == 503
    assert str(path.parent) not in answer.text
    assert "sqlite" not in answer.text


# Two people at once


@pytest.fixture
def alone(store):
    """Run a service with a study in which one person is enough to amend the protocol."""
    running = run_service(store)
    running.create(*study(approval=Approval(by="schedule")))
    return running


def test_two_amendments_at_once_do_not_undo_each_other(alone, monkeypatch):
    campaign, amended = alone.service.find_campaign("doors"), Protocol.amended

    def slowly(protocol, changes, **more):
        found = amended(protocol, changes, **more)
        if "episodes" in changes:  # Mia is slow, and Ana is faster
            alone.service.find_campaign("doors").amend(
                {"budget": {"deployments": 3}}, by="ana", reason="a second change"
            )
        return found

    monkeypatch.setattr(Protocol, "amended", slowly)
    body = signed(changes={"episodes": 500})
    answer = alone.ask("POST", f"{ROOT}/amendments", "statistician", body)
    assert answer.status_code == 409
    assert campaign.terms.plain["budget"] == {"deployments": 3}
    monkeypatch.undo()
    answer = alone.ask("POST", f"{ROOT}/amendments", "statistician", body)
    assert answer.status_code == 200, answer.text
    assert campaign.terms.plain["budget"] == {"deployments": 3}
    assert campaign.terms.episodes == 500


def test_a_page_from_before_an_amendment_does_not_undo_it(alone):
    campaign = alone.service.find_campaign("doors")
    session = sign_in(alone, "statistician")
    shown = alone.ask("GET", "/studies/doors").text
    text = html.unescape(re.search(r"<textarea[^>]*name=\"changes\"[^>]*>(.*?)</textarea>", shown,
                                   re.DOTALL)[1])  # fmt: skip
    seen = re.search(r'name="protocol" value="([0-9a-f]{64})"', shown)[1]
    campaign.amend({"budget": {"deployments": 3}}, by="ana", reason="a second change")
    fields = {"csrf": session.csrf, "changes": text.replace("300", "500"), "protocol": seen,
              "reason": "more patients", "password": PASSWORD}  # fmt: skip
    answer = alone.ask("POST", "/studies/doors/amend", None, urlencode(fields).encode(),
                       headers=FORM)  # fmt: skip
    assert answer.status_code == 412
    assert campaign.terms.plain["budget"] == {"deployments": 3}


def test_an_event_that_is_ranked_again_loses_no_reward(running):
    path = f"{ROOT}/personalizer/v1.0"
    body = {
        "actions": [{"id": "low"}, {"id": "high"}],
        "contextFeatures": [{"severity": 1}],
        "eventId": "berlin:again",
    }
    first = running.ask("POST", f"{path}/rank", "site", body | {"deferActivation": True})
    again = running.ask("POST", f"{path}/rank", "site", body)
    assert again.json() == first.json()
    reward = f"{path}/events/berlin:again/reward"
    assert running.ask("POST", reward, "site", {"value": 1.0}).status_code == 204
    late = running.ask("POST", f"{path}/rank", "site", body)
    assert late.status_code == 409
    assert "has its reward already" in late.json()["detail"]
    assert running.ask("GET", ROOT, "site").json()["recorded"] == 1
