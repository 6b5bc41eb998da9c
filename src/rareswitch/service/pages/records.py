"""Pages of the record: ledger, refusals, the protocol with its revisions, and the analysis."""

from typing import Any

import tomli_w

from rareswitch.campaigns.analysis import Analysis
from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import NotAllowedError
from rareswitch.campaigns.proof.export.blocks import Table
from rareswitch.campaigns.proof.export.trial_sections import comparison_sections
from rareswitch.campaigns.proof.export.words import one_line
from rareswitch.campaigns.rulebook.rows import Entry, without_none
from rareswitch.campaigns.status import analyse, heads, refusals
from rareswitch.service.pages.rendering import UNKNOWN, count, figure, render
from rareswitch.service.pages.signing import METHODS, proposals_of
from rareswitch.service.pages.view import View
from rareswitch.service.pages.words import differences, done_words, meaning_of, plain_value

PAGE = 50
# The tables of a protocol and their titles, in the order of the page.
TABLES = {
    "task": "Task",
    "features": "Features",
    "recipe": "Fit",
    "schedule": "Switching rule",
    "budget": "Budget",
    "approval": "Approval",
    "intake": "Intake of reports",
    "stopping": "Stopping rules",
    "analysis": "Analysis",
    "access": "Access",
    "simulation": "Simulation beforehand",
}


def ledger_page(view: View, campaign: Campaign, after: int | None = None) -> str:
    """Return entries of the ledger, newest first: those after a number, or the last page."""
    entries = campaign.entries
    start = max(0, len(entries) - PAGE) if after is None else min(max(0, after), len(entries))
    shown = entries[start : start + PAGE]
    return render(
        "ledger.html",
        view,
        campaign=campaign,
        rows=[(entry, done_words(entry), _signed(entry)) for entry in reversed(shown)],
        total=len(entries),
        earlier=max(0, start - PAGE) if start else None,
        later=start + PAGE if start + PAGE < len(entries) else None,
        heads=heads(campaign),
    )


def _signed(entry: Entry) -> str:
    """Return the method and meaning of an entry's signature; empty for an unsigned entry."""
    told = entry.payload.get("signature")
    if not isinstance(told, dict):
        return ""
    return f"{METHODS.get(str(told.get('method')), 'signed')}, as {meaning_of(entry)}"


def refusals_page(view: View, campaign: Campaign, after: int | None = None) -> str:
    """Return refused reports with the reasons, the newest first."""
    total = heads(campaign)["refusals"].length
    start = max(0, total - PAGE) if after is None else min(max(0, after), total)
    return render(
        "refusals.html",
        view,
        campaign=campaign,
        rows=refusals(campaign, after=start, limit=PAGE)[::-1],
        total=total,
        earlier=max(0, start - PAGE) if start else None,
        later=start + PAGE if start + PAGE < total else None,
    )


def protocol_page(view: View, campaign: Campaign) -> str:
    """Return the protocol in force, and each revision as differences from the revision before.

    A blinded viewer sees no reasons, because people may write returns into them.
    """
    state, entries = campaign.state, campaign.entries
    amended = [entry for entry in entries if entry.kind in ("created", "amended")]
    pairs = zip(amended, state.revisions, [None, *state.revisions], strict=False)
    revisions = [
        (number, entry, terms.digest, [] if before is None
         else differences(before.plain, terms.plain))
        for number, (entry, terms, before) in enumerate(pairs, start=1)
    ]  # fmt: skip
    plain = state.terms.plain
    known = [name for name in TABLES if name in plain]
    others = [name for name in plain if isinstance(plain[name], dict) and name not in TABLES]
    tables = [(TABLES.get(name, name), rows_of_table(plain[name])) for name in [*known, *others]]
    unblinded = view.may("unblinded", campaign)
    return render(
        "protocol.html",
        view,
        campaign=campaign,
        terms=state.terms,
        tables=tables,
        toml=tomli_w.dumps(without_none(plain)),
        revisions=revisions[::-1],
        proposals=proposals_of(state) if unblinded else [],
        unblinded=unblinded,
    )


def rows_of_table(table: Any) -> list[tuple[str, str]]:
    """Return the keys of a table of a protocol with their values, or the rules of a list."""
    if isinstance(table, list):
        named = [dict(one) for one in table]
        return [
            (str(one.pop("rule", number)), plain_value(one)) for number, one in enumerate(named, 1)
        ]
    return [(str(key), plain_value(value)) for key, value in table.items()]


def analysis_page(view: View, campaign: Campaign) -> str:
    """Return the comparison with the control: all versions, subgroups, actions, adverse events."""
    found: Analysis | None = None
    reason = ""
    try:
        found = analyse(campaign)
    except NotAllowedError as error:
        reason = str(error)
    sections = [
        (section.heading, [(isinstance(block, Table), _block(block)) for block in section.blocks])
        for section in comparison_sections(found)
    ]
    return render("analysis.html", view, campaign=campaign, sections=sections, reason=reason)


def _block(block: Any) -> Any:
    """Return a table with its cells as texts, or a sentence."""
    if not isinstance(block, Table):
        return one_line(str(block))
    return Table(block.header, [[cell_text(cell) for cell in row] for row in block.rows])


def cell_text(value: Any) -> str:
    """Return a cell of a table as text."""
    if value is None:
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return count(value)
    return figure(value) if isinstance(value, float) else one_line(str(value))
