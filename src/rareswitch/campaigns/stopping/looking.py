"""Looking whether a campaign has to stop, after every episode and every refusal."""

from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.record.cohorts import INTAKE, Cohorts
from rareswitch.campaigns.record.ledger import enter
from rareswitch.campaigns.record.pen import Pen
from rareswitch.campaigns.state import State
from rareswitch.campaigns.stopping.rules import Progress

ENGINE = "engine"  # who stops a campaign by a rule


def look(pen: Pen, state: State, cohorts: Cohorts, *, version: int, now: str) -> bool:
    """Ask every stopping rule about a version; if one is reached, stop and return True."""
    if state.stopped:
        return False
    reason = _reached(state.protocol, cohorts, version)
    if reason is not None:
        enter(pen, "stopped", {}, actor=ENGINE, reason=reason, now=now)
    return reason is not None


def _reached(protocol: Protocol, cohorts: Cohorts, version: int) -> str | None:
    """Return the first rule that is reached, and why."""
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
            if reason := rule.reached(progress):
                return f"{rule.name}: {reason}"
    return f"episodes: all {planned} are recorded" if episodes >= planned else None
