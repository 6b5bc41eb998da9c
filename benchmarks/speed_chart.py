"""Draw published times of one round as a chart, without a measurement.

    python benchmarks/speed_chart.py docs/_static/speed.csv docs/_static/speed.png

Each row of the CSV file has a program and the lowest and highest CPU time in seconds that
`python benchmarks --only rounds rlberry` printed for one round at the paper's size.
"""

import csv
import sys
from pathlib import Path

from matplotlib.figure import Figure

TICKS = {0.01: "0.01 s", 0.1: "0.1 s", 1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min"}
TICKS |= {3600: "1 h", 36_000: "10 h"}


def main(source: Path, target: Path) -> None:
    with source.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))[::-1]
    figure = Figure(figsize=(5.8, 0.36 * len(rows) + 1.0), layout="constrained")
    axes = figure.subplots()
    for place, row in enumerate(rows):
        low, high = float(row["low"]), float(row["high"])
        color = "C1" if "extrapolated" in row["program"] else "C0"
        axes.barh(place, (low * high) ** 0.5, color=color, height=0.6)
        axes.text(high * 1.3, place, format_range(low, high), va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(0.01, 3e6)
    axes.set_xticks(list(TICKS), list(TICKS.values()), fontsize=8, rotation=45)
    axes.minorticks_off()
    axes.set_yticks(range(len(rows)), [row["program"] for row in rows], fontsize=9)
    figure.suptitle("CPU time of one round of 2500 episodes", fontsize=10)
    figure.savefig(target, dpi=150)


def format_range(low: float, high: float) -> str:
    """Return a range of seconds, in hours if it is long."""
    unit, size = ("h", 3600.0) if low >= 3600.0 else ("s", 1.0)
    return f"{low / size:g}–{high / size:g} {unit}"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
