"""Crash test of the service: repeated kill -9 while 16 sites assign and report over HTTP.

    python benchmarks/service_crashes.py --kills 50

No acknowledged report may be lost or recorded twice, and no learner's process may remain; the
record must be valid from its first row. The tests run the same test for some seconds.
"""

import argparse
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))


def main() -> None:
    from service_load import kill_under_load

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--store", help="address of an empty store; by default an SQLite file")
    asked = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.store or f"sqlite:///{folder}/store.db"
        drill = kill_under_load(url, Path(folder), kills=asked.kills, seed=asked.seed)
    for name, value in asdict(drill).items():
        print(f"{name.replace('_', ' '):>16}: {value}")
    print(f"the record holds: nothing lost, nothing twice; {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
