"""The evidence for a candidate: its triggers, its changes, and its expected gain."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rareswitch.campaigns.learning.fold import Fold
from rareswitch.campaigns.report import Report, read_bodies
from rareswitch.campaigns.rulebook.rows import EpisodeRow, Record
from rareswitch.campaigns.rulebook.state import Version
from rareswitch.campaigns.rulebook.terms import Terms
from rareswitch.campaigns.treatments import Treated, treatment_rows
from rareswitch.core.candidate import reasons_of
from rareswitch.core.policy import Policy
from rareswitch.evaluation.agreement import BLOCK_STATES
from rareswitch.evaluation.compare import IN_FORCE, Comparison, compare
from rareswitch.support.arguments import Floats, Rows
from rareswitch.trajectories.trajectory import Trajectory

# The last episodes that are used, and the states in which policies are compared.
MOST_EPISODES = 1000
MOST_STATES = 2000
MOST_CHANGES = 20


def evidence_of(
    record: Record,
    fold: Fold,
    *,
    candidate: Policy,
    in_force: Policy,
    versions: Sequence[Version],
    policies: Callable[[str], Policy],
) -> dict[str, Any]:
    """Return, as plain values, the evidence for a candidate fitted at the fold's row.

    A corrected episode counts with its last report; a withdrawn episode does not count.
    """
    learner = fold.learner
    rows: dict[str, EpisodeRow] = {}
    after = max(0, fold.seq - MOST_EPISODES)
    for row in record.rows("episodes", after=after, upto=fold.seq):
        if not row.revision or row.episode_id in rows:  # else it corrects an earlier episode
            rows[row.episode_id] = row
    offers = Offers()
    told = [(row.body, row) for row in rows.values() if row.body is not None]
    for report, (_, row) in zip(read_bodies([body for body, _ in told]), told, strict=True):
        claims = json.loads(row.claims)
        offers.add(report, row.version, claims.get("subgroup"), claims.get("events"))
    offers.find_propensities(lambda version: policies(versions[version - 1].digest))
    gain, warnings = _gain(candidate, in_force, offers)
    disagreement, changes = offers.compare(candidate, in_force, fold.terms.actions)
    more: dict[str, Any] = {}
    if hasattr(learner.schedule, "accepts"):
        more["worth"] = _worth(fold, candidate)
    if declared := fold.terms.analysis.subgroups:
        by_subgroup = offers.by_subgroup(
            candidate, in_force, fold.terms.actions, subgroups=declared.names
        )
        more |= {"subgroups": by_subgroup} if by_subgroup else {}
    if treatments := offers.by_treatment(candidate, in_force, fold.terms):
        more["treatments"] = treatments
    return more | {
        "episodes": learner.episodes,
        "triggers": [trigger.to_dict() for trigger in fold.triggers],
        "disagreement": disagreement,
        "changes": changes,
        "gain": gain,
        "warnings": [*warnings, *offers.warnings, *learner.health().warnings],
    }


def _worth(fold: Fold, policy: Policy) -> dict[str, Any]:
    """Return whether the schedule accepts a candidate, and the reason.

    `gain` is that of the fitted model, with its standard error. If no report since the last
    deployment contains the offers, the candidate is accepted without a check.
    """
    found, schedule = fold.candidate(policy), fold.learner.schedule
    if not found.paths:
        return {"accepted": True, "episodes": 0, "reasons": []}
    gain, asked = found.gain, schedule.accepts  # type: ignore[attr-defined]
    error = gain.error if len(found.paths) > 1 else None
    return {
        "accepted": bool(asked(found)),
        "episodes": len(found.paths),
        "episodes_left": found.episodes_left,
        "gain": {"value": gain.mean, "error": error},
        "reasons": [reason.to_dict() for reason in reasons_of(schedule, found)],
    }


def declined_because(worth: dict[str, Any]) -> str:
    """Describe why a candidate is not worth proposing."""
    missed = [
        f"{one['quantity']} {one['value']:.3g}, {one['threshold']:g} needed"
        for one in worth["reasons"]
        if not one["reached"]
    ]
    return f"not worth a deployment: {'; '.join(missed)}"


class Offers:
    """Episodes of the log with known offers, as trajectories through numbered states."""

    def __init__(self) -> None:
        self._rows: list[Rows] = []
        self._stages: list[int] = []
        self._played: list[tuple[int, int, Report]] = []  # version, first state, report
        self.trajectories: list[Trajectory] = []
        self._silent = self._otherwise = 0
        self._subgroups: dict[str | None, list[int]] = {}  # by name, the first states of episodes
        self._treated: list[Treated] = []

    def rows(self, state: int) -> Rows:
        """Return the rows that were offered in a state."""
        return self._rows[state]

    def add(
        self,
        report: Report,
        version: int,
        subgroup: str | None = None,
        events: Mapping[str, int] | None = None,
    ) -> None:
        """Add an episode, if its report contains the offers and the actions."""
        if report.first_features is None or report.actions is None:
            self._silent += 1
            return
        self._played.append((version, len(self._rows), report))
        self._subgroups.setdefault(subgroup, []).append(len(self._rows))
        self._treated.append(Treated(subgroup, int(report.actions[0]), report.total, events))
        offered = [report.first_features, *report.episode.next_features]
        self._rows += offered
        self._stages += range(len(offered))

    def find_propensities(self, policy_of: Callable[[int], Policy]) -> None:
        """Build trajectories with the propensities of the reports, else of the acting version."""
        silent = [(v, first, r) for v, first, r in self._played if r.propensities is None]
        chances: dict[int, Floats] = {}
        acted: dict[int, Policy] = {}
        for version in {version for version, _, _ in silent}:
            mine, places = list[int](), list[int]()
            for v, first, report in silent:
                if v == version and report.actions is not None:
                    mine += range(first, first + len(report.episode))
                    places += report.actions.tolist()
            policy = acted[version] = policy_of(version)
            chances |= dict(zip(mine, self._chances(policy, mine, places), strict=True))
        for version, first, report in self._played:
            episode, known = report.episode, report.propensities
            assert report.actions is not None
            if known is None:
                taken = [chances[first + t] for t in range(len(episode))]
                known = acted[version].conditional(np.array(taken))
                if not known[-1]:  # a person chose another action, with unknown probability
                    self._otherwise += 1
                    continue
            self.trajectories.append(
                Trajectory(
                    observations=range(first, first + len(episode) + 1),  # the end has no rows
                    actions=report.actions,
                    rewards=episode.rewards,
                    terminated=len(episode.lengths) < len(episode),
                    propensities=known,
                )
            )

    def compare(
        self, candidate: Policy, in_force: Policy, actions: Sequence[str]
    ) -> tuple[float | None, list[dict[str, Any]]]:
        """Return how often two policies differ in logged states, and the commonest changes.

        For mixtures, the difference is half the mean sum of absolute differences of propensities,
        and a change is a change of the most frequent action. Changes are shares of the states of a
        stage.
        """
        chosen = [state for state, stage in enumerate(self._stages) if stage < candidate.horizon]
        chosen = chosen[:: max(1, len(chosen) // MOST_STATES)]
        if not chosen:
            return None, []
        now, then = (self._shares(policy, chosen) for policy in (candidate, in_force))
        differences = np.abs(now - then).sum(axis=1) / 2.0
        before, after = then.argmax(axis=1), now.argmax(axis=1)
        stages = Counter(self._stages[state] for state in chosen)
        changes = Counter(
            (self._stages[chosen[place]], int(before[place]), int(after[place]))
            for place in np.flatnonzero(before != after).tolist()
        )
        # The commonest first; equal counts in the order of stages and actions.
        ordered = sorted(changes.items(), key=lambda one: (-one[1], one[0]))
        found = [
            {
                "stage": stage,
                "from": _name(before, actions),
                "to": _name(after, actions),
                "states": count,
                "share": count / stages[stage],
            }
            for (stage, before, after), count in ordered[:MOST_CHANGES]
        ]
        return float(differences.mean()), found

    def by_subgroup(
        self,
        candidate: Policy,
        in_force: Policy,
        actions: Sequence[str],
        *,
        subgroups: Sequence[str],
    ) -> list[dict[str, Any]]:
        """Return how two policies differ at the first stage, for each subgroup with an episode.

        `share` is half the mean sum of absolute differences of propensities. `from` and `to` are
        the commonest change of the most frequent action, and `share_of_change` is its share of all
        episodes with a change; all are None if no episode has a change. The largest share comes
        first.
        """
        found = []
        for subgroup in subgroups:
            if not (states := self._subgroups.get(subgroup)):
                continue
            now, then = (self._shares(policy, states) for policy in (candidate, in_force))
            pairs = zip(then.argmax(axis=1).tolist(), now.argmax(axis=1).tolist(), strict=True)
            changes = Counter((before, after) for before, after in pairs if before != after)
            # Equal counts in the order of actions.
            most = min(changes, key=lambda one: (-changes[one], one), default=None)
            found.append(
                {
                    "subgroup": subgroup,
                    "episodes": len(states),
                    "share": float((np.abs(now - then).sum(axis=1) / 2.0).mean()),
                    "from": None if most is None else _name(most[0], actions),
                    "to": None if most is None else _name(most[1], actions),
                    "share_of_change": None if most is None else changes[most] / changes.total(),
                }
            )
        # Shares that differ only by rounding stay in the protocol's order.
        return sorted(found, key=lambda one: -round(one["share"], 9))

    def by_treatment(
        self, candidate: Policy, in_force: Policy, terms: Terms
    ) -> list[dict[str, Any]]:
        """Return a row for each first action in each subgroup, as `treatment_rows` counts them.

        `now` and `then` are the mean probabilities of the action at the first stage, under the
        policy in force and under the candidate. There are no rows if the actions offered to some
        episode are not all actions of the protocol.
        """
        first = [state for states in self._subgroups.values() for state in states]
        if not first or any(len(self._rows[state]) != len(terms.actions) for state in first):
            return []
        plan = terms.analysis
        rows = treatment_rows(
            self._treated,
            subgroups=plan.subgroups.names if plan.subgroups is not None else (),
            actions=terms.actions,
            kinds=plan.events,
        )
        shares = {
            subgroup: [
                self._shares(policy, states).mean(axis=0) for policy in (in_force, candidate)
            ]
            for subgroup, states in self._subgroups.items()
        }
        places = {name: place for place, name in enumerate(terms.actions)}
        for row in rows:
            now, then = (share[places[row["action"]]] for share in shares[row["subgroup"]])
            row |= {"now": float(now), "then": float(then)}
        return rows

    def _shares(self, policy: Policy, states: Sequence[int]) -> Floats:
        """Return the probability of each action in these states, (n, A)."""
        shares = np.zeros((len(states), max(len(self._rows[s]) for s in states)))
        for stage, block, rows in self._blocks(states):
            shares[block, : rows.shape[1]] = policy.propensities_in(stage, rows)
        return shares

    def _chances(self, policy: Policy, states: Sequence[int], taken: Sequence[int]) -> Floats:
        """Return each player's probability of the actions taken in these states, (n, P)."""
        chances, places = np.zeros((len(states), policy.players)), np.array(taken, np.int64)
        for stage, block, rows in self._blocks(states):
            chances[block] = policy.chances(stage, rows, places[block]).T
        return chances

    def _blocks(self, states: Sequence[int]) -> Iterator[tuple[int, list[int], Rows]]:
        """Yield the stage, the indices and the rows of states with equal numbers of rows."""
        alike: dict[tuple[int, int], list[int]] = {}
        for place, state in enumerate(states):
            alike.setdefault((self._stages[state], len(self._rows[state])), []).append(place)
        for (stage, _), places in alike.items():
            for start in range(0, len(places), BLOCK_STATES):
                block = places[start : start + BLOCK_STATES]
                yield stage, block, np.array([self._rows[states[place]] for place in block])

    @property
    def warnings(self) -> list[str]:
        said = []
        if self._silent:
            said.append(f"{self._silent} reports do not tell the offers and the actions")
        if self._otherwise:
            said.append(
                f"{self._otherwise} reports have actions that the policy does not take, without "
                "propensities"
            )
        return said


def _name(place: int, actions: Sequence[str]) -> str | int:
    """Return the name of an action, or its index if actions have no names."""
    return actions[place] if place < len(actions) else place


def _gain(
    candidate: Policy, in_force: Policy, offers: Offers
) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the expected gain of a candidate, if the log allows an estimate, and warnings."""
    if len(offers.trajectories) < 2:
        return None, ["fewer than two reports tell enough for an off-policy estimate"]
    found: Comparison = compare(
        candidate,
        offers.trajectories,
        against=in_force,
        features=offers.rows,
        against_name=IN_FORCE,
    )
    caution = "the candidate was fitted to these episodes, so the estimate is optimistic"
    plain = {
        "value": found.gain.value,
        "low": found.gain.low,
        "high": found.gain.high,
        "verdict": found.verdict,
        "episodes": len(offers.trajectories),
    }
    return plain, [*found.warnings, caution]
