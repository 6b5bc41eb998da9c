"""The command line in tests: called in this process, or started as a process of its own."""

import os
import signal
import subprocess
import sysconfig
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from click.testing import CliRunner

from rareswitch.cli import main

PATIENCE = 120  # seconds before a hung process is a failure


def call(*arguments):
    """Return the result of a command; anything but a clean exit is an error of the test."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*arguments):
    """Return the message of a command that must end with exit code 2 and print nothing else."""
    result = call(*arguments)
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    return result.stderr


@contextmanager
def started(*arguments, cwd, environment=None, encoding=None):
    """Start the installed command in a session of its own; nothing of it outlives the block."""
    program = Path(sysconfig.get_path("scripts")) / "rareswitch"
    # Where the tests run in the background Ctrl-C is ignored, and a child would inherit that.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        [str(program), *(str(argument) for argument in arguments)],
        cwd=cwd,
        env=os.environ | (environment or {}),
        encoding=encoding,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    signal.signal(signal.SIGINT, before)
    try:
        yield process
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    finally:
        process.communicate()


def wait_until(condition, process):
    """Wait for something that a running process brings about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.005)


def output_of_all(process):
    """Return (stdout, stderr) once the process and all its children are gone.

    The children share the pipes, which end with the last of them.
    """
    return process.communicate(timeout=PATIENCE)
