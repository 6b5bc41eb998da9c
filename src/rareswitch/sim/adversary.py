"""The adaptive and the oblivious adversary of Theorem 3, for any batch learner.

The adaptive adversary fixes the right action b_{h,j} of stage h in state x_j as late as possible.
All episodes of a chosen batch start in one x_j. The adversary reads the frozen policy, takes the
first stage at which b is still open, and makes the other action the right one. The learner falls to
x_0 there or earlier, in every episode of the batch, so all regret is certain.

An oblivious adversary draws all b_{h,j} at random in advance and reads no policy. It also plays
against mixtures, whose episodes in one batch act differently.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.rules.grids import EpisodeGrid
from rareswitch.sim import worlds
from rareswitch.sim.mdp import FiniteLinearMDP
from rareswitch.support.arguments import Floats, Ints, whole
from rareswitch.support.streams import Seed


class BatchLearner(Protocol):
    """The opponent of the adversary, for example a `Learner`."""

    @property
    def policy(self) -> Policy: ...

    def observe(self, episode: Episode) -> bool: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class Duel:
    """The world that the adversary chose, and the learner's regret there."""

    world: FiniteLinearMDP
    initial_states: Ints  # (K,)
    regret: Floats  # (K,), of the member that played
    policies: Ints  # (B, H, S), the actions of the policy in force in each batch; (B, M, H, S)


def play_adversary(
    learner: BatchLearner,
    *,
    states: int,
    horizon: int,
    episodes: int,
    starts: Sequence[int],
    normalized: bool = False,
    seed: Seed | None = None,
) -> Duel:
    """Play K episodes against a learner that changes its policy only at the grid `starts`.

    `states` is the number d of rewarding states; the learner needs dim = 2d+1. The grid needs at
    least dH batches. With H > 1 the regret is at least dHT/(4B) for any grid, and d(H−1)T/(2B) for
    equal batches.

    With a `seed` the adversary is oblivious: the right actions are those of
    `worlds.lower_bound_family` with that seed. Then d batches suffice, and the learner may deploy
    mixtures; the number of the episode, counted from 1, draws the member.
    `theory.least_expected_regret` bounds the mean over seeds.
    """
    d = whole("states", states, least=1)
    H = whole("horizon", horizon, least=1)
    episodes = whole("episodes", episodes, least=1)
    if (learner.policy.dim, learner.policy.horizon) != (2 * d + 1, H):
        raise ValueError(
            f"the learner must have dim 2·states+1 = {2 * d + 1} and horizon {H}; got "
            f"{learner.policy.dim} and {learner.policy.horizon}"
        )
    if not learner.policy.learned_only:
        raise ValueError(
            "the learner must deploy policies without a control and a floor, because the bound "
            f"does not cover them; got {learner.policy}"
        )
    if learner.policy.members > 1 and seed is None:
        raise ValueError(
            "the learner must deploy one policy at a time against an adaptive adversary; got a "
            f"mixture of {learner.policy.members} members; use Recipe.paper(), or give a seed for "
            "an oblivious adversary"
        )
    try:
        starts = EpisodeGrid(dates=starts).dates  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("dates", "starts")) from None
    if starts[-1] > episodes:
        raise ValueError(f"starts must be at most episodes = {episodes}; got {starts[-1]}")
    need, words = (d * H, "states·horizon") if seed is None else (d, "states")
    if len(starts) < need:
        raise ValueError(f"starts must hold at least {words} = {need} batches; got {len(starts)}")
    lengths = np.diff((*starts, episodes + 1))
    target = target_states(lengths, d, H)

    unset = np.full((H, d), -1)
    if seed is None:
        world = _world(unset, normalized)  # features do not depend on b
    else:
        world = worlds.lower_bound_family(states=d, horizon=H, seed=seed, normalized=normalized)
    regret = np.zeros(episodes)
    policies = []
    for first, length, j in zip(starts, lengths.tolist(), target.tolist(), strict=True):
        policy = learner.policy
        table = np.stack([policy.choices(h, world.features) for h in range(H)], axis=1)  # (M, H, S)
        policies.append(table)
        if seed is None and j and (still_open := np.flatnonzero(unset[:, j - 1] < 0)).size:
            h = still_open[0]
            unset[h, j - 1] = 1 - table[0, h, j]
            world = _world(unset, normalized)
        played: dict[int, tuple[Episode, float]] = {}
        for k in range(first, first + length):
            member = policy.allocate(k)
            if member not in played:
                played[member] = _episode(world, j, table[member, :, j].tolist())
            episode, regret[k - 1] = played[member]
            learner.observe(episode)
    every = np.stack(policies)
    return Duel(
        world=world,
        initial_states=np.repeat(target, lengths),
        regret=regret,
        policies=every if every.shape[1] > 1 else every[:, 0],
    )


def target_states(lengths: Ints, d: int, H: int) -> Ints:
    """Return the number j of the state x_j in which each batch starts, 0 for x_0.

    The m·d longest batches take the states in turn, for the m that costs the learner most. Against
    an adaptive adversary, each episode in the i-th batch of a state loses H−i for certain.
    """
    best, best_loss = np.zeros(len(lengths), np.int64), -1
    for m in range(1, min(H, len(lengths) // d) + 1):
        chosen = np.sort(np.argsort(-lengths, kind="stable")[: m * d])
        stage = np.arange(m * d) // d + 1
        loss = int(((H - stage) * lengths[chosen]).sum())
        if loss > best_loss:
            best_loss = loss
            best = np.zeros(len(lengths), np.int64)
            best[chosen] = np.arange(m * d) % d + 1
    return best


def _world(right_actions: Ints, normalized: bool) -> FiniteLinearMDP:
    horizon, d = right_actions.shape
    return worlds.lower_bound_family(
        states=d,
        horizon=horizon,
        right_actions=np.maximum(right_actions, 0),
        normalized=normalized,
    )


def _episode(world: FiniteLinearMDP, start: int, actions: list[int]) -> tuple[Episode, float]:
    """Return the one episode that these actions lead to from x_start, and its regret."""
    path = [start]
    for h, action in enumerate(actions):
        path.append(int(world.transitions[h, path[-1], action].argmax()))
    here, stage = np.array(path[:-1]), np.arange(len(actions))
    rewards = world.rewards[stage, here, actions]
    episode = Episode(
        features=world.features[here, actions],
        rewards=rewards,
        next_features=[world.features[s] for s in path[1:-1]],
    )
    return episode, float(world.optimal_values()[0, start] - rewards.sum())
