"""What became of each version: how it came into force, and how its episodes went."""

import csv
import io
from collections import Counter, defaultdict
from dataclasses import dataclass, field, fields
from typing import Any

from rareswitch.campaigns.proof.export.moment import Moment
from rareswitch.campaigns.proof.export.table import overridden
from rareswitch.campaigns.record.cohorts import counted_again
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.state import Candidate, Version
from rareswitch.campaigns.stopping.running_mean import RunningMean

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class CohortRow:
    """One version. `low` and `high` are an interval of the mean return that holds at every look.

    Counts are of episodes, and those that were withdrawn are not among them; `overridden` are those
    in which another action was taken than recommended, of `with_recommendation` that told both.
    `quantity`, `observed` and `threshold` are of the trigger that made the version due.
    """

    version: int
    origin: str  # first, planned, unplanned or rollback
    digest: str
    members: int
    fitted_on: int
    in_force_since: int
    in_force_at: str
    in_force_until: int | None
    proposed_by: str | None
    put_in_force_by: str
    quantity: str | None
    observed: float | None
    threshold: float | None
    margin: float | None
    episodes: int
    mean_return: float | None
    low: float | None
    high: float | None
    confidence: float
    late: int
    corrected: int
    withdrawn: int
    with_recommendation: int
    overridden: int
    overridden_steps: int
    assigned: int
    missing: int


@dataclass
class Tally:
    """What is counted of each version while the log is read."""

    returns: dict[int, RunningMean] = field(default_factory=lambda: defaultdict(RunningMean))
    counts: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    with_corrections: set[int] = field(default_factory=set)

    def add(self, row: Any, report: Report | None, *, current: bool, horizon: int) -> None:
        """Count a row of the log; `current` says that no later one replaces it."""
        counts = self.counts[row.version]
        if row.revision:
            self.with_corrections.add(row.version)
        if not current:
            return
        if report is None:
            counts["withdrawn"] += 1
            return
        self.returns[row.version] = self.returns[row.version].after(row.total / horizon)
        counts["late"] += row.late
        counts["corrected"] += row.revision > 0
        if (steps := overridden(report)) is not None:
            counts["with_recommendation"] += 1
            counts["overridden"] += steps > 0
            counts["overridden_steps"] += steps


def cohort_rows(moment: Moment, tally: Tally) -> list[CohortRow]:
    """Return one row for each version."""
    state, horizon = moment.state, moment.horizon
    assigned, missing = moment.assigned, moment.missing
    deployed = {one.version: one for one in state.candidates.values() if one.status == "deployed"}
    rows = []
    for version, following in zip(state.versions, [*state.versions[1:], None], strict=True):
        number = version.version
        returns, counts = tally.returns[number], tally.counts[number]
        if number in tally.with_corrections:  # an interval depends on the order: in its first place
            returns = counted_again(moment.connection, moment.campaign, number, horizon=horizon)
        mean, bounds = returns.mean, returns.bounds(CONFIDENCE)
        candidate = deployed.get(number)
        rows.append(
            CohortRow(
                version=number,
                digest=version.digest,
                members=version.members,
                fitted_on=version.seq,
                in_force_since=version.since,
                in_force_at=version.entry.at,
                in_force_until=None if following is None else following.since,
                put_in_force_by=version.entry.actor,
                **_origin(version, candidate),
                episodes=returns.observations,
                mean_return=None if mean is None else mean * horizon,
                low=None if mean is None else bounds.low * horizon,
                high=None if mean is None else bounds.high * horizon,
                confidence=CONFIDENCE,
                late=counts["late"],
                corrected=counts["corrected"],
                withdrawn=counts["withdrawn"],
                with_recommendation=counts["with_recommendation"],
                overridden=counts["overridden"],
                overridden_steps=counts["overridden_steps"],
                assigned=assigned.get(number, 0),
                missing=missing.get(number, 0),
            )
        )
    return rows


def trigger_of(candidate: Candidate) -> dict[str, Any] | None:
    """Return the trigger that was reached, or else the first that was watched."""
    triggers = candidate.evidence.get("triggers", [])
    reached = [trigger for trigger in triggers if trigger["reached"]]
    return next(iter([*reached, *triggers]), None)


def _origin(version: Version, candidate: Candidate | None) -> dict[str, Any]:
    """Return how a version came about."""
    trigger = None if candidate is None else trigger_of(candidate)
    if version.rollback_to is not None:
        origin = "rollback"
    elif candidate is None:
        origin = "first"
    else:
        origin = "planned" if candidate.planned else "unplanned"
    observed = None if trigger is None else float(trigger["value"])
    threshold = None if trigger is None else float(trigger["threshold"])
    return {
        "origin": origin,
        "proposed_by": None if candidate is None else candidate.proposer,
        "quantity": None if trigger is None else trigger["quantity"],
        "observed": observed,
        "threshold": threshold,
        "margin": None if observed is None or threshold is None else observed - threshold,
    }


def as_csv(rows: list[CohortRow]) -> str:
    """Return the rows as CSV with a header; what is not known is left empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, [part.name for part in fields(CohortRow)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(vars(row) for row in rows)
    return text.getvalue()
