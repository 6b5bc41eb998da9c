"""Judge candidates by a log: which policy is better than the one that wrote it?

    python examples/judge_log.py --picture judge.png

The log has the probability of every action, so episodes that agree with a candidate can stand for
it, and nobody has to play by it. The true gain comes from playing the candidates after all, as a
check that is not possible in practice.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from rareswitch.evaluation import compare
from rareswitch.gym import train
from rareswitch.trajectories import Trajectory

DOSES = np.array([0.0, 0.5, 1.0])


def written(severity, stage):
    """Return the probabilities of the doses in the log: the mild never get a full dose."""
    return [0.2, 0.4, 0.4] if severity > 0.3 else [0.5, 0.5, 0.0]


def treat(rule, patients, seed):
    """Yield patients of two visits each; a dose helps the severe and harms the mild."""
    rng = np.random.default_rng(seed)
    for _ in range(patients):
        severity, seen, actions, rewards, odds = rng.random(), [], [], [], []
        for stage in range(2):
            chances = rule(severity, stage)
            dose = int(rng.choice(3, p=chances))
            seen.append(severity)
            actions.append(dose)
            rewards.append(DOSES[dose] * (2 * severity - 0.8) + 0.3 * rng.normal())
            odds.append(chances[dose])
            severity = float(np.clip(severity - 0.2 * DOSES[dose], 0.0, 1.0))
        yield Trajectory(
            observations=[*seen, severity], actions=actions, rewards=rewards, propensities=odds,
            terminated=True,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="where to write a picture")
    arguments = parser.parse_args()
    log = list(treat(written, 1200, seed=0))
    learned = train(log[:600], features="polynomial,degree=2").agent
    held_out = log[600:]  # the candidate has not seen these: on its own episodes it looks better

    def greedy(severity, stage):
        return np.eye(3)[learned.predict(severity, stage)]

    candidates = {
        "learned": learned,
        "always half": lambda severity, stage: [0, 1, 0],
        "always full": lambda severity, stage: [0, 0, 1],
    }
    figure = Figure(figsize=(4.4, 2.6), layout="constrained")
    axis = figure.subplots()
    base = np.mean([t.total for t in treat(written, 5000, seed=1)])
    for place, (name, candidate) in enumerate(candidates.items()):
        found = compare(candidate, held_out, features=learned.features)
        rule = greedy if candidate is learned else candidate
        truth = np.mean([t.total for t in treat(rule, 5000, seed=1)]) - base
        print(f"{name:12} {found.verdict}; true gain {truth:.2f}")
        colour = "#0072b2" if found.verdict.startswith(("gain", "loss")) else "0.6"
        axis.plot([found.gain.low, found.gain.high], [place] * 2, color=colour, linewidth=4)
        axis.plot(truth, place, "D", color="#d55e00", label=None if place else "true gain")
    axis.axvline(0.0, color="k", linewidth=1)
    axis.set_yticks(range(len(candidates)), list(candidates))
    axis.invert_yaxis()
    axis.set(xlabel="gain over the log, 95% interval (grey: no verdict)", ylim=(2.5, -0.5))
    axis.legend(frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0))
    if arguments.picture is not None:
        figure.savefig(arguments.picture, dpi=140)


if __name__ == "__main__":
    main()
