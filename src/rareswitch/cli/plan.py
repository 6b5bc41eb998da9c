"""`rareswitch plan`: choose a schedule for a budget of deployments."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import allow_option, typed_modules
from rareswitch.cli.environments import told
from rareswitch.cli.experiments import need
from rareswitch.cli.learn import share_options
from rareswitch.cli.plan_environment import (
    check_environment_options,
    environment_options,
    environment_simulator,
    picked,
    train_code,
    train_command,
)
from rareswitch.cli.plan_protocol import write_protocol
from rareswitch.cli.plan_scenarios import is_asked, plan_scenarios
from rareswitch.cli.training_table import show_picked
from rareswitch.cli.worlds import FINITE, build_world, world_options
from rareswitch.experiments import FEW_ROUNDS, TOO_NARROW

if TYPE_CHECKING:
    from rareswitch.cli.progress import Report
    from rareswitch.core.clock import Schedule
    from rareswitch.core.recipe import Recipe
    from rareswitch.core.task import Task
    from rareswitch.gym.setting import Setting
    from rareswitch.planning.options import Option
    from rareswitch.planning.plan import Plan
    from rareswitch.planning.rounds import BetaSweep
    from rareswitch.sim.outcome import Outcome, Simulator
    from rareswitch.statistics.partitions import LogPartition
    from rareswitch.support.streams import Seed


SETTINGS = ("switches", "target", "price", "randomise", "first", "apart")
ONE_STATE = (
    "note: all episodes of an instance begin in one state, so --horizon 1 plans for that state "
    "alone; --scenarios plans for participants of several kinds"
)


class SimulatorError(Exception):
    """An exception in the code of a simulator or of a rule."""


@click.command()
@click.option(
    "--episodes", type=click.IntRange(1), help="Planned episodes K.  [required without --scenarios]"
)
@click.option("--switches", type=int, help="Budget: most deployments after the first.")
@click.option(
    "--target",
    type=FINITE,
    help="Instead of --switches: average regret per episode to reach, or shortfall if regret is "
    "unknown.",
)
@click.option(
    "--price",
    type=FINITE,
    help="Instead of --switches: cost of a deployment after the first, in units of reward.",
)
@click.option(
    "--feature-norm",
    type=FINITE,
    help="Largest feature norm L = max‖φ‖.  [default: the world's, or 1]",
)
@click.option("--ridge", type=FINITE, default=1.0, help="Regularisation λ.")
@click.option(
    "--beta",
    type=FINITE,
    help="Confidence radius β.  [default: chosen by simulation, else 1; and mixtures]",
)
@click.option("--exploration", help="Exploration instead of --beta, e.g. ensemble,members=16.")
@share_options
@click.option(
    "--first", type=click.IntRange(0), default=0, help="Reported episodes before the first switch."
)
@click.option(
    "--apart", type=click.IntRange(0), default=0, help="Reported episodes between two fits."
)
@click.option(
    "--randomise/--no-randomise",
    default=True,
    show_default=True,
    help="Allow mixtures, or only single policies.",
)
@click.option(
    "--candidate",
    multiple=True,
    help="Further rule to compare, e.g. my_rules:Weekly,day=3. May be repeated.",
)
@click.option(
    "--simulator",
    help="Your module:function to simulate, called with (task, schedule, recipe, seeds).",
)
@click.option(
    "--log",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder of a saved log partition; each rule's deployments are counted on it.",
)
@click.option("--rounds", type=click.IntRange(2, 100_000), default=20, help="Rounds to simulate.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Root seed of the simulation.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for plan.json, protocol.toml and a picture of regret against deployments.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress.")
@click.option(
    "--scenarios",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="TOML file of trial designs and scenarios; print their operating characteristics.",
)
@click.option(
    "--calibrate",
    type=click.FloatRange(0.0, 0.5, min_open=True, max_open=True),
    metavar="ERROR",
    help="--scenarios: find the confidence that gives claims at looks this type I error; the "
    "error at the end comes on top.",
)
@click.option(
    "--cluster",
    help="--scenarios: Dask cluster, tcp://scheduler:8786, or local:4 for four workers here.",
)
@allow_option
@world_options(default=None)
@environment_options
def plan(out: Path | None, as_json: bool, **settings: Any) -> None:
    """Choose a schedule for a switch budget.

    Give a budget (--switches), a regret target (--target) or a price of deployments (--price).
    Budgets, limits and prices count deployments after the first, also those that change no action.
    The command lists the rules that keep the budget and their guarantees, for single policies and
    for mixtures. It prints Python code for the recommended rule.

    With --instance, --env or --simulator it also simulates the rules. It then prints the expected
    regret, the choice of β, and the cost of a wrong β. For an instance or an environment it prints
    the command that plays the rule. Regret is exact if the environment has a model. Otherwise the
    shortfall replaces it: the largest possible return minus the return.

    With --scenarios it simulates whole trials instead: every design in every scenario, with delays,
    missing reports and stopping rules. It prints the probabilities of a claim and of a stop for
    harm or futility, the returns of participants, and the size of the trial. --out keeps finished
    rounds; the same command continues.

    \b
    Examples:
      rareswitch plan --episodes 2500 --horizon 10 --dim 13 --switches 9
      rareswitch plan --episodes 2500 --instance hard --switches 9 --no-randomise
      rareswitch plan --episodes 2500 --instance hard --switches 50 --beta 1
      rareswitch plan --episodes 2500 --instance hard --price 20 --out plan
      rareswitch plan --episodes 2000 --instance tabular --states 4 --horizon 2 --target 0.1
      rareswitch plan --episodes 500 --env FrozenLake-v1 --switches 9 --rounds 4
      rareswitch plan --episodes 2500 --instance hard --switches 9 --control 0,share=0.2 --first 200
      rareswitch plan --episodes 60 --env CartPole-v1 --horizon 50 --switches 5 --rounds 4
      rareswitch plan --scenarios scenarios.toml --allow world --out study --calibrate 0.025
    """
    if is_asked(settings):
        if out is not None:
            prepare(out, drawing=True)
        plan_scenarios(settings, out, as_json=as_json)
        return
    if settings["env"]:
        need("gym")
    if out is not None:
        simulated = settings["instance"] or settings["simulator"] or settings["env"]
        prepare(out, drawing=bool(simulated))
    try:
        made, setting = make(settings, quiet=as_json)
    except SimulatorError as failure:
        show_error(failure)
        raise click.ClickException("raised by the simulator, or by a rule that it played") from None
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted: no plan is kept", err=True)
        raise SystemExit(130) from None
    data = made.to_dict()
    if setting is None:
        data["command"] = learn_command(made, settings)
    else:
        data |= {
            "code": train_code(made, settings),
            "command": train_command(made, settings),
            "picked": picked(setting),
        }
    if as_json:
        click.echo(json.dumps(data, indent=2, allow_nan=False))
    else:
        if setting is not None:
            show_picked(data["picked"], {"env_id": settings["env"]})
        show(made, data["code"])
        if (settings["instance"] or settings["env"]) and data["command"]:
            click.echo(f"\n{data['command']}")
    if made.recommended.regret is not None and settings["rounds"] < FEW_ROUNDS and not as_json:
        click.echo(f"note: {TOO_NARROW}", err=True)
    if out is not None:
        report = save(made, data, out)
        if trouble := write_protocol(
            made, out, budget=settings["switches"], report=report, setting=setting
        ):
            click.echo(trouble, err=True)
        if not as_json:
            click.echo(f"\nwritten to {out}")


def make(settings: dict[str, Any], *, quiet: bool) -> tuple[Plan, Setting | None]:
    """Return the plan of the options, and the setting of --env if it is given."""
    from rareswitch.cli.learn import build_recipe
    from rareswitch.cli.progress import progress
    from rareswitch.planning.plan import plan as make_plan

    check_environment_options(settings)
    free = settings["beta"] is None and settings["exploration"] is None  # the plan chooses
    with progress("simulations", 1, quiet=quiet) as report, ExitStack() as stack:
        shown = Shown(report, settings["rounds"], quiet=quiet)
        setting, play = None, None
        if settings["env"]:
            world = stack.enter_context(environment_simulator(settings, shown.rounds))
            task, setting, play = world.task, world.setting, guarded(world, environment=True)
            if settings["feature_norm"] is not None:
                task = replace(task, feature_norm=settings["feature_norm"])
        else:
            task, simulator = build_task(settings)
            if simulator is not None and task.horizon == 1 and not quiet:
                click.echo(ONE_STATE, err=True)
            if settings["simulator"]:
                simulator = load_simulator(settings["simulator"])
            play = simulator and guarded(simulator)
        made = make_plan(
            task,
            **{name: settings[name] for name in SETTINGS},
            **_given(build_recipe(settings), free=free),
            candidates=[build_candidate(text, task, settings) for text in settings["candidate"]],
            simulator=play,
            log=open_log(settings["log"]) if settings["log"] else None,
            rounds=settings["rounds"],
            seed=settings["seed"],
            progress=shown.simulations,
        )
    return made, setting


def _given(recipe: Recipe, *, free: bool) -> dict[str, Any]:
    """Return a recipe as arguments of a plan, without its exploration if the plan chooses it."""
    names = ("ridge", "control", "floor", "burn_in")
    return {name: getattr(recipe, name) for name in names} if free else {"recipe": recipe}


class Shown:
    """Progress in simulations and, if reported, in the rounds of the current simulation."""

    def __init__(self, report: Report, rounds: int, *, quiet: bool) -> None:
        self._report, self._rounds, self._quiet = report, rounds, quiet
        self._done, self._total = 0, 1

    def simulations(self, done: int, total: int) -> None:
        """Show the number of simulations done."""
        if not done and not self._quiet:
            click.echo(f"{total} simulations of {self._rounds} rounds each", err=True)
        self._done, self._total = done, total
        self._report(done, total=total)

    def rounds(self, done: int, total: int) -> None:
        """Show the number of rounds done in the current simulation."""
        self._report(self._done, f"round {done} of {total}", total=self._total)


def build_task(settings: dict[str, Any]) -> tuple[Task, Simulator | None]:
    """Return the task of the options, and the simulator of --instance if it is given."""
    from functools import cache

    from rareswitch.core.task import Task
    from rareswitch.sim.outcome import world_simulator

    norm, episodes = settings["feature_norm"], settings["episodes"]
    if settings["instance"] is None:
        for name in ("dim", "horizon"):
            if settings[name] is None:
                raise ValueError(f"--{name} must be given without --instance or --env")
        sizes = {"dim": settings["dim"], "horizon": settings["horizon"]}
        return Task(**sizes, episodes=episodes, feature_norm=1.0 if norm is None else norm), None
    make_world = cache(lambda seed: build_world(settings, seed))
    worlds = [make_world((settings["seed"], round_)) for round_ in range(settings["rounds"])]
    if norm is None:
        norm = max(world.feature_norm for world in worlds)
    sizes = {"dim": worlds[0].dim, "horizon": worlds[0].horizon}
    play = world_simulator(
        make_world,
        # State 0; in the lower-bound family x_1, because x_0 has no regret.
        initial_state=1 if settings["instance"] == "lower-bound" else 0,
    )
    return Task(**sizes, episodes=episodes, feature_norm=norm), play


def build_candidate(text: str, task: Task, settings: dict[str, Any]) -> Schedule:
    from rareswitch.rules.words import make_schedule, parse
    from rareswitch.testing import refuse_faulty_rule

    try:
        rule = make_schedule(*parse(text), task, ridge=settings["ridge"], allow=typed_modules(text))
        refuse_faulty_rule(rule, task)
    except (TypeError, ValueError) as error:
        raise ValueError(f"--candidate {text}: {error}") from None
    return rule


def load_simulator(path: str) -> Simulator:
    """Import the user's module:function, from the current folder or installed."""
    from rareswitch.support.imports import load_object

    try:
        found: Simulator = load_object(path, allow=typed_modules(path))
    except ValueError as error:
        raise ValueError(f"--simulator must be module:function; {error}") from None
    if not callable(found):
        raise ValueError(f"--simulator must name a function; {path!r} is {found!r}")
    return found


def guarded(play: Simulator, *, environment: bool = False) -> Simulator:
    """Wrap a simulator, so that its errors differ from errors in the options."""

    def simulate(
        task: Task, schedule: Schedule, recipe: Recipe, seeds: Sequence[Seed]
    ) -> Sequence[Outcome]:
        try:
            return play(task, schedule, recipe, seeds)
        except MemoryError:
            raise  # too large, not a mistake in code
        except BrokenExecutor as error:
            raise click.ClickException(" ".join(str(error).split())) from None
        except Exception as error:
            if environment and isinstance(error, ValueError):  # it names the episode and step
                raise click.ClickException(told(error)) from None
            raise SimulatorError from error

    return simulate


def show_error(failure: SimulatorError) -> None:
    """Print the traceback of a simulator's exception, from the simulator's first line on."""
    import traceback

    error = failure.__cause__
    assert error is not None
    assert error.__traceback__ is not None
    traceback.print_exception(error.with_traceback(error.__traceback__.tb_next))


def open_log(folder: Path) -> LogPartition:
    from rareswitch.statistics.partitions import open_partition

    try:
        return open_partition(folder)
    except ValueError as error:
        raise ValueError(f"--log: {error}") from None


def learn_command(made: Plan, settings: dict[str, Any]) -> str | None:
    """Return the command that plays the recommended rule in the named world."""
    import shlex

    from click.core import ParameterSource

    if made.command is None or settings["instance"] is None:
        return made.command
    context = click.get_current_context()
    named = ("instance", "dim", "horizon", "delta", "reading", "zeta", "states", "actions")
    said = [n for n in named if context.get_parameter_source(n) is ParameterSource.COMMANDLINE]
    world = [word for name in said for word in (f"--{name}", str(settings[name]))]
    return f"{made.command} {shlex.join(world)}"


def prepare(out: Path, *, drawing: bool) -> None:
    """Check before any simulation that the plan can be written and drawn."""
    from rareswitch.support.extras import require

    try:
        if drawing:
            require("experiments")
        out.mkdir(parents=True, exist_ok=True)
        trial = out / ".trial"
        trial.touch()
        trial.unlink()
    except ImportError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.UsageError(f"--out {out} cannot be written ({error.strerror})") from None


def save(made: Plan, data: dict[str, Any], out: Path) -> bytes:
    """Write plan.json and, after a simulation, the picture; return the bytes of plan.json."""
    from rareswitch.support.archive import write_bytes

    report = json.dumps(data, indent=2, allow_nan=False).encode()
    try:
        write_bytes(out / "plan.json", report)
        if made.recommended.regret is not None:
            from rareswitch.planning.picture import draw_plan
            from rareswitch.support.drawing import save_figure

            save_figure(draw_plan(made), out)
    except OSError as error:
        raise click.ClickException(f"--out {out} cannot be written ({error.strerror})") from None
    return report


def show(made: Plan, code: str) -> None:
    from rareswitch.core.exploration import is_paper_bonus
    from rareswitch.sim.outcome import MEASURES

    header = (
        "rule",
        "regret bound",
        f"avg {made.measure} [95%]",
        "avg return [95%]",
        "deployments [95%]",
        "switches [95%]",
        "on the log",
        "best for prices",
    )
    rows = [header, *map(cells, made.options)]
    used = [c for c in range(len(header)) if c < 2 or any(row[c] != "–" for row in rows[1:])]
    widths = [max(len(row[c]) for row in rows) for c in used]
    for row in rows:
        padded = (row[c].ljust(width) for c, width in zip(used, widths, strict=True))
        click.echo("  ".join(padded).rstrip())
    click.echo("\nLimits, deployments and prices count deployments after the first.")
    if made.measure != "regret":
        click.echo(f"{made.measure.capitalize()} is {MEASURES[made.measure]}.")
    if made.sweep:
        show_sweep(made.sweep, made.measure)
    for role, part in (made.recommended.by_role or {}).items():
        share, lost = f"{100 * part['share']:.0f}% of the episodes", part["regret"]
        click.echo(f"{role:<8} {share}, avg {made.measure} {lost:.4g}")
    explores = made.exploration
    how = f"β = {explores.beta:g}" if is_paper_bonus(explores) else repr(explores)
    click.echo(f"\n{how} ({made.exploration_source})")
    click.echo(f"Take {made.recommended.name}: {made.reason}\n")
    click.echo(code)


def cells(option: Option) -> tuple[str, ...]:
    """Return the row of an option in the table."""
    bound = option.bound
    return (
        option.name,
        "none" if bound is None else "vacuous" if bound.vacuous else f"{bound.total:.4g}",
        str(option.regret or "–"),
        str(option.mean_return or "–"),
        str(option.deployments or "–"),
        str(option.switches or "–"),
        "–" if option.replayed is None else str(option.replayed),
        "–" if option.prices is None else "{:.3g} to {:.3g}".format(*option.prices),
    )


def show_sweep(sweep: BetaSweep, measure: str) -> None:
    click.echo(f"\nβ        {f'avg {measure} [95%]':30} optimistic fits")
    for beta, regret, optimistic in zip(sweep.betas, sweep.regret, sweep.optimistic, strict=True):
        share = "–" if optimistic is None else f"{100 * optimistic:.0f}%"
        mark = "  ← chosen" if beta == sweep.chosen else ""
        click.echo(f"{beta:<8.3g} {regret!s:30} {share}{mark}")
    click.echo(
        f"A third of it multiplies {measure} by {sweep.loss_low:.2f}, three times it by "
        f"{sweep.loss_high:.2f}."
    )
