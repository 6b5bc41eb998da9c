"""The rules of rows and assignments: the player of an episode, and whether fits learn from it.

The writer computes the columns of a row with these functions; every verifier recomputes and
compares them.
"""

from typing import NamedTuple

from rareswitch.campaigns.errors import ConflictError, NotAllowedError, RefusedError
from rareswitch.campaigns.rulebook.running_mean import Place
from rareswitch.campaigns.rulebook.state import State


class Assigned(NamedTuple):
    """The version, the member and the salt of an assigned episode."""

    version: int
    member: int
    salt: str | None

    def key(self, episode_id: str) -> str:
        return key_of(episode_id, self.salt)


class Attribution(NamedTuple):
    """The columns of a row that follow from the ledger and the assignment."""

    version: int
    member: int
    assigned: bool
    late: bool
    learn: bool


class LastRow(NamedTuple):
    """The last row of an episode, without its body."""

    seq: int
    revision: int
    attribution: Attribution
    total: float
    digest: str
    withdrawn: bool
    place: Place | None = None  # in its cohort


def key_of(episode_id: str, salt: str | None) -> str:
    """Return the key by which a policy draws the member of an episode.

    >>> key_of("ada", None), key_of("ada", "7f3a")
    ('ada', 'ada/7f3a')
    """
    return episode_id if salt is None else f"{episode_id}/{salt}"


def attribute(
    state: State,
    episode_id: str,
    *,
    version: int | None,
    member: int | None,
    assigned: Assigned | None,
    rows: int,
) -> Attribution:
    """Return the player of an episode to record as row `rows` + 1, or raise if it is not allowed.

    `version` and `member` are the report's values, or None.
    """
    intake, in_force = state.terms.intake, state.in_force.version
    if episode_id in state.cancelled_ids:
        raise NotAllowedError(f"episode {episode_id} was cancelled")
    if assigned is None:
        if intake.assigned:
            raise RefusedError(
                f"episode {episode_id} was not assigned, and the protocol asks so; ask for an "
                "assignment or a treatment first"
            )
        if state.stopped:
            raise NotAllowedError(
                "the campaign has stopped; only episodes that were assigned before are recorded"
            )
    number = (in_force if assigned is None else assigned.version) if version is None else version
    if number > in_force:
        raise RefusedError(f"version {number} does not exist yet; version {in_force} is in force")
    if assigned is not None and number != assigned.version:
        raise RefusedError(
            f"episode {episode_id} was assigned to version {assigned.version}; got {number}"
        )
    acted = state.in_force if number == in_force else state.version(number)
    if assigned is None and number < in_force:
        since = rows - state.version(number + 1).since
        if since > intake.grace:
            raise RefusedError(
                f"version {number} was replaced {since} episodes ago; the grace is {intake.grace}"
            )
    plays = acted.member(episode_id) if assigned is None else assigned.member
    if member not in (None, plays):
        raise RefusedError(
            f"member {plays} of version {number} plays episode {episode_id}; got {member}"
        )
    late = number != in_force
    learn = not late or intake.late == "learn"
    return Attribution(number, plays, assigned is not None, late, learn)


def assign(
    state: State, episode_id: str, *, salt: str | None, recorded: bool, begun: int
) -> Assigned:
    """Return the version and member of a new episode, or raise if it may not begin.

    `begun` is the number of assignments so far.
    """
    if recorded:
        raise ConflictError(f"episode {episode_id} is recorded already, and cannot begin again")
    if state.stopped:
        raise NotAllowedError("the campaign has stopped; no episode may begin")
    planned = state.terms.episodes
    if begun - len(state.cancelled) >= planned:
        cost = ", but then nothing is concluded at the planned end"
        raise NotAllowedError(
            f"all {planned} planned episodes have begun; an amendment may raise their number"
            f"{cost if state.terms.control_share else ''}"
        )
    if (salt is not None) != state.terms.intake.concealed:
        raise NotAllowedError("a salt is drawn where the protocol conceals the allocation")
    version = state.in_force
    return Assigned(version.version, version.member(key_of(episode_id, salt)), salt)


def correct(
    last: LastRow | None, episode_id: str, *, version: int | None = None, member: int | None = None
) -> Attribution:
    """Return the player of an episode to correct or withdraw, or raise if it is not allowed."""
    if last is None:
        raise NotAllowedError(f"episode {episode_id} is not recorded")
    if last.withdrawn:
        raise NotAllowedError(f"episode {episode_id} was withdrawn, and stays withdrawn")
    kept = last.attribution
    for name, told, was in (("version", version, kept.version), ("member", member, kept.member)):
        if told not in (None, was):
            raise NotAllowedError(
                f"{name} must be {was}, which acted in episode {episode_id}; no correction changes "
                f"it; got {told}"
            )
    return kept
