"""CPU time and memory of the whole command `rareswitch reproduce figure1`, with start-up."""

import os
import resource
import subprocess
import sys
import tempfile
from typing import Any


def run() -> dict[str, Any]:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rareswitch", "reproduce", "figure1", "--json"]
        subprocess.run(
            [*command, "--out", os.path.join(folder, "out")], check=True, stdout=subprocess.DEVNULL
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "reproduce figure1 (12 arms × 50 rounds), CPU": f"{cpu:.1f} s",
        "reproduce figure1, peak memory of a process": f"{after.ru_maxrss / 1024:.0f} MiB",
    }
