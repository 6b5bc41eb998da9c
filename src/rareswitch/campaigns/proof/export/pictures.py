"""The pictures of a campaign: returns of each version, its course, and what made versions due."""

import base64
import io
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rareswitch.campaigns.proof.export.cohort_table import CohortRow
from rareswitch.campaigns.proof.export.course import Course, moment_of
from rareswitch.support.drawing import style

INK, SOFT, BLUE, RED = "#1b1f24", "#8c959f", "#1f4e79", "#a40e26"
MARKERS = {"first": "D", "planned": "o", "unplanned": "X", "rollback": "<"}
UNPLANNED = ("unplanned", "rollback")
WIDTH = 7.0


def returns_picture(rows: list[CohortRow]) -> str | None:
    """The mean return of each version with its interval; None before the first episode."""
    known = [row for row in rows if row.mean_return is not None]
    if not known:
        return None
    with style():
        figure = Figure(figsize=(WIDTH, 1.1 + 0.32 * max(2, len(known))), layout="constrained")
        axis = figure.subplots()
        for y, row in enumerate(known):
            axis.hlines(y, row.low or 0.0, row.high or 0.0, color=BLUE, linewidth=1.6)
            colour = RED if row.origin in UNPLANNED else BLUE
            axis.plot(row.mean_return or 0.0, y, marker=MARKERS[row.origin], color=colour)
        labels = [f"version {row.version}, {row.episodes} episodes" for row in known]
        axis.set_yticks(range(len(known)), labels)
        axis.set_ylim(len(known) - 0.5, -0.5)
        axis.set_xlabel("mean return, with an interval that holds at every look")
    return _svg(figure)


def course_picture(rows: list[CohortRow], course: Course) -> str | None:
    """Mean returns along the log, and episodes over time, with the versions marked."""
    stretches = course.stretches
    if not stretches:
        return None
    times = [stretch.at for stretch in stretches]
    timed = len({time for time in times if time}) > 1 and None not in times
    with style():
        figure = Figure(figsize=(WIDTH, 4.6 if timed else 2.8), layout="constrained")
        axes = figure.subplots(2 if timed else 1, 1, squeeze=False)[:, 0]
        seqs = [stretch.seq for stretch in stretches]
        axes[0].plot(seqs, [stretch.mean for stretch in stretches], color=SOFT, linewidth=1.2)
        axes[0].set(xlabel="episodes recorded", ylabel="return, mean of a stretch")
        for row in rows:
            _mark(axes[0], row, row.in_force_since)
        if timed:
            axes[1].plot(times, seqs, color=SOFT, linewidth=1.2)
            axes[1].set(xlabel="received", ylabel="episodes recorded")
            axes[1].tick_params(axis="x", rotation=20)
            for row in rows:
                if (at := moment_of(row.in_force_at)) is not None:
                    _mark(axes[1], row, at)
    return _svg(figure)


def _mark(axis: Axes, row: CohortRow, x: Any) -> None:
    """Draw a line where a version came into force."""
    odd = row.origin in UNPLANNED
    axis.axvline(x, color=RED if odd else BLUE, linewidth=0.9, linestyle="--" if odd else "-")
    axis.annotate(
        str(row.version), (x, 1.0), xycoords=("data", "axes fraction"), xytext=(2, -9),
        textcoords="offset points", fontsize=8, color=INK,
    )  # fmt: skip


def triggers_picture(rows: list[CohortRow]) -> str | None:
    """What was observed against what was planned, for each version that a rule brought about."""
    quantities = list(dict.fromkeys(row.quantity for row in rows if row.quantity))
    if not quantities:
        return None
    parts = {name: [row for row in rows if row.quantity == name] for name in quantities}
    heights = [1.0 + 0.3 * len(part) for part in parts.values()]
    with style():
        figure = Figure(figsize=(WIDTH, 0.6 + sum(heights)), layout="constrained")
        axes = figure.subplots(len(parts), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axis, (name, part) in zip(axes, parts.items(), strict=True):
            for y, row in enumerate(part):
                axis.plot(row.threshold, y, "|", color=INK, markersize=13)
                axis.plot(row.observed, y, MARKERS[row.origin], color=BLUE, markersize=5)
            axis.set_yticks(range(len(part)), [f"version {row.version}" for row in part])
            axis.set_ylim(len(part) - 0.5, -0.5)
            axis.set_xlabel(f"{name}: observed (dot), threshold (bar)")
    return _svg(figure)


def _svg(figure: Figure) -> str:
    """Return a picture in base64, the same bytes whenever it is drawn."""
    data = io.BytesIO()
    with style():
        figure.savefig(data, format="svg", metadata={"Date": None})
    return base64.b64encode(data.getvalue()).decode()
