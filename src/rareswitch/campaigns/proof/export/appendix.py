"""The appendix of a report, in the order that reporting checklists ask for."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from rareswitch.campaigns.proof.export.cohort_table import CohortRow
from rareswitch.campaigns.proof.export.facts import facts_of
from rareswitch.campaigns.proof.export.moment import Moment

SPECIAL = "\\`*_{}[]<>|#&"


def appendix(moment: Moment, rows: list[CohortRow]) -> str:
    """Return the appendix in Markdown."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=plain,
        autoescape=False,
    )
    return environment.get_template("appendix.md.j2").render(facts=facts_of(moment, rows))


def plain(value: Any) -> str:
    r"""Return what people wrote as text of one line that Markdown does not read as anything else.

    >>> plain("a|b\nc"), plain(None), plain(0.25)
    ('a\\|b c', '–', '0.25')
    """
    if value is None or value == "":
        return "–"
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return "".join(f"\\{c}" if c in SPECIAL else " " if c in "\n\t" else c for c in text)
