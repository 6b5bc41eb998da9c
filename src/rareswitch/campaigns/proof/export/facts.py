"""What a reader is told of a campaign: the same facts for the appendix and for the page."""

from dataclasses import dataclass
from typing import Any

from rareswitch.campaigns.proof.export.cohort_table import CONFIDENCE, CohortRow, trigger_of
from rareswitch.campaigns.proof.export.moment import Moment
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.state import Candidate
from rareswitch.campaigns.stopping.rules import plain_rule
from rareswitch.rules.table import row_of
from rareswitch.rules.words import describe

MOST_CORRECTIONS = 200  # that are listed; the others are counted


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A candidate, what was planned and observed, and what became of it."""

    number: int
    version: int
    planned: bool
    quantity: str
    observed: str
    threshold: str
    margin: str
    gain: str
    disagreement: str
    status: str
    proposer: str
    decided_by: str
    at: str
    reason: str
    warnings: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change that the protocol did not plan."""

    entry: int
    kind: str
    at: str
    actor: str
    reason: str
    what: str


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that the templates ask for."""

    campaign: str
    protocol: Protocol
    created: Entry
    revisions: list[tuple[int, Protocol]]
    design: list[tuple[str, str]]
    adaptations: list[tuple[str, str]]
    stopping: list[str]
    ended: str
    cohorts: list[CohortRow]
    decisions: list[Decision]
    changes: list[Change]
    corrections: int
    refused: list[tuple[str, int]]
    rows: dict[str, int]
    totals: dict[str, int]
    confidence: float = CONFIDENCE


def facts_of(moment: Moment, rows: list[CohortRow]) -> Facts:
    """Collect the facts of a moment."""
    state = moment.state
    counted = ("episodes", "late", "corrected", "withdrawn", "with_recommendation", "overridden",
               "overridden_steps", "assigned", "missing")  # fmt: skip
    return Facts(
        campaign=moment.campaign,
        protocol=state.protocol,
        created=moment.entries[0],
        revisions=list(enumerate(state.revisions, start=1)),
        design=_design(state.revisions[0]),
        adaptations=_adaptations(state.revisions[0]),
        stopping=_stopping(state.protocol),
        ended=_ended(state.stopped),
        cohorts=rows,
        decisions=[_decision(candidate, moment.entries) for candidate in state.candidates.values()],
        changes=_changes(moment),
        corrections=sum(entry.kind == "corrected" for entry in moment.entries),
        refused=moment.refused,
        rows={chain: head.length for chain, head in moment.heads.items()},
        totals={name: sum(getattr(row, name) for row in rows) for name in counted},
    )


def _design(protocol: Protocol) -> list[tuple[str, str]]:
    task, recipe = protocol.task, protocol.recipe
    members = recipe.exploration.members
    shares = f"{members} members in equal shares, drawn by a hash of the episode's id"
    features = protocol.features
    kind = "positions of a one" if protocol.task.one_hot else "numbers"
    return [
        ("Episodes planned", str(task.episodes)),
        ("Decisions in an episode, at most", str(task.horizon)),
        ("Outcome", f"the sum of the rewards of an episode, from 0 to {task.horizon}"),
        ("Actions", ", ".join(protocol.actions) or "named by the actors"),
        (
            "Features",
            f"{task.dim} {kind} for each action, no longer than {task.feature_norm:g}"
            + (f"; {features.name} {features.digest[:16]}" if features else ""),
        ),
        ("Stages", "each learns from its own steps" if task.stages == "own" else "share steps"),
        ("Exploration", _words(describe(recipe.exploration))),
        ("Allocation", shares if members > 1 else "one policy for all episodes"),
        ("Seed", str(recipe.seed)),
    ]


def _adaptations(protocol: Protocol) -> list[tuple[str, str]]:
    intake, approval = protocol.intake, protocol.approval
    by_schedule = approval.by == "schedule"
    late = {
        "learn": "enter the next fit",
        "record": "are recorded, and do not enter fits",
    }[intake.late]
    return [
        ("What is adapted", "the policy in force, by a new version fitted on the log"),
        (
            "Rule",
            f"{row_of(protocol.schedule).label} ({_words(describe(protocol.schedule))}), asked "
            "after every recorded episode",
        ),
        ("Budget", f"at most {protocol.budget} deployments after the first, without rollbacks"),
        (
            "Approval",
            "by the rule alone" if by_schedule else "by a second person, who did not propose",
        ),
        ("Late episodes", f"of an earlier version {late}; grace of {intake.grace} episodes"),
        ("Simulation beforehand", protocol.simulation or "none attached"),
    ]


def _stopping(protocol: Protocol) -> list[str]:
    rules = [_words(plain_rule(rule), key="rule") for rule in protocol.stopping]
    return [*rules, f"episodes: when {protocol.episodes} are recorded"]


def _ended(stopped: Entry | None) -> str:
    if stopped is None:
        return "The campaign had not ended when this was exported."
    return f"Stopped by {stopped.actor} on {stopped.at}: {stopped.reason}"


def _decision(candidate: Candidate, entries: list[Entry]) -> Decision:
    trigger, gain = trigger_of(candidate), candidate.evidence.get("gain")
    disagreement = candidate.evidence.get("disagreement")
    decided = [
        entry
        for entry in entries
        if entry.kind in ("approved", "rejected", "deployed")
        and entry.payload["candidate"] == candidate.number
    ]
    margin = "" if trigger is None else _number(trigger["value"] - trigger["threshold"])
    return Decision(
        number=candidate.number,
        version=candidate.version,
        planned=candidate.planned,
        quantity="" if trigger is None else trigger["quantity"],
        observed="" if trigger is None else _number(trigger["value"]),
        threshold="" if trigger is None else _number(trigger["threshold"]),
        margin=margin,
        gain="not known"
        if gain is None
        else f"{gain['value']:+.3g} [{gain['low']:+.3g}, {gain['high']:+.3g}]",
        disagreement="not known" if disagreement is None else f"{disagreement:.1%}",
        status=candidate.status,
        proposer=candidate.proposer,
        decided_by=decided[0].actor if decided else "nobody yet",
        at=decided[0].at if decided else candidate.entry.at,
        reason=decided[0].reason if decided else candidate.entry.reason,
        warnings=tuple(candidate.evidence.get("warnings", ())),
    )


def _changes(moment: Moment) -> list[Change]:
    """Return the register of changes that were not planned."""
    found, revision, before = [], 1, moment.state.revisions[0].plain
    corrections = 0
    for entry in moment.entries:
        payload = entry.payload
        if entry.kind == "amended":
            revision += 1
            after = payload["protocol"]
            changed = [name for name in after | before if after.get(name) != before.get(name)]
            said = "; ".join(f"{name}: {before.get(name)} → {after.get(name)}" for name in changed)
            what, before = f"revision {revision}: {said}", after
        elif entry.kind == "rolled-back":
            what = f"version {payload['version']} is the policy of version {payload['to']} again"
        elif entry.kind == "candidate" and not payload["planned"]:
            what = f"a candidate for version {payload['version']} that was not due"
        elif entry.kind == "corrected":
            corrections += 1
            if corrections > MOST_CORRECTIONS:
                continue
            done = "withdrawn" if payload["withdrawn"] else f"recorded anew in row {payload['seq']}"
            what = f"episode {payload['episode_id']} (row {payload['corrects']}) {done}"
        elif entry.kind == "forgotten":
            what = f"who took part in {payload['episodes']} episodes was removed"
        elif entry.kind == "stopped" and entry.actor != "engine":
            what = "ended by a person"
        else:
            continue
        found.append(
            Change(
                entry=entry.number,
                kind=entry.kind,
                at=entry.at,
                actor=entry.actor,
                reason=entry.reason,
                what=what,
            )
        )
    return found


def _words(plain: dict[str, Any], *, key: str = "kind") -> str:
    """Return {"kind": name, arguments} in a line."""
    arguments = ", ".join(f"{name} {value}" for name, value in plain.items() if name != key)
    return f"{plain[key]}: {arguments}" if arguments else str(plain[key])


def _number(value: float) -> str:
    return f"{value:.6g}"
