"""The page of a study, blinded or not, and the list of studies."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, NamedTuple

import tomli_w

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.proof.export.words import (
    as_of,
    candidate_lines,
    protocol_at,
    wait_of,
)
from rareswitch.campaigns.rulebook.names import same_person
from rareswitch.campaigns.rulebook.rows import without_none
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.stopping import watch
from rareswitch.campaigns.rulebook.terms import AMENDABLE, Terms
from rareswitch.campaigns.status import Status, VersionStatus, open_episodes, status
from rareswitch.campaigns.store.transaction import cohorts_of
from rareswitch.service.pages.charts import (
    Compared,
    VersionMark,
    days_chart,
    differences_chart,
    gauge,
    means_chart,
    timeline,
)
from rareswitch.service.pages.counting import StudyCounts, counts_of
from rareswitch.service.pages.forecast import day_after, forecasts
from rareswitch.service.pages.rendering import moment, render
from rareswitch.service.pages.signing import proposals_of
from rareswitch.service.pages.view import View
from rareswitch.service.pages.words import (
    candidate_status,
    ended,
    headline,
    rules_in_words,
    who_signs,
)

SHOWN_DAYS = 30
SHOWN_VERSIONS = 12  # the newest versions; earlier versions are folded
SHOWN_CANDIDATES = 20
SHOWN_OPEN = 20
SHOWN_SITES = 200


class VersionRow(NamedTuple):
    """A version, its kind, and its candidate, if any."""

    status: VersionStatus
    kind: str
    candidate: int | None
    until: int

    @property
    def mark(self) -> VersionMark:
        one = self.status
        return VersionMark(
            one.version, one.since, self.until, one.episodes, one.mean, one.low, one.high, self.kind
        )


def studies_page(view: View, studies: Iterable[Campaign]) -> str:
    """Return the list of studies that the viewer may look at."""
    rows = []
    for campaign in studies:
        found, open_to = status(campaign), view.may("unblinded", campaign)
        rows.append({
            "status": found,
            "stopped": ended(campaign.state, blinded=not open_to),
            "waiting": found.waiting if open_to else None,
            "amendment": found.amendment if open_to else None,
        })  # fmt: skip
    return render("studies.html", view, rows=rows)


def study_page(view: View, campaign: Campaign) -> str:
    """Return the page of a study, complete or blinded."""
    found = status(campaign)
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        counts = counts_of(campaign, connection, state, found.heads)
        seen = watch(
            state.terms,
            cohorts_of(connection, campaign.name, state),
            state.in_force.version,
        )
    now = _now(campaign, state, counts)
    if not view.may("unblinded", campaign):
        return _blinded_page(view, campaign, found, state, counts)
    rate = counts.rate(now)
    rows = version_rows(found, state)
    compared = compared_rows(found)
    left = max(0, found.planned_episodes - found.recorded)
    proposals, me = proposals_of(state), view.principal.name or "-"
    may_sign = state.terms.approval.may_sign(me)
    return render(
        "study.html",
        view,
        campaign=campaign,
        status=found,
        state=state,
        terms=state.terms,
        headline=headline(found, state),
        stopped=ended(state, blinded=False),
        rate=rate,
        episodes_left=left,
        end=None if state.stopped else day_after(left, rate and rate[0], now),
        waiting=None if found.waiting is None else _waiting_lines(campaign, found.waiting),
        signs=who_signs(state.terms, found.waiting["proposer"]) if found.waiting else "",
        wait=wait_of(state.terms.plain),
        proposals=proposals,
        own_proposals=[one.entry.number for one in proposals if same_person(one.entry.actor, me)],
        may_sign=may_sign,
        may_decide=may_sign and view.may("approve", campaign),
        versions=rows[-SHOWN_VERSIONS:][::-1],
        earlier=rows[:-SHOWN_VERSIONS][::-1],
        timeline=timeline([row.mark for row in rows], found.rows),
        compared=compared[:1] + compared[1:][::-1],
        means=means_chart(compared),
        difference_chart=differences_chart(compared, state.terms.analysis.confidence),
        forecasts=[] if found.waiting or state.stopped else forecasts(found, rate and rate[0], now),
        days=days_chart(recent_days(counts, now.date())),
        sites=site_rows(counts),
        more_sites=max(0, len(counts.sites) - SHOWN_SITES),
        open=open_episodes(campaign, limit=SHOWN_OPEN),
        rules=[(rule, gauge(rule.value, rule.limit, rule.low, rule.high))
               for rule in rules_in_words(state.terms, seen, state.in_force.version)],
        candidates=list(reversed(state.candidates.values()))[:SHOWN_CANDIDATES],
        status_of=partial(candidate_status, stopped=state.stopped is not None),
        amendable=amendable_toml(state.terms) if view.may("amend", campaign) else "",
        head=found.heads["ledger"].link,
    )  # fmt: skip


def _waiting_lines(campaign: Campaign, waiting: dict[str, Any]) -> list[str]:
    """Return the sentences about the candidate that waits, without its table of treatments."""
    protocol = protocol_at(campaign.entries, waiting["number"])
    lines = candidate_lines(**waiting, protocol=protocol, tabled=True)
    return [*lines, as_of(waiting["seq"], waiting["since_fit"])]


def _blinded_page(
    view: View, campaign: Campaign, found: Status, state: State, counts: StudyCounts
) -> str:
    """Return the blinded page: counts and the version in force, without returns or candidates."""
    site = view.principal.site(campaign.name)
    own = counts.sites.get(site) if site else None
    now = _now(campaign, state, counts)
    waiting = open_episodes(campaign, limit=SHOWN_OPEN, prefix=f"{site}:") if site else []
    return render(
        "study_blinded.html",
        view,
        campaign=campaign,
        status=found,
        in_force=state.in_force,
        stopped=ended(state, blinded=True),
        site=site,
        own=own,
        open=waiting,
        days=days_chart(recent_days(counts, now.date(), site)) if site else None,
    )


def version_rows(found: Status, state: State) -> list[VersionRow]:
    """Return every version with its kind and candidate, in their order."""
    deployed = {one.version: one for one in state.candidates.values() if one.status == "deployed"}
    until = [*(one.since for one in found.versions[1:]), found.rows]
    rows = []
    for one, end in zip(found.versions, until, strict=True):
        candidate = deployed.get(one.version)
        kind = "planned" if candidate is None or candidate.planned else "unplanned"
        kind = kind if one.rollback_to is None else "rollback"
        number = None if candidate is None else candidate.number
        rows.append(VersionRow(one, kind, number, end))
    return rows


def compared_rows(found: Status) -> list[Compared]:
    """Return the comparison with the control: all versions combined, then each version."""
    rows = [("all versions", found.difference)]
    rows += [(f"version {one.version}", one.difference) for one in found.versions]
    return [
        Compared(
            name, one["mean_return"], one["control_mean_return"], one["difference"],
            one["any_time_low"], one["any_time_high"],
        )
        for name, one in rows
        if one is not None
    ]  # fmt: skip


def recent_days(
    counts: StudyCounts, today: date, site: str | None = None
) -> list[tuple[date, int]]:
    """Return the episodes recorded on each of the last days, of all sites or of one.

    The list is empty if no episode was recorded on these days.
    """
    if not counts.days:
        return []
    first = max(min(counts.days), today - timedelta(days=SHOWN_DAYS - 1))
    last = max(today, max(counts.days))
    found = []
    for number in range((last - first).days + 1):
        day = first + timedelta(days=number)
        seen = counts.days.get(day, Counter())
        found.append((day, sum(seen.values()) if site is None else seen[site]))
    shown = found[-SHOWN_DAYS:]
    return shown if any(number for _, number in shown) else []


def site_rows(counts: StudyCounts) -> Sequence[tuple[str, Any]]:
    """Return each site with its counts; reports without a site come last."""
    rows = sorted(counts.sites.items(), key=lambda pair: (not pair[0], pair[0]))
    return [(name, one) for name, one in rows if one.recorded or one.open][:SHOWN_SITES]


def amendable_toml(terms: Terms) -> str:
    """Return the current tables that an amendment may change."""
    plain = {"episodes": terms.episodes} | {
        name: terms.plain[name] for name in AMENDABLE if name in terms.plain
    }
    return tomli_w.dumps(without_none(plain))


def _now(campaign: Campaign, state: State, counts: StudyCounts) -> datetime:
    """Return the current time; in a rehearsal or after the end, the time of the last report."""
    last = moment(counts.last)
    if (state.rehearsal or state.stopped) and last is not None:
        return last
    return moment(campaign.clock()) or datetime.now(UTC)
