"""One style for all figures, one line style for each rule, and reproducible files.

Colour-blind readers can distinguish the colours of rules.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rareswitch.support.archive import write_bytes

FORMATS = ("png", "pdf", "svg")
STYLE: Any = {
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.9",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "rareswitch",
    "svg.fonttype": "path",
    "figure.dpi": 100,
}


class LineStyle(NamedTuple):
    """The colour and the marker of a rule in every figure."""

    colour: str
    marker: str


# By the names of `rules.table`, of baselines in experiments, and of mixtures.
LINE_STYLES = {
    "every-episode": LineStyle("#000000", "D"),
    "uniform-grid": LineStyle("#d55e00", "s"),
    "determinant-growth": LineStyle("#56a0d3", "o"),
    "adaptive-budget": LineStyle("#0072b2", "P"),
    "spread-budget": LineStyle("#e69f00", "d"),
    "total-growth": LineStyle("#009e73", "^"),
    "geometric-grid": LineStyle("#cc79a7", "v"),
    "minimax-grid": LineStyle("#8c6bb1", "<"),
    "episode-grid": LineStyle("#b8860b", ">"),
    "capped": LineStyle("#7f7f7f", "X"),
    "worthwhile": LineStyle("#6a3d9a", "2"),
    "waiting": LineStyle("#17707f", "1"),
    "random-policy": LineStyle("#8c8c8c", "x"),
    "ucb2-hoeffding": LineStyle("#a6761d", "p"),
    "mvp": LineStyle("#666666", "h"),
    "eqo": LineStyle("#1f78b4", "3"),
    "psrl": LineStyle("#4d9221", "4"),
    "lsvi-ucb-plus-plus": LineStyle("#2c2c7a", "."),
    "epsilon-greedy": LineStyle("#b15928", "8"),
    "explore-then-commit": LineStyle("#999933", "|"),
    "layer-by-layer": LineStyle("#882255", "_"),
    "redrawn-mixture": LineStyle("#e78ac3", "H"),
    "mixture": LineStyle("#c2185b", "*"),
    "bonus-members": LineStyle("#1b7f5c", "^"),
    "bonus-estimate": LineStyle("#8c6bb1", "v"),
}
# For the user's own rules, in turn; all differ from black and grey.
OWN_STYLES = (
    LineStyle("#8a2be2", "*"),
    LineStyle("#33a02c", "H"),
    LineStyle("#e31a1c", "8"),
    LineStyle("#00a3a3", "+"),
    LineStyle("#f06eaa", "4"),
)


def line_style(name: str, position: int = 0) -> LineStyle:
    """Return the style of a rule by its name.

    `position` is the number of a user's own rule in the figure; each gets another style.

    >>> line_style("uniform-grid")
    LineStyle(colour='#d55e00', marker='s')
    >>> line_style("my_rules:Weekly", 1).colour
    '#33a02c'
    """
    return LINE_STYLES.get(name, OWN_STYLES[position % len(OWN_STYLES)])


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the package."""
    with mpl.rc_context(STYLE):
        yield


def draw_intervals(axis: Axes, x: Any, intervals: Any, **settings: Any) -> None:
    """Draw points in the order of x (n,), with bars: intervals are (mean, low, high), each (n,)."""
    order = np.argsort(x)
    mean, low, high = (np.asarray(part)[order] for part in intervals)
    bars = np.abs([mean - low, high - mean])
    axis.errorbar(np.asarray(x)[order], mean, yerr=bars, capsize=2, **settings)


def save_figure(figure: Figure, folder: Path) -> None:
    """Write figure.png, figure.pdf and figure.svg."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # keep the layout instead of computing it for each format
    for kind in FORMATS:
        data = io.BytesIO()
        undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
        with style():
            figure.savefig(data, format=kind, dpi=160, metadata=undated)
        write_bytes(folder / f"figure.{kind}", data.getvalue())
