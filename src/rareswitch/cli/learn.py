"""`rareswitch learn`: run one learner in one world."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import typed_modules
from rareswitch.cli.worlds import FINITE, build_world, world_options

if TYPE_CHECKING:
    from rareswitch.core.clock import Schedule
    from rareswitch.core.control import Control
    from rareswitch.core.recipe import Recipe
    from rareswitch.core.task import Task
    from rareswitch.sim.mdp import FiniteMDP
    from rareswitch.sim.run import Run
    from rareswitch.sim.simulation import Simulation

RANDOM = "random-policy"
SHARES: dict[str, Any] = {"control": None, "floor": 0.0, "burn_in": False}  # defaults


def share_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of a control, a floor and a burn-in."""
    for option in (
        click.option("--burn-in", is_flag=True, help="Play all of version 1 uniformly at random."),
        click.option(
            "--floor",
            type=FINITE,
            default=0.0,
            help="Share of episodes that act uniformly at random.",
        ),
        click.option(
            "--control",
            help="Control for a share of the episodes: 0,share=0.2 is action 0; FILE,share=0.2 is "
            "a saved policy.  [default: none]",
        ),
    ):
        command = option(command)
    return command


@click.command()
@world_options(default="hard")
@click.option(
    "--schedule",
    default="spread-budget,switches=9",
    help="Rule that decides when to switch, with its arguments; or random-policy.",
)
@click.option(
    "--exploration",
    help="Exploration, e.g. ensemble,scale=1 or perturbation,scale=0.1.  "
    "[default: ensemble, a mixture that needs no tuning]",
)
@click.option(
    "--beta",
    type=FINITE,
    help="Confidence radius β of the paper, short for --exploration bonus,beta=β.",
)
@share_options
@click.option("--episodes", type=click.IntRange(1), default=2500, help="Episodes K to play.")
@click.option("--ridge", type=FINITE, default=1.0, help="Regularisation λ.")
@click.option(
    "--feature-norm",
    type=FINITE,
    help="Largest feature norm L = max‖φ‖, for the rule.  [default: the world's]",
)
@click.option(
    "--ties", default="direction", help="Choice between equal actions: direction or lowest."
)
@click.option("--seed", default=0, help="Seed of the world, its noise and the ties.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the result.  [default: rareswitch-learn-….npz, named after the settings]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress.")
def learn(out: Path | None, as_json: bool, **settings: Any) -> None:
    """Run one learner in a simulated world and print its regret.

    The defaults are the paper's world, nine switches, and a mixture that needs no tuning. The
    output has regret, deployments, switches, and the guaranteed limit of deployments.

    With --beta 1 the learner is the paper's: LSVI-UCB with the schedule every-episode,
    LSVI-UCB-Batch with uniform-grid, LSVI-UCB-RareSwitch with determinant-growth. Other schedules
    are spread-budget, adaptive-budget, total-growth, geometric-grid, minimax-grid, or module:Class
    of your own. The argument switches=50 allows at most 50 deployments after the first. first=200
    and apart=50 make any rule wait for episodes before the first switch and between two fits.

    The result is a NumPy archive: regret, states, actions and member of every episode, the episodes
    of deployments and switches, the final policy as bytes, and the summary as JSON. Ctrl-C saves
    the played episodes in a file whose name ends in -partial.

    \b
    Examples:
      rareswitch learn --schedule uniform-grid,batches=20 --seed 3
      rareswitch learn --schedule determinant-growth,eta=8 --beta 1
      rareswitch learn --schedule adaptive-budget,switches=60
      rareswitch learn --schedule my_rules:Weekly,day=3
      rareswitch learn --schedule spread-budget,switches=9,first=200 --control 0,share=0.2
      rareswitch learn --instance tabular --states 5 --actions 3 --horizon 6
    """
    settings = {k: v for k, v in settings.items() if k not in SHARES or v != SHARES[k]}
    out = out or default_path(settings)
    check_writable(out, settings)
    try:
        world = build_world(settings, settings["seed"])
        task = build_task(world, settings)
        schedule = build_schedule(task, settings)
        begin = prepare(world, task, schedule, build_recipe(settings), settings)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    run = begin(as_json)
    summary = summarise(world, task, schedule, run, settings)
    if as_json:
        click.echo(json.dumps({**summary, "settings": settings, "result": str(out)}, indent=2))
    else:
        show(summary)
    interrupted = len(run.regret) < settings["episodes"]
    if interrupted:  # keep the result of an earlier complete run
        out = out.with_name(f"{out.stem}-partial{out.suffix}")
    save(out, run, summary, settings)
    if not as_json:
        click.echo(f"result          {out}")
    if interrupted:
        click.echo(
            f"interrupted: {out} has the episodes played so far; the same command starts again",
            err=True,
        )
        raise SystemExit(130)


def prepare(
    world: FiniteMDP,
    task: Task,
    schedule: Schedule | None,
    recipe: Recipe,
    settings: dict[str, Any],
) -> Callable[[bool], Run]:
    """Check the settings; return a function that plays all episodes, or those until Ctrl-C."""
    from rareswitch.sim import Simulation, simulate_random

    episodes, seed = settings["episodes"], settings["seed"]
    # State 0; in the lower-bound family x_1, because x_0 has no regret.
    start = 1 if settings["instance"] == "lower-bound" else 0
    if schedule is None:
        run = simulate_random(world, episodes=episodes, seed=seed, initial_state=start)
        return lambda quiet: run
    simulation = Simulation(
        [world],
        schedule,
        recipe,
        task=task,
        seeds=[seed],
        initial_state=start,
    )
    return lambda quiet: play(simulation, quiet=quiet)


def play(simulation: Simulation, *, quiet: bool) -> Run:
    """Play all episodes, or those until Ctrl-C."""
    from rareswitch.cli.interrupt import interruptible
    from rareswitch.cli.progress import progress

    with (
        progress("episodes", simulation.episodes, quiet=quiet) as report,
        interruptible() as pressed,
    ):
        while not simulation.done and not pressed():
            simulation.step()
            report(int(simulation.episode[0]) - 1)
    return simulation.runs()[0]


def build_task(world: FiniteMDP, settings: dict[str, Any]) -> Task:
    """Return the task of a world; --feature-norm replaces the world's."""
    from dataclasses import replace

    task, norm = world.task(episodes=settings["episodes"]), settings["feature_norm"]
    return task if norm is None else replace(task, feature_norm=norm)


def build_schedule(task: Task, settings: dict[str, Any]) -> Schedule | None:
    """Return the schedule of --schedule; None is the random policy."""
    from rareswitch.rules.words import make_schedule, parse
    from rareswitch.testing import refuse_faulty_rule

    text = settings["schedule"]
    if text == RANDOM:
        return None
    try:
        rule = make_schedule(*parse(text), task, ridge=settings["ridge"], allow=typed_modules(text))
        refuse_faulty_rule(rule, task)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--schedule {text}: {error}") from None
    return rule


def build_recipe(settings: dict[str, Any]) -> Recipe:
    """Return the recipe of the options; a command may lack --ridge and --ties."""
    from rareswitch.core.exploration import Bonus, Ensemble
    from rareswitch.core.recipe import Recipe
    from rareswitch.rules.words import make_exploration, parse

    beta, text = settings["beta"], settings["exploration"]
    if beta is not None and text is not None:
        raise ValueError(
            f"--beta and --exploration exclude each other: --beta {beta:g} is short for "
            f"--exploration bonus,beta={beta:g}"
        )
    try:
        explores = (
            Ensemble()
            if text is None
            else make_exploration(*parse(text), allow=typed_modules(text))
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"--exploration {text}: {error}") from None
    names = ("ridge", "ties", "floor", "burn_in")
    given = {name: settings[name] for name in names if name in settings}
    if settings.get("control") is not None:
        given["control"] = build_control(settings["control"])
    return Recipe(exploration=explores if beta is None else Bonus(beta), **given)


def build_control(text: str) -> Control:
    """Return the control of --control: an action, or a policy in a file."""
    from rareswitch.core.control import Control
    from rareswitch.rules.words import parse

    try:
        name, arguments = parse(text)
        if arguments.keys() != {"share"}:
            raise ValueError("a control needs a share and nothing else, as in 0,share=0.2")
        plays = int(name) if name.isdecimal() else Path(name).read_bytes()
        return Control(plays, arguments["share"])
    except (OSError, TypeError, ValueError) as error:
        raise ValueError(f"--control {text}: {error}") from None


def summarise(
    world: FiniteMDP,
    task: Task,
    schedule: Schedule | None,
    run: Run,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Return the measurements of a run and the guarantee of its schedule."""
    played, K = len(run.regret), settings["episodes"]
    guarantee = getattr(schedule, "deployment_limit", None)
    limit = guarantee and guarantee(task, settings["ridge"])
    return {
        "episodes": played,
        "members": run.policy.members if run.policy else 1,
        "total_regret": float(run.regret.sum()),
        "average_regret": float(run.regret.mean()) if played else None,
        "deployments": run.deployments,
        "switches": run.switches,
        "local_switches": run.local_switches,
        "deployment_limit": limit,
        "deployment_limit_vacuous": None if limit is None else limit >= K - 1,
        "policy_digest": run.policy.digest if run.policy else None,
        "violations": list(getattr(world, "violations", ())),
    } | ({} if settings.keys().isdisjoint(SHARES) else {"by_role": _by_role(run)})


def _by_role(run: Run) -> dict[str, Any]:
    """Return the episodes and the average regret of each role, as plain values."""
    return {
        role: {"episodes": part.episodes, "average_regret": part.regret / part.episodes}
        for role, part in run.by_role.items()
    }


def show(summary: dict[str, Any]) -> None:
    click.echo(f"episodes        {summary['episodes']}")
    if summary["members"] > 1:
        click.echo(f"deployed        mixtures of {summary['members']} members")
    click.echo(f"total regret    {summary['total_regret']:.1f}")
    if summary["episodes"]:
        click.echo(f"average regret  {summary['average_regret']:.4f} per episode")
    for role, part in summary.get("by_role", {}).items():
        shown = f"{part['average_regret']:.4f} in each of {part['episodes']} episodes"
        click.echo(f"  {role:<14}{shown}")
    click.echo(f"deployments     {summary['deployments']} (with the first, on no data)")
    click.echo(f"switches        {summary['switches']} ({summary['local_switches']} local)")
    if (limit := summary["deployment_limit"]) is not None:
        vacuous = ", which no learner exceeds" if summary["deployment_limit_vacuous"] else ""
        click.echo(f"guaranteed      at most {limit:.0f} deployments after the first{vacuous}")
    for violation in summary["violations"]:
        click.echo(f"note            {violation}; bounds use it")


def default_path(settings: dict[str, Any]) -> Path:
    """Name the file after the settings, so that different runs have different files."""
    import hashlib
    import re

    digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
    rule = re.sub(r"[^A-Za-z0-9-]", "-", settings["schedule"].split(",")[0])[:40]
    return Path(f"rareswitch-learn-{rule}-{digest[:8]}.npz")


def check_writable(out: Path, settings: dict[str, Any]) -> None:
    """Raise unless the file can be written; only a result of the same settings is replaced."""
    if not out.name:
        raise click.UsageError("--out must name a file; got an empty name")
    if not out.parent.is_dir():
        raise click.UsageError(f"--out must be in a folder that exists; {out.parent} does not")
    trial = out.with_name(f".{out.name}.trial")
    try:
        trial.touch()
        trial.unlink()
    except OSError as error:
        raise click.UsageError(f"--out {out} cannot be written ({error.strerror})") from None
    if out.exists() and saved_settings(out) != settings:
        raise click.UsageError(
            f"--out {out} exists and is not a result of these settings; choose another file"
        )


def saved_settings(path: Path) -> Any:
    """Return the settings of a result file, or None for any other file."""
    from rareswitch.support.archive import load_archive

    try:
        return json.loads(str(load_archive(path)["settings"]))
    except (ValueError, KeyError):
        return None


def save(out: Path, run: Run, summary: dict[str, Any], settings: dict[str, Any]) -> None:
    """Write the result file."""
    import numpy as np

    from rareswitch.support.archive import save_archive

    save_archive(
        out,
        {
            "regret": run.regret,
            "states": run.states,
            "actions": run.actions,
            "members": run.members,
            **({} if "by_role" not in summary or run.roles is None else {"roles": run.roles}),
            "deployment_episodes": run.deployment_episodes,
            "switch_episodes": run.switch_episodes,
            "fitted_values": run.fitted_values,
            "policy": np.frombuffer(run.policy.to_bytes() if run.policy else b"", np.uint8),
            "summary": np.array(json.dumps(summary)),
            "settings": np.array(json.dumps(settings)),
        },
    )
