"""Proving a campaign from its store: chains, rules, stops, and every version fitted again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.engine import Connection

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.errors import CampaignError
from rareswitch.campaigns.proof.chain_check import ChainCheck
from rareswitch.campaigns.proof.check import NONSENSE, Check, Said, words
from rareswitch.campaigns.proof.log_check import LogCheck
from rareswitch.campaigns.proof.replay_check import replay
from rareswitch.campaigns.proof.rule_check import follow
from rareswitch.campaigns.proof.stop_check import check_stops
from rareswitch.campaigns.record.artifacts import artifact_of
from rareswitch.campaigns.record.cohorts import cohorts_of
from rareswitch.campaigns.record.counting import INTAKE, Counting
from rareswitch.campaigns.record.ledger import Entry
from rareswitch.campaigns.record.log import rows_of
from rareswitch.campaigns.record.pen import heads_of
from rareswitch.campaigns.state import State
from rareswitch.core.policy import Policy


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


def verify(campaign: Campaign, *, progress: Said = lambda what, done, of: None) -> Verification:
    """Check one moment of a campaign; everything that is wrong is named with its row."""
    checks: list[Check] = []
    with campaign.store.reading() as connection:
        rows = list(rows_of(connection, "ledger", campaign.name))
        checks.append(_ledger(connection, campaign, rows))
        if checks[0].problems:
            return Verification(checks=checks)  # what follows would be about other rows
        entries, state, broken = follow(rows)
        if state is not None:
            checks.extend(_chains(connection, campaign, entries, state, progress))
        sound = state is not None and not any(check.problems for check in checks)
        checks.append(Check(name="rules", rows=len(rows), problems=broken))
        if state is None or not sound:
            return Verification(checks=checks)
        checks.append(_artifacts(connection, campaign, state))
        if not any(check.problems for check in checks):
            checks.extend(_counted(connection, campaign, entries, state))
            checks.append(replay(connection, campaign, entries, progress))
    return Verification(checks=checks)


def _ledger(connection: Connection, campaign: Campaign, rows: Sequence[Any]) -> Check:
    """Go through the ledger, from its first row to its head."""
    check = ChainCheck("ledger")
    for row in rows:
        check.see(row._asdict())
    problems = check.ended(heads_of(connection, campaign.name)["ledger"])
    return Check(name="ledger", rows=check.length, problems=problems)


def _chains(
    connection: Connection,
    campaign: Campaign,
    entries: Sequence[Entry],
    state: State,
    progress: Said,
) -> Iterator[Check]:
    """Go through every other chain from its first row to its head, in the light of the ledger."""
    heads, log = heads_of(connection, campaign.name), LogCheck(entries, state)
    for chain in ("assignments", "refusals", "episodes"):
        check = ChainCheck(chain, marks=_marks(entries, chain))
        more: list[str] = []
        for row in rows_of(connection, chain, campaign.name):
            check.see(row._asdict())
            more += log.see(chain, row)
            if check.length % 1000 == 0:
                progress(chain, check.length, heads[chain].length)
        problems = check.ended(heads[chain]) + more
        yield Check(name=chain, rows=check.length, problems=problems)


def _counted(
    connection: Connection, campaign: Campaign, entries: Sequence[Entry], state: State
) -> Iterator[Check]:
    """Make every look again, and compare what is kept of every cohort with what was counted."""
    counting = Counting(horizon=state.protocol.task.horizon)
    yield check_stops(connection, campaign.name, entries, counting)
    kept, counted = cohorts_of(connection, campaign.name), counting.cohorts
    yield Check(
        name="cohorts",
        rows=len(kept),
        problems=[
            f"cohort of {'the intake' if number == INTAKE else f'version {number}'}: the log says "
            "otherwise than what is kept"
            for number in sorted({*kept, *counted})
            if kept.get(number) != counted.get(number)
        ],
    )


def _marks(entries: Sequence[Entry], chain: str) -> dict[int, list[tuple[str, str]]]:
    """Return which links entries of the ledger saw at the head of a chain, by its length."""
    marks: dict[int, list[tuple[str, str]]] = {}
    for entry in entries:
        length, link = entry.payload["reached"][chain]
        marks.setdefault(length, []).append((link, f"entry {entry.number} of the ledger"))
    return marks


def _artifacts(connection: Connection, campaign: Campaign, state: State) -> Check:
    """Look whether everything that the ledger names by its digest is there."""
    check = Check(name="artifacts")
    policies = {version.digest for version in state.versions}
    policies |= {candidate.digest for candidate in state.candidates.values()}
    digests = policies | {
        revision.simulation for revision in state.revisions if revision.simulation
    }
    for digest in sorted(digests):
        check.rows += 1
        try:
            data = artifact_of(connection, campaign.name, digest)
        except CampaignError as error:
            check.problems.append(str(error))
            continue
        try:
            if digest in policies:
                check.problems.extend(_allocated_otherwise(Policy.from_bytes(data), state))
        except NONSENSE as error:
            check.problems.append(f"artifact {digest[:12]} is no policy, {words(error)}")
    return check


def _allocated_otherwise(policy: Policy, state: State) -> Iterator[str]:
    """Give the entries that say of a policy that it has other members than it has."""
    entries = [version.entry for version in state.versions]
    entries += [candidate.entry for candidate in state.candidates.values()]
    for entry in entries:
        told = entry.payload
        alike = (told["members"], told["allocation"]) == (policy.members, policy.allocation)
        if told["digest"] == policy.digest and not alike:
            yield f"ledger: entry {entry.number}: its policy is allocated otherwise"
