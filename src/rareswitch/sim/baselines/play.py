"""The loop of every baseline: play an episode, learn from it, and deploy a policy when it is due.

Regret is the expected regret of the policy that plays, by policy evaluation.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from rareswitch.core.policy import TIE_TOLERANCE
from rareswitch.rules.paper import UniformGrid
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.run import Run, initial_states, noise_of
from rareswitch.support.arguments import Bools, Floats, Ints, require_memory
from rareswitch.support.streams import Seed, Stream, generator


class Table(NamedTuple):
    """A policy: at stage h a uniformly random action with probability random[h], else actions[h].

    `actions` is (H, S) and `random` (H,).
    """

    actions: Ints
    random: Floats

    @classmethod
    def greedy(cls, q_values: Floats, random: float = 0.0) -> "Table":
        """Return the greedy policy of values (H, S, A): the lowest index among equals."""
        best = q_values.max(axis=-1, keepdims=True) - TIE_TOLERANCE
        return cls((q_values >= best).argmax(axis=-1), np.full(len(q_values), random))


def play(
    world: FiniteMDP,
    policy: Callable[[], Table],
    learn: Callable[[int, Ints, Ints], bool],
    *,
    episodes: int,
    seed: Seed,
    initial_state: int | str | Ints,
    redraw: bool = False,
) -> Run:
    """Play K episodes, the first with `policy()`.

    `learn(k, states, actions)` takes episode k, counted from 1, and returns whether to deploy a new
    policy before the next episode. A deployment is a switch if it changes the probability of an
    action; `local_switches` counts the changed pairs (stage, state). With `redraw` a deployment is
    a distribution, and `policy()` draws a table from it before every episode: each deployment after
    the first counts as a switch in every pair with more than one action.
    """
    H, S, _ = world.rewards.shape
    require_memory(72.0 * H * episodes, f"{episodes} episodes")
    noise = noise_of(None, episodes, H, seed)
    picks = generator(seed, Stream.TIES).random((H, episodes)).T  # as `simulate_random` draws them
    initial = initial_states(initial_state, S, episodes, seed)
    regrets = Regrets(world)
    menus = [np.flatnonzero(allowed) for allowed in world.feasible]
    choices = np.array([len(menu) > 1 for menu in menus])
    regret = np.zeros(episodes)
    states = np.zeros((episodes, H + 1), np.int64)
    actions = np.zeros((episodes, H), np.int64)
    deployments, switches, local = [1], [], 0
    table = policy()
    gap = regrets.of(table)
    for k in range(episodes):
        path = states[k]
        path[0] = initial[k]
        for h in range(H):
            here = path[h]
            if picks[k, h] < table.random[h]:
                menu = menus[here]
                action = menu[int(picks[k, h] / table.random[h] * len(menu))]
            else:
                action = table.actions[h, here]
            actions[k, h] = action
            path[h + 1] = (world.thresholds[h, here, action] <= noise[k, h]).sum()
        regret[k] = gap[path[0]]
        due = learn(k + 1, path, actions[k])
        if k + 1 < episodes and (due or redraw):
            old, table = table, policy()
            changes = H * int(choices.sum()) if redraw else _count_changes(old, table, choices)
            if changes:
                gap = regrets.of(table)
            if due:
                deployments.append(k + 2)
            if due and changes:
                switches.append(k + 2)
                local += changes
    return Run(
        regret=regret,
        states=states,
        actions=actions,
        members=np.zeros(episodes, np.int64),
        deployment_episodes=np.array(deployments, np.int64),
        switch_episodes=np.array(switches, np.int64),
        fitted_values=np.full(len(deployments), np.nan),
        local_switches=local,
        policy=None,
    )


def starts_of(world: FiniteMDP, episodes: int, batches: int | None) -> Sequence[int]:
    """Return the first episode of each batch of a uniform grid; None: every episode is a batch."""
    if batches is None:
        return range(1, episodes + 1)
    return UniformGrid(batches=batches).starts(world.task(episodes=episodes))


class Regrets:
    """The exact regret of policies on one world."""

    def __init__(self, world: FiniteMDP) -> None:
        H, S, _ = world.rewards.shape
        self._world, self._optimal = world, world.optimal_values()[0]
        self._here = np.arange(H)[:, None], np.arange(S)
        self._random: tuple[Floats, Floats] | None = None  # r (H, S) and P (H, S, S)

    def of(self, table: Table) -> Floats:
        """Return V*₁ − V₁ of every state (S,); negative rounding errors become 0."""
        rewards = self._world.rewards[*self._here, table.actions]
        transitions = self._world.transitions[*self._here, table.actions]
        if table.random.any():
            if self._random is None:
                chance = self._world.feasible / self._world.feasible.sum(axis=1, keepdims=True)
                mean = np.einsum("sa,hsax->hsx", chance, self._world.transitions)
                self._random = np.vecdot(chance, self._world.rewards), mean
            share = table.random[:, None]
            rewards = (1.0 - share) * rewards + share * self._random[0]
            share = share[..., None]
            transitions = (1.0 - share) * transitions + share * self._random[1]
        value: Floats = np.zeros(len(self._optimal))
        for reward, moves in zip(rewards[::-1], transitions[::-1], strict=True):
            value = reward + moves @ value
        gap: Floats = np.maximum(self._optimal - value, 0.0)
        return gap


def _count_changes(old: Table, new: Table, choices: Bools) -> int:
    """Count the pairs (stage, state) in which the probability of an action differs."""
    acts = (old.actions != new.actions) & (new.random < 1.0)[:, None]
    return int(np.where((old.random != new.random)[:, None], choices, acts).sum())
