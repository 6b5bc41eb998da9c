"""Looking whether a campaign has to stop, after every episode and every refusal."""

from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.cohorts import INTAKE, Cohorts
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.stopping.rules import Progress, Reached

ENGINE = "engine"  # who stops a campaign by a rule
EPISODES = "episodes"  # the rule that every protocol has: no more than it plans


def look(pen: Pen, protocol: Protocol, cohorts: Cohorts, *, version: int, now: str) -> bool:
    """Ask every stopping rule of a running campaign about a version; stop if one is reached.

    Return whether it has stopped. The value, the threshold and the margin of what was reached are
    in the entry.
    """
    found = _reached(protocol, cohorts, version)
    if found is None:
        return False
    rule, why = found
    reason = f"{rule}: {why.reason}"
    enter(pen, "stopped", why.plain(rule), actor=ENGINE, reason=reason, now=now)
    return True


def _reached(protocol: Protocol, cohorts: Cohorts, version: int) -> tuple[str, Reached] | None:
    """Return the name of the first rule that is reached, and why it is."""
    episodes, planned = cohorts.episodes, protocol.task.episodes
    if protocol.stopping:
        progress = Progress(
            episodes=episodes,
            horizon=protocol.task.horizon,
            version=version,
            returns=cohorts[version],
            intake=cohorts[INTAKE],
        )
        for rule in protocol.stopping:
            if why := rule.reached(progress):
                return rule.name, why
    if episodes < planned:
        return None
    return EPISODES, Reached(f"all {planned} are recorded", episodes, planned)
