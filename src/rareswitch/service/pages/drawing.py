"""The parts of an SVG chart: lines, marks, texts and axes, with classes of the style sheet."""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from rareswitch.campaigns.proof.export.pictures import Scale
from rareswitch.campaigns.proof.export.words import one_line
from rareswitch.service.pages.rendering import figure

WIDE, NARROW = 760, 340
TEXT, CHARACTER, LINE = 12, 6.9, 22


def within(scale: Scale, value: float) -> float:
    return scale(min(max(value, scale.low), scale.high))


def whisker(scale: Scale, low: float, high: float, y: float) -> list[str]:
    begin, end = scale(low), scale(high)
    return [
        line(begin, y, end, y, "whisker"),
        line(begin, y - 4, begin, y + 4, "whisker"),
        line(end, y - 4, end, y + 4, "whisker"),
    ]


def legend(x: float, marks: Iterable[tuple[str, str]]) -> list[str]:
    parts = []
    for kind, words in marks:
        parts += [mark(x + 5, 9, kind), text(x + 14, 13, words)]
        x += 26 + CHARACTER * len(words)
    return parts


def margin(names: Iterable[str]) -> float:
    return 12 + CHARACTER * max(len(name) for name in names)


def padded(values: Sequence[float]) -> list[float]:
    low, high = min(values), max(values)
    room = (high - low) * 0.06
    return [low - room, high + room]


def axis(scale: Scale, y: float, title: str, width: int) -> list[str]:
    """Draw an axis without overlapping numbers."""
    parts, end = [line(scale(scale.low), y, scale(scale.high), y, "axis")], -1.0
    for tick in scale.ticks(6 if width == WIDE else 4):
        x, half = scale(tick), len(tick_text(tick)) * CHARACTER / 2
        parts.append(line(x, y, x, y + 4, "axis"))
        x = min(max(x, half), width - half)
        if x - half > end:
            parts.append(text(x, y + 17, tick_text(tick), anchor="middle"))
            end = x + half + 6
    return [*parts, text(scale(scale.high), y + 36, title, anchor="end", kind="soft")]


def mark(x: float, y: float, kind: str) -> str:
    """Draw a circle; a square if unplanned; a diamond for control and rollback."""
    if kind in ("control", "rollback"):
        points = f"{x:.1f},{y - 6:.1f} {x + 6:.1f},{y:.1f} {x:.1f},{y + 6:.1f} {x - 6:.1f},{y:.1f}"
        return f'<polygon class="mark {kind}" points="{points}"/>'
    if kind == "unplanned":
        return f'<rect class="mark {kind}" x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8"/>'
    return f'<circle class="mark {kind}" cx="{x:.1f}" cy="{y:.1f}" r="4.5"/>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def rectangle(x: float, y: float, width: float, height: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.0):.1f}" '
        f'height="{max(height, 0.5):.1f}"/>'
    )


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "") -> str:
    named = f' class="{kind}"' if kind else ""
    told = escape(one_line(words))
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{told}</text>'


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 1]}…"


def tick_text(value: float) -> str:
    return figure(value, 4)


def picture(title: str, width: int, height: float, parts: Sequence[str]) -> Markup:
    kind = {NARROW: "narrow", WIDE: "wide"}.get(width, "wide half")
    return Markup(
        '<svg class="chart {}" viewBox="0 0 {} {}" role="img" font-size="{}">'
        "<title>{}</title>{}</svg>"
    ).format(kind, width, round(height), TEXT, title, Markup("".join(parts)))
