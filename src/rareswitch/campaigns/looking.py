"""Looking whether a campaign has to stop, after every episode and every refusal."""

from rareswitch.campaigns.cohorts import INTAKE, Cohorts
from rareswitch.campaigns.ledger import enter
from rareswitch.campaigns.pen import Pen
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping import Progress

ENGINE = "engine"  # who stops a campaign by a rule


def look(pen: Pen, state: State, cohorts: Cohorts, *, version: int, now: str) -> bool:
    """Ask every stopping rule about a version; if one is reached, stop and return True."""
    protocol = state.protocol
    progress = Progress(
        episodes=cohorts.episodes,
        horizon=protocol.task.horizon,
        version=version,
        returns=cohorts[version],
        intake=cohorts[INTAKE],
    )
    if state.stopped:
        return False
    for rule in protocol.stopping:
        if reason := rule.reached(progress):
            enter(pen, "stopped", {}, actor=ENGINE, reason=f"{rule.name}: {reason}", now=now)
            return True
    if progress.episodes >= protocol.task.episodes:
        reason = f"episodes: all {protocol.task.episodes} are recorded"
        enter(pen, "stopped", {}, actor=ENGINE, reason=reason, now=now)
        return True
    return False
