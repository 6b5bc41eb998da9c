"""Which members of a policy would have taken the actions of a log, and with what probability.

One member plays an episode from beginning to end, so the probability of its first actions is the
share of members that take all of them, and not a product over steps.
"""

import numpy as np

from rareswitch.core.policy import Policy
from rareswitch.evaluation.logged import LoggedEpisodes, LoggedStage
from rareswitch.support.arguments import Bools, Floats, Ints, short_repr
from rareswitch.trajectories.offered import Features, choice_offered
from rareswitch.trajectories.trajectory import Trajectory

# States whose choices are found together: the values of their actions are held for every member.
BLOCK_STATES = 1024


def choices_at(policy: Policy, logged: LoggedEpisodes) -> list[Ints]:
    """Return the action of every member in every state of a log, (T, M) for each stage."""
    return [_choices(policy, h, stage) for h, stage in enumerate(logged.stages)]


def _choices(policy: Policy, h: int, stage: LoggedStage) -> Ints:
    lengths = np.diff(stage.starts, append=len(stage.rows))
    choices = np.zeros((len(lengths), policy.members), np.int64)
    for length in np.unique(lengths):  # states with as many actions are asked about together
        states = np.flatnonzero(lengths == length)
        for start in range(0, len(states), BLOCK_STATES):
            block = states[start : start + BLOCK_STATES]
            rows = stage.rows[stage.starts[block, None] + np.arange(length)]
            choices[block] = policy.choices(h, rows).T
    return choices


def agreement(choices: list[Ints], logged: LoggedEpisodes) -> Bools:
    """Return which members take all actions of an episode up to each stage, (N, H, M)."""
    agrees = np.ones((len(logged), logged.horizon, choices[0].shape[1]), bool)
    for h, (stage, chosen) in enumerate(zip(logged.stages, choices, strict=True)):
        if h:
            agrees[:, h] = agrees[:, h - 1]
        played = stage.played
        agrees[played, h] &= chosen[stage.state[played]] == stage.taken[played, None]
    return agrees


def conditional_propensities(policy: Policy, trajectory: Trajectory, features: Features) -> Floats:
    """Return what to log of a trajectory that a policy played: each action's probability (n,).

    It is the probability given the actions before it in the episode: the share of the members that
    agree with the episode so far which take this action too. The product of all of them is the
    probability of the whole course of actions, `policy.likelihood`.

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
    agrees, propensities = np.ones(policy.members, bool), []
    for t in range(len(trajectory)):
        rows, place = choice_offered(trajectory, features, t)
        before, agrees = agrees.sum(), agrees & (policy.choices(t, rows) == place)
        if not agrees.any():
            raise ValueError(
                f"trajectory must be one that the policy can play; of its {policy.members} members "
                f"none takes the actions up to step {t}"
            )
        propensities.append(agrees.sum() / before)
    return np.array(propensities)
