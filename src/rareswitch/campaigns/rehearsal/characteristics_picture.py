"""The picture of operating characteristics: a row of points per scenario, a marker per design."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from rareswitch.campaigns.rehearsal.characteristics import Cell, Characteristics
from rareswitch.support.drawing import LineStyle, style

PANELS = (
    ("superiority", "superiority is claimed", True),
    ("best_action", "steps with a best action", True),
    ("mean_return", "expected return of participants", False),
    ("begun", "episodes begun until the stop", False),
)
# Okabe and Ito's colours, which colour-blind readers can distinguish; each has its own marker.
STYLES = (
    LineStyle("#0072b2", "o"),
    LineStyle("#d55e00", "s"),
    LineStyle("#009e73", "^"),
    LineStyle("#cc79a7", "D"),
    LineStyle("#000000", "v"),
    LineStyle("#e69f00", "P"),
    LineStyle("#56b4e9", "X"),
)


def draw_characteristics(found: Characteristics) -> Figure:
    """Return the picture: four characteristics with their Monte-Carlo intervals."""
    scenarios, designs = found.study.scenarios, list(found.study.designs)
    height = 1.3 + 0.28 * len(scenarios) * (len(designs) + 1)
    with style():
        figure = Figure(figsize=(10.0, 2 * height), layout="constrained")
        for axis, (name, title, share) in zip(
            figure.subplots(2, 2, sharey=True).flat, PANELS, strict=True
        ):
            for place, design in enumerate(designs):
                cells = [cell for cell in found.cells if cell.design == design]
                _draw(axis, cells, name, place, len(designs))
            labels = [f"{one.name} (null)" if one.null else one.name for one in scenarios]
            axis.set_yticks(range(len(scenarios)), labels)
            axis.set_ylim(len(scenarios) - 0.5, -0.5)
            axis.set_title(title, fontsize=9)
            if share:
                axis.set_xlim(-0.02, 1.02)
                axis.xaxis.set_major_formatter("{x:.0%}")
        handles, names = figure.axes[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=min(4, len(names)))
    return figure


def _draw(axis: Any, cells: Sequence[Cell], name: str, place: int, designs: int) -> None:
    """Draw one characteristic of one design in every scenario that has a value."""
    line = STYLES[place % len(STYLES)]
    apart = (place - (designs - 1) / 2.0) * 0.7 / max(designs, 2)
    told = [(row + apart, one) for row, cell in enumerate(cells) if (one := cell.values[name])]
    values = [one.value for _, one in told]
    bars = [[one.value - one.low for _, one in told], [one.high - one.value for _, one in told]]
    axis.errorbar(
        values,
        [row for row, _ in told],
        xerr=bars,
        linestyle="none",
        marker=line.marker,
        color=line.colour,
        markersize=5,
        capsize=2,
        label=cells[0].design,
    )
