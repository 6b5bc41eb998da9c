"""The rows of an export and the meaning of their columns: JSON lines, and a table for analysts.

A line is the canonical text of a row, with plain values for its body. The exporter writes the rows
of episodes.parquet, and a verifier compares them. Only episodes.jsonl has the features offered at
later states: few analyses need them, and they are most of the bytes.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.proof.export.cohorts import overridden_steps
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.rulebook.claims import CLAIMS
from rareswitch.campaigns.rulebook.rows import OPTIONAL, Entry, EpisodeRow, Record, canonical
from rareswitch.campaigns.rulebook.state import State
from rareswitch.core.policy import Policy

FORMAT = 1  # of an export
TEXTS = ("claims", "payload")  # JSON columns, written as values
_ROW = {
    "seq": "Row of the log, from 1 without a gap.",
    "episode_id": "Id that the actor gave the episode.",
    "revision": "0 for a first report, else the number of the correction or withdrawal.",
    "version": "Version of the policy that acted.",
    "member": "Member of the policy that acted, from 0.",
    "assigned": "Whether the episode was assigned before it began.",
    "late": "Whether another version was in force when the report came.",
    "learn": "Whether fits use the episode.",
    "total": "Return: the sum of the rewards.",
    "received": "Time at which the report came, by the server's clock.",
    "deviations": "Steps at which the assigned member takes another action than was taken; missing "
    "where the report does not tell enough.",
}
_LINK = {"link": "SHA-256 over this row and the link of the row before."}
_NUMBER = {"number": "Row of the chain, from 1 without a gap."}
PARQUET_COLUMNS = {
    **_ROW,
    "current": "Whether no later row corrects or withdraws the episode, and it is not withdrawn.",
    "role": "Who played: a learned member of the policy, its control or its floor.",
    "site": "Site, as the actor claims.",
    "began": "Begin of the episode, as the actor claims.",
    "ended": "End of the episode, as the actor claims.",
    "subgroup": "Subgroup of the participant, as the actor claims; one that the protocol declares.",
    "events": "Adverse events by kind and number, as the actor claims, in JSON; missing where the "
    "report does not tell them.",
    "steps": "Number of steps.",
    "cut_off": "Whether the episode was cut off, and not ended, after the last step.",
    "rewards": "Reward of each step.",
    "features": "Features of the action taken at each step: numbers, or the position of a one.",
    "offered": "Number of actions offered at each step; the first is missing if it was not told.",
    "actions": "Place of the action taken among those offered, from 0, at each step.",
    "recommended": "Place of the recommended action at each step, where it was told.",
    "propensities": "Probability of the action taken at each step, given those before: as told, "
    "or else computed from the policy; missing where neither is known.",
    "overridden": "Steps at which another action was taken than recommended.",
    **_LINK,
}
LINES = {
    "episodes": {
        **_ROW,
        "claims": "Site, begin, end, subgroup and adverse events, as the actor claims.",
        "digest": "SHA-256 of the report; empty for a withdrawal.",
        "body": "Features, rewards and choices of the report; null for a withdrawal.",
        **_LINK,
    },
    "assignments": {
        **_NUMBER,
        "episode_id": "Id of an episode that was about to begin.",
        "version": "Version that plays it.",
        "member": "Member of the policy that plays it, from 0.",
        "assigned": "Time of the assignment, by the server's clock.",
        "salt": "Random part of the key of the allocation; missing where there is none.",
        **_LINK,
    },
    "refusals": {
        **_NUMBER,
        "seq": "Rows that the log had when the report was refused.",
        "episode_id": "Id of the episode, where the report tells one.",
        "reason": "Reason of the refusal.",
        "excerpt": "Part of the report that may be kept.",
        "digest": "SHA-256 that tells refused reports apart.",
        "received": "Time at which the report came, by the server's clock.",
        **_LINK,
    },
    "ledger": {
        **_NUMBER,
        "kind": "Kind of the entry, such as candidate, approved, deployed or amended.",
        "actor": "Person who signed, or the engine or the schedule.",
        "reason": "Reason that the actor gave.",
        "at": "Time of the entry, by the server's clock.",
        "payload": "Subject of the entry, and the heads of the other chains at that time.",
        **_LINK,
    },
}


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file of any size."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def line_of(row: Any, report: Report | None = None) -> bytes:
    """Return the line of a row with all its columns; optional columns only if they have a value.

    `report` is the report in the body of the row.
    """
    plain = {k: v for k, v in row._asdict().items() if v is not None or k not in OPTIONAL}
    for name in TEXTS:
        if name in plain:
            plain[name] = json.loads(plain[name])
    if report is not None:
        plain["body"] = {k: v for k, v in report.plain.items() if k != "id"}
    return canonical(plain).encode() + b"\n"


def report_of(row: Any) -> Report | None:
    """Return the report in the body of a row of the log; None for a withdrawal."""
    if row.body is None:
        return None
    try:
        return Report.from_body(row.body, id=row.episode_id)
    except (TypeError, ValueError) as error:
        raise DamagedError(f"row {row.seq} of the log cannot be read: {error}") from None


class TableRows:
    """Builds the table rows of a record; `entries` and `state` are those of its ledger."""

    def __init__(self, record: Record, entries: Sequence[Entry], state: State) -> None:
        # An entry names the row that it corrects; that row is no longer current.
        self._corrected = {e.payload["corrects"] for e in entries if e.kind == "corrected"}
        self._versions = state.versions
        self._policy = lru_cache(maxsize=8)(
            lambda version: Policy.from_bytes(record.artifact(state.versions[version - 1].digest))
        )

    def make(self, row: EpisodeRow, report: Report | None) -> dict[str, Any]:
        """Return the table row of a row of the log and the report in its body."""
        claims = json.loads(row.claims)
        plain = dict.fromkeys(PARQUET_COLUMNS)
        plain |= {name: getattr(row, name) for name in {*_ROW, "link"} - {"total"}}
        plain |= {name: claims.get(name) for name in CLAIMS}
        plain["events"] = canonical(claims["events"]) if "events" in claims else None
        plain["current"] = report is not None and row.seq not in self._corrected
        plain["role"] = self._versions[row.version - 1].split.role(row.member)
        if report is None or row.body is None:
            return plain
        episode, steps = report.episode, len(report.episode)
        first = None if report.first_features is None else len(report.first_features)
        plain |= {
            "total": row.total,
            "steps": steps,
            "cut_off": len(episode.next_features) == steps,
            "rewards": episode.rewards.tolist(),
            "features": episode.features.tolist(),
            "offered": [first, *map(len, episode.next_features)][:steps],
            "propensities": _propensities(report, self._policy(row.version)),
            "overridden": overridden_steps(row.body),
        }
        for name in ("actions", "recommended"):
            if (array := getattr(report, name)) is not None:
                plain[name] = array.tolist()
        return plain


def _propensities(report: Report, policy: Policy) -> list[float] | None:
    """Return the probability of each action, from the report or else from the policy."""
    found = report.propensities
    if found is None:
        if report.first_features is None or report.actions is None:
            return None
        offered = zip(
            [report.first_features, *report.episode.next_features], report.actions, strict=False
        )
        taken = [policy.chances(h, rows, place) for h, (rows, place) in enumerate(offered)]
        found = policy.conditional(np.array(taken))
        if not found[-1]:  # a person chose, with unknown probability
            return None
    return [*map(float, found)]
