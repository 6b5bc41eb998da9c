"""One style for every figure, and saving one so that the same figure gives the same bytes."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from rareswitch.archive import write_bytes

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


@contextmanager
def style() -> Iterator[None]:
    """Draw in the style of the package."""
    with mpl.rc_context(STYLE):
        yield


def save_figure(figure: Figure, folder: Path) -> None:
    """Write figure.png, figure.pdf and figure.svg."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the layout is settled; do not solve it again for each format
    for kind in FORMATS:
        data = io.BytesIO()
        undated = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
        with style():
            figure.savefig(data, format=kind, dpi=160, metadata=undated)
        write_bytes(folder / f"figure.{kind}", data.getvalue())
