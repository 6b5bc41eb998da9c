"""The behaviour of a policy in the states of a log, and its probability of the logged actions.

One member plays a whole episode, so the probability of its first actions is the share of members
that take all of them, and not a product over steps. A control and a floor count as members with
their own shares.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.evaluation.grouped_rows import GroupedRows
from rareswitch.evaluation.logged import LoggedEpisodes, LoggedStage
from rareswitch.support.arguments import Bools, Floats, Ints, short_repr
from rareswitch.trajectories.episodes import RowsOf, choice_offered
from rareswitch.trajectories.trajectory import Trajectory

# The number of states evaluated together, which limits the memory for values of all members.
BLOCK_STATES = 1024


class StageBehaviour(NamedTuple):
    """The behaviour of M members at one stage of a log with T states and N episodes.

    `rows` are the W rows that some member takes in some state. `expected` turns the
    value of these rows for every member (W, M) into the value of the states (T, M). `taken` (N, M)
    is the probability of the logged action under each member, 1 without an action. `unlogged`
    (N, M) is their probability of actions that the log never takes, None if unknown. `shares` (M,)
    are the probabilities that members play; None: equal.
    """

    rows: GroupedRows
    expected: Callable[[Floats], Floats]
    taken: Floats
    unlogged: Floats | None = None
    shares: Floats | None = None


def behaviour_in(logged: LoggedEpisodes, policy: Policy | None = None) -> list[StageBehaviour]:
    """Return the behaviour at each stage of a policy, or else of the function in `logged`."""
    never = logged.never_taken
    if policy is None:
        return [_by_chances(stage, never) for stage in logged.stages]
    acts = _by_members if policy.learned_only else _by_players
    return [acts(policy, h, stage, never) for h, stage in enumerate(logged.stages)]


def average(values: Floats, shares: Floats | None) -> Floats:
    """Return the mean over members of values (..., M), weighted by their shares."""
    found: Floats = values.mean(axis=-1) if shares is None else values @ shares
    return found


def _by_members(policy: Policy, h: int, stage: LoggedStage, never: Bools | None) -> StageBehaviour:
    choices = _choices(policy, h, stage)
    wanted, places = np.unique(stage.starts[:, None] + choices, return_inverse=True)
    places = places.reshape(choices.shape)
    columns = np.arange(policy.members)
    taken = np.ones((len(stage.state), policy.members))
    played = stage.played
    taken[played] = choices[stage.state[played]] == stage.taken[played, None]
    rows = GroupedRows(stage.columns[wanted])
    unlogged = None if never is None else _in_episodes(stage, never[choices])
    return StageBehaviour(rows, lambda values: values[places, columns], taken, unlogged)


def _by_players(policy: Policy, h: int, stage: LoggedStage, never: Bools | None) -> StageBehaviour:
    """Return the behaviour of learned members, control and floor; the floor is the last column."""
    lengths = np.diff(stage.starts, append=len(stage.rows))
    chosen = [_choices(policy, h, stage)]
    if (control := policy.control) is not None:
        if control.action is None:
            chosen.append(_choices(policy.controlling, h, stage))
        else:
            least = int(lengths.min()) if len(lengths) else control.action + 1
            chosen.append(np.full((len(lengths), 1), control.take(least)))
    choices = np.concatenate(chosen, axis=1)
    places, columns = stage.starts[:, None] + choices, np.arange(choices.shape[1])
    played = stage.played
    taken = np.ones((len(stage.state), policy.players))
    there = stage.state[played]
    taken[played, : len(columns)] = choices[there] == stage.taken[played, None]
    taken[played, len(columns) :] = 1.0 / lengths[there, None]

    def expected(values: Floats) -> Floats:
        if not len(lengths):
            return values
        means = np.add.reduceat(values[:, len(columns) :], stage.starts) / lengths[:, None]
        return np.concatenate([values[places, columns], means], axis=1)

    unlogged = None
    if never is not None:
        floor = np.full((len(lengths), policy.players - len(columns)), never.mean())
        unlogged = _in_episodes(stage, np.concatenate([never[choices], floor], axis=1))
    shares = policy.tickets / policy.members
    return StageBehaviour(GroupedRows(stage.columns), expected, taken, unlogged, shares)


def _choices(policy: Policy, h: int, stage: LoggedStage) -> Ints:
    """Return the action of every member in every state of a stage, (T, M)."""
    lengths = np.diff(stage.starts, append=len(stage.rows))
    choices = np.zeros((len(lengths), policy.members), np.int64)
    for length in np.unique(lengths):  # states with equally many actions together
        states = np.flatnonzero(lengths == length)
        for start in range(0, len(states), BLOCK_STATES):
            block = states[start : start + BLOCK_STATES]
            rows = stage.rows[stage.starts[block, None] + np.arange(length)]
            choices[block] = policy.choices(h, rows).T
    return choices


def _in_episodes(stage: LoggedStage, of_states: Floats | Bools) -> Floats:
    """Return values of states (T, M) for each episode (N, M), 0 without an action."""
    found = np.zeros((len(stage.state), of_states.shape[1]))
    found[stage.played] = of_states[stage.state[stage.played]]
    return found


def _by_chances(stage: LoggedStage, never: Bools | None) -> StageBehaviour:
    chances, starts, played = stage.chances[:, None], stage.starts, stage.played
    taken = np.ones((len(stage.state), 1))
    taken[played] = chances[starts[stage.state[played]] + stage.taken[played]]

    def expected(values: Floats) -> Floats:
        return np.add.reduceat(chances * values, starts) if len(starts) else values

    unlogged = None
    if never is not None:
        unlogged = _in_episodes(stage, chances.reshape(-1, len(never)) @ never[:, None])
    return StageBehaviour(GroupedRows(stage.columns), expected, taken, unlogged)


def unlogged_probabilities(behaviour: list[StageBehaviour]) -> Floats | None:
    """Return each member's probability of actions that the log never takes (N, H, M)."""
    found = [stage.unlogged for stage in behaviour if stage.unlogged is not None]
    return np.stack(found, axis=1) if len(found) == len(behaviour) else None


def path_probabilities(behaviour: list[StageBehaviour]) -> Floats:
    """Return the probability of an episode's actions up to each stage under each member (N, H, M).

    It is 1 or 0 for the members of a policy, which are deterministic.
    """
    paths: Floats = np.stack([stage.taken for stage in behaviour], axis=1)
    return np.multiply.accumulate(paths, axis=1)


def conditional_propensities(policy: Policy, trajectory: Trajectory, features: RowsOf) -> Floats:
    """Return the propensities to log for a trajectory that a policy played (n,).

    Each is the probability of an action given the earlier actions of the episode: the share of
    members that take it, among the members that took all earlier actions. Their product is the
    probability of all actions, `policy.likelihood`.

    >>> two = Policy(weights=[[[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2], allocation=0)
    >>> played = Trajectory(observations=[0, 0, 0], actions=[1, 1], rewards=[0, 1], terminated=True)
    >>> conditional_propensities(two, played, lambda state: np.eye(2))
    array([0.5, 1. ])
    """
    if not isinstance(trajectory, Trajectory):
        raise TypeError(f"trajectory must be a Trajectory; got {short_repr(trajectory)}")
    if len(trajectory) > policy.horizon:
        raise ValueError(
            f"trajectory must have at most the {policy.horizon} steps of the policy's horizon; "
            f"got {len(trajectory)}"
        )
    offered = [choice_offered(trajectory, features, t) for t in range(len(trajectory))]
    chances = [policy.chances(t, rows, place) for t, (rows, place) in enumerate(offered)]
    found = policy.conditional(np.array(chances))
    if not found.all():
        hint = "; if actions were masked, give the trajectory its masks"
        raise ValueError(
            f"trajectory must be possible under the policy; none of its {policy.members} members "
            f"takes the actions up to step {int(np.argmin(found > 0.0))}"
            f"{hint if trajectory.masks is None else ''}"
        )
    return found
