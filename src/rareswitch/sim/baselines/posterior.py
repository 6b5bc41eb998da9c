"""Posterior sampling for tabular worlds (Osband et al. 2013), in batches.

The prior of the next state is a Dirichlet distribution for every stage, state and action. A reward
is known after one visit; before that it is uniform on [0, 1].
"""

import numpy as np

from rareswitch.sim.baselines.play import Table, play, starts_of
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run
from rareswitch.support.arguments import Ints, one_of, real, whole
from rareswitch.support.streams import Seed, Stream, generator

SAMPLES = ("batch", "episode")


def psrl(
    world: FiniteMDP,
    *,
    episodes: int,
    prior: float = 1.0,
    batches: int | None = None,
    samples: str = "batch",
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play posterior sampling: the optimal policy of a world drawn from the posterior.

    `prior` is the Dirichlet parameter of each next state. The posterior is that of the start of the
    batch; without `batches` every episode is a batch. With `samples="batch"` one draw plays the
    whole batch, with `samples="episode"` every episode has a draw of its own: a batch then deploys
    a mixture with infinitely many members.
    """
    K = whole("episodes", episodes, least=1)
    alpha = real("prior", prior, least=1e-6, most=1e6)
    redraw = one_of("samples", samples, SAMPLES) == "episode" and batches is not None
    H, S, A = checked_world(world).rewards.shape
    starts = set(starts_of(world, K, batches))
    rng = generator(seed, Stream.PERTURBATION)
    moves = np.zeros((H, S, A, S))
    stage = np.arange(H)
    posterior, known = moves + alpha, np.zeros((H, S, A), bool)  # of the batch's start

    def learn(k: int, path: Ints, actions: Ints) -> bool:
        moves[stage, path[:-1], actions, path[1:]] += 1.0
        if k + 1 not in starts:
            return False
        np.add(moves, alpha, out=posterior)
        moves.any(axis=-1, out=known)
        return True

    def policy() -> Table:
        weights = rng.standard_gamma(posterior)
        totals = weights.sum(axis=-1)
        rewards = np.where(known, world.rewards, rng.random((H, S, A)))
        q_values = np.empty((H, S, A))
        value = np.zeros(S)
        for h in reversed(range(H)):
            q_values[h] = rewards[h] + weights[h] @ value / totals[h]
            q_values[h, ~world.feasible] = -np.inf
            value = q_values[h].max(axis=1)
        return Table.greedy(q_values)

    return play(
        world,
        policy,
        learn,
        episodes=K,
        seed=seed,
        initial_state=initial_state,
        redraw=redraw,
    )
