"""The texts of an export that follow from its chains: the same bytes wherever they are derived."""

from collections.abc import Sequence

from rareswitch.campaigns.proof.export.cohorts import (
    COHORT_COLUMNS,
    SITE_COLUMNS,
    as_csv,
    as_json,
    cohort_rows,
    site_rows,
    tally_of,
)
from rareswitch.campaigns.proof.export.rendering import as_html, as_markdown
from rareswitch.campaigns.proof.export.rows import LINES, PARQUET_COLUMNS
from rareswitch.campaigns.proof.export.sections import Facts, Section, Table, sections_of
from rareswitch.campaigns.rulebook.rows import Entry, Record
from rareswitch.campaigns.rulebook.state import State


def derived_files(record: Record, entries: Sequence[Entry], state: State) -> dict[str, bytes]:
    """Return the derived files of an export by name; `state` is that after the entries."""
    horizon = entries[0].payload["protocol"]["task"]["horizon"]
    tally = tally_of(record, entries, horizon=horizon)
    cohorts = cohort_rows(state, tally, horizon=horizon)
    sites = site_rows(tally, horizon=horizon)
    sections = sections_of(Facts(record, entries, state, tally, cohorts, sites))
    title = f"Campaign {record.campaign}"
    texts = {
        "cohorts.json": as_json(cohorts),
        "cohorts.csv": as_csv(cohorts, COHORT_COLUMNS),
        "sites.csv": as_csv(sites, SITE_COLUMNS),
        "appendix.md": as_markdown(f"{title}: final report", sections),
        "report.html": as_html(f"{title}: final report", sections),
        "data-dictionary.md": data_dictionary(),
    }
    # A lone surrogate, which only a forged record holds, has no UTF-8.
    return {name: text.encode(errors="backslashreplace") for name, text in texts.items()}


def data_dictionary() -> str:
    """Return the dictionary in Markdown."""
    files = {
        "episodes.parquet": PARQUET_COLUMNS,
        "cohorts.csv, cohorts.json": COHORT_COLUMNS,
        "sites.csv": SITE_COLUMNS,
        **{f"{chain}.jsonl": columns for chain, columns in LINES.items()},
    }
    sections = [
        Section(name, "", [Table(("column", "meaning"), list(columns.items()))])
        for name, columns in files.items()
    ]
    return as_markdown("Data dictionary", sections)
