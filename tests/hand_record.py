"""A campaign written down by hand: few rows, whose counts can be read off."""

import json
from types import SimpleNamespace

import numpy as np

from rareswitch.campaigns.rulebook.rows import (
    AssignmentRow,
    Entry,
    EpisodeRow,
    Head,
    LedgerRow,
    RefusalRow,
    canonical,
)
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.support import codec

PROTOCOL = {
    "format": 1,
    "name": "hand",
    "task": {"dim": 2, "horizon": 2, "episodes": 20, "feature_norm": 1.0, "stages": "own",
             "one_hot": False, "actions": ["low", "high"]},
    "recipe": {"exploration": {"kind": "bonus", "beta": 1.0}, "ridge": 1.0, "seed": 0},
    "schedule": {"kind": "uniform-grid", "batches": 3},
    "budget": {"deployments": 2},
    "approval": {"by": "second-person", "retry_after": 1},
    "intake": {"late": "learn", "grace": 5, "assigned": False},
}  # fmt: skip


class HandRecord:
    """A `Record` of rows in memory."""

    def __init__(self, **chains):
        self.campaign = "hand"
        self.chains = {"ledger": [], "assignments": [], "refusals": [], "episodes": []} | chains
        self.heads = {name: Head(len(rows), "0" * 64) for name, rows in self.chains.items()}

    def rows(self, chain, *, after=0, upto=None):
        return iter(self.chains[chain][after:upto])

    def artifact(self, digest):
        raise AssertionError("nothing that is derived needs an artifact")


def body(actions=None, recommended=None):
    """Return a body that tells choices and nothing else."""
    told = {"actions": actions, "recommended": recommended}
    arrays = {name: np.array(value, np.int64) for name, value in told.items() if value is not None}
    return codec.pack("report", {}, arrays)


def episode(seq, name, total, *, version=1, revision=0, site=None, deviations=None, **changes):
    """Return a row of the log."""
    claims = {} if site is None else {"site": site}
    given = {"assigned": False, "late": False, "body": body()} | changes
    return EpisodeRow(
        seq=seq, episode_id=name, revision=revision, version=version, member=0, learn=True,
        total=total, claims=canonical(claims), received="", digest="", deviations=deviations,
        link="", **given,
    )  # fmt: skip


def assignment(number, name, version=1):
    return AssignmentRow(number, name, version, 0, "", None, "")


def refusal(number, reason):
    return RefusalRow(number, 0, None, reason, "", "", "", "")


def entry(number, kind, payload, *, actor="ana", reason="agreed", at="2026-01-01T00:00Z", seq=0):
    reached = {"reached": {"episodes": [seq, ""]}}
    return Entry(number, kind, actor, reason, at, json.loads(json.dumps(payload | reached)), "")


def ledger_row(found):
    return LedgerRow(*found[:5], canonical(found.payload), found.link)


def version(number, found, *, since=0, rollback_to=None):
    return SimpleNamespace(
        version=number, digest=f"{number:064x}", seq=since, since=since, members=1,
        rollback_to=rollback_to, entry=found,
    )  # fmt: skip


def candidate(
    number, found, evidence, *, version=2, planned=True, status="deployed", decision=None
):
    return SimpleNamespace(
        number=number, version=version, seq=3, digest=f"{version:064x}", proposer=found.actor,
        planned=planned, evidence=evidence, entry=found, status=status, approver="ben",
        decision=decision, approvals=(),
    )  # fmt: skip


def hand_made(*, text="plain", evidence=None):
    """Return record, entries and state of six episodes under two versions; people write `text`."""
    known = {
        "episodes": 3,
        "disagreement": 0.5,
        "gain": None,
        "warnings": [text],
        "triggers": [{"quantity": text, "value": 4, "threshold": 3, "reached": True}],
    }
    known = known if evidence is None else evidence
    wrote = {"actor": text, "reason": text, "at": text}
    entries = [
        entry(1, "created", {"protocol": PROTOCOL, "digest": "d" * 64}, **wrote),
        entry(2, "deployed", {"candidate": None, "version": 1}, **wrote),
        entry(3, "candidate", {"version": 2, "planned": False, "evidence": known}, seq=3, **wrote),
        entry(4, "approved", {"candidate": 3}, seq=3, **wrote),
        entry(5, "deployed", {"candidate": 3, "version": 2}, seq=3, **wrote),
        entry(6, "corrected", {"episode_id": "a", "corrects": 1, "withdrawn": False}, **wrote),
        entry(7, "corrected", {"episode_id": "a", "corrects": 7, "withdrawn": False}, **wrote),
        entry(8, "corrected", {"episode_id": "b", "corrects": 2, "withdrawn": True}, **wrote),
        entry(9, "cancelled", {"episode_id": "x"}, **wrote),
        entry(10, "amended", {"protocol": PROTOCOL | {"budget": {"deployments": 3}}}, **wrote),
        entry(11, "stopped", {}, **wrote),
    ]  # fmt: skip
    revisions = [Terms.of(entries[place].payload["protocol"]) for place in (0, 9)]
    said = {"candidate": 3, "reviewed": False, "meaning": text}
    signed = candidate(3, entries[2], known, planned=False, decision=entries[3])
    state = SimpleNamespace(
        revisions=revisions,
        terms=revisions[-1],
        versions=[version(1, entries[1]), version(2, entries[4], since=3)],
        candidates={3: signed},
        declined=[],
        corrections=3,
        cancelled_ids={"x"},
        stopped=entries[-1],
        waiting=None,
        spent=1,
        role=lambda version, member: "learned",
        rehearsal=False,
        passkeys={},
        comments=[entry(12, "commented", said, **wrote)],
    )
    episodes = [
        episode(1, "a", 0.5, site=text, assigned=True),
        episode(2, "b", 0.25, site=text),
        episode(3, "c", 1.0, deviations=0),
        episode(4, "d", 1.5, version=2, site=text, deviations=2, assigned=True),
        episode(5, "e", 2.0, version=2, site="other", body=body([0, 1], [1, 0])),
        episode(6, "f", 1.0, version=1, late=True, body=body([0, 1], [0, 1])),
        episode(7, "a", 1.0, revision=1, site=text, assigned=True),
        episode(8, "a", 2.0, revision=2, site="other", assigned=True, deviations=1),
        episode(9, "b", 0.0, revision=1, body=None),
    ]
    assignments = [assignment(1, "a"), assignment(2, "x"), assignment(3, "y"),
                   assignment(4, "d", 2)]  # fmt: skip
    record = HandRecord(
        ledger=[ledger_row(one) for one in entries],
        assignments=assignments,
        refusals=[refusal(1, f"{text}; got 1"), refusal(2, f"{text}; got 2"), refusal(3, "z")],
        episodes=episodes,
    )
    return record, entries, state
