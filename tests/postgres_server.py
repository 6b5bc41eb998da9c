"""A PostgreSQL server of the tests' own: started, stopped, killed, and removed at the end."""

import hashlib
import hmac
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

DEBIAN = Path("/usr/lib/postgresql")
PATIENCE = 300.0  # seconds that a start or a stop may take on a busy machine
STOPS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 100
shared_buffers = 16MB
dynamic_shared_memory_type = mmap  # in the data folder: kill -9 leaves nothing in /dev/shm
fsync = on
synchronous_commit = on
# Without copies for other servers and the care of old tables, databases come and go with less work.
wal_level = minimal
max_wal_senders = 0
autovacuum = off
"""

# The pipe to this shell is closed when the tests' process ends, however it ends.
CLEAN_UP = """
cat > /dev/null
if pid=$(head -n 1 "$1/data/postmaster.pid"); then
  kill -QUIT "$pid"
  while kill -0 "$pid"; do sleep 0.1; done
fi
rm -rf "$1"
"""


class PostgresServer:
    """A server on the loopback interface; address and data stay the same over every `start`."""

    def __init__(self, folder: Path) -> None:
        """Make an empty cluster in a folder that belongs to the server."""
        self.programs = programs()
        self.identity = identity()
        self.log = folder / "log"
        self.data = folder / "data"
        self.port = free_port()
        self.password = secrets.token_hex(8)
        self.process: subprocess.Popen[bytes] | None = None
        self.administrator: psycopg.Connection | None = None
        password_file = folder / "password"
        password_file.write_text(cheap_verifier(self.password))
        if self.identity:
            for path in (folder, password_file):
                shutil.chown(path, self.identity["user"], self.identity["group"])
        made = subprocess.run(
            [
                self.programs / "initdb",
                *("--pgdata", self.data, "--username", "rareswitch"),
                *("--auth", "scram-sha-256", "--pwfile", password_file),
                *("--encoding", "UTF8", "--no-locale", "--no-sync"),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            **self.identity,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed in {folder}:\n{made.stdout}")
        with (self.data / "postgresql.conf").open("a") as settings:
            settings.write(SETTINGS.format(port=self.port))

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def url(self, database: str = "postgres") -> str:
        """Return a database's URL as SQLAlchemy wants it; `connect` takes it too."""
        address = f"rareswitch:{self.password}@127.0.0.1:{self.port}"
        return f"postgresql+psycopg://{address}/{database}"

    def create_database(self, template: str = "template1") -> str:
        """Create a database with a name of its own, empty or as a template, and return its URL."""
        name = f"fresh_{secrets.token_hex(8)}"
        # Files of a template are copied with less work than pages that go through the log.
        self._administer(f"create database {name} template {template} strategy file_copy")
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Remove a database of `create_database`, whoever still uses it."""
        self._administer(f"drop database {url.rpartition('/')[2]} with (force)")

    def _administer(self, statement: str) -> None:
        """Run a statement on a connection that is kept while the server runs."""
        if self.administrator is None:
            self.administrator = connect(self.url(), autocommit=True)
        self.administrator.execute(statement)

    def _leave(self) -> None:
        """Close the connection that is kept: an end of the server would cut it."""
        if self.administrator is not None:
            self.administrator.close()
            self.administrator = None

    def start(self) -> None:
        """Start the server and wait until it answers, after recovery if it was killed."""
        if self.running:
            raise RuntimeError("the server runs already: stop() or kill() it first")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [self.programs / "postgres", "-D", self.data],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.data,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
                **self.identity,
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                connect(self.url()).close()
                return
            except psycopg.OperationalError as error:
                if not self.running or time.monotonic() > deadline:
                    tail = self.log.read_text(errors="replace")[-2000:]
                    raise RuntimeError(f"PostgreSQL did not start; its log:\n{tail}") from error
            time.sleep(0.1)

    def stop(self, mode: str = "fast") -> None:
        """Stop as pg_ctl does: "smart" waits for clients, "immediate" writes no checkpoint."""
        self._leave()
        if self.running:
            self.process.send_signal(STOPS[mode])
            self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End the postmaster and all its children with kill -9, as a crash would."""
        self._leave()
        if not self.running:
            return
        postmaster = self.process.pid
        os.kill(postmaster, signal.SIGSTOP)  # a stopped postmaster has no more children
        while state_and_parent(postmaster)[0] not in "TtZX":
            time.sleep(0.001)
        children = [
            int(entry.name)
            for entry in Path("/proc").glob("[0-9]*")
            if state_and_parent(int(entry.name))[1] == postmaster
        ]
        for child in children:
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        self.process.kill()
        self.process.wait()
        while any(state_and_parent(child)[0] not in "ZX" for child in children):
            time.sleep(0.001)

    def close(self) -> None:
        """End the server, if it was ever started, and leave no shared memory behind."""
        try:
            if self.process is not None and self.process.poll() == -signal.SIGKILL:
                self.start()  # only a server that starts again finds the memory of a killed one
            self.stop("immediate")
        finally:
            self.kill()


@contextmanager
def running_postgres(folder: Path | None = None) -> Iterator[PostgresServer]:
    """Run a server in a temporary folder, in `folder` or else where temporary folders go.

    As root the server runs as the user `postgres`, who must be able to enter `folder`: pytest's
    own temporary folders are closed to others.
    """
    home = Path(tempfile.mkdtemp(prefix="rareswitch-postgres-", dir=folder))
    with subprocess.Popen(
        ["sh", "-c", CLEAN_UP, "sh", home],
        stdin=subprocess.PIPE,  # `with` closes it and waits
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ):
        try:
            server = PostgresServer(home)
            try:
                server.start()
                yield server
            finally:
                server.close()
        finally:
            shutil.rmtree(home)


def connect(url: str, **options) -> psycopg.Connection:
    """Open a plain psycopg connection to a URL of SQLAlchemy's form."""
    return psycopg.connect(url.replace("postgresql+psycopg://", "postgresql://"), **options)


def cheap_verifier(password: str) -> str:
    """Return what the server keeps of a password, made with one round in place of 4096.

    A client repeats the rounds at each connection; what is asked for and compared stays the same.
    """
    salt = secrets.token_bytes(16)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, 1)
    client, server = (
        hmac.digest(salted, b"%s Key" % one, "sha256") for one in (b"Client", b"Server")
    )
    told = (b64encode(data).decode() for data in (salt, hashlib.sha256(client).digest(), server))
    return "SCRAM-SHA-256$1:{}${}:{}".format(*told)


def programs() -> Path:
    """Return the folder of initdb and postgres: those on the path, or else Debian's newest."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    if found := list(DEBIAN.glob("*/bin/initdb")):
        return max(found, key=lambda path: [int(n) for n in re.findall(r"\d+", str(path))]).parent
    raise FileNotFoundError(
        f"these tests need a PostgreSQL server: initdb is neither on the path nor in "
        f"{DEBIAN}/*/bin. On Debian and Ubuntu: apt-get install postgresql"
    )


def identity() -> dict[str, object]:
    """Return whom to run as, as arguments of subprocess: PostgreSQL refuses to run as root."""
    return (
        {"user": "postgres", "group": "postgres", "extra_groups": []} if os.geteuid() == 0 else {}
    )


def free_port() -> int:
    """Return a port nobody listens on, below those that outgoing connections are given.

    Nothing else takes such a port by accident while the server is down.
    """
    while True:
        port = 20_000 + secrets.randbelow(12_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def state_and_parent(pid: int) -> tuple[str, int]:
    """Return a process's state letter and its parent; ("X", 0) if it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return "X", 0
    state, parent = stat.rpartition(")")[2].split()[:2]
    return state, int(parent)
