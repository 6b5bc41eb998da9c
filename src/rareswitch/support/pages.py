"""One style for all reports: a single HTML file for screens, phones and print."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup


def template(path: Path) -> Template:
    """Return an HTML template with the variable `style` and the filter `number`."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = lambda value: f"{value:,.0f}".replace(",", "\u202f")
    environment.globals["style"] = Markup(Path(__file__).with_suffix(".css").read_text())
    return environment.get_template(path.name)
