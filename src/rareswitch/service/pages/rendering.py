"""The templates of the pages, the form of numbers and times in them, and the static files."""

import hashlib
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from rareswitch.campaigns.proof.export.words import one_line
from rareswitch.service.pages.view import View

HERE = Path(__file__).parent
STATIC = HERE / "static"
STATIC_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
LINK = 12  # shown digits of a digest
MINUS, THIN, DASH = "\u2212", "\u202f", "\u2013"
UNKNOWN = "\u2013"


def count(value: int | None) -> str:
    """Return a whole number in groups of three digits.

    >>> count(12345).replace(THIN, " ")
    '12 345'
    """
    if value is None:
        return UNKNOWN
    return f"{value:,}".replace(",", THIN).replace("-", MINUS)


def figure(value: float | None, digits: int = 3) -> str:
    """Return a number with a few significant digits and a true minus sign.

    >>> figure(-0.08839), figure(1234.5), figure(None)
    ('−0.0884', '1230', '–')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-6 < abs(value) < 1e9:
        places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
        text = f"{round(value, digits - 1 - math.floor(math.log10(abs(value)))):.{places}f}"
    return text.replace("-", MINUS)


def signed(value: float | None, digits: int = 3) -> str:
    """Return a number with its sign, for differences.

    >>> signed(0.25), signed(-0.25), signed(0.0)
    ('+0.25', '−0.25', '0')
    """
    text = figure(value, digits)
    return f"+{text}" if value is not None and value > 0 and text != UNKNOWN else text


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Return an interval in words, for screen readers.

    >>> interval(-0.1, 0.25)
    '−0.1 to 0.25'
    """
    if low is None or high is None:
        return UNKNOWN
    return f"{figure(low, digits)} to {figure(high, digits)}"


def percent(value: float | None) -> str:
    """Return a share as a percentage.

    >>> percent(0.307), percent(0.004)
    ('31%', '0.4%')
    """
    if value is None or not math.isfinite(value):
        return UNKNOWN
    return f"{100 * value:.1f}%" if 0 < abs(value) < 0.01 else f"{value:.0%}"


def moment(text: str) -> datetime | None:
    """Parse the timestamp of a row; None if it is invalid."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def when(text: str, *, day: bool = False) -> Markup:
    """Return a time in UTC as an HTML element."""
    found = moment(text)
    if found is None:
        return escape(one_line(text))
    shown = f"{found:%-d %b %Y}" if day else f"{found:%-d %b %Y, %H:%M} UTC"
    return Markup('<time datetime="{}">{}</time>').format(found.isoformat(), shown)


def plural(number: int, noun: str, several: str = "") -> str:
    """Return a number with its noun.

    >>> plural(1, "episode"), plural(3, "day")
    ('1 episode', '3 days')
    """
    return f"{count(number)} {noun if number == 1 else several or noun + 's'}"


@cache
def static_url(name: str) -> str:
    """Return the address of a static file, which changes with its content."""
    digest = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    return f"/static/{name}?{digest[:LINK]}"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (count, figure, signed, interval, percent, when, plural)
    environment.filters |= {one.__name__: one for one in filters}
    environment.filters["line"] = lambda value: one_line(str(value))
    environment.filters["short"] = lambda digest: str(digest)[:LINK]
    environment.globals["static"] = static_url
    return environment


def render(template: str, view: View, **values: Any) -> str:
    """Return a page as HTML; all text is escaped except `Markup`."""
    given: Mapping[str, Any] = {"view": view, **values}
    return _environment().get_template(template).render(given)
