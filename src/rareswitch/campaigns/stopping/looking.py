"""Looking whether a campaign has to stop, after every episode and every refusal."""

from collections.abc import Iterator

from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.cohorts import Cohorts
from rareswitch.campaigns.record.counting import INTAKE, Counting
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.stopping.rules import Progress, Watched

ENGINE = "engine"  # who stops a campaign by a rule
EPISODES = "episodes"  # the rule that every protocol has: no more than it plans


def look(pen: Pen, protocol: Protocol, cohorts: Cohorts, *, version: int, now: str) -> bool:
    """Ask every stopping rule of a running campaign about a version; stop if one is reached.

    Return whether it has stopped. The value, the threshold and the margin of what was reached are
    in the entry.
    """
    for seen in watched(protocol, cohorts, version):
        if seen.passed:
            reason = f"{seen.rule}: {seen.reason}"
            enter(pen, "stopped", seen.plain, actor=ENGINE, reason=reason, now=now)
            return True
    return False


def watched(protocol: Protocol, counted: Cohorts | Counting, version: int) -> Iterator[Watched]:
    """Give what each stopping rule looks at, in the order in which they are asked."""
    episodes, planned = counted.episodes, protocol.episodes
    if protocol.stopping:
        progress = Progress(
            episodes=episodes,
            horizon=protocol.task.horizon,
            version=version,
            returns=counted[version],
            intake=counted[INTAKE],
        )
        for rule in protocol.stopping:
            if (seen := rule.watch(progress)) is not None:
                yield seen
    reason = f"all {planned} are recorded"
    yield Watched(EPISODES, episodes, planned, episodes >= planned, reason)
