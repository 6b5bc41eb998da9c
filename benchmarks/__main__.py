"""Measure everything: `python benchmarks`. Prints a table and writes benchmarks.json.

Times are CPU time on one BLAS thread; ratios compare times of the same run. `--only rounds machine`
runs some parts; `--rlberry FOLDER` and `--optuna FOLDER` are the folders of their environments,
which are made if missing.
"""

import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"  # before NumPy is imported

import argparse
import json
import platform
import sys
from datetime import date
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import against_rlberry
import campaign_speed
import corrections
import end_to_end
import machine
import mixtures
import numpy as np
import play
import replay
import rounds
import scaling

# The end-to-end run comes first: children of a large process would inherit its peak memory.
PARTS = (
    "end_to_end", "rounds", "mixtures", "play", "replay", "corrections", "campaigns", "rlberry",
    "scaling", "machine",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rlberry", type=Path, default=Path(".venv-rlberry"))
    parser.add_argument("--optuna", type=Path, default=Path(".venv-optuna"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks.json"))
    arguments = parser.parse_args()
    runs = {
        "rounds": rounds.run,
        "mixtures": mixtures.run,
        "play": play.run,
        "campaigns": lambda: campaign_speed.run(arguments.optuna),
        "replay": replay.run,
        "corrections": corrections.run,
        "rlberry": lambda: against_rlberry.run(arguments.rlberry),
        "scaling": scaling.run,
        "machine": machine.run,
        "end_to_end": end_to_end.run,
    }
    results = {}
    for part in arguments.only:
        print(f"## {part}", flush=True)
        results[part] = runs[part]()
        for name, value in results[part].items():
            print(f"| {name} | {value} |", flush=True)
    about = {
        "date": date.today().isoformat(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }
    arguments.out.write_text(json.dumps({"about": about, "results": results}, indent=2))


if __name__ == "__main__":
    main()
