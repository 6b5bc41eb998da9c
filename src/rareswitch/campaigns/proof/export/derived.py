"""The texts of an export that are derived from its chains, with the same bytes on every machine.

The final report is in Markdown and in one HTML file, which opens from disk, even on a phone.
"""

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from rareswitch.campaigns.analysis import (
    COMPARISON_COLUMNS,
    EVENT_COLUMNS,
    Analysis,
    analyse_record,
)
from rareswitch.campaigns.proof.export.blocks import Block, Facts, Picture, Section, Table
from rareswitch.campaigns.proof.export.cohorts import (
    COHORT_COLUMNS,
    SITE_COLUMNS,
    as_csv,
    as_json,
    cohort_rows,
    site_rows,
    tally_of,
)
from rareswitch.campaigns.proof.export.rows import LINES, PARQUET_COLUMNS
from rareswitch.campaigns.proof.export.sections import record_section, sections_of
from rareswitch.campaigns.proof.export.trial_sections import looks_section, pooled_sections
from rareswitch.campaigns.proof.export.words import is_number, one_line
from rareswitch.campaigns.rulebook.rows import Entry, Record
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.treatments import TREATMENT_COLUMNS

SPECIAL = "\\`*_{}[]<>|#&~$"
LONG = 28  # characters of a cell that may wrap
STYLE = """
:root { color-scheme: light dark; --soft: #57606a; --line: #d0d7de; --accent: #1f5c99;
  --warning: #b3261e; --paper: #fff; }
@media (prefers-color-scheme: dark) { :root { --soft: #9aa4af; --line: #3d444d; --accent: #79b8ff;
  --warning: #ff8a80; --paper: #16191d; } }
* { box-sizing: border-box; }
body { background: var(--paper); margin: 0 auto; max-width: 80rem; padding: 1rem;
  overflow-wrap: anywhere;
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; }
h2 { font-size: 1.25rem; margin-top: 2.4rem; border-bottom: 1px solid var(--line); }
h2 small, figcaption { color: var(--soft); font-size: .9rem; font-weight: normal; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; font-size: .95rem; }
p, ul { max-width: 48rem; } a { color: var(--accent); }
/* Shadows at the ends show that a table continues. */
.scroll { overflow-x: auto; background:
  linear-gradient(90deg, var(--paper) 40%, transparent) left / 2rem 100% no-repeat local,
  linear-gradient(-90deg, var(--paper) 40%, transparent) right / 2rem 100% no-repeat local,
  linear-gradient(90deg, #5a5a5a47, transparent) left / .7rem 100% no-repeat scroll,
  linear-gradient(-90deg, #5a5a5a47, transparent) right / .7rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .9rem; overflow-wrap: normal; }
th, td { text-align: left; vertical-align: top; padding: .3rem .7rem .3rem 0;
  border-bottom: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.scroll td { white-space: nowrap; }
.scroll .long { min-width: 12rem; white-space: normal; overflow-wrap: anywhere; }
.pairs td { overflow-wrap: anywhere; }
.pairs td:first-child { min-width: 7rem; color: var(--soft); }
figure { margin: 1rem 0; }
svg { display: block; width: 100%; max-width: 30rem; height: auto; font-family: inherit; }
svg text { fill: currentColor; }
svg line, svg polyline { stroke: currentColor; fill: none; }
svg .grid { stroke: var(--line); } svg .threshold { stroke-width: 2.5; }
svg .course { stroke-width: 1.5; }
svg line.planned { stroke: var(--accent); }
svg line.unplanned { stroke: var(--warning); stroke-dasharray: 4 3; }
svg circle { fill: var(--accent); } svg rect { fill: var(--warning); }
@media print { nav { display: none; } .scroll { background: none; overflow: visible; }
  figure, tr { break-inside: avoid; } }
"""


def derived_files(record: Record, entries: Sequence[Entry], state: State) -> dict[str, bytes]:
    """Return the derived files of an export by name; `state` follows from the entries."""
    facts = facts_of(record, entries, state)
    cohorts, sites, analysis = facts.cohorts, facts.sites, facts.analysis
    sections = [*sections_of(facts), record_section()]
    kind = "report of a study that has not ended" if state.stopped is None else "final report"
    title = f"{title_of(facts)}: {kind}"
    texts = {
        "cohorts.json": as_json(cohorts),
        "cohorts.csv": as_csv(cohorts, COHORT_COLUMNS),
        "sites.csv": as_csv(sites, SITE_COLUMNS),
        "appendix.md": as_markdown(title, sections),
        "report.html": as_html(title, sections),
        "data-dictionary.md": data_dictionary(analysis is not None),
    }
    if analysis is not None:
        texts |= _analysis_files(analysis)
    # A lone surrogate has no UTF-8 encoding; only a forged record contains one.
    return {name: text.encode(errors="backslashreplace") for name, text in texts.items()}


def facts_of(record: Record, entries: Sequence[Entry], state: State) -> Facts:
    """Count a record; `state` follows from the entries."""
    tally = tally_of(record, state)
    cohorts, sites = cohort_rows(state, tally), site_rows(tally, horizon=state.terms.horizon)
    return Facts(record, entries, state, tally, cohorts, sites, analyse_record(record, state))


def title_of(facts: Facts) -> str:
    """Return the title of a report; it marks a rehearsal."""
    kind = "Rehearsal of campaign" if facts.state.rehearsal else "Campaign"
    return f"{kind} {facts.record.campaign}"


def interim_page(facts: Facts, *, closed: bool) -> str:
    """Return an interim report as one HTML page; without `closed` it shows no return."""
    kind = "closed" if closed else "open"
    said = (
        "This report shows returns by version and role. Only those who may see them should read it."
        if closed
        else "This report shows no return by version, role or site."
    )
    first, *others = sections_of(facts._replace(blinded=not closed))
    shown = [one for one in others if not one.closed]
    if closed:  # a committee reads the returns first
        shown = [looks_section(facts), *(one for one in others if one.closed), *shown]
    else:
        shown += pooled_sections(facts)
    begun = first._replace(blocks=[said, *first.blocks])
    title = f"{title_of(facts)}: {kind} interim report"
    return as_html(title, [begun, *shown])


def _analysis_files(analysis: Analysis) -> dict[str, str]:
    """Return the files of the comparison with the control."""
    files = {
        "analysis.json": as_json(analysis.plain),
        "analysis.csv": as_csv(analysis.rows, COMPARISON_COLUMNS),
    }
    if analysis.events:
        files["events.csv"] = as_csv([one._asdict() for one in analysis.events], EVENT_COLUMNS)
    return files


def data_dictionary(compared: bool = False) -> str:
    """Return the meaning of every column; `compared` adds the comparison with a control."""
    more = {
        "analysis.csv, analysis.json": COMPARISON_COLUMNS,
        "analysis.json, treatments": TREATMENT_COLUMNS,
        "events.csv": EVENT_COLUMNS,
    }
    files = {
        "episodes.parquet": PARQUET_COLUMNS,
        "cohorts.csv, cohorts.json": COHORT_COLUMNS,
        "sites.csv": SITE_COLUMNS,
        **(more if compared else {}),
        **{f"{chain}.jsonl": columns for chain, columns in LINES.items()},
    }
    sections = [
        Section(name, "", [Table(("column", "meaning"), list(columns.items()))])
        for name, columns in files.items()
    ]
    return as_markdown("Data dictionary", sections)


def as_markdown(title: str, sections: Sequence[Section]) -> str:
    """Return the sections as Markdown, without pictures."""
    parts = [f"# {escaped(title)}"]
    for section in sections:
        item = f" ({section.item})" if section.item else ""
        parts.append(f"## {escaped(section.heading + item)}")
        parts += [text for block in section.blocks if (text := "\n".join(_markdown_lines(block)))]
    return "\n\n".join(parts) + "\n"


def shown(value: Any) -> str:
    """Return a cell as text, with the same digits in Markdown and HTML.

    >>> [shown(value) for value in (None, True, 0.123456, 3)]
    ['–', 'yes', '0.1235', '3']
    """
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return one_line(f"{value:.4g}" if isinstance(value, float) else str(value))


def escaped(value: Any) -> str:
    r"""Return a value as text of one line that Markdown does not read as markup.

    >>> escaped("a|b\n<c>")
    'a\\|b \\<c\\>'
    """
    text = "".join(f"\\{c}" if c in SPECIAL else c for c in shown(value))
    return text.replace("://", "\\://")  # else some viewers turn it into a link


def _markdown_lines(block: Block) -> Iterator[str]:
    if isinstance(block, str):
        yield escaped(block)
    elif isinstance(block, list):
        yield from (f"- {escaped(item)}" for item in block)
    elif isinstance(block, Table):
        yield _markdown_row([escaped(name) if name else "" for name in block.header])
        yield _markdown_row(["---"] * len(block.header))
        yield from (_markdown_row(map(escaped, row)) for row in block.rows)
    else:
        assert isinstance(block, Picture)


def _markdown_row(cells: Any) -> str:
    return f"| {' | '.join(cells)} |"


def as_html(title: str, sections: Sequence[Section]) -> str:
    """Return the sections as one page with pictures."""
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{_html_text(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>",
        f"<h1>{_html_text(title)}</h1>\n<nav>",
        *(f'<a href="#s{n}">{_html_text(one.heading)}</a>' for n, one in enumerate(sections)),
        "</nav>",
    ]
    for number, section in enumerate(sections):
        item = f" <small>({_html_text(section.item)})</small>" if section.item else ""
        parts.append(f'<h2 id="s{number}">{_html_text(section.heading)}{item}</h2>')
        for block in section.blocks:
            parts += _html_lines(block)
    return "\n".join([*parts, "</body>\n</html>\n"])


def _html_text(value: Any) -> str:
    return escape(shown(value))


def _html_lines(block: Block) -> Iterator[str]:
    if isinstance(block, str):
        yield f"<p>{_html_text(block)}</p>"
    elif isinstance(block, list):
        yield f"<ul>{''.join(f'<li>{_html_text(item)}</li>' for item in block)}</ul>"
    elif isinstance(block, Picture):
        if block.svg is not None:
            caption = _html_text(block.caption)
            yield f"<figure>{block.svg}<figcaption>{caption}</figcaption></figure>"
    elif any(block.header):
        columns = zip(block.header, *block.rows, strict=True)
        numbers = [all(one is None or is_number(one) for one in column[1:]) for column in columns]
        yield '<div class="scroll" tabindex="0" role="group" aria-label="Table"><table>'
        yield _html_row(block.header, numbers, "th")
        yield from (_html_row(row, numbers) for row in block.rows)
        yield "</table></div>"
    else:
        yield '<table class="pairs">'
        yield from (_html_row(row, [False, False]) for row in block.rows)
        yield "</table>"


def _html_row(row: Sequence[Any], numbers: Sequence[bool], tag: str = "td") -> str:
    cells = []
    for value, number in zip(row, numbers, strict=True):
        kind = ' class="n"' if number else ' class="long"' if len(shown(value)) > LONG else ""
        cells.append(f"<{tag}{kind}>{_html_text(value)}</{tag}>")
    return f"<tr>{''.join(cells)}</tr>"
