"""Draw regret against deployments: mixtures, the paper's rules, and a new policy every episode.

rareswitch run examples/few_switches.toml
python examples/few_switches.py results/few-switches few-switches.png
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt

from rareswitch.experiments.results import load_results

# Okabe and Ito's colours, which colour-blind readers can tell apart.
LINES = {
    "mixture-": ("#0072B2", "o", "rareswitch: one untuned mixture a deployment"),
    "batch-": ("#D55E00", "s", "LSVI-UCB-Batch (β = 1)"),
    "rareswitch-": ("#009E73", "^", "LSVI-UCB-RareSwitch (β = 1)"),
}


def main() -> None:
    folder, picture = map(Path, sys.argv[1:3])
    results = load_results(folder)
    names = [arm.name for arm in results.arms]
    regret = dict(zip(names, results.final.mean(axis=1), strict=True))
    deployments = dict(zip(names, results.deployments.mean(axis=1), strict=True))

    figure, axes = plt.subplots(figsize=(6.4, 3.9), layout="constrained")
    for start, (colour, marker, label) in LINES.items():
        arms = [name for name in regret if name.startswith(start) and "every" not in name]
        arms.sort(key=deployments.get)
        axes.plot([deployments[n] for n in arms], [regret[n] for n in arms], color=colour,
                  marker=marker, label=label)  # fmt: skip
    for name, colour, marker, label in (
        ("lsvi-ucb", "black", "D", "LSVI-UCB, every episode (β = 1)"),
        ("mixture-every-episode", "#0072B2", "*", "a mixture before every episode"),
    ):
        axes.plot(deployments[name], regret[name], color=colour, marker=marker, ls="", ms=9,
                  label=label)  # fmt: skip
    axes.axhline(regret["random"], color="0.5", ls=":", label="random actions")
    axes.set(xscale="log", ylim=(0, None), xlabel="policies deployed in 2500 episodes",
             ylabel="average regret an episode")  # fmt: skip
    axes.set_xticks([3, 10, 50, 500, 2500], ["3", "10", "50", "500", "2500"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False, loc="lower left", ncols=2, bbox_to_anchor=(0, 1))
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main()
