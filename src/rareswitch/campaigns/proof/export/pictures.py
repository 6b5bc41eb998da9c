"""The pictures of a campaign as SVG: returns by version, the course of returns, the triggers.

A picture is 360 units wide, about the width of a phone in pixels, with text of 13 units; the page
sets its size and colours. Labels that would overlap are stacked.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rareswitch.campaigns.proof.export.cohorts import OutcomeRow, Stretch
from rareswitch.campaigns.proof.export.words import one_line

WIDTH, LEFT, RIGHT = 360, 76, 22
TEXT, CHARACTER = 13, 8.2  # the size of text, and the width of its widest usual character
LINE = 20  # height of a row of text
MOST_VERSIONS = 40  # the last versions, in a picture
MOST_ROWS_OF_LABELS = 4
MOST_CHARACTERS = 40  # in the title of an axis
UNPLANNED = ("unplanned", "rollback")


class Scale:
    """A linear scale from numbers to positions between `begin` and `end`, with round ticks."""

    def __init__(self, values: Iterable[float], begin: float, end: float) -> None:
        found = list(values)
        self.low, self.high = min(found), max(found)
        if self.low == self.high:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self._begin, self._end = begin, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self._begin + share * (self._end - self._begin)

    def ticks(self, most: int = 4) -> list[float]:
        """Return at most `most` multiples of 1, 2 or 5 times a power of ten."""
        exponent = int(f"{self.high - self.low:e}".partition("e")[2]) - 1
        for factor in (1, 2, 5, 10, 20, 50, 100):
            step = float(f"{factor}e{exponent}")
            first, last = -int(-self.low // step), int(self.high // step)
            if last - first < most:
                return [float(f"{n * step:.10g}") for n in range(first, last + 1)]
        return []


def returns_picture(rows: Sequence[OutcomeRow]) -> str | None:
    """Draw the mean return of each version with its interval; None before the first episode."""
    known = [row for row in rows if row["mean_return"] is not None][-MOST_VERSIONS:]
    if not known:
        return None
    scale = Scale([row[end] for row in known for end in ("low", "high")], LEFT, WIDTH - RIGHT)
    parts, bottom = [], LINE * len(known)
    for place, row in enumerate(known):
        y = LINE * (place + 0.5)
        parts += [
            _svg_text(0, y + 4, f"version {row['version']}"),
            _svg_line(scale(row["low"]), y, scale(row["high"]), y, _line_kind(row)),
            _mark(scale(row["mean_return"]), y, row),
        ]
    parts += _axis_below(scale, bottom, "mean return and its interval")
    return _svg("Mean return of each version with its interval", bottom + 2.4 * LINE, parts)


def course_picture(
    rows: Sequence[OutcomeRow], course: Sequence[Stretch], length: int
) -> str | None:
    """Draw mean returns along the log, with a mark at the start of each version."""
    if not course:
        return None
    ticks = Scale([stretch.mean for stretch in course], 0, 1).ticks()
    left = 8 + CHARACTER * max([0, *(len(_tick_text(tick)) for tick in ticks)])
    across = Scale([0, length], left, WIDTH - RIGHT)
    marks = [(across(row["in_force_since"]), row) for row in rows]
    labels, used = _stacked([(x, str(row["version"])) for x, row in marks])
    top, height = used * (TEXT + 3) + 8, 130
    up = Scale([stretch.mean for stretch in course], top + height, top)
    parts = []
    for tick in ticks:
        parts += [
            _svg_text(left - 6, up(tick) + 4, _tick_text(tick), anchor="end"),
            _svg_line(left, up(tick), WIDTH - RIGHT, up(tick), "grid"),
        ]
    parts += [_svg_line(x, top - 2, x, top + height, _line_kind(row)) for x, row in marks]
    parts += [_svg_text(x, TEXT + place * (TEXT + 3), label) for x, place, label in labels]
    points = " ".join(f"{across(one.seq):.1f},{up(one.mean):.1f}" for one in course)
    parts.append(f'<polyline class="course" points="{points}"/>')
    if len(course) == 1:
        parts.append(_mark(across(course[0].seq), up(course[0].mean), {"origin": "first"}))
    parts += _axis_below(across, top + height, "rows of the log")
    return _svg(
        "Mean returns along the log, with versions marked", top + height + 2.4 * LINE, parts
    )


def triggers_picture(rows: Sequence[OutcomeRow]) -> str | None:
    """Draw the observed value and the threshold of each version's trigger.

    Return None if there are no triggers.
    """
    parts, top = list[str](), 0.0
    for quantity in dict.fromkeys(row["quantity"] for row in rows if row["quantity"]):
        of_it = [row for row in rows if row["quantity"] == quantity][-MOST_VERSIONS:]
        ends = [row[name] for row in of_it for name in ("observed", "threshold")]
        scale = Scale([0, *ends], LEFT, WIDTH - RIGHT)
        for place, row in enumerate(of_it):
            y, x = top + LINE * (place + 0.5), scale(row["threshold"])
            parts += [
                _svg_text(0, y + 4, f"version {row['version']}"),
                _svg_line(x, y - 8, x, y + 8, "threshold"),
                _mark(scale(row["observed"]), y, row),
            ]
        top += LINE * len(of_it)
        parts += _axis_below(scale, top, quantity)
        top += 3 * LINE
    return _svg("Observed value and threshold of each trigger", top, parts) if parts else None


def _stacked(labels: Iterable[tuple[float, str]]) -> tuple[list[tuple[float, int, str]], int]:
    """Put each label, given by its left end, into the first row where it overlaps no other.

    Return position, row and text of each, the lowest row last, and the number of rows. A label that
    fits into no row is omitted, because tables name every version.
    """
    ends, placed = list[float](), list[tuple[float, int, str]]()
    for x, label in sorted(labels):
        begin = min(x - 3, WIDTH - len(label) * CHARACTER)
        row = next((row for row, end in enumerate(ends) if end <= begin), len(ends))
        if row == MOST_ROWS_OF_LABELS:
            continue
        ends[row : row + 1] = [begin + len(label) * CHARACTER + 2]
        placed.append((begin, row, label))
    return [(x, len(ends) - 1 - row, label) for x, row, label in placed], len(ends)


def _axis_below(scale: Scale, y: float, title: str) -> list[str]:
    """Draw an axis; a number that would overlap the number before is omitted."""
    parts, end = [_svg_line(scale(scale.low), y, scale(scale.high), y, "axis")], 0.0
    for tick in scale.ticks():
        parts.append(_svg_line(scale(tick), y, scale(tick), y + 4, "axis"))
        half = len(_tick_text(tick)) * CHARACTER / 2
        x = min(scale(tick), WIDTH - half)
        if x - half >= end:
            parts.append(_svg_text(x, y + 17, _tick_text(tick), anchor="middle"))
            end = x + half + 4
    words = title if len(title) <= MOST_CHARACTERS else f"{title[: MOST_CHARACTERS - 1]}…"
    return [*parts, _svg_text(WIDTH - RIGHT, y + 36, words, anchor="end")]


def _line_kind(row: OutcomeRow) -> str:
    return "unplanned" if row["origin"] in UNPLANNED else "planned"


def _mark(x: float, y: float, row: OutcomeRow) -> str:
    """Draw a dot, or a square for an unplanned version."""
    if _line_kind(row) == "planned":
        return f'<circle class="planned" cx="{x:.1f}" cy="{y:.1f}" r="4"/>'
    return f'<rect class="unplanned" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'


def _svg_line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _svg_text(x: float, y: float, words: Any, *, anchor: str = "start") -> str:
    text = escape(one_line(str(words)))
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{text}</text>'


def _tick_text(value: float) -> str:
    return f"{value:.6g}"


def _svg(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" font-size="{TEXT}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )
