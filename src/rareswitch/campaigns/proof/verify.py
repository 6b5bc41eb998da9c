"""Verifying a campaign from its record: chains, rules, stops, evidence, and all policies."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from itertools import islice
from typing import Any

from rareswitch.campaigns.errors import CampaignError, DamagedError
from rareswitch.campaigns.proof.audit import Audit
from rareswitch.campaigns.proof.checks import (
    ALTERED,
    ChainCheck,
    Check,
    Progress,
    checked,
    describe,
    marks_of,
    quiet,
)
from rareswitch.campaigns.proof.exported import SecondGram
from rareswitch.campaigns.proof.replay import Replay
from rareswitch.campaigns.proof.signed import SignatureCheck, signature_check
from rareswitch.campaigns.rulebook.cohorts import in_their_order
from rareswitch.campaigns.rulebook.decisions import broken_rules
from rareswitch.campaigns.rulebook.rows import Entry, Head, LedgerRow, Record, RefusalRow, canonical
from rareswitch.campaigns.rulebook.state import State
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.core.policy import Policy

CHAINS = ("assignments", "refusals", "episodes")
MOST_POLICIES = 32  # in memory


@dataclass(kw_only=True)
class Verification:
    """The outcome of all checks."""

    checks: list[Check]

    @property
    def ok(self) -> bool:
        return not any(check.problems for check in self.checks)

    @property
    def problems(self) -> list[str]:
        return [problem for check in self.checks for problem in check.problems]

    @property
    def unchecked(self) -> list[str]:
        return [part for check in self.checks for part in check.unchecked]

    @property
    def plain(self) -> dict[str, Any]:
        checks = [asdict(check) | {"outcome": check.outcome} for check in self.checks]
        return {"ok": self.ok, "verdict": self.verdict, "checks": checks}

    @property
    def verdict(self) -> str:
        if not self.ok:
            return "NOT proven"
        signed = [one.signed for one in self.checks if isinstance(one, SignatureCheck)]
        but = ["except for the parts named as unchecked"] if self.unchecked else []
        return ", ".join(["proven", *but, *signed])

    @property
    def text(self) -> str:
        """The outcome for people, with a line for each check, remark and problem."""
        lines = []
        for check in self.checks:
            counted = "1 row" if check.rows == 1 else f"{check.rows} rows"
            lines.append(f"{check.name:<14} {counted}: {check.outcome}")
            unchecked = [f"unchecked: {part}" for part in check.unchecked]
            lines += [f"{'':<14} {line}" for line in [*check.remarks, *unchecked, *check.problems]]
        return "\n".join([*lines, f"verdict        {self.verdict}"])


def verify_record(
    record: Record,
    *,
    allow: Sequence[str] = (),
    anchors: Sequence[dict[str, Head]] = (),
    second: type[SecondGram] | None = None,
    progress: Progress = quiet,
) -> Verification:
    """Check a snapshot of a campaign; every problem names its row.

    `allow` names the modules of the user's own code that the protocol may use. `anchors` are heads
    of the chains kept elsewhere: the record must still contain them. `second` computes the
    log-determinants a second time.
    """
    checks = [_anchored(record, anchors)] if anchors else []
    chain = ChainCheck("ledger")
    rows = list(checked(record.rows("ledger"), chain))
    checks.append(chain.end(record.heads["ledger"]))
    if checks[-1].problems:
        return Verification(checks=checks)  # all other checks depend on the ledger
    entries, problems = _read(rows)
    rules = Check(name="rules", rows=len(rows), problems=problems)
    if problems:
        return Verification(checks=[*checks, rules])
    policies = lru_cache(MOST_POLICIES)(lambda d: Policy.from_bytes(record.artifact(d)))
    try:
        checks.extend(_walk(record, entries, policies, progress))
    except ALTERED as error:
        rules.fail(f"the rules cannot be checked, {describe(error)}")
        checks.append(rules)
    if any(check.problems for check in checks if check.name != "deviations"):
        return Verification(checks=checks)
    state = State().after(*entries)
    if (signed := signature_check(entries, state)) is not None:
        checks.append(signed)
    checks.append(_artifacts(record, state))
    if not checks[-1].problems:
        gram = second(entries[0].payload["protocol"]) if second is not None else None
        replay = Replay(record, allow=allow, progress=progress, policies=policies, second=gram)
        checks.append(replay.run(entries))
    return Verification(checks=checks)


def _anchored(record: Record, anchors: Sequence[dict[str, Head]]) -> Check:
    """Compare the record with heads kept elsewhere."""
    check = Check(name="anchors")
    for anchor in anchors:
        for chain, head in anchor.items():
            check.rows += 1
            if not head.length:
                continue
            found = list(record.rows(chain, after=head.length - 1, upto=head.length))
            if not found:
                check.fail(f"{chain}: row {head.length} was seen elsewhere, and is missing here")
            elif found[0].link != head.link:
                check.fail(f"{chain}: row {head.length} is not the row that was seen elsewhere")
    return check


def _read(rows: Sequence[LedgerRow]) -> tuple[list[Entry], list[str]]:
    """Return the entries of a ledger, and the problems up to the first damaged entry."""
    entries, problems, state = list[Entry](), list[str](), State()
    for row in rows:
        where, broken = f"ledger: entry {row.number}", list[Exception]()
        try:
            entry = Entry.of(row)
            if canonical(entry.payload) != row.payload:
                raise DamagedError("its payload is not in canonical form")
            broken = list(broken_rules(state, entry))
            if not any(isinstance(error, DamagedError) for error in broken):
                state = state.after(entry)
        except ALTERED as error:
            broken = broken or [error]
        for problem in broken:
            told = problem if isinstance(problem, CampaignError) else describe(problem)
            problems.append(f"{where}: {told}")
        if state.entries < row.number:
            return entries, problems
        entries.append(entry)
    if [entry.kind for entry in entries[:2]] != ["created", "deployed"]:
        return entries, ["ledger: it must begin with the protocol and version 1"]
    return entries, []


def _walk(
    record: Record,
    entries: Sequence[Entry],
    policies: Callable[[str], Policy],
    progress: Progress,
) -> Iterator[Check]:
    """Check links and rules of all chains together, in the order of writing."""
    audit = Audit(
        terms=Terms.of(entries[0].payload["protocol"]),
        corrected={e.payload["episode_id"] for e in entries if e.kind == "corrected"},
        policies=policies,
    )
    chains = {name: ChainCheck(name, marks_of(entries, name)) for name in CHAINS}
    rows = {name: checked(record.rows(name), chains[name]) for name in CHAINS}
    done, length = audit.checks, record.heads["episodes"].length

    def until(reached: dict[str, Any] | None) -> None:
        """Check the rows of each chain up to these lengths, or all remaining rows."""
        part = {
            name: islice(
                rows[name], max(0, reached[name][0] - done[name].rows) if reached else None
            )
            for name in CHAINS
        }
        for row in part["assignments"]:
            audit.assignment(row)
        for row in in_their_order(part["episodes"], part["refusals"]):
            if isinstance(row, RefusalRow):
                audit.refusal(row, done["episodes"].rows)
                continue
            audit.episode(row)
            if row.seq % 1000 == 0:
                progress("episodes", row.seq, length)

    try:
        for entry in entries:
            until(entry.payload["reached"])  # a shorter chain fails its own check
            audit.entry(entry)
        until(None)
        audit.end()
    except ALTERED as error:
        audit.checks["rules"].fail(f"the rules cannot be checked, {describe(error)}")
        audit.read_contents()
        for name in CHAINS:
            deque(rows[name], maxlen=0)  # altered rows are still named
    ended = [chain.end(record.heads[name]) for name, chain in chains.items()]
    altered = [check for check in ended if check.problems]  # these may mislead the rules
    yield from altered or audit.checks.values()


def _artifacts(record: Record, state: State) -> Check:
    """Check every artifact that the ledger names by its digest."""
    check = Check(name="artifacts")
    named = [version.entry for version in state.versions]
    named += [candidate.entry for candidate in state.candidates.values()]
    policies = {entry.payload["digest"] for entry in named}
    others = {one for terms in state.revisions for one in (terms.simulation, terms.features)}
    for digest in sorted((policies | others) - {""}):
        check.rows += 1
        try:
            data = record.artifact(digest)
            if digest not in policies:
                continue
            policy = Policy.from_bytes(data)
            for entry in named:
                told = entry.payload
                known = told["members"], told["allocation"], told.get("shares")
                alike = known == (policy.members, policy.allocation, policy.split.shares)
                if told["digest"] == digest and not alike:
                    check.fail(f"ledger: entry {entry.number}: its policy has other members")
        except CampaignError as error:
            check.fail(str(error))
        except ALTERED as error:
            check.fail(f"artifact {digest[:12]} is not a policy, {describe(error)}")
    return check
