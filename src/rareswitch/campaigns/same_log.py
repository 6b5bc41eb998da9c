"""The log of a campaign, fed to a plain `Learner`: it must come to the same policies.

This is deliberately the simplest loop there is, and shares nothing with the campaign's own fold: no
snapshots, no process, no lock. Every candidate must be the first that was due, in equal bytes.
"""

from collections.abc import Sequence
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.log import rows_of
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.state import Candidate, State
from rareswitch.core.episode import Episode
from rareswitch.core.learner import Learner


def differences_from_learner(campaign: Campaign) -> tuple[str, ...]:
    """Return where a campaign's candidates differ from those of a `Learner`; () if nowhere.

    An amended protocol has changed what is learnt, so it is not asked about.

    >>> differences_from_learner.__name__
    'differences_from_learner'
    """
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        rows = list(rows_of(connection, "episodes", campaign.name))
    if len(state.revisions) > 1:
        raise ValueError("campaign must have one revision of its protocol; it was amended")
    return tuple(_compared(campaign, state, rows))


def _compared(campaign: Campaign, state: State, rows: Sequence[Any]) -> list[str]:
    """Ask the schedule after every row, and compare what is due with what was proposed."""
    learner, episodes = state.protocol.learner(), dict[str, Episode | None]()
    expected = sorted(
        (one for one in state.candidates.values() if one.planned), key=lambda one: one.seq
    )
    found: list[str] = []
    place, ask_from, deployed = 0, 1, 0
    rollbacks = {v.seq: v for v in state.versions if v.rollback_to is not None}
    for number, row in enumerate(rows, start=1):
        if row.revision:
            episodes[row.episode_id] = None if row.body is None else episode_of(row.body)
            learner = _again(campaign, state, rows[:number], episodes)
        elif row.learn:
            episodes[row.episode_id] = episode_of(row.body)
            learner.absorb(episode_of(row.body))
        spent = deployed >= state.protocol.budget
        if row.seq >= ask_from and not spent and learner.due:
            if place == len(expected):
                # Nobody looked any more: it had stopped, or nobody has looked yet.
                return found if state.stopped else [*found, f"none was proposed at {row.seq}"]
            candidate = expected[place]
            place += 1
            fitted = learner.fit()
            if (candidate.seq, candidate.digest) != (row.seq, fitted.digest):
                found.append(
                    f"candidate {candidate.number} was fitted at {candidate.seq}; a Learner is due "
                    f"at {row.seq}, with {'equal' if fitted.digest == candidate.digest else 'other'}"
                    " bytes"
                )
                return found
            if candidate.status == "deployed":
                learner.deploy(fitted)
                deployed += 1
            ask_from = _next(state, candidate, len(rows))
        if row.seq in rollbacks:
            learner.deploy(campaign.artifact(rollbacks[row.seq].digest))
    found += [f"candidate {one.number} is due nowhere" for one in expected[place:]]
    return found


def _next(state: State, candidate: Candidate, length: int) -> int:
    """Return the row from which on the schedule is asked after a candidate."""
    if candidate.status == "waiting":
        return length + 1
    if candidate.status != "rejected":
        return candidate.seq + 1
    entry = state.decided[candidate.number]
    return max(candidate.seq + 1, entry.position + state.protocol.approval.retry_after)


def _again(
    campaign: Campaign, state: State, rows: Sequence[Any], episodes: dict[str, Episode | None]
) -> Learner:
    """Return a learner that has seen every row in its place, as it is corrected now."""
    learner = state.protocol.learner()
    versions = iter(state.versions[1:])
    version = next(versions, None)
    for row in rows:
        if not row.revision and row.learn and (episode := episodes[row.episode_id]) is not None:
            learner.absorb(episode)
        while version is not None and version.seq == row.seq:
            learner.deploy(campaign.artifact(version.digest))
            version = next(versions, None)
    return learner
