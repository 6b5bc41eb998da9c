"""A service as a process of its own: started, stopped, killed, and its children looked after."""

import http.client
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from postgres_server import free_port
from rareswitch.campaigns import Campaign, open_store
from rareswitch.campaigns.access import Access, Grant, operator

PROGRAM = ("-m", "rareswitch")
PATIENCE = 120.0  # seconds that a start or a stop may take on a busy machine
DOWN = (OSError, http.client.HTTPException)  # a connection that was refused, cut or closed


class ServiceProcess:
    """`rareswitch serve` at one store and one port; it may be started again after each end."""

    def __init__(
        self, url: str, folder: Path, *options: str, program: tuple[str, ...] = PROGRAM
    ) -> None:
        self.url, self.port, self.options, self.program = url, free_port(), options, program
        self.log = folder / f"service-{self.port}.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.sessions: list[int] = []  # of all starts: a process and its children share one

    def __enter__(self) -> "ServiceProcess":
        return self

    def __exit__(self, *_: object) -> None:
        for pid in [pid for session in self.sessions for pid in processes_of(session)]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process is not None:
            self.process.wait()

    def start(self, *, before: tuple[str, ...] = (), wait: bool = True) -> "ServiceProcess":
        """Start the process, and wait until it answers; `before` runs the command."""
        command = [*before, sys.executable, *self.program, "serve", "--store", self.url]
        command += ["--bind", f"127.0.0.1:{self.port}", "--rate", "1000000", *self.options]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.sessions.append(self.process.pid)
        if wait:
            self.wait_ready()
        return self

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process is not None
            assert self.process.poll() is None, self.told()
            with suppress(*DOWN):
                return self.ask("GET", "/readyz")[0] == 200
            return False

        wait_until(ready, "the service is not ready")

    def told(self) -> str:
        """Return the end of the log."""
        return self.log.read_text(errors="replace")[-4000:]

    def kill(self) -> None:
        """End the process that answers with kill -9, as a crash would; its children are alive."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    @property
    def learner(self) -> int | None:
        """The learner's process, while one runs."""
        assert self.process is not None
        found = [pid for pid in processes_of(self.process.pid) if is_learner(pid)]
        return found[0] if found else None

    def learner_after(self, gone: int | None = None) -> int:
        """Wait for a learner that is another process than the one that is gone."""
        return wait_until(lambda: (pid := self.learner) != gone and pid, "there is no learner")

    def kill_learner(self, pid: int) -> None:
        """End a learner with kill -9, and wait until it is gone."""
        assert self.process is not None
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: self.learner != pid, "a killed learner is still there")

    def orphans(self) -> list[int]:
        """Return processes that outlive the one that started them."""
        current = self.process.pid if self.process and self.process.poll() is None else None
        gone = [session for session in self.sessions if session != current]
        return [pid for session in gone for pid in processes_of(session)]

    def ask(self, method: str, path: str, token: str = "", body: object = None, **headers: str):
        """Send one request on a connection of its own; return status, headers and bytes."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            return ask(connection, method, path, token, body, **headers)
        finally:
            connection.close()


def ask(connection, method: str, path: str, token: str = "", body: object = None, **headers: str):
    """Send one request on a connection that is kept; return status, headers and bytes."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    if body is not None:
        sent["Content-Type"] = "application/json"
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    connection.request(method, path, body=data, headers=sent)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


def tokens_of_sites(url: str, sites, protocol, features=None) -> dict[str, str]:
    """Make a store with a campaign and a token for each site, without a service."""
    with open_store(url, create=True) as store:
        Campaign.create(store, protocol, by="ana", features=features)
        access = Access(store)
        return {
            site: access.issue_token(site, [Grant("*", "site", site)], by=operator("ops"))[1]
            for site in sites
        }


def token_of(url: str, role: str, site: str = "") -> str:
    """Return a token of a role that no person needs to sign for."""
    with open_store(url) as store:
        return Access(store).issue_token(role, [Grant("*", role, site)], by=operator("ops"))[1]


def wait_until(done, otherwise: str, *, every: float = 0.05):
    """Return the first true answer; fail with these words if none comes."""
    deadline = time.monotonic() + PATIENCE
    while not (found := done()):
        assert time.monotonic() < deadline, otherwise
        time.sleep(every)
    return found


def processes_of(session: int) -> list[int]:
    """Return the processes of a session that are alive, the oldest first."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == session and fields[0] not in "ZX":
                found.append((int(fields[19]), int(entry.name)))
    return [pid for _, pid in sorted(found)]


def is_learner(pid: int) -> bool:
    """Return whether a process of the service is a learner; another cleans up after processes."""
    try:
        return "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return False


def files_of(pid: int) -> set[str]:
    """Return the paths of the files that a process holds open."""
    found = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                found.add(os.readlink(entry))
    return found


def seconds_of(pid: int) -> float:
    """Return the processor time that a process has used; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def process_at(port: int) -> int | None:
    """Return the process whose socket has a local port of the loopback interface."""
    lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
    here = f"0100007F:{port:04X}"
    sockets = {f"socket:[{line.split()[9]}]" for line in lines if line.split()[1] == here}
    for entry in Path("/proc").glob("[0-9]*"):
        if sockets & files_of(int(entry.name)):
            return int(entry.name)
    return None
