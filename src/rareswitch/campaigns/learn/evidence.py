"""What speaks for a candidate: the trigger, how it differs, and what it is expected to gain."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sqlalchemy.engine import Connection

from rareswitch.campaigns.learn.fold import Fold
from rareswitch.campaigns.record.log import corrections_of, rows_of
from rareswitch.campaigns.report import Report
from rareswitch.campaigns.state import Version
from rareswitch.core.policy import Policy
from rareswitch.evaluation import Comparison, compare, conditional_propensities
from rareswitch.support.arguments import Rows
from rareswitch.trajectories import Trajectory

# The last episodes that are looked at, and the states in which policies are compared.
MOST_EPISODES = 1000
MOST_STATES = 2000
COLUMNS = ("episode_id", "revision", "version", "body")


def evidence_of(
    connection: Connection,
    fold: Fold,
    *,
    candidate: Policy,
    in_force: Policy,
    versions: Sequence[Version],
    policies: Callable[[str], Policy],
) -> dict[str, Any]:
    """Return as plain values what is known of a candidate that was fitted where the fold is.

    Of an episode that was corrected the last report counts, and one that was withdrawn does not.
    """
    learner = fold.learner
    corrected = corrections_of(connection, fold.campaign, upto=fold.seq)
    offers = Offers(policies, versions)
    after = max(0, fold.seq - MOST_EPISODES)
    for row in rows_of(
        connection, "episodes", fold.campaign, after=after, upto=fold.seq, columns=COLUMNS
    ):
        body = corrected.get(row.episode_id, row.body)
        if body is not None and not row.revision:
            offers.add(Report.from_body(body, id=row.episode_id), row.version)
    gain, warnings = _gain(candidate, in_force, offers)
    return {
        "episodes": learner.episodes,
        "triggers": [trigger.to_dict() for trigger in fold.triggers],
        "disagreement": offers.disagreement(candidate, in_force),
        "gain": gain,
        "warnings": [*warnings, *offers.warnings, *learner.health().warnings],
    }


class Offers:
    """Episodes of the log whose offers are known, as trajectories through numbered states."""

    def __init__(self, policies: Callable[[str], Policy], versions: Sequence[Version]) -> None:
        self._policies, self._versions = policies, versions
        self._rows: list[Rows] = []
        self._stages: list[int] = []
        self.trajectories: list[Trajectory] = []
        self._silent = self._otherwise = 0

    def rows(self, state: int) -> Rows:
        """Return the rows that were offered in a state."""
        return self._rows[state]

    def add(self, report: Report, version: int) -> None:
        """Take an episode, if its report told what was offered and taken."""
        if report.first_features is None or report.actions is None:
            self._silent += 1
            return
        episode, first = report.episode, len(self._rows)
        offered = [report.first_features, *episode.next_features]
        self._rows += offered
        self._stages += range(len(offered))
        terminated = len(offered) == len(episode)
        states = [first + t for t in range(len(episode) + 1)]  # after the end, a state without rows
        played = Trajectory(
            observations=states,
            actions=report.actions,
            rewards=episode.rewards,
            terminated=terminated,
            propensities=report.propensities,
        )
        if played.propensities is None:
            policy = self._policies(self._versions[version - 1].digest)
            try:
                known = conditional_propensities(policy, played, self.rows)
            except ValueError:  # somebody decided otherwise, and nobody knows how likely that was
                self._otherwise += 1
                return
            played = Trajectory(
                observations=states,
                actions=report.actions,
                rewards=episode.rewards,
                terminated=terminated,
                propensities=known,
            )
        self.trajectories.append(played)

    def disagreement(self, candidate: Policy, in_force: Policy) -> float | None:
        """Return how often the two take different actions in the states of the log.

        Of mixtures it is half the sum of the differences of their propensities, on average.
        """
        chosen = [state for state, stage in enumerate(self._stages) if stage < candidate.horizon]
        chosen = chosen[:: max(1, len(chosen) // MOST_STATES)]
        if not chosen:
            return None
        differences = [
            np.abs(
                candidate.propensities(self._stages[state], self._rows[state])
                - in_force.propensities(self._stages[state], self._rows[state])
            ).sum()
            / 2.0
            for state in chosen
        ]
        return float(np.mean(differences))

    @property
    def warnings(self) -> list[str]:
        said = []
        if self._silent:
            said.append(f"{self._silent} episodes did not tell what was offered and taken")
        if self._otherwise:
            said.append(
                f"in {self._otherwise} episodes actions were taken that the policy does not take, "
                "without their propensities"
            )
        return said


def _gain(
    candidate: Policy, in_force: Policy, offers: Offers
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return what the candidate is expected to gain, where the log can tell."""
    if len(offers.trajectories) < 2:
        return None, ["no episode tells enough for an off-policy estimate"]
    found: Comparison = compare(candidate, in_force, offers.trajectories, offers.rows)
    caution = "the candidate was fitted to these very episodes, and looks better than it is"
    plain = {
        "value": found.gain.value,
        "low": found.gain.low,
        "high": found.gain.high,
        "verdict": found.verdict,
        "episodes": len(offers.trajectories),
    }
    return plain, [*found.warnings, caution]
