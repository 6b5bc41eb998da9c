"""A mixture that draws a member at every step: an ablation of `Ensemble`.

In an `Ensemble` one member follows one plan through all stages of an episode. With a draw at every
step, the members explore each stage separately. An episode meets a stage once, so a table with an
independent member in every (stage, state) has the same distribution.
"""

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Ensemble
from rareswitch.core.recipe import Recipe
from rareswitch.learning.learner import Learner
from rareswitch.rules.paper import UniformGrid
from rareswitch.sim.baselines.play import Table, play
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.run import Run
from rareswitch.support.arguments import Ints, whole
from rareswitch.support.streams import Seed, Stream, generator


def redrawn_mixture(
    world: FiniteMDP,
    *,
    episodes: int,
    batches: int = 10,
    members: int = 32,
    seed: Seed = 0,
    initial_state: int | str | Ints = 0,
) -> Run:
    """Play the mixtures of `Ensemble(members)` on a uniform grid, with a member for each step.

    The regret of an episode is the regret of the table drawn for it.
    """
    K = whole("episodes", episodes, least=1)
    recipe = Recipe(exploration=Ensemble(members=members), seed=seed)
    task = checked_world(world).task(episodes=K)
    learner = Learner(task, UniformGrid(batches=batches), recipe)
    H, S, _ = world.rewards.shape
    offers = [world.features[s][world.feasible[s]] for s in range(S)]
    menus = [np.flatnonzero(world.feasible[s]) for s in range(S)]
    stage, rng = np.arange(H), generator(seed, Stream.ALLOCATION)

    def tabulate() -> Ints:  # the action of every member, (M, H, S)
        actions = np.zeros((learner.policy.members, H, S), np.int64)
        for h, s in np.ndindex(H, S):
            actions[:, h, s] = menus[s][learner.policy.choices(h, offers[s][None])[:, 0]]
        return actions

    actions = tabulate()

    def policy() -> Table:
        drawn = rng.integers(0, len(actions), (H, S))
        return Table(actions[drawn, stage[:, None], np.arange(S)], np.zeros(H))

    def learn(k: int, path: Ints, taken: Ints) -> bool:
        nonlocal actions
        switched = learner.observe(
            Episode(
                features=world.features[path[:-1], taken],
                rewards=world.rewards[stage, path[:-1], taken],
                next_features=[offers[s] for s in path[1:-1]],
            )
        )
        if switched:
            actions = tabulate()
        return switched

    start = initial_state
    return play(world, policy, learn, episodes=K, seed=seed, initial_state=start, redraw=True)
