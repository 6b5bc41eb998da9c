"""The options of a world, and the world that they name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rareswitch.sim.mdp import FiniteMDP
    from rareswitch.support.streams import Seed


class Finite(click.types.FloatParamType):
    """A finite number."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


FINITE = Finite()
INSTANCES = ("hard", "misspecified", "lower-bound", "random-linear", "tabular")
DEFAULT_DIM, DEFAULT_HORIZON = 13, 10


def world_options(default: str | None) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the options of a world; without a default, --instance is optional."""
    options = (
        click.option(
            "--instance", type=click.Choice(INSTANCES), default=default, help="Simulated world."
        ),
        click.option(
            "--dim",
            type=click.IntRange(1),
            help=f"Feature dimension d.  [default: {DEFAULT_DIM}, or the instance's]",
        ),
        click.option(
            "--horizon",
            type=click.IntRange(1),
            help=f"Stages H of an episode.  [default: {DEFAULT_HORIZON} for an instance]",
        ),
        click.option(
            "--delta",
            type=FINITE,
            default=0.35,
            help="hard, misspecified: parameter δ, between 0 and 0.5.",
        ),
        click.option(
            "--reading",
            default="completed",
            help="hard, misspecified: variant completed, padded or compact.",
        ),
        click.option(
            "--zeta",
            type=FINITE,
            default=0.1,
            help="misspecified: largest corruption of a transition.",
        ),
        click.option(
            "--states",
            default=10,
            help="random-linear, tabular: number of states. lower-bound: of rewarding states.",
        ),
        click.option("--actions", default=4, help="random-linear, tabular: number of actions."),
    )

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def build_world(settings: dict[str, Any], seed: Seed) -> FiniteMDP:
    """Return the world of the options."""
    from rareswitch.sim import worlds

    s = settings
    dim, horizon = s["dim"] or DEFAULT_DIM, s["horizon"] or DEFAULT_HORIZON
    if s["instance"] in ("hard", "misspecified"):
        world = worlds.hard_to_learn(
            d=dim, horizon=horizon, delta=s["delta"], reading=s["reading"], seed=seed
        )
        if s["instance"] == "hard":
            return world
        return worlds.misspecified(world, zeta=s["zeta"], seed=seed)
    sizes = {"states": s["states"], "horizon": horizon}
    if s["instance"] == "random-linear":
        return worlds.random_linear(d=dim, actions=s["actions"], seed=seed, **sizes)
    make = worlds.lower_bound_family if s["instance"] == "lower-bound" else worlds.tabular
    actions = {} if s["instance"] == "lower-bound" else {"actions": s["actions"]}
    small: FiniteMDP = make(seed=seed, **sizes, **actions)
    if s["dim"] not in (None, small.dim):
        raise ValueError(f"--dim of this {s['instance']} world is {small.dim}; got {s['dim']}")
    return small
