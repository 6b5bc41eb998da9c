"""`rareswitch evaluate`: play a saved policy in an environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import allow_option, typed_modules
from rareswitch.cli.environments import env_arg_option, made_world, parsed, refusals
from rareswitch.cli.experiments import need
from rareswitch.cli.progress import progress
from rareswitch.cli.saved import opened
from rareswitch.cli.training_table import line, show_returns

if TYPE_CHECKING:
    from rareswitch.agent import Agent


@click.command()
@click.argument("saved", type=click.Path(path_type=Path))
@click.argument("env_id", required=False)
@click.option(
    "--version", type=click.IntRange(1), help="Deployed policy to play.  [default: the recommended]"
)
@click.option("--episodes", type=click.IntRange(2), default=1000, help="Episodes to play.")
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="Most steps of an episode.  [default: the horizon of the training]",
)
@env_arg_option
@allow_option
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the episodes.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress.")
def evaluate(
    saved: Path,
    env_id: str | None,
    version: int | None,
    episodes: int,
    steps: int | None,
    env_args: tuple[str, ...],
    allow: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Play a saved policy on fresh episodes and print its return.

    SAVED is the folder of a `rareswitch train`, or a file agent.bin. The policy is the recommended
    policy of the folder, or the deployed policy --version; the number of an episode then draws the
    member that plays it. ENV_ID is by default the environment of the training; a file needs it. If
    the folder names an environment or features of yours as module:name, add --allow module; an
    ENV_ID that you type allows its module.

    \b
    Examples:
      rareswitch evaluate rareswitch-train-FrozenLake-v1-1a2b3c4d
      rareswitch evaluate lake --version 12 --episodes 5000
      rareswitch evaluate lake/agent.bin FrozenLake-v1 --env-arg is_slippery=false
      rareswitch evaluate cart --steps 500
      rareswitch evaluate clinic --allow my_module
    """
    need("gym")
    from rareswitch.gym.evaluate import evaluate as play_fresh
    from rareswitch.gym.exact import known_returns
    from rareswitch.gym.judge import plain_returns

    allow += typed_modules(env_id)
    with refusals():
        agent, name, arguments = found(saved, env_id, version, parsed(env_args), allow)
        world = made_world(name, arguments, allow)
        try:
            with progress("fresh episodes", episodes, quiet=as_json) as report:
                fresh = play_fresh(
                    agent, world, episodes=episodes, steps=steps, seed=seed, progress=report
                )
        except KeyboardInterrupt:
            click.echo("interrupted: no result is kept", err=True)
            raise SystemExit(130) from None
        known = None
        if steps in (None, agent.policy.horizon):
            known = known_returns(agent.policy, world, agent.features, agent.actions)
    told: dict[str, Any] = {
        "env_id": name,
        "env_args": arguments,
        "version": version,
        "members": agent.policy.members,
        "digest": agent.policy.digest,
        "seed": seed,
        "fresh": plain_returns(fresh),
        "exact": known and known.policy,
        "optimum": known and known.optimum,
        "random": known and known.random,
    }
    if as_json:
        click.echo(json.dumps(told, indent=2))
        return
    what = "recommended" if version is None else f"version {version}"
    members = f", a mixture of {told['members']} members" if agent.policy.members > 1 else ""
    line("policy", f"{what}{members}, {agent.policy.digest[:12]}")
    line("environment", name)
    show_returns(what, told["fresh"], told["exact"], told)


def found(
    saved: Path,
    env_id: str | None,
    version: int | None,
    arguments: dict[str, Any],
    allow: tuple[str, ...],
) -> tuple[Agent, str, dict[str, Any]]:
    """Return the saved agent, and the name and arguments of its environment."""
    from rareswitch.agent import Agent

    if not saved.exists():
        raise ValueError(f"SAVED must be a folder or a file; {saved} does not exist")
    if not saved.is_dir():
        if env_id is None:
            raise ValueError("ENV_ID must be given for a file; only a folder has its environment")
        if version is not None:
            raise ValueError("--version needs a folder; a file has one policy")
        return Agent.from_bytes(saved.read_bytes()), env_id, arguments
    training = opened(saved)
    agent, settings = training.agent(version, allow), training.settings
    if env_id is None:
        if not isinstance(settings["env_id"], str):
            raise ValueError(f"ENV_ID must be given: {saved} was trained in a Python object")
        return agent, settings["env_id"], settings["env_args"] | arguments
    return agent, env_id, arguments
