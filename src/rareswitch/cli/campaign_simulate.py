"""`rareswitch campaign simulate`: a rehearsal of a protocol in an instance or an environment."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.campaign_options import json_option, opened_store, store_option
from rareswitch.cli.environments import env_arg_option, made_world, parsed
from rareswitch.cli.experiments import need
from rareswitch.cli.worlds import FINITE, build_world, world_options

if TYPE_CHECKING:
    from rareswitch.campaigns import Protocol, SimulatedCampaign, World

FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
SHARE = click.FloatRange(0.0, 1.0)
TICKS = click.FloatRange(0.0, 1e6)
# Where `plan --out` puts the report whose digest its protocol has.
REPORT = "plan.json"


@click.command()
@click.argument("protocol", type=FILE)
@world_options(default=None)
@click.option("--env", help="Or: an environment of Gymnasium, or module:Name.")
@click.option("--features", help="--env: as for rareswitch plan.  [default: by the observations]")
@click.option("--rewards", type=FINITE, nargs=2, metavar="LOW HIGH", help="--env: their range.")
@env_arg_option
@click.option("--episodes", type=click.IntRange(0), help="Begin so many more.  [default: all]")
@click.option("--sites", type=click.IntRange(1), default=12, help="Sites that act and report.")
@click.option("--delay", type=TICKS, default=30.0, help="Mean delay of a report, in episodes.")
@click.option("--missing", type=SHARE, default=0.02, help="Share that is never reported.")
@click.option("--repeated", type=SHARE, default=0.02, help="Share that is reported twice.")
@click.option("--damaged", type=SHARE, default=0.01, help="Share that is refused at first.")
@click.option("--corrected", type=SHARE, default=0.005, help="Share that is corrected later.")
@click.option("--withdrawn", type=SHARE, default=0.002, help="Share that is withdrawn later.")
@click.option(
    "--overridden", type=SHARE, default=0.0, help="Share of actions that people take otherwise."
)
@click.option(
    "--learn-every",
    type=click.IntRange(1),
    default=10,
    help="Episodes between the learner's looks.",
)
@click.option(
    "--crashes", type=SHARE, default=0.05, help="Share of looks at which the learner dies."
)
@click.option("--outage", type=TICKS, default=20.0, help="Mean time until another takes its place.")
@click.option("--signs/--no-signs", default=True, help="Whether a simulated second person decides.")
@click.option("--signing", type=TICKS, default=30.0, help="Mean time to a decision, in episodes.")
@click.option("--rejected", type=SHARE, default=0.0, help="Share of candidates turned down.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of the world and of all mishaps.")
@click.option(
    "--simulation",
    type=FILE,
    help="The report whose digest the protocol has.  [default: plan.json beside it]",
)
@store_option
@json_option
def simulate(
    protocol: Path, store: str, simulation: Path | None, as_json: bool, **settings: Any
) -> None:
    """Rehearse a PROTOCOL: play it against a world, with all that goes wrong in the field.

    Sites report late, out of order, twice, wrongly or never; the learner's process dies and another
    takes its place; somebody signs after a while, or turns a candidate down. Time is counted in
    episodes begun. At the end every candidate is compared, byte for byte, with that of a plain
    learner fed with the same log; if one differs, the command ends with status 1.

    The campaign is created in the store by "simulation", and no other is ever touched; called
    again, a rehearsal with episodes left goes on. With --no-signs candidates wait for you. Horizon
    and dimension of an instance are those of the protocol.

    \b
    Examples:
      rareswitch campaign simulate plan/protocol.toml --instance tabular --states 4 --actions 3
      rareswitch campaign simulate lake/protocol.toml --env FrozenLake-v1 --delay 100
      rareswitch campaign simulate protocol.toml --instance hard --episodes 500 --no-signs
    """
    with opened_store(store, create=True) as opened:
        from rareswitch.campaigns import Circumstances, Protocol, simulate_campaign
        from rareswitch.cli.progress import progress

        agreed = Protocol.from_toml(protocol.read_text(encoding="utf-8"))
        names = [part.name for part in fields(Circumstances)]
        with progress("episodes", agreed.episodes, quiet=as_json) as report:
            try:
                done = simulate_campaign(
                    agreed,
                    _world(agreed, settings),
                    opened,
                    circumstances=Circumstances(**{name: settings[name] for name in names}),
                    episodes=settings["episodes"],
                    seed=settings["seed"],
                    simulation=_report(agreed, protocol, simulation),
                    progress=lambda begun, total: report(begun, total=total),
                )
            except KeyboardInterrupt:
                click.echo("interrupted: the same command goes on with the next episode", err=True)
                raise SystemExit(130) from None
    if as_json:
        click.echo(json.dumps(done.plain, indent=2))
    else:
        show(done, agreed)
    if done.agrees_with_learner is False:
        raise click.exceptions.Exit(1)


def show(done: SimulatedCampaign, protocol: Protocol) -> None:
    """Print what a simulation came to, for people."""
    late = f", {done.late} of them late" if done.late else ""
    after = "" if done.mean_delay is None else f", {done.mean_delay:.0f} episodes after they began"
    click.echo(f"begun           {done.begun} episodes; {done.missing} were never reported")
    click.echo(f"recorded        {done.recorded}{late}{after}")
    click.echo(
        f"mishaps         {done.refused} reports refused, {done.repeated} sent twice, "
        f"{done.corrected} corrected, {done.withdrawn} withdrawn"
    )
    if done.overridden:
        click.echo(f"overridden      {done.overridden} episodes, by people who decided otherwise")
    if done.deaths:
        click.echo(f"learner         died {done.deaths} times, and was replaced")
    if done.mean_return is not None:
        click.echo(f"mean return     {done.mean_return:.4f} of {protocol.task.horizon}")
    if done.regret is not None and done.begun:
        click.echo(f"regret          {done.regret:.1f}, {done.regret / done.begun:.4f} per episode")
    rejected = f"; {done.rejections} candidates turned down" if done.rejections else ""
    click.echo(f"deployments     {done.deployments} of at most {done.budget}{rejected}")
    if done.decision_delays:
        delays = ", ".join(map(str, done.decision_delays))
        click.echo(f"in force        {delays} episodes after they were due")
    if done.waiting is not None:
        click.echo(f"waiting         candidate {done.waiting}, for an approval")
    if done.stopped is not None:
        click.echo(f"stopped         {done.stopped}")
    click.echo(f"ledger          {done.ledger_link}")
    agrees = {
        True: "every candidate, byte for byte",
        False: "NO",
        None: "not compared: people amended, rolled back or proposed early",
    }[done.agrees_with_learner]
    click.echo(f"as a Learner    {agrees}")
    for difference in done.differences or ():
        click.echo(f"                {difference}")


def _world(protocol: Protocol, settings: dict[str, Any]) -> World:
    """Return the world that the options name, of the protocol's sizes."""
    task = protocol.task
    if settings["env"] is not None:
        if settings["instance"] is not None:
            raise ValueError("--env and --instance exclude each other")
        return _environment(protocol, settings)
    if settings["instance"] is None:
        raise ValueError("--instance or --env must name a world")
    for name, value in (("horizon", task.horizon), ("dim", task.dim)):
        if settings[name] not in (None, value):
            raise ValueError(f"--{name} of the protocol is {value}; got {settings[name]}")
    from rareswitch.campaigns import FiniteWorld

    mdp = build_world(settings | {"horizon": task.horizon, "dim": task.dim}, settings["seed"])
    # State 0, but x_1 in the lower bound's family, where x_0 has nothing to lose.
    start = 1 if settings["instance"] == "lower-bound" else 0
    return FiniteWorld(mdp, seed=settings["seed"], initial_state=start)


def _environment(protocol: Protocol, settings: dict[str, Any]) -> World:
    need("gym")
    from rareswitch.cli.campaign_environment import EnvironmentWorld, check_setting
    from rareswitch.gym.setting import setting_of

    environment = made_world(settings["env"], parsed(settings["env_args"]))
    setting = setting_of(
        environment,
        features=settings["features"],
        horizon=protocol.task.horizon,
        rewards=settings["rewards"],
        stages=protocol.task.stages,
    )
    check_setting(setting, protocol)
    return EnvironmentWorld(environment, setting, seed=settings["seed"])


def _report(protocol: Protocol, path: Path, given: Path | None) -> bytes | None:
    """Return the report that a protocol names: the file given, or the one beside it."""
    if given is not None:
        return given.read_bytes()
    beside = path.parent / REPORT
    return beside.read_bytes() if protocol.simulation and beside.is_file() else None
