"""Notices reach their receivers at least once, in order, and hold up nobody."""

import base64
import hashlib
import hmac
import json
import os
import socket
import sys
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from campaign_builders import create, fill, plain, propose, report
from cli.terminal import PATIENCE, refused, started
from rareswitch.campaigns import Approval, Campaign, RefusedError, backup, open_store, restore
from rareswitch.service import notices as module
from rareswitch.service.learner import beating
from rareswitch.service.notices import Notices, beat, kept
from rareswitch.service.receivers import Command, NotDeliveredError, Webhook, receivers_of

KEY = bytes(range(32))
SECRET = "whsec_" + base64.b64encode(KEY).decode()
OTHER = "whsec_" + base64.b64encode(bytes(32)).decode()


@pytest.fixture
def store(store_url):
    """Open a fresh store of each kind."""
    with open_store(store_url) as opened:
        yield opened


class Receiver:
    """Takes events, or fails while `down`; `after` is called before an event is taken."""

    def __init__(self, name="one"):
        self.name = self.shown = name
        self.events, self.tries, self.down, self.dies = [], 0, False, False

    def send(self, event):
        self.tries += 1
        if self.down:
            raise NotDeliveredError("it is down")
        self.events.append(event)
        if self.dies:
            raise KeyboardInterrupt  # after it took the event, before that is kept

    @property
    def ids(self):
        return [event["id"] for event in self.events]

    @property
    def types(self):
        return [event["type"] for event in self.events]


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@contextmanager
def following(store, *receivers, **more):
    found = Notices(store, receivers, **{"clock": Clock()} | more)
    try:
        yield found
    finally:
        found.close()


def signed(store, **changes):
    return create(store, approval=Approval(by="second-person"), **changes)


EVE = {"by": "eve", "reason": "seen"}


def decide(campaign):
    """Let a candidate wait, be approved, be rolled back, and end the campaign."""
    fill(campaign, range(12))
    candidate = propose(campaign)
    campaign.approve(candidate.number, **EVE)
    campaign.rollback(1, **EVE)
    campaign.stop(**EVE)


def test_events_come_in_the_order_of_the_ledger_and_once(store):
    receiver = Receiver()
    with following(store, receiver, public_url="https://trial.example/") as sender:
        sender.step()
        campaign = signed(store)
        decide(campaign)
        sender.step()
        sender.step()
    assert [(event["id"], event["type"], event["data"]["text"]) for event in receiver.events] == [
        ("trial/2", "version-in-force", "version 1 is in force"),
        ("trial/3", "candidate-waits", "candidate 3 for version 2 waits for a signature"),
        ("trial/5", "version-in-force", "version 2 is in force"),
        ("trial/6", "version-in-force", "version 3 is in force: a rollback to version 1"),
        ("trial/7", "stopped", "the campaign was stopped"),
    ]
    waits = receiver.events[1]
    assert waits["data"] == {
        "campaign": "trial",
        "entry": 3,
        "version": 2,
        "text": "candidate 3 for version 2 waits for a signature",
        "link": "https://trial.example/studies/trial/candidates/3",
    }
    assert waits["timestamp"] == campaign.entries[2].at
    assert receiver.events[-1]["data"]["link"] == "https://trial.example/studies/trial"


def test_no_event_tells_a_return_a_reason_or_a_person(store):
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
        campaign = signed(store)
        fill(campaign, range(12))
        candidate = propose(campaign, evidence={"gain": 0.123456})
        campaign.approve(candidate.number, by="Secret Person", reason="a secret reason")
        campaign.stop(by="Secret Person", reason="harm in arm 2")
        sender.step()
    text = json.dumps(receiver.events)
    assert len(receiver.events) == 4
    for word in ("Secret", "secret", "harm", "0.12", "ana", "gain"):
        assert word not in text


def test_a_candidate_that_is_in_force_at_once_waits_for_nobody(store):
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
        campaign = create(store)
        fill(campaign, range(12))
        propose(campaign)
        sender.step()
    assert receiver.types == ["version-in-force", "version-in-force"]


def test_amendments_that_wait_are_told(store):
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
        campaign = signed(store)
        campaign.amend({"budget": {"deployments": 4}}, by="ana", reason="a test")
        sender.step()
    assert receiver.events[-1]["type"] == "amendment-waits"
    assert receiver.events[-1]["data"]["text"] == "amendment 3 waits for a signature"


def test_a_new_receiver_hears_what_waits_now_but_not_the_past(store):
    campaign = signed(store, episodes=600)
    fill(campaign, range(12))
    campaign.approve(propose(campaign).number, **EVE)
    waiting = propose(campaign, seed=1)
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
        assert receiver.ids == [f"trial/{waiting.number}"]
        campaign.reject(waiting.number, **EVE)
        sender.step()
    assert receiver.ids == [f"trial/{waiting.number}"]
    late = Receiver("two")
    with following(store, receiver, late) as sender:
        sender.step()
        campaign.stop(**EVE)
        sender.step()
    assert late.types == ["stopped"]
    assert receiver.types == ["candidate-waits", "stopped"]


def test_a_restart_neither_repeats_nor_loses(store):
    campaign = signed(store)
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
    fill(campaign, range(12))
    candidate = propose(campaign)  # while nobody sends
    with following(store, receiver) as sender:
        sender.step()
    campaign.approve(candidate.number, **EVE)
    with following(store, receiver) as sender:
        sender.step()
        sender.step()
    assert receiver.ids == ["trial/3", "trial/5"]


def test_a_crash_between_delivery_and_its_note_sends_again_under_the_same_id(store):
    receiver = Receiver()
    with following(store, receiver) as sender:
        sender.step()
        signed(store)
        receiver.dies = True
        with pytest.raises(KeyboardInterrupt):
            sender.step()
        receiver.dies = False
    with following(store, receiver) as sender:
        sender.step()
        sender.step()
    assert receiver.ids == ["trial/2", "trial/2"]


def test_a_receiver_that_fails_is_tried_again_later_and_holds_up_no_other(store):
    clock, one, two = Clock(), Receiver("one"), Receiver("two")
    with following(store, one, two, clock=clock) as sender:
        sender.step()
        decide(signed(store))
        one.down = True
        tries = []
        for _ in range(40):
            sender.step()
            tries.append(one.tries)
            clock.now += 1.0
        assert len(two.events) == 5
        # After 0, 2, 6, 14 and 30 seconds.
        assert [tries.index(n) for n in range(1, 6)] == [0, 2, 6, 14, 30]
        assert sender.failures == {"one": 5, "two": 0}
        clock.now += 300.0
        one.down = False
        sender.step()
        assert one.ids == two.ids
        assert sender.failures == {"one": 0, "two": 0}


def test_one_of_several_processes_sends(store, store_url):
    receiver = Receiver()
    with following(store, receiver) as first, open_store(store_url) as again:
        first.step()
        with following(again, receiver) as second:
            signed(store)
            second.step()
            assert receiver.ids == []
            first.step()
            first.close()
            second.step()
            Campaign(store, "trial").stop(**EVE)
            second.step()
            first.step()
    assert receiver.ids == ["trial/2", "trial/3"]


def test_a_server_that_restarts_gives_the_lock_to_one_again(postgres):
    receiver = Receiver()
    with open_store(postgres.create_database(), create=True) as store:
        campaign = signed(store)
        with following(store, receiver) as sender:
            sender.step()
            postgres.kill()
            postgres.start()
            campaign.stop(**EVE)
            sender.step()
    assert receiver.types == ["stopped"]


def test_a_restored_store_goes_on_where_its_backup_was(tmp_path):
    receiver = Receiver()
    with open_store(tmp_path / "store.db", create=True) as store:
        campaign = signed(store)
        with following(store, receiver) as sender:
            sender.step()
        backup(store, tmp_path / "backup.db")
        assert campaign.version == 1
    with open_store(tmp_path / "restored.db", create=True) as store:
        restore(tmp_path / "backup.db", store)
        with following(store, receiver) as sender:
            sender.step()
            Campaign(store, "trial").stop(**EVE)
            sender.step()
    assert receiver.types == ["stopped"]


def test_a_silent_learner_is_told_once_and_when_it_is_back(store):
    clock, receiver = Clock(), Receiver()
    beat(store)
    with following(store, receiver, clock=clock, silent_after=60.0) as sender:
        for _ in range(5):
            clock.now += 50.0
            beat(store)
            sender.step()
        assert receiver.types == []
        token = kept(store)["*", "learner"]
        clock.now += 61.0
        sender.step()
        sender.step()
        assert receiver.ids == [f"learner-silent/{token}"]
        assert receiver.events[0]["data"] == {"text": "no learner was heard for 60 s"}
        beat(store)
        sender.step()
        sender.step()
    assert receiver.ids == [f"learner-silent/{token}", f"learner-heard/{token}"]


def test_a_learner_that_never_came_is_silent_and_a_restart_repeats_nothing(store):
    clock, receiver = Clock(), Receiver()
    for _ in range(2):
        with following(store, receiver, clock=clock, silent_after=60.0) as sender:
            sender.step()
            clock.now += 61.0
            sender.step()
    assert receiver.types == ["learner-silent"]


def test_rising_refusals_are_told_once_until_they_are_few(store):
    clock, receiver = Clock(), Receiver()
    campaign = create(store, episodes=1000)
    with following(store, receiver, clock=clock, silent_after=1e9) as sender:
        sender.step()
        for number in range(12):
            if number == 9:
                sender.step()
                assert receiver.types == []
            with pytest.raises(RefusedError):
                campaign.record(plain(number, rewards=[7.0, 7.0]))
        clock.now += 600.0
        sender.step()
        sender.step()
        assert receiver.types == ["refusals-rising"]
        assert receiver.events[0]["data"] == {
            "campaign": "trial",
            "refused": 12,
            "text": "12 reports were refused within 60 minutes",
        }
        clock.now += 3700.0
        sender.step()
        for number in range(12, 30):
            with pytest.raises(RefusedError):
                campaign.record(plain(number, rewards=[7.0, 7.0]))
        sender.step()
    assert receiver.types == ["refusals-rising", "refusals-rising"]


def test_few_refusals_among_many_reports_are_not_told(store):
    receiver = Receiver()
    campaign = create(store, episodes=1000)
    with following(store, receiver) as sender:
        sender.step()
        list(campaign.record_all(report(number) for number in range(150)))
        for number in range(200, 212):
            with pytest.raises(RefusedError):
                campaign.record(plain(number, rewards=[7.0, 7.0]))
        sender.step()
    assert receiver.types == []


def test_a_damaged_campaign_holds_up_no_other(tmp_path):
    receiver = Receiver()
    with open_store(tmp_path / "store.db", create=True) as store:
        signed(store, name="another")
        campaign = signed(store)
        with following(store, receiver) as sender:
            sender.step()
            with store.writing("another") as connection:
                connection.exec_driver_sql("DELETE FROM ledger WHERE campaign = 'another'")
            sender._campaigns.clear()
            campaign.stop(**EVE)
            sender.step()
    assert receiver.ids == ["trial/3"]


def test_following_goes_on_after_errors_and_stops_when_told(tmp_path, monkeypatch):
    steps, stopping = [], threading.Event()
    with open_store(tmp_path / "store.db", create=True) as store:
        sender = Notices(store, [])

        def step():
            steps.append(1)
            if len(steps) == 4:
                stopping.set()
            raise [ValueError("a fault"), module.UnavailableError("gone")][len(steps) % 2]

        monkeypatch.setattr(sender, "step", step)
        sender.follow(stopping, every=0.001)
    assert len(steps) == 4


def test_a_receiver_that_is_there_twice_is_refused(tmp_path):
    with (
        open_store(tmp_path / "store.db", create=True) as store,
        pytest.raises(ValueError, match="receivers must be distinct"),
    ):
        Notices(store, [Receiver(), Receiver()])


# Webhooks

EVENT = {"id": "trial/3", "type": "stopped", "timestamp": "t", "data": {"text": "für Ä"}}


class Site:
    """A web server that keeps requests; `answers` are the statuses, the last one for ever."""

    def __init__(self, *answers, location=None, wait=0.0):
        self.requests, self.answers, self.location, self.wait = [], list(answers), location, wait

    def __enter__(self):
        site = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["content-length"]))
                site.requests.append((self.path, dict(self.headers.items()), body))
                time.sleep(site.wait)
                self.send_response(site.answers.pop(0) if site.answers[1:] else site.answers[0])
                if site.location:
                    self.send_header("location", site.location)
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_a_webhook_posts_signed_json():
    with Site(204) as site:
        url = f"{site.url}/hook?key=1"
        Webhook(url, secrets=[SECRET, OTHER], clock=lambda: 1700000000.9).send(EVENT)
    ((path, headers, body),) = site.requests
    headers = {name.lower(): value for name, value in headers.items()}
    assert path == "/hook?key=1"
    assert json.loads(body) == EVENT
    assert headers["content-type"] == "application/json"
    assert (headers["webhook-id"], headers["webhook-timestamp"]) == ("trial/3", "1700000000")
    due = hmac.new(KEY, b"trial/3.1700000000." + body, hashlib.sha256).digest()
    first, second = headers["webhook-signature"].split(" ")
    assert first == "v1," + base64.b64encode(due).decode()
    assert second.startswith("v1,")
    assert second != first


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 404, 410, 429, 500, 503])
def test_any_other_answer_is_a_failure(status):
    with Site(200) as elsewhere, Site(status, location=f"{elsewhere.url}/") as site:
        with pytest.raises(NotDeliveredError, match=f"^answered {status}$"):
            Webhook(site.url, secrets=[SECRET]).send(EVENT)
        assert len(site.requests) == 1
        assert elsewhere.requests == []


def test_a_site_that_does_not_answer_is_a_failure_that_shows_no_address():
    with (
        Site(200, wait=0.5) as site,
        pytest.raises(NotDeliveredError, match=r"^TimeoutError$"),
    ):
        Webhook(f"{site.url}/secret", secrets=[SECRET], timeout=0.05).send(EVENT)
    with pytest.raises(NotDeliveredError, match=r"^ConnectionRefusedError$"):
        Webhook(f"{site.url}/secret", secrets=[SECRET]).send(EVENT)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://example.com/", "file:///etc/passwd", "example.com", "http://", "https:///path",
        "http://user:password@example.com/", "http://example.com/#part", "http://example.com/a b",
        "http://example.com/\r\nX: 1", "http://[::1", "http://example.com:port/", "",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(url):
    with pytest.raises(ValueError, match=r"^webhook must"):
        Webhook(url, secrets=[SECRET])


@pytest.mark.parametrize(
    "secret", ["", "password", "whsec_", "whsec_c2hvcnQ=", "whsec_%%%", KEY.hex()]
)
def test_other_secrets_are_refused_without_repeating_them(secret):
    with pytest.raises(ValueError, match="RARESWITCH_WEBHOOK_SECRET must") as caught:
        Webhook("https://example.com/", secrets=[secret])
    assert not secret or secret in ("whsec_",) or secret not in str(caught.value)


def test_secrets_come_from_the_environment():
    given = {"RARESWITCH_WEBHOOK_SECRET": f"{SECRET} {OTHER}"}
    one, two = receivers_of(["https://example.com/a"], [["true"]], given)
    assert (one.shown, two.shown) == ("https://example.com", "true")
    assert one.name != receivers_of(["https://example.com/b"], [], given)[0].name
    assert one.name == receivers_of(["https://example.com/a"], [], given)[0].name
    assert receivers_of([], [], {}) == []
    with pytest.raises(ValueError, match="RARESWITCH_WEBHOOK_SECRET must be the secret"):
        receivers_of(["https://example.com/"], [], {})


# Commands


def test_a_command_reads_the_event_and_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("RARESWITCH_STORE", "postgresql://ana:password@db/trial")
    monkeypatch.setenv("OTHER", "kept")
    out = tmp_path / "out"
    code = "import os, sys; open(sys.argv[1], 'w').write(sys.stdin.read() + str(dict(os.environ)))"
    Command([sys.executable, "-c", code, str(out)]).send(EVENT)
    line, _, environment = out.read_text().partition("\n")
    assert json.loads(line) == EVENT
    assert "'OTHER': 'kept'" in environment
    assert "RARESWITCH" not in environment


def test_arguments_are_no_shell(tmp_path):
    Command(["true", f"; touch {tmp_path / 'made'}", "$(touch x)"]).send(EVENT)
    assert list(tmp_path.iterdir()) == []


def test_a_command_that_fails_or_hangs_is_a_failure(tmp_path):
    with pytest.raises(NotDeliveredError, match=r"^ended with status 3$"):
        Command(["sh", "-c", "exit 3"]).send(EVENT)
    mark = tmp_path / "pid"
    began = time.monotonic()
    with pytest.raises(NotDeliveredError, match=r"^did not end within 0\.5 s$"):
        Command(["sh", "-c", f"sleep 60 & echo $! > {mark}; wait"], timeout=0.5).send(EVENT)
    assert time.monotonic() - began < 10.0
    wait_until_gone(int(mark.read_text()))


def wait_until_gone(process):
    end = time.monotonic() + 10.0
    while time.monotonic() < end:
        try:
            with open(f"/proc/{process}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return
        except OSError:
            return
        time.sleep(0.01)
    pytest.fail("a child of the command is still there")


def test_a_command_that_is_no_program_is_refused(tmp_path):
    for arguments in ([], ["no-such-program-at-all"], [str(tmp_path)]):
        with pytest.raises(ValueError, match="notify-command must begin with a program"):
            Command(arguments)


def test_a_command_that_reads_nothing_has_taken_the_event():
    large = EVENT | {"data": {"text": "x" * 1_000_000}}
    Command(["true"]).send(large)


def test_a_command_gets_the_events_of_a_campaign(tmp_path):
    out = tmp_path / "events"
    with open_store(tmp_path / "store.db", create=True) as store:
        command = Command(["sh", "-c", f"cat >> {out}"])
        with following(store, command) as sender:
            sender.step()
            decide(signed(store))
            sender.step()
    events = [json.loads(line) for line in out.read_text().splitlines()]
    assert [event["id"] for event in events] == [f"trial/{number}" for number in (2, 3, 5, 6, 7)]
    assert os.stat(tmp_path / "store.db.notices").st_mode & 0o777 == 0o600


# The service


def test_the_service_sends_notices_and_its_learner_beats(tmp_path):
    out, store = tmp_path / "events", f"sqlite:///{tmp_path / 'store.db'}"
    arguments = ["--store", store, "--bind", f"127.0.0.1:{free_port()}"]
    arguments += ["--notify-command", f"sh -c 'cat >> {out}'"]
    with started("serve", *arguments, cwd=tmp_path) as process:
        wait_for(lambda: (tmp_path / "store.db.notices").exists())
        with open_store(store) as opened:
            wait_for(lambda: any(name.startswith("command ") for _, name in kept(opened)))
            wait_for(lambda: ("*", "learner") in kept(opened))
            decide(signed(opened))
            wait_for(lambda: out.exists() and len(out.read_text().splitlines()) == 5)
        process.terminate()
    assert json.loads(out.read_text().splitlines()[1])["type"] == "candidate-waits"


def test_a_learner_beats_while_it_fits(store, monkeypatch):
    monkeypatch.setattr("rareswitch.service.learner.BEAT_EVERY", 0.01)
    heard = set()
    with beating(store):  # nothing in here beats: a fit may take as long
        wait_for(lambda: heard.add(kept(store).get(("*", "learner"))) or len(heard - {None}) > 2)
    last = kept(store)
    time.sleep(0.05)
    assert kept(store) == last


def wait_for(done):
    end = time.monotonic() + PATIENCE
    while not done():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.05)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--webhook", "ftp://example.com"], "webhook must be http"),
        (["--webhook", "https://example.com"], "RARESWITCH_WEBHOOK_SECRET must be"),
        (["--notify-command", "no-such-program-at-all"], "must begin with a program"),
        (["--notify-command", "'"], "No closing quotation"),
    ],
)
def test_wrong_receivers_are_refused_before_the_service_starts(
    tmp_path, monkeypatch, arguments, message
):
    monkeypatch.delenv("RARESWITCH_WEBHOOK_SECRET", raising=False)
    if "ftp" in arguments[1]:
        monkeypatch.setenv("RARESWITCH_WEBHOOK_SECRET", SECRET)
    assert message in refused("serve", "--store", f"sqlite:///{tmp_path / 'x.db'}", *arguments)
    assert list(tmp_path.iterdir()) == []
