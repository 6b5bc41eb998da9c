"""`rareswitch` and scripts for tests that run many: each is a fork of one warm process.

A new interpreter spends a second of CPU time on imports before a command starts. The warm process
imports the modules once. The program `rareswitch` sends it arguments, folder, environment and open
files. It forks, and the fork runs the command. The program `script` runs the script that its first
argument names.
"""

import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Without the site module, this starts in some milliseconds.
PROGRAM = """#!{python} -IS
import json, os, signal, socket, sys
if sys.argv[1:2] == ["serve"]:  # a service has children, and takes signals
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
warm = socket.socket(socket.AF_UNIX)
warm.connect({address!r})
asked = [sys.argv, os.getcwd(), dict(os.environ)]
with warm.makefile("rwb") as stream:
    socket.send_fds(warm, [b"."], [0, 1, 2])
    stream.write(json.dumps(asked).encode() + b"\\n")
    stream.flush()
    fork = int(stream.readline())
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, frame: os.kill(fork, number))
    os._exit(int(stream.readline() or 137))
"""
IMPORTED = (
    "rareswitch.cli.campaign_look", "rareswitch.campaigns.campaign", "rareswitch.campaigns.status",
    "rareswitch.campaigns.learning", "rareswitch.campaigns.store.opening", "rareswitch.planning",
    "rareswitch.campaigns.proof", "rareswitch.campaigns.rehearsal", "sqlalchemy.dialects.sqlite",
    "alembic.command", "orjson", "pyarrow.parquet", "matplotlib.figure", "rich.table",
)  # fmt: skip
LIBRARIES = ("gymnasium", "icu_sepsis", "matplotlib.pyplot", "scipy.stats", "sklearn.mixture")


@contextmanager
def warm_commands(kind: str = "rareswitch") -> Iterator[Path]:
    """Yield the folder of the program `rareswitch` or `script`, for the PATH of commands."""
    with tempfile.TemporaryDirectory(prefix="warm-") as made:
        folder = Path(made)
        address = str(folder / "socket")
        program = folder / kind
        real = str(Path(sysconfig.get_path("scripts")) / "rareswitch")
        python = Path(sys.executable).resolve()
        program.write_text(PROGRAM.format(python=python, address=address, real=real))
        program.chmod(0o755)
        # The warm process ends when this pipe is closed, however the tests end.
        command = [sys.executable, __file__, address, kind]
        kept = {name: value for name, value in os.environ.items() if "RARESWITCH" not in name}
        settings = kept | {"OPENBLAS_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
        warm = subprocess.Popen(
            command, env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        with warm:
            assert warm.stdout.readline() == b"warm\n"
            yield folder


def serve(address: str, kind: str) -> None:
    """Run each command that is asked for in a fork, until standard input is closed."""
    for name in IMPORTED if kind == "rareswitch" else LIBRARIES:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the forks
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    print("warm", flush=True)
    if not os.fork():
        while True:
            asking, _ = listening.accept()
            if not os.fork():
                listening.close()
                run(asking)
            asking.close()
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def run(asking: socket.socket) -> None:
    """Become the command that is asked for, and tell its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, files, _, _ = socket.recv_fds(asking, 1, 3)
    with asking.makefile("rwb") as stream:
        sys.argv, folder, environment = json.loads(stream.readline())
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", 1, encoding="utf-8", closefd=False)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        stream.write(b"%d\n" % os.getpid())
        stream.flush()
        code = finish()
        sys.stdout.flush()
        sys.stderr.flush()
        stream.write(b"%d\n" % code)
        stream.flush()
    os._exit(0)


def finish() -> int:
    """Run the command of `sys.argv` to its end; return its exit code."""
    try:
        if Path(sys.argv[0]).name == "script":
            del sys.argv[0]
            sys.path[0] = str(Path(sys.argv[0]).parent)
            runpy.run_path(sys.argv[0], run_name="__main__")
        else:
            from rareswitch.cli import main

            main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    os.setsid()
    serve(*sys.argv[1:])
