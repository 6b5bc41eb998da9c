"""The service as a process that is killed, stopped, and cut off from its disk and its database."""

import http.client
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest

import rareswitch as rs
import service_process
from campaign_builders import chain, check_chains
from postgres_server import connect
from rareswitch.campaigns import Approval, Campaign, Protocol, Report, learn, open_store
from rareswitch.service.server import GRACE
from running_service import report_of
from service_load import CLIENTS, LEAST, Load, check_record, kill_under_load, large_study
from service_process import (
    PATIENCE,
    ServiceProcess,
    ask,
    files_of,
    is_learner,
    process_at,
    seconds_of,
    token_of,
    tokens_of_sites,
    wait_until,
)

TESTS = Path(service_process.__file__).parent
SITES = tuple(f"site{k}" for k in range(CLIENTS))
SECONDS = 15.0  # of kills; benchmarks/service_crashes.py runs the same drill for longer


def test_what_was_acknowledged_survives_kills_of_the_service(tmp_path):
    url = f"sqlite:///{tmp_path / 'store.db'}"
    drill = kill_under_load(url, tmp_path, kills=5, seconds=SECONDS)
    assert drill.kills >= LEAST
    assert drill.cuts >= CLIENTS  # every kill cut connections


CALL = re.compile(
    r"(?P<name>read|recvfrom|write|writev|sendto|sendmsg|fsync|fdatasync)"
    r"\((?P<file>\d+<[^>]*>)(?P<rest>.*)"
)
TRACED = "trace=read,recvfrom,write,writev,sendto,sendmsg,fsync,fdatasync"
LESS_DURABLE = """
import rareswitch.campaigns.store.store as store
durable = store._make_durable
def less_durable(connection):
    durable(connection)
    connection.execute("PRAGMA synchronous=NORMAL")
store._make_durable = less_durable
from rareswitch.cli import main
main()
"""


def synced_before_answers(folder, *, program=("-m", "rareswitch")):
    """Return for each of four requests whether the log was forced to disk before its answer."""
    url, trace = f"sqlite:///{folder / 'store.db'}", folder / "trace"
    tokens = tokens_of_sites(url, ["berlin"], *large_study())
    with ServiceProcess(url, folder, "--no-learner", program=program) as service:
        service.start(before=("strace", "-D", "-f", "-y", "-s", "200", "-e", TRACED, "-o", trace))
        connection = connection_to(service.port)
        for number in range(4):
            what = "assignments" if number % 2 else "episodes"
            body = {"id": f"berlin:{number}"} if number % 2 else report_of(number)
            path = f"/v1/campaigns/doors/{what}"
            status, _, _ = ask(connection, "POST", path, tokens["berlin"], body)
            assert status == (200 if number % 2 else 201)
        connection.close()
        assert service.stop() == 0
        wait_until(lambda: not service.orphans(), "strace does not end")
    synced, asked = [], None
    for line in trace.read_text(errors="replace").splitlines():
        if not (call := CALL.search(line)):
            continue
        name, file, rest = call["name"], call["file"], call["rest"]
        if "POST /v1/campaigns" in rest:
            asked = False
        elif name in ("fsync", "fdatasync") and file.endswith("store.db-wal>"):
            asked = None if asked is None else True
        elif asked is not None and re.search(r"HTTP/1.1 20[01]", rest):
            synced.append(asked)
            asked = None
    return synced


def test_the_log_is_on_disk_before_the_answer(tmp_path):
    assert synced_before_answers(tmp_path) == [True] * 4


def test_that_test_notices_a_service_that_does_not_wait_for_the_disk(tmp_path):
    """Its first write begins a new log, whose header is forced to disk even so."""
    found = synced_before_answers(tmp_path, program=("-c", LESS_DURABLE))
    assert found[1:] == [False] * 3


def slow_protocol():
    """Return a protocol whose candidate takes seconds to compute: many members."""
    return Protocol(
        name="slow",
        task=rs.Task(dim=10, horizon=3, episodes=800),
        schedule=rs.UniformGrid(batches=2),
        budget=1,
        recipe=rs.Recipe(exploration=rs.Ensemble(members=512)),
        approval=Approval(by="second-person"),
    )


def slow_report(number):
    rng = np.random.default_rng([5, number])
    actions = rng.integers(4, size=3)
    rows = rng.uniform(-0.3, 0.3, size=(3, 4, 10))
    episode = rs.Episode(
        features=rows[range(3), actions],
        rewards=(rng.random(3) < 0.5).astype(float),
        next_features=rows[1:],
    )
    return Report(
        episode=episode,
        id=f"berlin:{number}",
        first_features=rows[0],
        actions=actions,
        site="berlin",
    )


def filled(store):
    """Return a campaign in which a candidate is due."""
    campaign = Campaign.create(store, slow_protocol(), by="ana")
    assert len(list(campaign.record_all(slow_report(k) for k in range(401)))) == 401
    return campaign


def test_a_learner_that_is_killed_in_a_fit_comes_to_the_same_candidate(tmp_path):
    """Fit and evidence take seconds, and nothing of them is kept before both are done."""
    path = tmp_path / "store.db"
    url, lock = f"sqlite:///{path}", f"{path.resolve()}.slow.learner"
    with open_store(url, create=True) as store:
        filled(store)
    token = token_of(url, "site", "berlin")
    with open_store(tmp_path / "undisturbed.db", create=True) as store:
        undisturbed = filled(store)
        (expected,) = learn(undisturbed)
        expected_bytes = undisturbed.artifact(expected.digest).to_bytes()
    number, gone = 401, None
    with ServiceProcess(url, tmp_path) as service, open_store(url) as store:
        service.start()
        campaign = Campaign(store, "slow")

        def report_one_more():
            nonlocal number
            body = slow_report(number).plain
            posted = service.ask("POST", "/v1/campaigns/slow/episodes", token, body)
            assert posted[0] == 201, posted
            number += 1

        for seconds in (0.1, 0.2):
            victim = service.learner_after(gone)
            wait_until(lambda pid=victim: lock in files_of(pid), "no learner has the lock")
            begun = seconds_of(victim)
            report_one_more()  # beside a learner that computes
            wait_until(
                lambda pid=victim, most=begun + seconds: seconds_of(pid) >= most,
                "the learner does not compute",
            )
            service.kill_learner(victim)
            assert campaign.state.candidates == {}
            report_one_more()  # while nobody learns
            gone = victim
        wait_until(lambda: campaign.state.waiting, "no candidate comes", every=0.2)
        report_one_more()
        (candidate,) = campaign.state.candidates.values()
        assert campaign.artifact(candidate.digest).to_bytes() == expected_bytes
        assert candidate.plain == expected.plain
        assert service.stop() == 0
        check_chains(campaign)
        assert len(chain(campaign, "episodes")) == number


def test_a_database_that_is_restarted_under_load(postgres, tmp_path):
    """It is stopped in order, and then killed; the service answers 503 meanwhile, and goes on."""
    url = postgres.create_database()
    tokens = tokens_of_sites(url, SITES, *large_study())
    auditor = token_of(url, "auditor")
    with ServiceProcess(url, tmp_path) as service:
        service.start()
        with Load(tokens, service.port) as load, live_events(service, auditor) as events:
            for end in (postgres.stop, postgres.kill):
                load.wait_for(CLIENTS)
                before = load.statuses[503]
                end()
                wait_until(lambda before=before: load.statuses[503] > before, "no 503 is answered")
                status, headers, _ = service.ask("GET", "/readyz")
                assert (status, headers["Retry-After"]) == (503, "1")
                assert service.ask("GET", "/healthz")[0] == 200
                postgres.start()
                load.wait_for(CLIENTS)
            recorded, version = load.acknowledged, version_of(url)
            while recorded_in(events.readline()) < recorded:  # the stream has lived through it
                pass
            wait_until(lambda: version_of(url) > version, "nobody learns any more", every=0.5)
        assert load.cuts == 0  # the service itself was there throughout
        assert service.stop() == 0
        assert "Traceback" not in service.log.read_text()
    check_record(url, load)


@contextmanager
def live_events(service, token):
    """Open the stream of live events."""
    connection = connection_to(service.port)
    headers = {"Authorization": f"Bearer {token}"}
    connection.request("GET", "/v1/campaigns/doors/live", headers=headers)
    with closing(connection), connection.getresponse() as events:
        assert events.readline() == b"retry: 2000\n"
        yield events


def recorded_in(line):
    """Return the number of recorded episodes that a line of live events tells, or 0."""
    assert line, "the stream has ended"
    found = re.match(rb'data: .*"episodes": (\d+)', line)
    return int(found[1]) if found else 0


def version_of(url):
    with open_store(url) as store:
        return Campaign(store, "doors").version


def test_two_services_on_one_database(postgres, tmp_path):
    """One of two learners is active; when its service is killed, the other one takes over."""
    url = postgres.create_database()
    tokens = tokens_of_sites(url, SITES[:4], *large_study())
    with ServiceProcess(url, tmp_path) as one, ServiceProcess(url, tmp_path) as other:
        for service in (one, other):
            service.start()
        with Load(tokens, one.port, other.port) as load:
            holder = wait_until(lambda: learner_with_lock(url), "nobody learns")
            learners = {service.learner_after(): service for service in (one, other)}
            victim = learners.pop(holder)
            ((heir, survivor),) = learners.items()
            load.wait_for(2 * len(tokens))
            victim.kill()
            wait_until(lambda: not victim.orphans(), "a learner outlives its service")
            wait_until(lambda: learner_with_lock(url) == heir, "the other learner does not begin")
            version = version_of(url)
            wait_until(lambda: version_of(url) > version, "nobody learns any more", every=0.5)
        assert survivor.stop() == 0
        wait_until(lambda: not survivor.orphans(), "a learner outlives its service")
    check_record(url, load)


def learner_with_lock(url):
    """Return the process that holds the lock of the learner of the campaign, if there is one."""
    asked = """
        select client_port from pg_stat_activity join pg_locks using (pid)
        where locktype = 'advisory' and granted and objid = hashtext('learner of doors')::oid
        and pg_locks.database = (select oid from pg_database where datname = current_database())
    """
    with closing(connect(url)) as connection:
        ports = [port for (port,) in connection.execute(asked)]
    assert len(ports) <= 1
    return process_at(ports[0]) if ports else None


class CuttingProxy:
    """Passes requests on to a service, and closes after some bytes of the answer."""

    def __init__(self, port, most, *, hide_length):
        self._port, self._most, self._hide = port, most, hide_length
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._pass_on, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._thread.join()

    def _pass_on(self):
        client, _ = self._socket.accept()
        with client, socket.create_connection(("127.0.0.1", self._port)) as service:
            service.sendall(read_until(client, b"\r\n\r\n"))
            head, _, rest = read_until(service, b"\r\n\r\n").partition(b"\r\n\r\n")
            if self._hide:  # the answer then ends where the connection ends
                head = re.sub(rb"(?im)^content-length: \d+\r?\n", b"", head)
                head = head.replace(b"HTTP/1.1", b"HTTP/1.0")
            while len(rest) < self._most:
                rest += received(service)
            client.sendall(head + b"\r\n\r\n" + rest[: self._most])


def read_until(connection, end):
    data = b""
    while end not in data:
        data += received(connection)
    return data


def received(connection):
    data = connection.recv(65536)
    assert data, "the other side has closed"
    return data


def test_a_policy_download_that_is_cut(tmp_path):
    """The client notices it by the length, and without a length by the digest of the bytes."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    token = tokens_of_sites(url, ["berlin"], *large_study())["berlin"]
    path = "/v1/campaigns/doors/policy"
    with ServiceProcess(url, tmp_path, "--no-learner") as service:
        service.start()
        status, headers, whole = service.ask("GET", path, token)
        assert (status, headers["ETag"]) == (200, f'"{sha256(whole).hexdigest()}"')
        assert headers["Content-Length"] == str(len(whole))
        half = len(whole) // 2
        with (
            CuttingProxy(service.port, half, hide_length=False) as proxy,
            pytest.raises(http.client.IncompleteRead) as caught,
        ):
            ask_at(proxy.port, path, token)
        assert caught.value.partial == whole[:half]
        with CuttingProxy(service.port, half, hide_length=True) as proxy:
            status, headers, data = ask_at(proxy.port, path, token)
        assert (status, data) == (200, whole[:half])
        assert headers["ETag"] != f'"{sha256(data).hexdigest()}"'
        again = service.ask("GET", path, token, If_None_Match=headers["ETag"])
        assert (again[0], again[2]) == (304, b"")  # the tag is of the whole policy, not of a part
        assert service.stop() == 0


def ask_at(port, path, token):
    with closing(connection_to(port)) as connection:
        return ask(connection, "GET", path, token)


def connection_to(port):
    return http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_is_told_to_stop_under_load(tmp_path, number):
    """All that is recorded was acknowledged, live events end, and no file stays open."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    tokens = tokens_of_sites(url, SITES, *large_study())
    auditor = token_of(url, "auditor")
    with ServiceProcess(url, tmp_path) as service:
        service.start()
        service.learner_after()
        with live_events(service, auditor) as events:
            with Load(tokens, service.port, gives_up=True) as load:
                load.wait_for(5 * CLIENTS)
                began = time.monotonic()
                assert service.stop(number) == 0
                assert time.monotonic() - began < GRACE
                load.join()
            assert b"event: heads" in events.read()  # to its end, which is told
        assert [pid for pid in service.orphans() if is_learner(pid)] == []
    left = {path.name for path in tmp_path.glob("store.db*")}
    assert left <= {"store.db", "store.db.doors.learner"}  # the last to close it removes its log
    assert load.refused <= {"the service is stopping"}
    check_record(url, load)


def test_a_service_that_cannot_write(tmp_path):
    """The system refuses each write of the process, as a disk with errors does."""
    url = f"sqlite:///{tmp_path / 'store.db'}"
    tokens = tokens_of_sites(url, SITES[:4], *large_study())
    with ServiceProcess(url, tmp_path) as service:
        service.start()
        with Load(tokens, service.port) as load:
            load.wait_for(8)
            most = resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, (0, -1))
            wait_until(lambda: load.statuses[503] >= 8, "no 503 is answered")
            assert service.ask("GET", "/v1/campaigns/doors", load.sites[0].token)[0] == 200
            resource.prlimit(service.process.pid, resource.RLIMIT_FSIZE, most)
            load.wait_for(8)
        assert load.cuts == 0
        assert service.stop() == 0
    check_record(url, load)


def test_a_database_that_may_only_be_read(postgres, tmp_path):
    """The role of the service loses the right to write, and gets it again; reading goes on."""
    url = postgres.create_database()
    tokens = tokens_of_sites(url, SITES[:4], *large_study())
    as_role = url.replace(f"rareswitch:{postgres.password}", "serving:serving")
    with closing(connect(url, autocommit=True)) as admin:
        admin.execute("create role serving login password 'serving'")
        admin.execute("grant select on all tables in schema public to serving")
        rights = "insert, update, delete on all tables in schema public"
        admin.execute(f"grant {rights} to serving")
        try:
            with ServiceProcess(as_role, tmp_path) as service:
                service.start()
                with Load(tokens, service.port) as load:
                    load.wait_for(8)
                    admin.execute(f"revoke {rights} from serving")
                    wait_until(lambda: load.statuses[503] >= 8, "no 503 is answered")
                    assert service.ask("GET", "/v1/campaigns/doors", load.sites[0].token)[0] == 200
                    admin.execute(f"grant {rights} to serving")
                    load.wait_for(8)
                assert load.cuts == 0
                assert service.stop() == 0
        finally:
            admin.execute("drop owned by serving")
            admin.execute("drop role serving")
    check_record(url, load)


def test_a_disk_that_is_full_while_serving(tmp_path):
    alone = ["unshare", "--mount"]
    if os.geteuid() != 0:
        alone += ["--user", "--map-root-user"]
    done = subprocess.run(
        [*alone, sys.executable, TESTS / "scarce_service.py", tmp_path],
        capture_output=True,
        text=True,
        cwd=tmp_path.parent,
    )
    assert done.returncode == 0, done.stderr[-4000:]
