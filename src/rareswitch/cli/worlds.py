"""The options that name a world, and the world they name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rareswitch import FiniteMDP
    from rareswitch.core.streams import Seed

INSTANCES = ("hard", "misspecified", "lower-bound", "random-linear", "tabular")


def world_options(default: str | None) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options of a world; without a default, no world need be named."""
    options = (
        click.option(
            "--instance", type=click.Choice(INSTANCES), default=default, help="The world to learn."
        ),
        click.option(
            "--d", default=13, help="Feature dimension (lower-bound: number of rewarding states)."
        ),
        click.option("--horizon", default=10, help="Stages H in an episode."),
        click.option("--delta", default=0.35, help="hard, misspecified: δ, between 0 and 0.5."),
        click.option(
            "--reading",
            default="completed",
            help="hard, misspecified: completed, padded or compact.",
        ),
        click.option("--zeta", default=0.1, help="misspecified: most that a move is corrupted."),
        click.option("--states", default=10, help="random-linear, tabular: number of states."),
        click.option("--actions", default=4, help="random-linear, tabular: number of actions."),
    )

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def build_world(settings: dict[str, Any], seed: Seed) -> FiniteMDP:
    """Return the world that the options name."""
    from rareswitch import instances

    s = settings
    if s["instance"] in ("hard", "misspecified"):
        world = instances.hard_to_learn(
            d=s["d"], horizon=s["horizon"], delta=s["delta"], reading=s["reading"], seed=seed
        )
        if s["instance"] == "hard":
            return world
        return instances.misspecified(world, zeta=s["zeta"], seed=seed)
    if s["instance"] == "lower-bound":
        return instances.lower_bound(states=s["d"], horizon=s["horizon"], seed=seed)
    sizes = {name: s[name] for name in ("states", "actions", "horizon")}
    if s["instance"] == "tabular":
        return instances.tabular(seed=seed, **sizes)
    return instances.random_linear(d=s["d"], seed=seed, **sizes)
