"""`rareswitch learn`: one learner on one instance."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.worlds import build_world, world_options

if TYPE_CHECKING:
    from rareswitch import FiniteMDP, Run, Schedule

SCHEDULES = ("rareswitch", "batch", "lsvi-ucb", "random")


@click.command()
@world_options(default="hard")
@click.option(
    "--schedule",
    type=click.Choice(SCHEDULES),
    default="rareswitch",
    help="When to switch: rareswitch (Alg. 2), batch (Alg. 1), lsvi-ucb (every episode); random "
    "acts at random.",
)
@click.option("--eta", default=2.0, help="rareswitch: switch when a determinant grew this much.")
@click.option(
    "--budget", type=int, help="rareswitch: at most so many switches; takes the place of --eta."
)
@click.option("--batches", default=50, help="batch: number of batches B.")
@click.option("--episodes", default=2500, help="Episodes K to play.")
@click.option("--beta", default=1.0, help="Confidence radius β.")
@click.option("--ridge", default=1.0, help="Regularisation λ.")
@click.option("--ties", default="direction", help="Between equal actions: direction or lowest.")
@click.option("--seed", default=0, help="Seed of the world, its noise and the ties.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the result goes.  [default: rareswitch-learn-….npz, named after the settings]",
)
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON, no progress.")
def learn(out: Path | None, as_json: bool, **settings: Any) -> None:
    """Run one learner on one instance; print regret, updates, switches and the bound.

    The defaults are the paper's experiment. Ctrl-C keeps the episodes played so far. The result
    file is a NumPy archive with the regret, states and actions of every episode, the update
    episodes, the final policy as bytes and the summary as JSON.

    \b
    Examples:
      rareswitch learn --eta 8
      rareswitch learn --budget 600
      rareswitch learn --schedule batch --batches 20 --seed 3
      rareswitch learn --instance tabular --states 5 --actions 3 --horizon 6
    """
    from rareswitch import Simulation, simulate_random
    from rareswitch.cli.interrupt import interruptible
    from rareswitch.cli.progress import progress

    out = out or default_path(settings)
    check_writable(out, settings)
    episodes, seed = settings["episodes"], settings["seed"]
    try:
        world = build_world(settings, seed)
        if settings["schedule"] == "random":
            start = first_state(settings)
            run = simulate_random(world, episodes=episodes, seed=seed, initial_state=start)
        else:
            simulation = Simulation(
                [world],
                build_schedule(world, settings),
                episodes=episodes,
                seeds=[seed],
                beta=settings["beta"],
                ridge=settings["ridge"],
                ties=settings["ties"],
                initial_state=first_state(settings),
            )
            with (
                progress("episodes", episodes, quiet=as_json) as report,
                interruptible() as pressed,
            ):
                while not simulation.done and not pressed():
                    simulation.step()
                    report(int(simulation.episode[0]) - 1)
            run = simulation.runs()[0]
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    summary = summarise(world, run, settings)
    if len(run.regret) < episodes and out.exists():
        raise click.ClickException(f"interrupted: {out} is kept, the result of an earlier run")
    save(out, run, summary, settings)
    if as_json:
        click.echo(json.dumps({**summary, "settings": settings, "result": str(out)}, indent=2))
    else:
        show(summary, out)
    if summary["episodes"] < episodes:
        click.echo("interrupted: the result holds the episodes played so far", err=True)
        raise SystemExit(130)


def build_schedule(world: FiniteMDP, settings: dict[str, Any]) -> Schedule:
    from rareswitch import DeterminantGrowth, EveryEpisode, UniformGrid

    if settings["schedule"] == "lsvi-ucb":
        return EveryEpisode()
    if settings["schedule"] == "batch":
        return UniformGrid(episodes=settings["episodes"], batches=settings["batches"])
    if settings["budget"] is None:
        return DeterminantGrowth(eta=settings["eta"])
    return DeterminantGrowth.for_budget(
        switches=settings["budget"],
        **world.sizes(episodes=settings["episodes"], ridge=settings["ridge"]),
    )


def first_state(settings: dict[str, Any]) -> int:
    """State 0, but x_1 in the lower bound's family, where x_0 has nothing to lose."""
    return 1 if settings["instance"] == "lower-bound" else 0


def summarise(world: FiniteMDP, run: Run, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what was measured, and the bound of the paper beside it."""
    from rareswitch import DeterminantGrowth, theory

    played = len(run.regret)
    summary: dict[str, Any] = {
        "episodes": played,
        "total_regret": float(run.regret.sum()),
        "average_regret": float(run.regret.mean()) if played else None,
        "updates": run.updates,
        "switches": run.switches,
        "local_switches": run.local_switches,
        "switch_bound": None,
        "switch_bound_vacuous": None,
        "policy_digest": run.policy.digest if run.policy else None,
        "violations": list(getattr(world, "violations", ())),
    }
    if settings["schedule"] == "batch":
        summary["switch_bound"] = settings["batches"] - 1
    elif settings["schedule"] == "rareswitch":
        schedule = build_schedule(world, settings)
        assert isinstance(schedule, DeterminantGrowth)
        summary["eta"] = schedule.eta
        summary["switch_bound"] = theory.switch_bound(
            eta=schedule.eta, **world.sizes(episodes=settings["episodes"], ridge=settings["ridge"])
        )
    if summary["switch_bound"] is not None:
        summary["switch_bound_vacuous"] = summary["switch_bound"] >= settings["episodes"] - 1
    return summary


def show(summary: dict[str, Any], out: Path) -> None:
    click.echo(f"episodes        {summary['episodes']}")
    click.echo(f"total regret    {summary['total_regret']:.1f}")
    if summary["episodes"]:
        click.echo(f"average regret  {summary['average_regret']:.4f} an episode")
    click.echo(f"updates         {summary['updates']} (with the first, on no data)")
    click.echo(f"switches        {summary['switches']} ({summary['local_switches']} local)")
    if (bound := summary["switch_bound"]) is not None:
        vacuous = "; vacuous: not below K−1" if summary["switch_bound_vacuous"] else ""
        click.echo(f"switch bound    {bound:.1f}{vacuous}")
    for violation in summary["violations"]:
        click.echo(f"note            {violation}; bounds use it")
    click.echo(f"result          {out}")


def default_path(settings: dict[str, Any]) -> Path:
    """Name the result after its settings, so that different runs do not meet."""
    import hashlib

    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    return Path(f"rareswitch-learn-{settings['schedule']}-{digest[:8]}.npz")


def check_writable(out: Path, settings: dict[str, Any]) -> None:
    """Refuse to replace anything but an earlier result of the very same settings."""
    if not out.parent.is_dir():
        raise click.UsageError(f"--out must lie in a folder that exists; {out.parent} does not")
    trial = out.with_name(f".{out.name}.trial")
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise click.UsageError(f"--out {out} cannot be written ({error.strerror})") from None
    if out.exists() and saved_settings(out) != settings:
        raise click.UsageError(
            f"--out {out} exists and holds something else than a result of these settings; "
            "choose another file"
        )


def saved_settings(path: Path) -> Any:
    """Return the settings of a result file, or None if it is none."""
    from rareswitch.experiments.archive import load_archive

    try:
        return json.loads(str(load_archive(path)["settings"]))
    except (ValueError, KeyError):
        return None


def save(out: Path, run: Run, summary: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write the result file."""
    import numpy as np

    from rareswitch.experiments.archive import save_archive

    save_archive(
        out,
        {
            "regret": run.regret,
            "states": run.states,
            "actions": run.actions,
            "update_episodes": run.update_episodes,
            "switch_episodes": run.switch_episodes,
            "plan_values": run.plan_values,
            "policy": np.frombuffer(run.policy.to_bytes() if run.policy else b"", np.uint8),
            "summary": np.array(json.dumps(summary)),
            "settings": np.array(json.dumps(settings)),
        },
    )
