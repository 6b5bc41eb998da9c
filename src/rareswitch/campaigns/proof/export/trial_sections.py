"""The sections of a report about the control, the looks, and the principles of adaptive designs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rareswitch.campaigns.analysis import Analysis
from rareswitch.campaigns.proof.export.blocks import Facts, Section, Table
from rareswitch.campaigns.rulebook.stopping import (
    AGAINST_CONTROL,
    EPISODES,
    ControlFutility,
    ControlHarm,
    ControlSuperiority,
    DataQuality,
    Futility,
    Harm,
    Watched,
    watch,
)
from rareswitch.support.words import plural


def comparison_sections(analysis: Analysis | None) -> Iterator[Section]:
    """Yield the sections about the control, if the protocol has one."""
    if analysis is None:
        return
    header = ("compared", "learned: episodes", "mean return", "control: episodes", "mean return",
              "difference", "at the end: from", "to", "at any time: from", "to")  # fmt: skip
    table = Table(
        header,
        [
            (_compared(row), row["episodes"], row["mean_return"], row["control_episodes"],
             row["control_mean_return"], row["difference"], row["low"], row["high"],
             row["any_time_low"], row["any_time_high"])
            for row in (analysis.combined, *analysis.others, *analysis.versions)
        ],
    )  # fmt: skip
    roles = [
        (
            role,
            one["episodes"],
            one["not_reported"],
            one["withdrawn"],
            one["cancelled"],
            one["mean_return"],
        )
        for role, one in analysis.roles.items()
    ]
    yield Section("Learned policies against the concurrent control", "17a, ACE 17a", [
        analysis.claim,
        analysis.error,
        "Within a version both roles are drawn at random with fixed shares, so their difference "
        "does not depend on drift between versions. The combined difference weighs versions by "
        "their episodes. The interval at the end holds for a study that ended as planned; the "
        "interval at any time holds at all looks together. An episode counts for the role that "
        f"was assigned. Both have {analysis.confidence:.4g} confidence, each row by itself.",
        table,
        Table(("role", "episodes", "not reported", "withdrawn", "cancelled", "mean return"), roles),
    ], closed=True)  # fmt: skip
    if analysis.subgroups:
        yield Section("Subgroups declared in the protocol", "18, ACE 18", [
            f"Intervals hold for all subgroups together, with {analysis.confidence:.4g} "
            "confidence, in a study that ended as planned.",
            Table(header[:8], [(row["name"], *_cells(row)) for row in analysis.subgroups]),
        ], closed=True)  # fmt: skip
    if analysis.actions:
        yield Section("Each action against the control", "17a", [
            f"Every action is compared with {analysis.reference}. Episodes have overlap weights, "
            "which follow from the known probabilities of the actions that were assigned: the "
            "comparison is of participants for whom both were possible, version by version "
            "(Zhang, Janson and Murphy 2020). Intervals hold for all "
            f"actions together, with {analysis.confidence:.4g} confidence, in a study that ended "
            "as planned.",
            Table(("action", "episodes", "mean return", f"{analysis.reference}: episodes",
                   "mean return", "difference", "from", "to"),
                  [(row["name"], *_cells(row)) for row in analysis.actions]),
        ], closed=True)  # fmt: skip
    if analysis.events:
        yield Section("Adverse events", "19", [
            "Adverse events are counted apart from the reward; no fit uses them.",
            Table(("role", "event", "reported", "episodes with it", "events"),
                  list(analysis.events)),
        ], closed=True)  # fmt: skip
    if analysis.treatments:
        later = ": harm of later actions is not separated" if analysis.horizon > 1 else ""
        yield Section("Subgroups and treatments", "19", [
            f"An episode counts for the first action that was given, in whatever role{later}. "
            "Means are plain: they do not compare treatments, because a policy gives a treatment "
            "to participants whom it seems to suit.",
            treatments_table(analysis.treatments),
        ], closed=True)  # fmt: skip


def treatments_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return episodes, mean return and adverse events of each treatment in each subgroup."""
    kinds = [f"with {kind}" for kind in rows[0]["events"]]
    named = any(row["subgroup"] is not None for row in rows)
    return Table(
        (*(("subgroup",) if named else ()), "treatment", "episodes", "mean return",
         *(("reports of events", *kinds) if kinds else ())),
        [
            (*((row["subgroup"],) if named else ()), row["action"], row["episodes"],
             row["mean_return"], *((row["told"], *row["events"].values()) if kinds else ()))
            for row in rows
        ],
    )  # fmt: skip


def _cells(row: Mapping[str, Any]) -> list[Any]:
    names = ("episodes", "mean_return", "control_episodes", "control_mean_return", "difference",
             "low", "high")  # fmt: skip
    return [row[name] for name in names]


def _compared(row: Mapping[str, Any]) -> str:
    if row["comparison"] == "version":
        return f"version {row['name']}"
    counts = {"reported": "as reported", "zero": "missing count as 0",
              "worst": "missing count as the worst"}[row["missing"]]  # fmt: skip
    return f"all versions, {counts}"


CONTROL_RULES = tuple(rule.name for rule in AGAINST_CONTROL)
# The value of each stopping rule: an end of an interval that is valid at any time, or a count.
VALUES = {
    Harm.name: "upper end, mean return of the version",
    Futility.name: "upper end, mean return of the version",
    DataQuality.name: "lower end, share of reports refused",
    ControlSuperiority.name: "lower end, difference of all versions",
    ControlHarm.name: "upper end, difference of the version",
    ControlFutility.name: "upper end, difference of all versions",
    EPISODES: "episodes recorded",
}


def looks_section(facts: Facts) -> Section:
    """Return the present values of the stopping rules."""
    terms, seen = facts.state.terms, dict[Watched, list[int]]()
    strata = facts.tally.cohorts.strata
    played = {version for version, one in strata.items() if one.compares}
    for version in facts.state.versions:
        for one in watch(terms, facts.tally.cohorts, version.version):
            compared = {version.version} & played if one.rule == ControlHarm.name else played
            if compared or one.rule not in CONTROL_RULES:
                seen.setdefault(one, []).append(version.version)
    every = len(facts.state.versions)
    rows = [
        (one.rule, ", ".join(map(str, versions)) if len(versions) < every else "all",
         VALUES[one.rule], one.value, one.threshold, one.passed)
        for one, versions in seen.items()
    ]  # fmt: skip
    return Section("Stopping rules at this look", "ACE 7b", [
        "The engine compares each value with its threshold after every row. A rule that has too "
        "few episodes yet is not listed, nor a rule about the control before both learned members "
        "and the control have outcomes.",
        Table(("rule", "version", "the value is", "value", "threshold", "reached"), rows),
    ], closed=True)  # fmt: skip


def pooled_sections(facts: Facts) -> Iterator[Section]:
    """Yield sites and adverse events of all roles together, without returns."""
    sites: dict[Any, list[int]] = {}
    for row in facts.sites:
        counts = sites.setdefault(row["site"], [0, 0, 0])
        for place, name in enumerate(("recorded", "late", "withdrawn")):
            counts[place] += row[name]
    if {*sites} > {None} or None not in sites:
        rows = [("not told" if site is None else site, *counts) for site, counts in sites.items()]
        yield Section("Episodes of each site", "13a", [
            Table(("site", "recorded", "late", "withdrawn"), rows),
        ])  # fmt: skip
    events = facts.analysis.events if facts.analysis is not None else ()
    if events:
        kinds = list(dict.fromkeys(one.event for one in events))
        yield Section("Adverse events, all roles together", "19", [
            Table(
                ("event", "reported", "episodes with it", "events"),
                [
                    (kind, *(sum(getattr(one, name) for one in events if one.event == kind)
                             for name in ("told", "episodes", "events")))
                    for kind in kinds
                ],
            ),
        ])  # fmt: skip


def principles_section(facts: Facts) -> Section:
    """Return the record's answers to the five principles of ICH E20 (draft, June 2025)."""
    state, first = facts.state, facts.state.revisions[0]
    created, terms = facts.entries[0], facts.state.terms
    unplanned = sum(not one.planned for one in state.candidates.values())
    rollbacks = sum(one.rollback_to is not None for one in state.versions)
    signed = (
        "Every version after the first, except a rollback, and every amendment is approved by a "
        "person who did not propose it; the schedule may propose a version"
        if terms.approval.two_persons
        else "The switching rule alone puts a version in force"
    )
    hidden = "concealed by a secret drawn at the assignment" if terms.intake.concealed else "a hash"
    analysis, control = facts.analysis, terms.control_share
    burn_in = facts.revisions[0]["recipe"].get("burn_in")
    every = "Every version after the burn-in" if burn_in else "Every version"
    estimation = (
        f"{analysis.claim} {every} has a concurrent control with {control:.4g} of the "
        "compared episodes, so drift between versions does not enter. At the end, assigned "
        f"episodes without a report count as the protocol says: {terms.analysis.missing}. "
        "Allocation probabilities are known, and episodes.parquet has them."
        if analysis is not None
        else "The protocol has no control: mean returns of versions have intervals, and no "
        "difference is estimated."
    )
    rows = [
        ("Adequacy within the development programme",
         "Not in the record: the sponsor states why an adaptive design suits the programme."),
        ("Adequacy of trial planning",
         f"{created.actor} locked the protocol on {created.at}, before the first episode. It "
         f"plans {first.episodes} episodes and at most {first.budget} changes of the policy. "
         + (f"The report of a simulation made beforehand has SHA-256 {first.simulation}."
            if first.simulation else "No report of a simulation is attached.")),
        ("Limiting the chances of erroneous conclusions",
         analysis.error if analysis is not None else "The protocol has no control, so it plans "
         "no claim of a gain. Intervals of versions hold at all looks together."),
        ("Reliability of estimation", estimation),
        ("Maintenance of trial integrity",
         f"{signed}. Allocation is random, {hidden}. Every decision, report, correction and "
         "refusal is a row of a hash chain. Changes that the protocol did not plan: "
         f"{plural(len(state.revisions) - 1, 'amendment')}, "
         f"{plural(unplanned, 'unplanned candidate')}, {plural(rollbacks, 'rollback')}, "
         f"corrections and withdrawals: {state.corrections}."),
    ]  # fmt: skip
    return Section("Principles of adaptive designs", "ICH E20, draft of June 2025", [
        Table(("principle", "answer of the record"), rows),
    ], closed=True)  # fmt: skip
