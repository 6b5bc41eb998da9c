"""Comparison of the learned policies with the concurrent control, from the record alone.

`rulebook/comparison.py` has the estimators and their proofs. This module counts a record by
version, by declared subgroup, by action (for episodes of one step), and adverse events by role and
by treatment. An episode counts for its assigned role and action, even if another action was taken;
only in the counts by treatment it counts for the action that was given.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rareswitch.campaigns.action_comparison import Choices, compare_actions, read_choices
from rareswitch.campaigns.conclusion import (
    conclude,
    describe_error,
    superiority_rule,
    why_not_at_the_end,
)
from rareswitch.campaigns.report import read_bodies
from rareswitch.campaigns.rulebook.attribution import Assigned
from rareswitch.campaigns.rulebook.calibration import Calibrated, calibrated_in
from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.comparison import (
    Arm,
    Stratum,
    bounds_at_any_time,
    difference_at_the_end,
)
from rareswitch.campaigns.rulebook.rows import Entry, EpisodeRow, Record
from rareswitch.campaigns.rulebook.running_mean import Place
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.terms import MISSING, Terms
from rareswitch.campaigns.treatments import Treated, treatment_rows
from rareswitch.core.control import CONTROL, LEARNED, ROLES
from rareswitch.support.words import plural

READ_TOGETHER = 512
DIGITS = 10  # further digits of an interval depend on the machine's logarithm

COMPARISON_COLUMNS = {
    "comparison": "Kind of the row: all versions, version, subgroup, or action.",
    "name": "Number of the version, name of the subgroup, or name of the action.",
    "missing": "How an assigned episode without a report counts: reported (left out), zero, worst.",
    "episodes": "Episodes with an outcome that learned members played, or that got the action.",
    "mean_return": "Their mean return; over several versions weighted like the difference, and for "
    "an action with overlap weights, which follow from its known probability.",
    "control_episodes": "Episodes of the control, or that got the control's action.",
    "control_mean_return": "Their mean return, weighted in the same way.",
    "difference": "Difference of both means within versions, combined over versions.",
    "standard_error": "Standard error of the difference.",
    "low": "Lower end of the interval of the difference, for a study that ended as planned.",
    "high": "Upper end of that interval.",
    "confidence": "Confidence of that interval; of several subgroups or actions all together.",
    "any_time_low": "Lower end of the interval that is valid at all looks together.",
    "any_time_high": "Upper end of that interval.",
    "any_time_confidence": "Confidence of that interval, for each row by itself.",
}
EVENT_COLUMNS = {
    "role": "Who played: learned members, the control or the floor.",
    "event": "Kind of adverse event.",
    "told": "Episodes whose reports tell about adverse events.",
    "episodes": "Episodes of these with at least one such event.",
    "events": "Number of such events.",
}

ComparisonRow = Mapping[str, Any]


class Outcome(NamedTuple):
    """The last report of an episode: its role, and its return as a share of the horizon."""

    version: int
    role: str
    value: float
    subgroup: str | None
    row: EpisodeRow


class EventCount(NamedTuple):
    """Adverse events of one kind among the episodes of a role."""

    role: str
    event: str
    told: int
    episodes: int
    events: int


@dataclass(frozen=True, kw_only=True)
class Analysis:
    """The comparison of learned members with their concurrent control.

    `combined` is the planned comparison over all versions. `others` count missing outcomes in the
    ways that the protocol did not choose. `treatments` count returns and adverse events by subgroup
    and first action. `not_at_the_end` is the reason why
    the interval of a study of planned length is invalid, or None. `claim` is the conclusion in one
    sentence.
    """

    horizon: int
    confidence: float
    control: float
    combined: ComparisonRow
    others: tuple[ComparisonRow, ...]
    versions: tuple[ComparisonRow, ...]
    subgroups: tuple[ComparisonRow, ...]
    actions: tuple[ComparisonRow, ...]
    reference: str | None
    roles: Mapping[str, Mapping[str, Any]]
    events: tuple[EventCount, ...]
    treatments: tuple[Mapping[str, Any], ...]
    not_at_the_end: str | None
    claim: str
    error: str

    @property
    def rows(self) -> list[ComparisonRow]:
        """All comparisons, the planned one first."""
        return [self.combined, *self.others, *self.versions, *self.subgroups, *self.actions]

    @property
    def plain(self) -> dict[str, Any]:
        plain = dict(vars(self))
        plain["events"] = [one._asdict() for one in self.events]
        for name in ("others", "versions", "subgroups", "actions", "treatments"):
            plain[name] = list(plain[name])
        return plain


def analyse_record(record: Record, state: State) -> Analysis | None:
    """Return the analysis of a record; None if the protocol has no control."""
    terms = state.terms
    if not terms.control_share:
        return None
    counted = _Counted(record, state)
    plan, share, horizon = terms.analysis, terms.control_share, terms.horizon
    confidence = plan.confidence

    def compare(kind: str, name: Any, strata: Sequence[Stratum], **more: Any) -> ComparisonRow:
        return comparison_row(kind, name, strata, horizon=horizon, share=share, **more)

    everything = counted.cohorts.strata
    not_at_the_end = why_not_at_the_end(state, counted.assigned)
    ways = {
        way: compare(
            "all versions",
            "",
            counted.with_missing(way),
            missing=way,
            confidence=confidence,
            # The engine sees reports only; a missing outcome is known at the end only.
            any_time=way == "reported",
        )
        for way in (MISSING if state.stopped is not None else MISSING[:1])
    }
    versions = [
        compare("version", version, [everything[version]], confidence=confidence)
        for version in sorted(everything)
        if everything[version].episodes  # a burn-in has no episodes to compare
    ]
    names = plan.subgroups.names if plan.subgroups is not None else ()
    each = 1.0 - (1.0 - confidence) / max(1, len(names))
    subgroups = [
        compare("subgroup", name, counted.subgroup(name), confidence=each, any_time=False)
        for name in names
    ]
    combined = ways.pop(plan.missing if plan.missing in ways else "reported")
    since = ""
    if state.stopped is not None and (later := _rows_since(record, state.stopped)):
        before, way = _Counted(record, state, upto=state.stopped.position), combined["missing"]
        strata = before.with_missing(way)
        earlier = compare("all versions", "", strata, missing=way, confidence=confidence)
        if not_at_the_end is not None:
            earlier = _without_ends(earlier)
        since = f" {_say_since(later, earlier)}"
    at_any_time = {
        way: compare("all versions", "", counted.with_missing(way), confidence=confidence)
        for way in dict.fromkeys(["reported", plan.missing] if state.stopped is not None else [])
    }
    reference, actions = _actions(record, state, counted) if horizon == 1 else (None, [])
    if not_at_the_end is not None:  # hide an interval that is invalid
        combined, *others = (_without_ends(row) for row in (combined, *ways.values()))
        versions = [*map(_without_ends, versions)]
        subgroups, actions = [*map(_without_ends, subgroups)], [*map(_without_ends, actions)]
    else:
        others = [*ways.values()]
    return Analysis(
        horizon=horizon,
        confidence=confidence,
        control=share,
        combined=combined,
        others=tuple(others),
        versions=tuple(versions),
        subgroups=tuple(subgroups),
        actions=tuple(actions),
        reference=reference,
        roles=counted.roles,
        events=tuple(counted.events(plan.events)),
        treatments=tuple(counted.treatments(terms)),
        not_at_the_end=not_at_the_end,
        claim=conclude(state, combined, not_at_the_end, counted.not_reported, at_any_time) + since,
        error=describe_error(state, counted.assigned, _calibrated(record, state)),
    )


class _Counted:
    """The counts of a record: last reported outcomes, and episodes without a report."""

    def __init__(self, record: Record, state: State, upto: int | None = None) -> None:
        """Count the rows of the log up to a row, by default all."""
        self.horizon = horizon = state.terms.horizon
        self.cohorts = Cohorts(horizon=horizon, control=state.terms.control_share)
        self.given: dict[str, Assigned] = {}
        for row in record.rows("assignments"):
            self.given[row.episode_id] = Assigned(row.version, row.member, row.salt)
        cancelled = state.cancelled_ids
        self.assigned = sum(name not in cancelled for name in self.given)
        unreported = {name for name in self.given if name not in cancelled}
        last: dict[str, EpisodeRow] = {}
        places: dict[str, tuple[Place, float]] = {}
        for row in record.rows("episodes", upto=upto):
            name, role = row.episode_id, state.role(row.version, row.member)
            if row.revision:
                place, before = places[name]
                after = None if row.body is None else row.total
                self.cohorts.correct(row.version, place, before, after, role)
            else:
                place = self.cohorts.record(row.version, row.total, role)
                unreported.discard(name)
            places[name] = place, row.total
            last[name] = row
        gone = {name for name, row in last.items() if row.body is None}
        self.outcomes = [
            Outcome(
                row.version,
                state.role(row.version, row.member),
                row.total / horizon,
                json.loads(row.claims).get("subgroup"),
                row,
            )
            for row in last.values()
            if row.body is not None
        ]
        self._not_reported = Counter(
            (self.given[name].version, state.role(*self.given[name][:2])) for name in unreported
        )
        self._withdrawn = Counter(
            (last[name].version, state.role(last[name].version, last[name].member)) for name in gone
        )
        self._cancelled = Counter(
            state.role(*self.given[name][:2]) for name in self.given if name in cancelled
        )

    @property
    def roles(self) -> dict[str, dict[str, Any]]:
        """The counts and the mean return of each role."""
        found = {}
        for role in ROLES:
            values = [one.value * self.horizon for one in self.outcomes if one.role == role]
            counts = {
                "episodes": len(values),
                "not_reported": _of_role(self._not_reported, role),
                "withdrawn": _of_role(self._withdrawn, role),
                "cancelled": self._cancelled[role],
            }
            if any(counts.values()):
                mean = _rounded(math.fsum(values) / len(values)) if values else None
                found[role] = counts | {"mean_return": mean}
        return found

    @property
    def not_reported(self) -> int:
        """The assigned episodes of learned members and of the control without a report."""
        return sum(_of_role(self._not_reported, role) for role in (LEARNED, CONTROL))

    def with_missing(self, way: str) -> list[Stratum]:
        """Return the outcomes of all versions, with unreported and withdrawn episodes added."""
        return add_missing(self.cohorts.strata, self._not_reported + self._withdrawn, way)

    def subgroup(self, name: str) -> list[Stratum]:
        """Return the outcomes of a subgroup by version."""
        found: dict[int, Stratum] = {}
        for one in self.outcomes:
            if one.subgroup == name and one.role in (LEARNED, CONTROL):
                stratum = found.get(one.version, Stratum(0.5))
                arm = getattr(stratum, one.role).add(one.value)
                found[one.version] = stratum._replace(**{one.role: arm})
        return [found[version] for version in sorted(found)]

    def events(self, kinds: Sequence[str]) -> Iterator[EventCount]:
        """Yield the adverse events of each role and kind, from reports that contain events."""
        told: Counter[str] = Counter()
        found: dict[tuple[str, str], Counter[str]] = {}
        for one in self.outcomes:
            counts = json.loads(one.row.claims).get("events")
            if counts is None:
                continue
            told[one.role] += 1
            for kind, number in counts.items():
                seen = found.setdefault((one.role, kind), Counter())
                seen.update(episodes=1, events=number)
        for role in ROLES:
            if told[role]:
                for kind in kinds:
                    seen = found.get((role, kind), Counter())
                    yield EventCount(role, kind, told[role], seen["episodes"], seen["events"])

    def treatments(self, terms: Terms) -> list[dict[str, Any]]:
        """Count the episodes by subgroup and first action."""
        treated = []
        for start in range(0, len(self.outcomes), READ_TOGETHER):
            block = self.outcomes[start : start + READ_TOGETHER]
            reports = read_bodies([one.row.body for one in block if one.row.body is not None])
            for one, report in zip(block, reports, strict=True):
                action, events = None, json.loads(one.row.claims).get("events")
                if report.first_features is not None and report.actions is not None:
                    offered = len(report.first_features)  # of fewer, a position is no name
                    action = int(report.actions[0]) if offered == len(terms.actions) else None
                treated.append(Treated(one.subgroup, action, one.row.total, events))
        plan = terms.analysis
        names = plan.subgroups.names if plan.subgroups is not None else ()
        return treatment_rows(treated, subgroups=names, actions=terms.actions, kinds=plan.events)


def _calibrated(record: Record, state: State) -> Calibrated | None:
    """Return the calibration of the first revision's rule in the attached simulation."""
    first = state.revisions[0]
    rule = superiority_rule(first)
    if rule is None or rule.calibrated is None or not first.simulation:
        return None
    return calibrated_in(record.artifact(first.simulation), rule)


def _rows_since(record: Record, stopped: Entry) -> list[EpisodeRow]:
    """Return the rows of the log that were recorded after the study ended."""
    return list(record.rows("episodes", after=stopped.position))


def _say_since(later: Sequence[EpisodeRow], earlier: ComparisonRow) -> str:
    """Describe the rows since the end, and the comparison before them."""
    changed = sum(bool(row.revision) for row in later)
    corrections = plural(changed, "correction or withdrawal", "corrections or withdrawals")
    parts = [plural(len(later) - changed, "report")] if len(later) > changed else []
    parts += [corrections] if changed else []
    were = "was" if len(later) == 1 else "were"
    known = "unknown"
    if earlier["difference"] is not None:
        known = f"{earlier['difference']:.4g}"
    if earlier["low"] is not None:
        known += f", from {earlier['low']:.4g} to {earlier['high']:.4g}"
    return (
        f"Since the end, {' and '.join(parts)} {were} recorded; before, the difference was {known}."
    )


def add_missing(
    strata: Mapping[int, Stratum], unreported: Mapping[tuple[int, str], int], way: str
) -> list[Stratum]:
    """Return the outcomes of all versions, with unreported episodes added by version and role."""
    found = dict(strata)
    for (version, role), count in unreported.items() if way != "reported" else ():
        one, value = found.get(version, Stratum(0.5)), float(way == "worst" and role == CONTROL)
        arm = Arm(count, count * value, count * value)
        if role == LEARNED:
            found[version] = one._replace(learned=_joined(one.learned, arm))
        elif role == CONTROL:
            found[version] = one._replace(control=_joined(one.control, arm))
    return [found[version] for version in sorted(found)]


def _of_role(counts: Mapping[tuple[int, str], int], role: str) -> int:
    return sum(count for (_, which), count in counts.items() if which == role)


def _joined(one: Arm, other: Arm) -> Arm:
    episodes, total, squares = other
    return Arm(one.episodes + episodes, one.total + total, one.squares + squares)


def comparison_row(
    kind: str,
    name: Any,
    strata: Sequence[Stratum],
    *,
    horizon: int,
    share: float,
    confidence: float,
    missing: str = "reported",
    any_time: bool = True,
) -> ComparisonRow:
    """Return the row of a comparison, in units of the return."""
    found = difference_at_the_end(strata, confidence)
    ends = bounds_at_any_time(strata, share, confidence) if any_time else (None, None)
    used = [one for one in strata if one.compares]
    arms = {role: [getattr(one, role) for one in used] for role in (LEARNED, CONTROL)}
    means = {
        role: math.fsum(
            one.episodes / found.episodes * (arm.total / arm.episodes)
            for one, arm in zip(used, of, strict=True)
        )
        if used
        else None
        for role, of in arms.items()
    }
    scaled = [_scaled(end, horizon) for end in (*means.values(), *found[:4], *ends)]
    learned, control, value, low, high, error, least, most = scaled
    values = {
        "comparison": kind,
        "name": name,
        "missing": missing,
        "episodes": sum(arm.episodes for arm in arms[LEARNED]),
        "mean_return": learned,
        "control_episodes": sum(arm.episodes for arm in arms[CONTROL]),
        "control_mean_return": control,
        "difference": value,
        "standard_error": error,
        "low": low,
        "high": high,
        "confidence": confidence,
        "any_time_low": least,
        "any_time_high": most,
        "any_time_confidence": confidence if any_time else None,
    }
    return {column: values[column] for column in COMPARISON_COLUMNS}


def _without_ends(row: ComparisonRow) -> ComparisonRow:
    return {**row, "low": None, "high": None}


def _scaled(value: float | None, horizon: int) -> float | None:
    return None if value is None else _rounded(value * horizon)


def _rounded(value: float) -> float:
    """Return a value without the digits that depend on the machine; smaller values become 0."""
    return float(f"{round(value, DIGITS + 2):.{DIGITS}g}") + 0.0


# By action


def _actions(
    record: Record, state: State, counted: _Counted
) -> tuple[str | None, list[ComparisonRow]]:
    """Compare every action with the control's action, with the known assignment probabilities."""
    rows = [one.row for one in counted.outcomes]
    seen = read_choices(record, state, rows, counted.given)
    terms, reference = state.terms, state.terms.control_action
    if seen is None or reference is None or reference >= seen.chances.shape[1]:
        return None, []
    others = [action for action in range(seen.chances.shape[1]) if action != reference]
    confidence = 1.0 - (1.0 - terms.analysis.confidence) / max(1, len(others))
    return _action_name(terms, reference), [
        _action_row(seen, action, reference, _action_name(terms, action), confidence)
        for action in others
    ]


def _action_row(
    seen: Choices, action: int, reference: int, name: str, confidence: float
) -> ComparisonRow:
    """Return the row of an action, from episodes where it and the reference were both possible."""
    possible = (seen.chances[:, action] > 0.0) & (seen.chances[:, reference] > 0.0)
    found, mean, control = compare_actions(seen, action, reference, confidence)
    numbers = [None if one is None else _rounded(one) for one in (mean, control, *found[:4])]
    mean, control, value, low, high, error = numbers
    known = {
        "comparison": "action",
        "name": name,
        "missing": "reported",
        "episodes": int((possible & (seen.taken == action)).sum()),
        "mean_return": mean,
        "control_episodes": int((possible & (seen.taken == reference)).sum()),
        "control_mean_return": control,
        "difference": value,
        "standard_error": error,
        "low": low,
        "high": high,
        "confidence": confidence,
    }
    return {column: known.get(column) for column in COMPARISON_COLUMNS}


def _action_name(terms: Terms, action: int) -> str:
    return terms.actions[action] if action < len(terms.actions) else f"action {action}"
