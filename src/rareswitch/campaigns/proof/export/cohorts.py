"""The outcomes of a campaign's record by version and by site, as rows, JSON and CSV.

Episodes are counted, not rows: a corrected episode counts once, with its last report, in its first
place; a withdrawn episode is recorded and has no outcome.
"""

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rareswitch.campaigns.proof.export.words import deciding_trigger
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.rows import EpisodeRow, Record
from rareswitch.campaigns.rulebook.running_mean import Place, RunningMean
from rareswitch.campaigns.rulebook.state import State
from rareswitch.support.codec import unpack

MOST_STRETCHES = 60
CONFIDENCE = 0.95
DIGITS = 10  # further digits of an interval depend on the machine's logarithm
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # first characters of spreadsheet formulas

OUTCOME_COLUMNS = {
    "recorded": "Episodes recorded, those withdrawn later included.",
    "late": "Recorded episodes that were reported after another version had come into force.",
    "withdrawn": "Recorded episodes that were withdrawn; no other outcome counts them.",
    "corrected": "Episodes whose last report is a correction.",
    "episodes": "Episodes with an outcome: recorded and not withdrawn.",
    "mean_return": "Mean return of the episodes.",
    "low": "Lower end of the interval of the mean return, valid at all looks together.",
    "high": "Upper end of the interval of the mean return, valid at all looks together.",
    "confidence": "Confidence of the interval, for each row by itself.",
    "compared": "Episodes that tell whether the action of the assigned member was taken.",
    "deviated": "Compared episodes with a step at which the assigned member takes another action.",
    "with_recommendation": "Episodes that tell the recommended and the given action.",
    "overridden": "Episodes of these with a step at which another action was given.",
    "overridden_steps": "Steps at which another action was given than recommended.",
}
SITE_COLUMNS = {
    "site": "Site that the report claims; empty where it claims none.",
    "version": "Version that acted.",
    **OUTCOME_COLUMNS,
}
COHORT_COLUMNS = {
    "version": "Number of the version.",
    "origin": "first, planned, unplanned or rollback.",
    "digest": "SHA-256 of the policy.",
    "members": "Learned members of the policy, which share their episodes equally.",
    "fitted_on": "Row of the log up to which the policy was fitted.",
    "in_force_since": "Rows of the log when the version came into force.",
    "in_force_at": "Time of that, by the server's clock.",
    "in_force_until": "Rows of the log when the next version came into force; empty for the last.",
    "proposed_by": "Proposer of the candidate.",
    "put_in_force_by": "Signer of the deployment or rollback.",
    "quantity": "Quantity that the switching rule watched.",
    "observed": "Value of that quantity when the candidate was fitted.",
    "threshold": "Value at which a new policy is due.",
    "margin": "Observed value less the threshold.",
    "assigned": "Episodes assigned to the version before they began.",
    "cancelled": "Assigned episodes that were cancelled.",
    "missing": "Assigned episodes that were neither reported nor cancelled.",
    **OUTCOME_COLUMNS,
}

OutcomeRow = Mapping[str, Any]


@dataclass
class Outcomes:
    """Counts of some episodes, and the running mean of their returns as shares of the horizon."""

    counts: Counter[str] = field(default_factory=Counter)
    returns: RunningMean = field(default_factory=RunningMean)

    def add(self, row: EpisodeRow, steps: int | None, *, horizon: int) -> None:
        """Count an episode by its last row; `steps` is the number of overridden steps."""
        self.counts["recorded"] += 1
        self.counts["late"] += row.late
        if row.body is None:
            self.counts["withdrawn"] += 1
            return
        self.returns = self.returns.after(row.total / horizon)
        self.counts["corrected"] += row.revision > 0
        if row.deviations is not None:
            self.counts["compared"] += 1
            self.counts["deviated"] += row.deviations > 0
        if steps is not None:
            self.counts["with_recommendation"] += 1
            self.counts["overridden"] += steps > 0
            self.counts["overridden_steps"] += steps


class Stretch(NamedTuple):
    """The mean return of successive episodes; `seq` is the last row."""

    seq: int
    mean: float


@dataclass
class Tally:
    """All counts, and the `cohorts` of the stopping rules.

    A site is None if the report does not name it.
    """

    cohorts: Cohorts
    versions: dict[int, Outcomes] = field(default_factory=lambda: defaultdict(Outcomes))
    sites: dict[tuple[str | None, int], Outcomes] = field(
        default_factory=lambda: defaultdict(Outcomes)
    )
    course: list[Stretch] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def tally_of(record: Record, state: State) -> Tally:
    terms, horizon = state.terms, state.terms.horizon
    tally = Tally(cohorts=Cohorts(horizon=horizon, control=terms.control_share))
    for assignment in record.rows("assignments"):
        gone = assignment.episode_id in state.cancelled_ids
        counts = tally.versions[assignment.version].counts
        counts.update(("assigned", "cancelled" if gone else "missing"))
    for refusal in record.rows("refusals"):
        tally.refused[refusal.reason.partition(";")[0]] += 1
    last: dict[str, EpisodeRow] = {}
    cohorts, places = tally.cohorts, dict[str, tuple[Place, float]]()
    if state.corrections:
        last = {row.episode_id: row for row in record.rows("episodes") if row.revision}
    length = record.heads["episodes"].length
    stretch, totals = max(1, -(-length // MOST_STRETCHES)), list[float]()
    for first in record.rows("episodes"):
        if first.revision:
            place, before = places[first.episode_id]
            after = None if first.body is None else first.total
            role = state.role(first.version, first.member)
            cohorts.correct(first.version, place, before, after, role)
            places[first.episode_id] = place, first.total
        else:
            role = state.role(first.version, first.member)
            place = cohorts.record(first.version, first.total, role)
            if first.episode_id in last:
                places[first.episode_id] = place, first.total
            row = last.get(first.episode_id, first)
            steps = None if row.body is None else overridden_steps(row.body)
            site = json.loads((first if row.body is None else row).claims).get("site")
            for outcomes in (tally.versions[row.version], tally.sites[site, row.version]):
                outcomes.add(row, steps, horizon=horizon)
            tally.versions[row.version].counts["missing"] -= row.assigned
            if row.body is not None:
                totals.append(row.total)
        if totals and (first.seq % stretch == 0 or first.seq == length):
            tally.course.append(Stretch(first.seq, sum(totals) / len(totals)))
            totals = []
    for version, outcomes in tally.versions.items():
        outcomes.returns = cohorts[version]  # the same as for the stopping rules
    return tally


def overridden_steps(body: bytes) -> int | None:
    """Return the number of steps whose action differs from the recommended action.

    None if the report does not contain both.
    """
    arrays = unpack("report", body).arrays
    if "actions" not in arrays or "recommended" not in arrays:
        return None
    return int((arrays["actions"] != arrays["recommended"]).sum())


def cohort_rows(state: State, tally: Tally) -> list[OutcomeRow]:
    """Return a row for each version, with the columns of `COHORT_COLUMNS`."""
    deployed = {one.version: one for one in state.candidates.values() if one.status == "deployed"}
    rows = list[OutcomeRow]()
    for version, following in zip(state.versions, [*state.versions[1:], None], strict=True):
        number, candidate = version.version, deployed.get(version.version)
        trigger = deciding_trigger(candidate and candidate.evidence) or {}
        known = {
            "version": number,
            "origin": "first" if candidate is None else "planned",
            "digest": version.digest,
            "members": version.members,
            "fitted_on": version.seq,
            "in_force_since": version.since,
            "in_force_at": version.entry.at,
            "in_force_until": following and following.since,
            "proposed_by": candidate and candidate.proposer,
            "put_in_force_by": version.entry.actor,
            "quantity": trigger.get("quantity"),
            "observed": trigger.get("value"),
            "threshold": trigger.get("threshold"),
            "margin": trigger["value"] - trigger["threshold"] if trigger else None,
        }
        if version.rollback_to is not None:
            known["origin"] = "rollback"
        elif candidate is not None and not candidate.planned:
            known["origin"] = "unplanned"
        outcomes = tally.versions.get(number, Outcomes())
        rows.append(_row(COHORT_COLUMNS, known, outcomes, state.terms.horizon))
    return rows


def site_rows(tally: Tally, *, horizon: int) -> list[OutcomeRow]:
    """Return a row for each site and version, with the columns of `SITE_COLUMNS`.

    A site's mean over several versions has no interval, because the policy changed meanwhile.
    """
    order = sorted(tally.sites, key=lambda key: (key[0] is None, key[0] or "", key[1]))
    return [
        _row(SITE_COLUMNS, {"site": site, "version": version}, tally.sites[site, version], horizon)
        for site, version in order
    ]


def _row(
    columns: Mapping[str, str], known: dict[str, Any], outcomes: Outcomes, horizon: int
) -> OutcomeRow:
    """Return a row: the known values, the interval of the returns, and counts."""
    returns = outcomes.returns
    known |= {"episodes": returns.observations, "confidence": CONFIDENCE}
    known |= dict.fromkeys(("mean_return", "low", "high"))
    if (mean := returns.mean) is not None:
        low, high = returns.bounds(CONFIDENCE)
        for name, value in (("mean_return", mean), ("low", low), ("high", high)):
            known[name] = float(f"{value * horizon:.{DIGITS}g}")
    return {name: known[name] if name in known else outcomes.counts[name] for name in columns}


def as_json(rows: Any) -> str:
    return json.dumps(rows, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(rows: Sequence[OutcomeRow], columns: Mapping[str, str]) -> str:
    """Return the rows as CSV with a header; a cell without a value is empty.

    >>> as_csv([{"site": "=1+1", "n": -1}], {"site": "", "n": ""})
    "site,n\\n'=1+1,-1\\n"
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_without_formula(row[name]) for name in columns] for row in rows)
    return text.getvalue()


def _without_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
