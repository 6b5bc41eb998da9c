"""Write the golden files of this version: `python tests/golden/make.py`.

Run it once for a version whose formats are new: what stands in a folder was written by the version
that names it, and every later one must read it or refuse it with a sentence.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

import rareswitch as rs
from rareswitch.statistics.partitions import LogPartition, save_partition

FOLDER = Path(__file__).parent / rs.__version__
EXPLORATIONS = {
    "bonus": rs.Bonus(0.75),
    "perturbation": rs.Perturbation(0.5, draws=3),
    "ensemble": rs.Ensemble(members=4),
}
LEARNERS = {"perturbation": "learner.bin", "ensemble": "learner-ensemble.bin"}
SPEC = """
name = "golden"
title = "A small experiment"
figure = "regret"
rounds = 2
episodes = 6

[world]
kind = "hard-to-learn"
d = 5
horizon = 2

[[arms]]
name = "batch"
label = "Batch B=3"
schedule = { kind = "uniform-grid", batches = 3 }

[[arms]]
name = "random"
label = "random"
schedule = { kind = "random-policy" }
"""


def episodes(count):
    """Return a log whose numbers are written out in binary exactly."""
    rows = np.array([[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 0.0]])
    log = []
    for k in range(count):
        steps = 1 + k % 2
        following = [np.roll(rows, k, axis=0)[: 1 + j] for j in range(steps - 1 + (k % 3 == 0))]
        rewards = [0.25 * (k % 4)] * steps
        log.append(
            rs.Episode(features=rows[[k % 3] * steps], rewards=rewards, next_features=following)
        )
    return log


def learner(exploration):
    """Return a learner that has seen some episodes and has a schedule within another."""
    made = rs.Learner(
        rs.Task(dim=3, horizon=2, episodes=50, feature_norm=1.25),
        rs.rules.Capped(rs.DeterminantGrowth(eta=1.5), switches=4),
        rs.Recipe(exploration=exploration, ridge=0.5, seed=(3, 4)),
    )
    for episode in episodes(12):
        made.observe(episode)
    return made


def positions(count):
    """Return a log of one-hot features by their positions: two states, three actions each."""
    log = []
    for k in range(count):
        steps = 1 + k % 3
        path = [(k * (t + 1) // 2) % 2 for t in range(steps + 1)]
        log.append(
            rs.Episode(
                features=[3 * s + (k + t) % 3 for t, s in enumerate(path[:-1])],
                rewards=[0.125 * ((k + t) % 8) for t in range(steps)],
                next_features=[
                    [3 * s + a for a in range(1 + (k + s) % 3)]
                    for s in path[1 : steps + (k % 4 == 0)]
                ],
            )
        )
    return log


def shared_learner():
    """Return a learner of one-hot features whose stages share, warmly started."""
    made = rs.Learner(
        rs.Task(dim=6, horizon=3, episodes=30, stages="shared", one_hot=True, end_reward=0.25),
        rs.SpreadBudget(switches=4),
        rs.Recipe(exploration=rs.Ensemble(members=4), ridge=0.5, seed=(3, 4)),
        warm_start=positions(5),
    )
    for episode in positions(15):
        made.observe(episode)
    return made


def main():
    FOLDER.mkdir()
    shared = shared_learner()
    (FOLDER / "policy-one-hot.bin").write_bytes(shared.policy.to_bytes())
    (FOLDER / "learner-shared.bin").write_bytes(shared.snapshot())
    for name, exploration in EXPLORATIONS.items():
        made = learner(exploration)
        (FOLDER / f"policy-{name}.bin").write_bytes(made.policy.to_bytes())
        if name in LEARNERS:
            (FOLDER / LEARNERS[name]).write_bytes(made.snapshot())
    save_partition(LogPartition.from_episodes(episodes(12), horizon=2), FOLDER / "partition")
    spec = FOLDER / "golden.toml"
    spec.write_text(SPEC)
    out = FOLDER / "out"
    command = [sys.executable, "-m", "rareswitch", "run", str(spec), "--out", str(out)]
    subprocess.run(command, check=True)
    shutil.move(out / "golden", FOLDER / "results")
    for picture in (FOLDER / "results").glob("figure.*"):
        picture.unlink()
    shutil.rmtree(out)
    spec.unlink()


if __name__ == "__main__":
    main()
