"""Episodes per day and per site; a page reads only the new rows."""

import json
import threading
from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.rulebook.rows import Head
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.store.rows import StoredRecord, rows_of
from rareswitch.service.pages.rendering import moment

EPISODE = (
    "episode_id", "revision", "assigned", "late", "total", "claims", "received", "digest",
    "deviations", "link",
)  # fmt: skip
RATE_DAYS = 14  # days of the mean rate of episodes


@dataclass
class SiteCount:
    """The episodes of one site; `open` ones are assigned, not reported and not cancelled."""

    recorded: int = 0
    late: int = 0
    deviating: int = 0
    outcomes: int = 0  # recorded and not withdrawn
    total: float = 0.0
    open: int = 0
    last: str = ""

    @property
    def mean(self) -> float | None:
        return self.total / self.outcomes if self.outcomes else None


@dataclass
class StudyCounts:
    """The counts of a campaign up to some rows of its chains."""

    seq: int = 0
    number: int = 0
    links: dict[str, str] = field(default_factory=dict)  # of the last row counted, by chain
    days: dict[date, Counter[str]] = field(default_factory=dict)
    sites: dict[str, SiteCount] = field(default_factory=dict)
    assigned: Counter[str] = field(default_factory=Counter)  # by the site in the id
    reported: Counter[str] = field(default_factory=Counter)  # assigned episodes, likewise
    first: str = ""
    last: str = ""

    def rate(self, now: datetime) -> tuple[float, int] | None:
        """Return the mean of the episodes recorded per day, and the number of days.

        The mean is over the last days before `now`; return None before the first episode.
        """
        begin = moment(self.first)
        if begin is None or not self.days:
            return None
        since = now - timedelta(days=RATE_DAYS)
        days = RATE_DAYS if begin < since else max(1, (now.date() - begin.date()).days + 1)
        first = now.date() - timedelta(days=days - 1)
        recorded = sum(sum(seen.values()) for day, seen in self.days.items() if day >= first)
        return recorded / days, days

    def count_episode(self, row: Any, record: StoredRecord) -> None:
        """Count a row of the log; a correction replaces the corrected row."""
        claims = json.loads(row.claims)
        site = str(claims.get("site", ""))
        seen = self.sites.setdefault(site, SiteCount())
        if row.revision:
            before = record.revision(row.episode_id, row.revision - 1)
            earlier = str(json.loads(before.claims).get("site", ""))
            self._count_outcome(self.sites[earlier], before, -1)
            if not row.digest:
                return
        else:
            seen.recorded += 1
            seen.late += bool(row.late)
            self.reported[site_of(row.episode_id)] += bool(row.assigned)
            if (at := moment(row.received)) is not None:
                self.days.setdefault(at.date(), Counter())[site] += 1
                self.first = self.first or row.received
                self.last = seen.last = row.received
        self._count_outcome(seen, row, 1)

    @staticmethod
    def _count_outcome(seen: SiteCount, row: Any, sign: int) -> None:
        seen.outcomes += sign
        seen.total += sign * row.total
        seen.deviating += sign * bool(row.deviations)


def site_of(episode_id: str) -> str:
    """Return the site at the start of an episode's id, or an empty text.

    >>> site_of("berlin:0042"), site_of("p7")
    ('berlin', '')
    """
    site, colon, _ = episode_id.partition(":")
    return site if colon else ""


_known: "WeakKeyDictionary[Campaign, StudyCounts]" = WeakKeyDictionary()
_lock = threading.Lock()


def counts_of(
    campaign: Campaign, connection: Connection, state: State, heads: dict[str, Head]
) -> StudyCounts:
    """Return the counts at the connection's snapshot, or later."""
    with _lock:
        counts = _known.get(campaign)
        if counts is None or not _continues(counts, connection, campaign.name, heads):
            counts = StudyCounts()
        record = StoredRecord(connection, campaign.name)
        for row in rows_of(
            connection, "assignments", campaign.name, after=counts.number,
            upto=heads["assignments"].length, columns=("episode_id", "link"),
        ):  # fmt: skip
            counts.number, counts.links["assignments"] = row.number, row.link
            counts.assigned[site_of(row.episode_id)] += 1
        for row in rows_of(
            connection, "episodes", campaign.name, after=counts.seq,
            upto=heads["episodes"].length, columns=EPISODE,
        ):  # fmt: skip
            counts.seq, counts.links["episodes"] = row.seq, row.link
            counts.count_episode(row, record)
        _known[campaign] = counts
        cancelled = Counter(map(site_of, state.cancelled))
        for site, assigned in counts.assigned.items():
            seen = counts.sites.setdefault(site, SiteCount())
            seen.open = assigned - counts.reported[site] - cancelled[site]
        return deepcopy(counts)  # another thread continues to count


def _continues(
    counts: StudyCounts, connection: Connection, campaign: str, heads: dict[str, Head]
) -> bool:
    """Return whether the counted rows are still the first rows of their chains."""
    for chain, number in (("assignments", counts.number), ("episodes", counts.seq)):
        if not 0 < number <= heads[chain].length:
            continue
        rows = rows_of(
            connection, chain, campaign, after=number - 1, upto=number, columns=("link",)
        )
        if next((row.link for row in rows), "") != counts.links[chain]:
            return False
    return True
