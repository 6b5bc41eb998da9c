"""A policy on fresh episodes, with progress: what `train` ends with and `evaluate` is."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rareswitch.cli.progress import progress

if TYPE_CHECKING:
    from rareswitch.gym.agent import Agent
    from rareswitch.gym.evaluate import Evaluation

ANY_REWARD = 1e150


def played_fresh(
    agent: Agent,
    world: Any,
    episodes: int,
    seed: int,
    pressed: Callable[[], bool],
    *,
    quiet: bool,
) -> Evaluation:
    """Return what an agent earns; once Ctrl-C was pressed, raise after the episode in progress."""
    from rareswitch.gym.evaluate import evaluate
    from rareswitch.trajectories import Rewards

    with progress("fresh episodes", episodes, quiet=quiet) as report:

        def tell(done: int) -> None:
            report(done)
            if pressed():
                raise KeyboardInterrupt

        return evaluate(
            agent.policy,
            world,
            agent.features,
            episodes=episodes,
            rewards=Rewards(-ANY_REWARD, ANY_REWARD),  # nothing is scaled, so nothing is too large
            actions=agent.actions,
            seed=seed,
            progress=tell,
        )
