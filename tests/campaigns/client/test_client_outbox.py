"""The outbox: order, exactly once, refusals, storms, and several processes."""

import json
import subprocess
import sys
import threading
from itertools import pairwise

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract_server import TOKEN, problem
from rareswitch.campaigns import ConflictError, UnavailableError, episodes
from rareswitch.campaigns.client import Client, OfflineError, Timing
from rareswitch.campaigns.client.line import LONGEST, Line


def report(name, reward=1.0, **more):
    told = {"id": name, "observations": [{"severity": 1}], "actions": ["low"], "rewards": [reward]}
    return told | more


def recorded(server):
    return [one["episode_id"] for one in episodes(server.campaign, limit=1000)]


def posts(server):
    return [asked for asked in server.asked if asked == ("POST", "/episodes")]


@pytest.fixture
def ready(client):
    client.refresh()
    return client


def test_reports_arrive_in_their_order_and_many_in_one_request(ready, server, without_flushes):
    ids = [f"berlin:{number}" for number in range(230)]
    for name in ids:
        ready.report(report(name))
    assert ready.status().waiting == 230
    assert ready.flush() == (230, 0, 0, None)
    assert recorded(server) == ids
    assert len(posts(server)) == 3
    assert ready.flush() == (0, 0, 0, None)


def test_large_reports_are_sent_in_several_requests(ready, server, monkeypatch):
    monkeypatch.setattr("rareswitch.campaigns.client.outbox.MOST_BYTES", 500)
    for number in range(9):
        ready.report(report(f"berlin:{number}"))
    ready.flush()
    assert recorded(server) == [f"berlin:{number}" for number in range(9)]
    assert 3 <= len(posts(server)) < 9


def test_the_same_report_waits_once_and_other_content_is_a_conflict(ready):
    ready.report(report("a"))
    ready.report(report("a"))
    assert ready.status().waiting == 1
    with pytest.raises(ConflictError, match="episode a waits in the outbox with different content"):
        ready.report(report("a", 0.5))


@pytest.mark.parametrize("count", [1, 3])
def test_an_acknowledgement_that_was_lost_leads_to_no_second_row(ready, server, count):
    def lose(request):
        server.answer(request, "/episodes")
        return httpx.ReadTimeout("too slow")

    for number in range(count):
        ready.report(report(f"berlin:{number}"))
    server.faults = [lose]
    found = ready.flush()
    assert found[:3] == (0, 0, count)
    assert "too slow" in found.error
    assert ready.flush() == (count, 0, 0, None)
    assert len(recorded(server)) == count


@pytest.mark.parametrize("together", [True, False])
def test_a_refused_report_is_kept_with_its_reason_and_never_sent_again(ready, server, together):
    ready.report(report("a"))
    ready.flush()
    for name in ("b", "a", "c"):  # a is recorded with another content
        ready.report(report(name, 0.25))
        if not together:
            ready.flush()
    found = ready.flush()
    assert found[1:] == ((1 if together else 0), 0, None)
    assert recorded(server) == ["a", "b", "c"]
    (refused,) = ready.refused()
    assert refused.report == report("a", 0.25)
    assert refused.problem["status"] == 409
    assert refused.problem["code"] == "conflict"
    assert "is recorded already" in refused.problem["detail"]
    asked = len(posts(server))
    ready.flush()
    assert len(posts(server)) == asked
    assert ready.status().refused == 1
    ready.report(report("a"))  # the first content: it is known
    assert ready.flush().recorded == 1


def test_a_batch_that_is_refused_as_a_whole_is_sent_one_by_one(ready, server):
    for name in ("a", "b", "c"):
        ready.report(report(name))

    def refuse(request):
        body = json.loads(request.content)
        if isinstance(body, list) or body["id"] == "b":
            return problem(400, "body must be JSON", "unreadable", field="body")
        return None

    server.faults = [refuse] * 4
    assert ready.flush() == (2, 1, 0, None)
    assert recorded(server) == ["a", "c"]
    assert [one.report["id"] for one in ready.refused()] == ["b"]


def test_a_batch_too_large_for_a_proxy_is_sent_one_by_one(ready, server):
    for name in ("a", "b"):
        ready.report(report(name))
    server.faults = [httpx.Response(413, html="<h1>Too large</h1>")]
    assert ready.flush() == (2, 0, 0, None)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, html="<h1>Welcome</h1>"),
        httpx.Response(200, json={}),
        httpx.Response(200, json={"seq": "1"}),
        httpx.Response(200, json={"seq": 1, "status": 503}),
        httpx.Response(200, json=[{"seq": 1}, {"seq": 2}]),
        httpx.Response(204),
        httpx.Response(302, headers={"location": "/"}),
        httpx.Response(400, html="<h1>Bad request</h1>"),
        httpx.Response(403, html="<h1>Blocked</h1>"),
        problem(401, "the token has expired", "sign-in"),
        problem(403, "your role does not allow this", "forbidden"),
        problem(404, "there is no campaign doors", "not-found", field="campaign"),
        problem(429, "slow down", "too-many"),
        problem(500, "failed", "failed"),
        problem(503, "the store is locked", "unavailable"),
        problem(507, "no room", "unavailable"),
        httpx.ConnectError("no route"),
        httpx.RemoteProtocolError("peer closed connection"),
    ],
)
def test_only_the_number_of_a_row_acknowledges_a_report(ready, server, answer):
    ready.report(report("a"))
    server.faults = [answer]
    found = ready.flush()
    assert found[:3] == (0, 0, 1)
    assert found.error
    assert ready.status().failures == 1
    assert ready.flush() == (1, 0, 0, None)
    assert ready.status().failures == 0


def test_a_403_about_the_report_is_a_refusal(ready, server):
    ready.report(report("munich:1"))
    ready.report(report("berlin:1"))
    server.faults = [
        lambda request: httpx.Response(
            200,
            json=[
                json.loads(problem(403, "id must begin", "another-site", field="id").content),
                server.campaign.record(report("berlin:1"))._asdict(),
            ],
        )
    ]
    assert ready.flush() == (1, 1, 0, None)


def test_in_a_batch_a_report_that_the_server_could_not_store_waits_on(ready, server):
    for name in ("a", "b"):
        ready.report(report(name))
    server.faults = [
        lambda request: httpx.Response(
            200,
            json=[
                json.loads(problem(503, "the store is locked", "unavailable").content),
                server.campaign.record(report("b"))._asdict(),
            ],
        )
    ]
    assert ready.flush()[:3] == (1, 0, 1)
    assert ready.flush() == (1, 0, 0, None)


def test_a_storm_of_503_is_waited_out_with_growing_pauses(ready, server, time):
    ready.report(report("a"))
    storm = [problem(503, "the store is locked", "unavailable") for _ in range(12)]
    server.faults = [*storm]
    server.asked.clear()
    start = time.seconds
    assert ready.flush(wait=3600.0) == (1, 0, 0, None)
    assert len(posts(server)) == 13
    assert time.slept[:5] == [0.75, 1.5, 3.0, 6.0, 12.0]  # chance is 0.5: three quarters of it
    assert max(time.slept) == 0.75 * LONGEST
    assert time.seconds - start == sum(time.slept)


def test_waiting_ends_when_it_should(ready, server, time):
    ready.report(report("a"))
    server.online = False
    start = time.seconds
    found = ready.flush(wait=100.0)
    assert found[:3] == (0, 0, 1)
    assert time.seconds - start == pytest.approx(100.0)
    assert len(posts(server)) < 12


def test_the_pause_that_the_server_asks_for_is_kept(ready, server, time):
    ready.report(report("a"))
    answer = problem(429, "slow down", "too-many")
    answer.headers["retry-after"] = "40"
    server.faults = [answer]
    ready.flush(wait=3600.0)
    assert time.slept == [40.0]


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60))
def test_pauses_never_shrink_below_half_and_never_pass_the_longest(chances):
    drawn = iter(chances)
    line = Line(Timing(clock=lambda: 0.0, chance=lambda: next(drawn)))
    waits = []
    for _ in chances:
        line.failed("no route")
        waits.append(line.wait)
    assert all(0.5 * min(2.0**n, LONGEST) <= wait <= LONGEST for n, wait in enumerate(waits))
    assert all(later >= 0.5 * earlier for earlier, later in pairwise(waits))
    line.worked()
    assert (line.wait, line.failures, line.error) == (0.0, 0, None)


def test_a_damaged_report_is_put_aside_and_holds_up_nobody(ready, server):
    for name in ("a", "b"):
        ready.report(report(name))
    folder = ready._site.folder
    first = folder / f"outbox/{folder.names('outbox')[0]}"
    first.write_bytes(first.read_bytes()[:-3])
    assert ready.flush() == (1, 0, 0, None)
    assert recorded(server) == ["b"]
    assert ready.status().damaged == 1
    assert len(folder.names("damaged")) == 1


def test_a_full_disk_is_told_and_nothing_is_half_written(ready, monkeypatch):
    ready.report(report("a"))

    def no_room(file, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rareswitch.campaigns.client.durable.os.write", no_room)
    with pytest.raises(UnavailableError, match="cannot be written") as caught:
        ready.report(report("b"))
    assert caught.value.full
    with pytest.raises(UnavailableError):
        ready.episode("c")
    monkeypatch.undo()
    assert ready._site.folder.names("tmp") == []
    assert ready.status()[5:9] == (1, 0, 0, 0)
    ready.report(report("b"))
    assert ready.flush().recorded == 2


def test_a_line_that_finds_no_room_is_taken_back(ready, monkeypatch):
    episode = ready.episode("a")
    real, left = __import__("os").write, [40]

    def little_room(file, data):
        if not left[0]:
            raise OSError(28, "No space left on device")
        count, left[0] = min(left[0], len(data)), 0
        return real(file, data[:count])

    monkeypatch.setattr("rareswitch.campaigns.client.durable.os.write", little_room)
    with pytest.raises(UnavailableError):
        episode.act({"severity": 1})
    monkeypatch.undo()
    assert episode.stage == 0
    with episode:
        episode.act({"severity": 1})
        episode.reward(1.0)
    assert ready.flush().recorded == 1


# Several threads and processes


def test_the_background_sends_without_being_asked(server, tmp_path):
    server.faults = [None] * 4 + [problem(503, "not yet", "unavailable")]
    settings = {"token": TOKEN, "folder": tmp_path / "site", "transport": server.transport}
    with Client("http://127.0.0.1:9", "doors", **settings) as client:
        arrived = threading.Event()
        server.on_answer = lambda request, answer: (
            arrived.set() if request.method == "POST" and answer.status_code == 201 else None
        )
        with client.episode("berlin:1") as episode:
            episode.act({"severity": 1})
            episode.reward(1.0)
        assert arrived.wait(30.0)
    assert recorded(server) == ["berlin:1"]
    assert not any(one.name == "rareswitch reports" for one in threading.enumerate())


def test_the_background_sends_what_an_earlier_process_left(ready, server, make_client):
    ready.report(report("a"))
    arrived = threading.Event()
    server.on_answer = lambda request, answer: arrived.set() if request.method == "POST" else None
    make_client(server, background=True, timing=None)
    assert arrived.wait(30.0)


def test_two_senders_do_not_send_twice(ready, make_client, server):
    for name in ("a", "b"):
        ready.report(report(name))
    other = make_client(server)
    inside = []

    def ask_other(request):
        inside.append(other.flush())

    server.faults = [ask_other]
    assert ready.flush() == (2, 0, 0, None)
    assert inside == [(0, 0, 2, "another process or thread is sending the reports")]
    assert len(posts(server)) == 1


PROCESS = """
import sys
from rareswitch.campaigns.client import Client
url, folder, name = sys.argv[1:]
with Client(url, "doors", token={token!r}, folder=folder) as client:
    for number in range(12):
        with client.episode(f"{{name}}:{{number}}") as episode:
            episode.act({{"severity": number % 5}})
            episode.reward(0.5)
    client.flush(wait=60.0)
"""


def test_processes_share_a_folder(server, tmp_path):
    source = PROCESS.format(token=TOKEN)
    with server.listening() as url:
        command = [sys.executable, "-c", source, url, str(tmp_path / "site")]
        running = [subprocess.Popen([*command, name]) for name in ("a", "b", "c")]
        assert [one.wait() for one in running] == [0, 0, 0]
        settings = {"token": TOKEN, "folder": tmp_path / "site", "background": False}
        with Client(url, "doors", **settings) as client:
            client.flush()
            assert client.status()[5:9] == (0, 0, 0, 0)
    found = recorded(server)
    assert sorted(found) == sorted(f"{name}:{number}" for name in "abc" for number in range(12))
    for name in "abc":
        own = [one for one in found if one.startswith(name)]
        assert own == [f"{name}:{number}" for number in range(12)]


def test_one_folder_serves_several_campaigns_and_servers(tmp_path):
    told = [("https://a.example", "doors"), ("https://a.example", "rooms"),
            ("https://b.example", "doors")]  # fmt: skip
    paths = set()
    for url, campaign in told:
        with Client(url, campaign, token=TOKEN, folder=tmp_path) as client:
            paths.add(client._site.folder.path)
    assert len(paths) == 3


def test_offline_reports_wait_and_the_error_says_why(ready, server):
    server.online = False
    ready.report(report("a"))
    assert ready.flush() == (
        0, 0, 1, "the server http://127.0.0.1:9 cannot be reached (no route to host)",
    )  # fmt: skip
    assert ready.status().error == ready.flush().error
    with pytest.raises(OfflineError, match="no route to host"):
        ready.refresh()
