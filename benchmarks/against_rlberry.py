"""rlberry's LSVI-UCB on the same features, in its own environment.

It keeps one Gram matrix for all stages and updates after every episode. So the comparison is of the
cost of an episode at equal k: rlberry's cost grows with k, ours does not.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from measure import cpu_time

import rareswitch as rs

PACKAGES = ("rlberry==0.7.2", "rlberry-scool==0.7.2", "numba")
EPISODES = 12


def environment(folder: Path, packages: tuple[str, ...] = PACKAGES) -> Path:
    """Return the Python of an environment with other packages, made on first use."""
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *packages], check=True)
        (folder / "ready").touch()
    return python


def run(folder: Path) -> dict[str, Any]:
    script = Path(__file__).with_name("rlberry_episodes.py")
    answer = subprocess.run(
        [str(environment(folder)), str(script), str(EPISODES)],
        check=True,
        capture_output=True,
        text=True,
    )
    theirs = json.loads(answer.stdout.splitlines()[-1])
    k = np.arange(1, EPISODES + 1)
    rate = float(np.polyfit(k[1:], theirs[1:], 1)[0])
    world = rs.worlds.hard_to_learn(seed=0)
    recipe = rs.Recipe.paper(beta=1.0)
    play = lambda: rs.simulate(world, rs.EveryEpisode(), recipe, episodes=500)  # noqa: E731
    ours = cpu_time(play).median / 500
    whole = rate * 2500**2 / 2
    return {
        "rlberry, growth of an episode's cost": f"{1e3 * rate:.1f} ms·k",
        f"rlberry, episode {EPISODES}": f"{theirs[-1]:.2f} s",
        "ours, any episode": f"{1e3 * ours:.2f} ms",
        f"ratio at k = {EPISODES}": f"{theirs[-1] / ours:.0f}×",
        "rlberry, one round of K = 2500 (extrapolated)": f"{whole / 3600:.0f} h",
    }
