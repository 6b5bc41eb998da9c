"""The log of a campaign, fed to a plain `Learner`: it must come to the same policies.

This is deliberately the simplest loop there is, and shares nothing with the campaign's own fold: no
snapshots, no process, no lock. Every candidate must be the first that was due, in equal bytes.
"""

from collections.abc import Sequence
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.report import episode_of
from rareswitch.campaigns.rulebook.state import Candidate, State
from rareswitch.campaigns.store.rows import rows_of
from rareswitch.core.episode import Episode


def differences_from_learner(campaign: Campaign) -> tuple[str, ...]:
    """Return where the candidates of a campaign differ from those of a `Learner`; () if nowhere.

    It is about campaigns that went as their protocol planned: without amendments, rollbacks and
    proposals that the schedule did not ask for.
    """
    with campaign.store.reading() as connection:
        state = campaign.state_at(connection)
        rejections = {
            entry.payload["candidate"]: entry.position
            for entry in campaign.entries_at(connection)
            if entry.kind == "rejected"
        }
        rows = list(rows_of(connection, "episodes", campaign.name))
    if not went_as_planned(state):
        raise ValueError(
            "campaign must have gone as planned; it was amended, rolled back, or something was "
            "proposed that was not due"
        )
    return tuple(_differences(campaign, state, rejections, rows))


def went_as_planned(state: State) -> bool:
    """Return whether nothing was amended, rolled back, or proposed early."""
    planned = all(candidate.planned for candidate in state.candidates.values())
    back = any(version.rollback_to for version in state.versions)
    return planned and not back and len(state.revisions) == 1


def _differences(
    campaign: Campaign, state: State, rejections: dict[int, int], rows: Sequence[Any]
) -> list[str]:
    """Ask the schedule after every row, and compare what is due with what was proposed."""
    learner, episodes = campaign.protocol.learner(), dict[str, Episode]()
    expected = list(state.candidates.values())
    place = spent = 0
    ask_from = 1
    for row in rows:
        episode = None if row.body is None else episode_of(row.body)
        if row.learn and row.revision:
            learner.correct(episodes[row.episode_id], episode)
        elif row.learn:
            learner.absorb(episode)
        if episode is not None:
            episodes[row.episode_id] = episode
        asked = row.seq >= ask_from and not row.revision and spent < state.terms.budget
        if not asked or not learner.due:
            continue
        if place == len(expected):  # after a stop nothing is proposed any more
            return [] if state.stopped else [f"a Learner is due at {row.seq}; no candidate is"]
        candidate, fitted = expected[place], learner.fit()
        place += 1
        if (candidate.seq, candidate.digest) != (row.seq, fitted.digest):
            how = "the same" if candidate.digest == fitted.digest else "another"
            return [
                f"candidate {candidate.number} was fitted at {candidate.seq}; a Learner is due at "
                f"{row.seq}, with {how} policy"
            ]
        if candidate.status == "deployed":
            learner.deploy(fitted)
            spent += 1
        ask_from = _asked_next(candidate, state, rejections, len(rows))
    return [f"candidate {one.number} is due nowhere" for one in expected[place:]]


def _asked_next(candidate: Candidate, state: State, rejections: dict[int, int], length: int) -> int:
    """Return the row from which on the schedule is asked again after a candidate."""
    if candidate.status == "deployed":
        return candidate.seq + 1
    if candidate.status == "rejected":
        again = rejections[candidate.number] + state.terms.approval.retry_after
        return max(candidate.seq + 1, again)
    return length + 1  # it waits
