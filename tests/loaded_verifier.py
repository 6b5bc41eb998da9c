"""The built verifier for tests that run it often: each run is a fork of one that is loaded.

To compile the modules of the file takes most of the time of a run. The loaded process has read
nothing but the file itself, alone (`python -I`), and a fork runs its `main` as the file does.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import CompletedProcess

from rareswitch.campaigns import verifier

LOADER = """
import contextlib, json, os, runpy, sys
file, nothing = sys.argv[1:]
sys.argv[:] = [file, nothing]
with open(os.devnull, "w") as ignored, contextlib.redirect_stderr(ignored):
    with contextlib.suppress(SystemExit):
        runpy.run_path(file, run_name="__main__")
main = sys.modules["rareswitch.campaigns.proof.verifier"].main
for line in sys.stdin:
    sys.argv[1:], out, err = json.loads(line)
    if not (fork := os.fork()):
        for number, path in ((1, out), (2, err)):
            os.dup2(os.open(path, os.O_WRONLY), number)
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1]), flush=True)
"""
Run = Callable[..., CompletedProcess[str]]


@contextmanager
def loaded_verifier() -> Iterator[Run]:
    """Yield what runs the built verifier with arguments, and returns status and output."""
    with tempfile.TemporaryDirectory() as made:
        file, out, err = (Path(made) / name for name in ("verify_export.py", "out", "err"))
        file.write_bytes(verifier())
        command = [sys.executable, "-I", "-c", LOADER, file, Path(made) / "nothing"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as loaded:

            def run(*arguments: object) -> CompletedProcess[str]:
                given = [str(one) for one in arguments]
                for path in (out, err):
                    path.write_text("")
                print(json.dumps([given, str(out), str(err)]), file=loaded.stdin, flush=True)
                code = int(loaded.stdout.readline())
                return CompletedProcess(given, code, out.read_text(), err.read_text())

            yield run
