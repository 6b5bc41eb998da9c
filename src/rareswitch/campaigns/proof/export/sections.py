"""The final report as data: one list of sections, in the order of reporting checklists.

The order is that of CONSORT, with the items of its extensions for adaptive designs (ACE, 2020) and
for artificial intelligence (CONSORT-AI, 2020) that software can answer. All texts are plain; the
renderers escape them.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from rareswitch.campaigns.analysis import Analysis
from rareswitch.campaigns.proof.export.blocks import (
    Block,
    Facts,
    Picture,
    Section,
    Table,
    described,
    pairs,
)
from rareswitch.campaigns.proof.export.cohorts import CONFIDENCE, OUTCOME_COLUMNS
from rareswitch.campaigns.proof.export.pictures import (
    course_picture,
    returns_picture,
    triggers_picture,
)
from rareswitch.campaigns.proof.export.signature_sections import (
    approval_words,
    candidate_signatures,
    signature_sections,
)
from rareswitch.campaigns.proof.export.trial_sections import comparison_sections, principles_section
from rareswitch.campaigns.proof.export.words import (
    candidate_lines,
    deciding_trigger,
    protocol_at,
)
from rareswitch.campaigns.rulebook.approval import Approval
from rareswitch.campaigns.rulebook.rows import canonical
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.rulebook.stopping import EPISODES, DataQuality
from rareswitch.support.words import plural

MOST_LISTED = 200  # corrections, reasons and sites; the files have all
# Entries that a protocol foresees. The register of unplanned changes has all others.
REHEARSED = "A simulated world answered, and nobody was treated."
FORESEEN = (
    "created", "declined", "registered", "commented", "approved", "rejected", "expired", "deployed",
    "exported",
)  # fmt: skip
DIFFERENCES = ("deviations from the policy", "overridden recommendations")


def sections_of(facts: Facts) -> list[Section]:
    first, created, cohorts = facts.revisions[0], facts.entries[0], facts.cohorts
    return [
        Section("Summary", "", [pairs(_summary(facts))]),
        Section("Trial design", "3a", [
            f"The protocol was locked by {created.actor} on {created.at}, before the first "
            f"episode. Its SHA-256 is {created.payload['digest']}.",
            pairs(_design(first, facts.state.versions[0].members)),
        ]),
        Section("Planned adaptations", "ACE 3b", [
            pairs(_adaptations(first, facts.state.revisions[0].approval)),
        ]),
        Section("Unplanned changes after the beginning", "ACE 3c", _changes(facts)),
        Section("Poor or missing input", "CONSORT-AI 4a ii, 5 iii", _input(facts)),
        Section("The version that acted on each participant", "CONSORT-AI 5 i", [
            "episodes.jsonl and episodes.parquet name the version and the member for every "
            "episode, and assignments.jsonl for those assigned before they began. Policies are in "
            "the folder policies, under their SHA-256.",
            Table(
                ("version", "origin", "in force from episode", "in force at", "signed by",
                 "fitted on rows", "members", "policy"),
                [(c["version"], c["origin"], c["in_force_since"] + 1, c["in_force_at"],
                  c["put_in_force_by"], c["fitted_on"], c["members"], c["digest"][:16])
                 for c in cohorts],
            ),
        ]),
        Section("Recommended and given action", "CONSORT-AI 5 v, 5 vi", [pairs([
            ("Episodes that tell the recommended and the given action",
             facts.total("with_recommendation")),
            ("Another action given than recommended",
             f"{plural(facts.total('overridden'), 'episode')}, at "
             f"{plural(facts.total('overridden_steps'), 'step')}"),
            ("Episodes with an action that the assigned member of the policy does not take",
             f"{facts.share('deviated', 'compared')} that tell enough"),
        ])]),
        Section("Criteria, stopping rules and looks", "ACE 7b", [
            "The software evaluates the switching rule and the stopping rules after every recorded "
            "episode. Looks are continuous, and nobody chooses their times. Stopping rules are "
            "binding. The switching rule is binding where it alone decides; otherwise a second "
            "person may reject a candidate.",
            [*map(described, facts.revisions[-1].get("stopping", [])),
             f"episodes: when {facts.revisions[-1]['task']['episodes']} are recorded"],
        ]),
        Section("Methods of estimation", "ACE 12b", [
            "Intervals of mean returns are empirical-Bernstein confidence sequences (Waudby-Smith "
            "and Ramdas 2023, Theorem 2). Each is valid at all looks together, for each version by "
            f"itself, with {CONFIDENCE:.0%} confidence. A version is a cohort with the same "
            "options and the same allocation. A late episode counts for the version that acted.",
            *_methods(facts.analysis),
        ]),
        Section("Flow of episodes", "13a", [
            Table(
                ("version", "assigned", "cancelled", "not reported", "recorded", "late",
                 "corrected", "withdrawn", "with an outcome"),
                [[c[name] for name in ("version", "assigned", "cancelled", "missing", "recorded",
                                       "late", "corrected", "withdrawn", "episodes")]
                 for c in cohorts],
            ),
            f"Episodes corrected: {facts.total('corrected')}. Episodes withdrawn: "
            f"{facts.total('withdrawn')}. The rows recorded before stay in episodes.jsonl.",
        ]),
        Section("Why it ended", "14b", [_ended(facts.state.stopped, blinded=facts.blinded)]),
        Section("Decisions about candidates", "ACE 14c", [
            Picture(triggers_picture(cohorts),
                    "Threshold (bar) and observed value (mark) of each trigger; a square marks a "
                    "version that was not planned."),
            *_decisions(facts),
        ]),
        *signature_sections(facts),
        *_evidence(facts),
        Section("Outcomes of each version", "17a", [
            Picture(returns_picture(cohorts),
                    "Mean return of each version with its interval; a square marks a version that "
                    "was not planned, or a rollback."),
            Table(
                ("version", "episodes", "mean return", "interval from", "to", *DIFFERENCES),
                [(c["version"], c["episodes"], c["mean_return"], c["low"], c["high"],
                  *_differences(c)) for c in cohorts],
            ),
            Picture(course_picture(cohorts, facts.tally.course, facts.length("episodes")),
                    "Mean return of successive episodes in the order of the log. A line shows "
                    "where a version came into force, with its number where there is room; it is "
                    "dashed for a version that was not planned, or a rollback."),
        ], closed=True),
        *comparison_sections(facts.analysis),
        Section("Outcomes of each site", "18", _sites(facts), closed=True),
        principles_section(facts),
    ]  # fmt: skip


def record_section() -> Section:
    """Return the section that describes the files of an export."""
    return Section("Where the record is", "ACE 24b", [
        "manifest.json lists every file with its SHA-256, and data-dictionary.md explains "
        "every column. The folder protocol has the protocol and its revisions, and "
        "ledger.jsonl all decisions. The names of participants are not in an export.",
    ])  # fmt: skip


def _methods(analysis: Analysis | None) -> list[str]:
    """Describe the comparison of learned members with the control, if there is one."""
    if analysis is None:
        return []
    return [
        "Learned members and the control are compared within versions, and versions are weighted "
        "by their episodes. The interval at the end is a t interval with variances pooled within "
        "versions; the interval at any time is a time-uniform empirical-Bernstein bound (Howard, "
        "Ramdas, McAuliffe and Sekhon 2021, Theorem 4).",
    ]


def _summary(facts: Facts) -> list[tuple[str, Any]]:
    state, last = facts.state, facts.revisions[-1]
    version = state.versions[-1]
    concluded = facts.analysis is not None and not facts.blinded
    return [
        *([("Conclusion", facts.analysis.claim)] if concluded else []),  # type: ignore[union-attr]
        *([("Rehearsal", REHEARSED)] if state.rehearsal else []),
        ("End", _ended(state.stopped, blinded=facts.blinded)),
        ("Pending decision", _pending(state)),
        ("Version in force", f"{version.version}, from episode {version.since + 1}"),
        ("Deployments after the first",
         f"{state.spent} of at most {last['budget']['deployments']}" + _declined(state)),
        ("Episodes recorded", f"{facts.total('recorded')} of {last['task']['episodes']} planned"),
        ("Episodes withdrawn", facts.total("withdrawn")),
        ("Assigned and not reported", facts.share("missing", "assigned")),
        ("Reports refused", facts.length("refusals")),
        ("Protocol revisions", len(facts.revisions)),
        ("Ledger", f"{plural(facts.length('ledger'), 'entry', 'entries')}, "
         f"{facts.record.heads['ledger'].link}"),
    ]  # fmt: skip


def _pending(state: State) -> str:
    if state.waiting is None:
        return "none"
    number = state.waiting.number
    return f"none: candidate {number} was not decided" if state.stopped else f"candidate {number}"


def _declined(state: State) -> str:
    many = len(state.declined)
    were = "was" if many == 1 else "were"
    return f"; {plural(many, 'candidate')} {were} not worth proposing" if many else ""


def _ended(stopped: Any, *, blinded: bool) -> str:
    if stopped is None:
        return "The campaign had not ended."
    rule = stopped.payload.get("rule")
    if blinded and rule not in (None, EPISODES, DataQuality.name):
        return f"Stopped by {stopped.actor} on {stopped.at}, by the rule {rule}."
    return f"Stopped by {stopped.actor} on {stopped.at}: {stopped.reason}"


def _design(protocol: dict[str, Any], members: int) -> list[tuple[str, Any]]:
    task, recipe, features = protocol["task"], protocol["recipe"], protocol.get("features")
    kind = "positions of a one" if task["one_hot"] else "numbers"
    named = f"; {features['name']} {features.get('digest', '')[:16]}" if features else ""
    shares = f"{members} learned members in equal shares, drawn by a hash of the episode's id"
    shares = shares if members > 1 else "one policy for all episodes"
    return [
        ("Episodes planned", task["episodes"]),
        ("Most decisions in an episode", task["horizon"]),
        ("Outcome", f"return: the sum of the rewards of an episode, from 0 to {task['horizon']}"),
        ("Actions", ", ".join(task.get("actions", [])) or "named by the actors"),
        ("Features", f"{task['dim']} {kind} for each action, of norm at most "
                     f"{task['feature_norm']:g}{named}"),
        ("Stages", {"own": "each learns from its own steps", "shared": "share steps",
                    "auto": "share steps where that predicts better"}[task["stages"]]),
        ("Exploration", described(recipe["exploration"], "kind")),
        ("Allocation", shares),
        *_others(recipe),
        ("Seed", canonical(recipe["seed"])),
    ]  # fmt: skip


def _others(recipe: dict[str, Any]) -> list[tuple[str, Any]]:
    """Return the shares of a control and a floor, and whether there is a burn-in."""
    control, rows = recipe.get("control"), list[tuple[str, Any]]()
    if control is not None:
        plays = str(control["plays"])
        named = f"action {plays}" if len(plays) <= 100 else "a policy, part of the protocol"
        rows.append(("Control", f"{control['share']:.4g} of the episodes of a version: {named}"))
    if recipe.get("floor"):
        share = f"{recipe['floor']:.4g} of the episodes of a version"
        rows.append(("Floor", f"{share}, uniformly at random among the actions offered"))
    if recipe.get("burn_in"):
        rows.append(("Burn-in", "version 1 acts uniformly at random among the actions offered"))
    return rows


def _adaptations(protocol: dict[str, Any], approval: Approval) -> list[tuple[str, Any]]:
    intake = protocol["intake"]
    late = "enter the next fit" if intake["late"] == "learn" else "are recorded and not fitted"
    return [
        ("Adaptation", "a new version of the policy, fitted on the log"),
        ("Switching rule", described(protocol["schedule"], "kind")),
        ("Asked", "after every recorded episode"),
        ("Budget", f"at most {protocol['budget']['deployments']} deployments after the first, "
                   "rollbacks not counted"),
        ("Approval", approval_words(approval)),
        ("Late episodes", f"of an earlier version {late}; grace of {intake['grace']} episodes"),
        ("Simulation beforehand", protocol.get("simulation", {}).get("digest", "none attached")),
    ]  # fmt: skip


def _changes(facts: Facts) -> list[Block]:
    rows, revisions, corrections = list[tuple[Any, ...]](), [facts.revisions[0]], 0
    ends = {
        one.payload.get("amendment"): one.kind
        for one in facts.entries
        if one.kind in ("amended", "rejected")
    }
    for entry in facts.entries:
        payload, kind = entry.payload, entry.kind
        by_rule = kind == "candidate" and payload["planned"]
        if kind in FORESEEN or by_rule or (kind == "stopped" and entry.actor == "engine"):
            continue
        change = str(payload.get("episode_id", ""))
        if kind == "candidate":
            change = f"a candidate for version {payload['version']} that was not due"
        elif kind == "amendment":
            end = ends.get(entry.number, "not decided")
            change = f"proposed, {end}: {_amended(revisions[-1], payload['protocol'])}"
        elif kind == "amended":
            revisions.append(payload["protocol"])
            change = f"protocol revision {len(revisions)}: {_amended(*revisions[-2:])}"
        elif kind == "rolled-back":
            change = f"version {payload['version']} has the policy of version {payload['to']} again"
        elif kind == "countersigned":
            change = f"the rollback in entry {payload['rollback']}"
        elif kind == "corrected":
            corrections += 1
            if corrections > MOST_LISTED:
                continue
            kind = "withdrawn" if payload["withdrawn"] else kind
            change = f"episode {payload['episode_id']}, recorded in row {payload['corrects']}"
        elif kind == "forgotten":
            change = f"names of participants erased: {plural(payload['episodes'], 'episode')}"
        rows.append((entry.number, kind, entry.at, entry.actor, change, entry.reason))
    if not rows:
        return ["None: no protocol revision, unplanned version, rollback or correction."]
    blocks: list[Block] = [Table(("entry", "kind", "when", "who", "change", "reason"), rows)]
    if corrections > MOST_LISTED:
        blocks.append(f"ledger.jsonl has {corrections - MOST_LISTED} more corrections.")
    return blocks


def _amended(before: dict[str, Any], after: dict[str, Any]) -> str:
    return "; ".join(
        f"{name}: {canonical(before.get(name))} → {canonical(after.get(name))}"
        for name in sorted(before | after)
        if before.get(name) != after.get(name)
    )


def _input(facts: Facts) -> list[Block]:
    reasons = sorted(facts.tally.refused.items(), key=lambda pair: (-pair[1], pair[0]))
    return [
        "Every report was checked before it was recorded: its form, the number of steps and of "
        "features, their norm, rewards from 0 to 1, the version and the member that acted. "
        "refusals.jsonl has the refused reports with reasons; none of them entered a fit. "
        f"{_unreported(facts)}",
        pairs([
            ("Reports refused", facts.length("refusals")),
            ("Episodes recorded", facts.total("recorded")),
            ("Reported after their version had been replaced", facts.total("late")),
            ("Assigned and not reported", facts.share("missing", "assigned")),
            ("Assigned and cancelled", facts.share("cancelled", "assigned")),
        ]),
        *([Table(("reason of refusal", "reports"), reasons[:MOST_LISTED])] if reasons else []),
    ]  # fmt: skip


def _unreported(facts: Facts) -> str:
    """Describe how an assigned episode without a report counts in fits and in the comparison."""
    fits = "No fit uses an episode that was never reported"
    if facts.analysis is None:
        return f"{fits}."
    missing = facts.state.terms.analysis.missing
    counts = {"reported": "it is left out", "zero": "it counts as 0"}
    said = counts.get(missing, "it counts as 0 for learned members and as the largest return for "
                      "the control")  # fmt: skip
    return f'{fits}. In the comparison at the end {said} (missing = "{missing}").'


def _decisions(facts: Facts) -> Iterator[Block]:
    if not facts.state.candidates:
        yield "No candidate was proposed."
        return
    deployed = {version.version: version.entry for version in facts.state.versions}
    rows = list[tuple[Any, ...]]()
    for one in facts.state.candidates.values():
        entered = {"deployed": deployed.get(one.version), "declined": one.entry}
        by = one.decision or entered.get(one.status)
        trigger = deciding_trigger(one.evidence) or {}
        watched = [f"{trigger[k]:.6g}" if trigger else None for k in ("threshold", "value")]
        # The schedule's reason reveals the gain, which only unblinded readers may see.
        reason = "not worth a deployment" if one.status == "declined" else (by or one.entry).reason
        many = len(one.approvals) > 1 and one.status == "deployed"
        names = ", ".join(entry.actor for entry in one.approvals) if many else by and by.actor
        rows.append((one.number, one.version, one.planned, trigger.get("quantity"), *watched,
                     _status(facts.state, one), names, (by or one.entry).at, reason))  # fmt: skip
    yield Table(
        ("candidate", "for version", "planned", "quantity", "threshold", "observed", "status",
         "decided by", "when", "reason"),
        rows,
    )  # fmt: skip


def _status(state: State, candidate: Candidate) -> str:
    """Return the status of a candidate; after a stop none is pending."""
    return "not decided" if candidate is state.waiting and state.stopped else candidate.status


def _evidence(facts: Facts) -> Iterator[Section]:
    """Yield the section of the evidence for candidates, if there are any."""
    blocks = list[Block]()
    for one in facts.state.candidates.values():
        protocol = protocol_at(facts.entries, one.number)
        heading, *lines = candidate_lines(**vars(one), protocol=protocol)
        lines += candidate_signatures(facts.state, one)
        blocks += [heading, lines]
    if blocks:
        yield Section("Evidence shown before each decision", "ACE 14c", blocks, closed=True)


def _sites(facts: Facts) -> list[Block]:
    found: dict[str | None, Counter[str]] = {}
    for row in facts.sites:
        counts = found.setdefault(row["site"], Counter())
        counts.update({name: row[name] for name in OUTCOME_COLUMNS if type(row[name]) is int})
        counts["return"] += (row["mean_return"] or 0.0) * row["episodes"]
    if set(found) <= {None}:
        return ["No report claims a site."]
    rows = [
        ("not told" if site is None else site, c["recorded"], c["late"], c["withdrawn"],
         c["episodes"], c["return"] / c["episodes"] if c["episodes"] else None, *_differences(c))
        for site, c in found.items()
    ]  # fmt: skip
    more = f" The first {MOST_LISTED} of {len(rows)} are listed." if len(rows) > MOST_LISTED else ""
    return [
        "Several versions played the episodes of a site: sites.csv has each site under each "
        f"version, with intervals.{more}",
        Table(
            ("site", "recorded", "late", "withdrawn", "with an outcome", "mean return",
             *DIFFERENCES),
            rows[:MOST_LISTED],
        ),
    ]  # fmt: skip


def _differences(row: Mapping[str, int]) -> list[str]:
    pairs = (("deviated", "compared"), ("overridden", "with_recommendation"))
    return [f"{row[part]} of {row[whole]}" for part, whole in pairs]
