"""Draw regret against deployments: mixtures, the paper's rules, and a new policy every episode.

rareswitch run examples/few_switches.toml
python examples/few_switches.py results/few-switches few-switches.png
"""

import argparse
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np

from rareswitch.experiments.results import load_results

# Okabe and Ito's colours, which colour-blind readers can tell apart.
LINES = {
    "mixture-": ("#0072B2", "o", "mixture (the default)"),
    "batch-": ("#D55E00", "s", "Batch (β = 1)"),
    "rareswitch-": ("#009E73", "^", "RareSwitch (β = 1)"),
}
SINGLE = {
    "mixture-every-episode": ("#0072B2", "*", "mixture, every episode"),
    "lsvi-ucb": ("black", "D", "LSVI-UCB (β = 1), every episode"),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path, help="results of `rareswitch run`")
    parser.add_argument("picture", type=Path, help="where to write the picture")
    given = parser.parse_args()
    picture = given.picture
    rows = {row["name"]: row for row in load_results(given.folder).compare()}
    random = rows.pop("random")["mean"]

    figure, axes = plt.subplots(figsize=(5.4, 4.0), layout="constrained")

    def draw(arms: list[dict[str, Any]], **look: Any) -> None:
        """Draw the mean regret of arms against their deployments, with 95% intervals."""
        mean = np.array([row["mean"] for row in arms])
        low, high = np.array([row["interval"] for row in arms]).T
        axes.errorbar([row["deployments"] for row in arms], mean, (mean - low, high - mean),
                      capsize=2, **look)  # fmt: skip

    for start, (colour, marker, label) in LINES.items():
        arms = [row for name, row in rows.items() if name.startswith(start) and name not in SINGLE]
        arms.sort(key=lambda row: row["deployments"])
        draw(arms, color=colour, marker=marker, label=label)
    for name, (colour, marker, label) in SINGLE.items():
        draw([rows[name]], color=colour, marker=marker, ls="", ms=9, label=label)
    axes.axhline(random, color="0.5", ls=":", label="random actions")
    axes.set(xscale="log", ylim=(0, None), xlabel="deployments in 2500 episodes",
             ylabel="average regret [95%]")  # fmt: skip
    axes.set_xticks([3, 10, 50, 500, 2500], ["3", "10", "50", "500", "2500"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    figure.legend(fontsize=9, frameon=False, loc="outside upper left", ncols=2)
    figure.savefig(picture, dpi=130)


if __name__ == "__main__":
    main()
