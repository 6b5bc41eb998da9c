"""The charts of the pages as SVG, each with its numbers as a table.

Colours are classes of the style sheet, from the palette of Okabe and Ito; shapes and dashes repeat
their meaning. A chart has a wide form and a narrow form for phones with the same text size.
"""

from collections.abc import Sequence
from datetime import date
from typing import Any, NamedTuple

from markupsafe import Markup

from rareswitch.campaigns.proof.export.pictures import Scale
from rareswitch.service.pages.drawing import (
    CHARACTER,
    LINE,
    NARROW,
    WIDE,
    axis,
    legend,
    line,
    margin,
    mark,
    padded,
    picture,
    rectangle,
    shortened,
    text,
    tick_text,
    whisker,
    within,
)
from rareswitch.service.pages.rendering import figure, interval, percent, signed

MOST_VERSIONS = 40  # the newest versions in a timeline
MOST_COMPARED = 12


class Chart(NamedTuple):
    """A picture in two widths, its caption, and its numbers as rows under a header."""

    title: str
    pictures: Sequence[Markup]  # the wide one, and the narrow one for phones
    caption: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[Any]]


class VersionMark(NamedTuple):
    """A version in a timeline, in force for rows `since` to `until` of the log."""

    version: int
    since: int
    until: int
    episodes: int
    mean: float | None
    low: float
    high: float
    kind: str  # planned, unplanned or rollback


class Compared(NamedTuple):
    """Learned members and the control: both means, their difference and its interval."""

    name: str
    learned: float | None
    control: float | None
    difference: float | None
    low: float | None
    high: float | None


def timeline(versions: Sequence[VersionMark], length: int) -> Chart | None:
    """Draw the mean return of each version over the rows where it was in force.

    A single version has no chart: its picture would be one block.
    """
    drawn = [one for one in versions if one.mean is not None][-MOST_VERSIONS:]
    if len(drawn) < 2 or not length:
        return None
    pictures = [_timeline(drawn, length, width) for width in (WIDE, NARROW)]
    rows = [
        (one.version, one.since + 1, one.episodes, figure(one.mean), interval(one.low, one.high))
        for one in drawn
    ]
    return Chart(
        "Mean return of each version, in the order of the log",
        pictures,
        "Line: mean return of a version while it was in force. Band: 95% interval, valid at any "
        "time. Circle: planned; square: not planned; diamond and dashes: rollback.",
        ("version", "from episode", "episodes", "mean return", "95% interval"),
        rows,
    )


def _timeline(drawn: Sequence[VersionMark], length: int, width: int) -> Markup:
    top, height = 22, 170 if width == WIDE else 150
    ends = [end for one in drawn for end in (one.low, one.high)]
    up = Scale(ends, top + height, top)
    ticks = up.ticks()
    left = 10 + CHARACTER * max([1, *(len(tick_text(tick)) for tick in ticks)])
    across = Scale([drawn[0].since, length], left, width - 8)
    parts: list[str] = []
    for tick in ticks:
        parts += [line(left, up(tick), width - 8, up(tick), "grid")]
        parts += [text(left - 6, up(tick) + 4, tick_text(tick), anchor="end")]
    said = 0.0
    for one in drawn:
        x1, x2 = across(one.since), across(max(one.until, one.since))
        assert one.mean is not None
        y = up(one.mean)
        if x2 > x1:
            parts.append(rectangle(x1, up(one.high), x2 - x1, up(one.low) - up(one.high), "band"))
        parts.append(line(x1, top, x1, top + height, "since"))
        parts.append(line(x1, y, x2, y, f"mean {one.kind}"))
        parts.append(mark((x1 + x2) / 2, y, one.kind))
        label = f"v{one.version}"
        if x1 >= said:
            parts.append(text(x1 + 3, top - 7, label, kind="strong"))
            said = x1 + 3 + CHARACTER * len(label) + 6
    parts += axis(across, top + height, "episodes, in the order of the log", width)
    return picture("Mean return of each version with its interval", width, top + height + 44, parts)


def means_chart(rows: Sequence[Compared]) -> Chart | None:
    """Draw the mean returns of learned members and of the control side by side."""
    drawn = [one for one in rows if one.learned is not None and one.control is not None]
    drawn = drawn[:1] + drawn[1:][-MOST_COMPARED:]
    if not drawn:
        return None
    values = [value for one in drawn for value in (one.learned, one.control) if value is not None]
    pictures = [_means(drawn, values, width) for width in (WIDE // 2, NARROW)]
    return Chart(
        "Mean return of learned members and of the control",
        pictures,
        "Circle: learned members. Diamond: the concurrent control of the same versions.",
        ("compared", "learned", "control"),
        [(one.name, figure(one.learned), figure(one.control)) for one in drawn],
    )


def _means(drawn: Sequence[Compared], values: Sequence[float], width: int) -> Markup:
    left = margin(one.name for one in drawn)
    scale = Scale(padded(values), left, width - 12)
    parts = [*legend(left, (("learned", "learned"), ("control", "control")))]
    top = LINE
    for place, one in enumerate(drawn):
        y = top + LINE * (place + 0.5)
        assert one.learned is not None
        assert one.control is not None
        parts += [
            text(0, y + 4, one.name),
            line(scale(one.control), y, scale(one.learned), y, "join"),
            mark(scale(one.control), y, "control"),
            mark(scale(one.learned), y, "learned"),
        ]
    bottom = top + LINE * len(drawn)
    parts += axis(scale, bottom, "mean return", width)
    return picture("Mean return of learned members and of the control", width, bottom + 44, parts)


def differences_chart(rows: Sequence[Compared], confidence: float) -> Chart | None:
    """Draw the difference between learned members and the control with its interval."""
    drawn = [one for one in rows if one.difference is not None and one.low is not None]
    drawn = drawn[:1] + drawn[1:][-MOST_COMPARED:]
    if not drawn:
        return None
    pictures = [_forest(drawn, width) for width in (WIDE // 2, NARROW)]
    return Chart(
        "Difference between learned members and the control",
        pictures,
        f"Line: {percent(confidence)} interval, valid at any time. Right of the dashed line, "
        "learned members return more.",
        ("compared", "difference", "interval"),
        [(one.name, signed(one.difference), interval(one.low, one.high)) for one in drawn],
    )


def _forest(drawn: Sequence[Compared], width: int) -> Markup:
    left = margin(one.name for one in drawn)
    ends = [end for one in drawn for end in (one.low, one.high) if end is not None]
    scale = Scale(padded([0.0, *ends]), left, width - 12)
    top, bottom = 6, 6 + LINE * len(drawn)
    parts = [line(scale(0.0), top, scale(0.0), bottom, "zero")]
    for place, one in enumerate(drawn):
        y = top + LINE * (place + 0.5)
        assert one.difference is not None
        assert one.low is not None
        assert one.high is not None
        parts += [
            text(0, y + 4, one.name),
            *whisker(scale, one.low, one.high, y),
            mark(scale(one.difference), y, "learned"),
        ]
    parts += axis(scale, bottom, "difference of mean returns", width)
    title = "Difference between learned members and the control, with its interval"
    return picture(title, width, bottom + 44, parts)


def shares_chart(rows: Sequence[tuple[str, float, str]], title: str, about: str) -> Chart:
    """Draw a bar for each name with its share and a label."""
    pictures = []
    for width in (WIDE // 2, NARROW):
        scale, parts = Scale([0.0, 1.0], 0, width - 48), []
        for place, (name, share, words) in enumerate(rows):
            y = 50 * place
            most = int(width / CHARACTER)
            parts += [
                text(0, y + 12, shortened(name, most), kind="strong"),
                rectangle(0, y + 18, scale(1.0), 10, "track"),
                rectangle(0, y + 18, scale(share), 10, "bar"),
                text(scale(1.0) + 8, y + 27, percent(share)),
                text(0, y + 42, shortened(words, most), kind="soft"),
            ]
        pictures.append(picture(title, width, 50 * len(rows), parts))
    table = [(name, percent(share), words) for name, share, words in rows]
    return Chart(title, pictures, about, ("for whom", "share", "change"), table)


def days_chart(days: Sequence[tuple[date, int]]) -> Chart | None:
    """Draw the episodes recorded on each of the last days."""
    if not days:
        return None
    pictures = [_days(days if width == WIDE else days[-14:], width) for width in (WIDE, NARROW)]
    return Chart(
        "Episodes recorded per day",
        pictures,
        "Days are in UTC, by the time at which a report was received. A phone shows the last 14.",
        ("day", "episodes recorded"),
        [(f"{day:%-d %b %Y}", number) for day, number in reversed(days)],
    )


def _days(days: Sequence[tuple[date, int]], width: int) -> Markup:
    top, height, most = 8, 90, max(number for _, number in days)
    up = Scale([0, max(1, most)], top + height, top)
    ticks = [tick for tick in up.ticks(3) if tick == int(tick)]
    left = 10 + CHARACTER * max([1, *(len(tick_text(tick)) for tick in ticks)])
    step = (width - 8 - left) / len(days)
    parts = []
    for tick in ticks:
        parts += [line(left, up(tick), width - 8, up(tick), "grid")]
        parts += [text(left - 6, up(tick) + 4, tick_text(tick), anchor="end")]
    end = -1.0
    for place, (day, number) in enumerate(days):
        x = left + place * step
        thick = max(1.0, min(step * 0.72, 26))
        if number:
            y = up(number)
            parts.append(rectangle(x + (step - thick) / 2, y, thick, top + height - y, "bar"))
        label = f"{day:%-d %b}"
        half = CHARACTER * len(label) / 2
        middle = min(max(x + step / 2, half), width - half)
        if (day.weekday() == 0 or len(days) <= 7) and middle - half > end:
            parts.append(text(middle, top + height + 17, label, anchor="middle"))
            end = middle + half + 10
    parts.append(line(left, top + height, width - 8, top + height, "axis"))
    return picture("Episodes recorded per day", width, top + height + 26, parts)


def gauge(value: float | None, limit: float, low: float, high: float) -> Markup:
    """Draw the value and the threshold of a rule on a short line."""
    scale = Scale([low, high], 6, 134)
    x = within(scale, limit)
    parts = [
        line(6, 11, 134, 11, "axis"),
        line(x, 3, x, 19, "limit"),
    ]
    if value is not None:
        parts.append(mark(within(scale, value), 11, "learned"))
    return Markup('<svg class="gauge" viewBox="0 0 140 22" aria-hidden="true">{}</svg>').format(
        Markup("".join(parts))
    )
