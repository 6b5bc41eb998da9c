"""`rareswitch plan`: from a switch budget to a schedule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.worlds import build_world, world_options

if TYPE_CHECKING:
    from rareswitch.planning.plan import Plan
    from rareswitch.planning.simulator import Simulator


@click.command()
@click.option("--episodes", type=click.IntRange(1), required=True, help="Episodes K to come.")
@click.option("--switches", type=int, help="At most so many policy changes.")
@click.option("--target", type=float, help="Or: average regret an episode to reach.")
@click.option("--price", type=float, help="Or: what one switch costs, in units of reward.")
@click.option("--dim", type=click.IntRange(1), help="Feature dimension  [default: the world's]")
@click.option("--feature-norm", type=float, help="L = max‖φ‖  [default: the world's, or 1]")
@click.option("--ridge", default=1.0, help="Regularisation λ.")
@click.option("--beta", type=float, help="Confidence radius β  [default: swept, or 1]")
@click.option(
    "--simulator",
    help="Your own: module:function, called with (schedule, optimism, seeds).",
)
@click.option(
    "--log",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Logged features, a .npy file of shape (episodes, H, d), to count switches on.",
)
@click.option("--rounds", type=click.IntRange(2), default=20, help="Rounds to simulate.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Root seed of the simulation.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for plan.json and the picture of regret against switches.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress.")
@world_options(default=None)
def plan(
    episodes: int,
    switches: int | None,
    target: float | None,
    price: float | None,
    dim: int | None,
    feature_norm: float | None,
    ridge: float,
    beta: float | None,
    simulator: str | None,
    log: Path | None,
    rounds: int,
    seed: int,
    out: Path | None,
    as_json: bool,
    **settings: Any,
) -> None:
    """Choose a switching rule for a budget, a regret target or a price of switching.

    Lists the rules that keep the budget with what is guaranteed of each; with --instance or
    --simulator also what to expect, the choice of β, and what a wrong β costs. Prints the code to
    paste.

    \b
    Examples:
      rareswitch plan --episodes 2500 --horizon 10 --dim 13 --switches 50
      rareswitch plan --episodes 2500 --instance hard --switches 50 --beta 1
      rareswitch plan --episodes 2500 --instance hard --price 20 --out plan
      rareswitch plan --episodes 2000 --instance tabular --states 4 --horizon 2 --target 0.1
    """
    from rareswitch.cli.progress import progress
    from rareswitch.planning.plan import plan as make_plan

    if out is not None:
        prepare(out)
    try:
        play = load_simulator(simulator, settings, episodes, ridge)
        if settings["instance"]:
            worlds = [build_world(settings, (seed, round_)) for round_ in range(rounds)]
            if dim not in (None, worlds[0].dim):
                raise ValueError(f"--dim must be the world's, {worlds[0].dim}; got {dim}")
            dim = worlds[0].dim
            if feature_norm is None:
                feature_norm = max(world.feature_norm for world in worlds)
        if dim is None:
            raise ValueError("--dim must be given where no --instance is named")
        features = load_features(log) if log else None
        with progress("simulations", 1, quiet=as_json) as report:
            made = make_plan(
                episodes=episodes,
                horizon=settings["horizon"],
                dim=dim,
                feature_norm=1.0 if feature_norm is None else feature_norm,
                ridge=ridge,
                switches=switches,
                target=target,
                price=price,
                beta=beta,
                simulator=play,
                log=features,
                rounds=rounds,
                seed=seed,
                progress=lambda done, total: report(done, total=total),
            )
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    except KeyboardInterrupt:
        click.echo("interrupted: a plan is only made whole", err=True)
        raise SystemExit(130) from None
    if out is not None:
        save(made, out)
    if as_json:
        click.echo(json.dumps(made.to_dict(), indent=2))
    else:
        show(made, out)


def load_simulator(
    path: str | None, settings: dict[str, Any], episodes: int, ridge: float
) -> Simulator | None:
    """Return the user's simulator, that of the named world, or None."""
    import importlib
    import sys

    from rareswitch.planning.simulator import world_simulator

    if path is None:
        if settings["instance"] is None:
            return None
        return world_simulator(
            lambda seed: build_world(settings, seed), episodes=episodes, ridge=ridge
        )
    module, _, name = path.partition(":")
    sys.path.insert(0, "")
    try:
        found: Simulator = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"--simulator must be module:function; got {path!r} ({error})") from None
    if not callable(found):
        raise ValueError(f"--simulator must name a function; {path!r} is {found!r}")
    return found


def load_features(path: Path) -> Any:
    import numpy as np

    try:
        features = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"--log {path} is not a .npy file ({error})") from None
    if not isinstance(features, np.ndarray):
        raise ValueError(f"--log {path} must be one array (.npy); it is an archive of several")
    return features


def prepare(out: Path) -> None:
    """Find out before any simulation whether the plan can be written and drawn."""
    from rareswitch.cli.experiments import require_extra

    require_extra()
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"--out {out} cannot be made ({error.strerror})") from None


def save(made: Plan, out: Path) -> None:
    """Write plan.json and, where something was simulated, the picture."""
    from rareswitch.experiments.archive import write_bytes

    write_bytes(out / "plan.json", json.dumps(made.to_dict(), indent=2).encode())
    if made.recommended.regret is not None:
        from rareswitch.experiments.figures import save_figure
        from rareswitch.planning.picture import draw_plan

        save_figure(draw_plan(made), out)


def show(made: Plan, out: Path | None) -> None:
    rows = [
        (
            "rule",
            "regret bound",
            "avg regret [95%]",
            "switches [95%]",
            "on the log",
            "best for prices",
        )
    ]
    for option in made.options:
        bound = option.candidate.bound
        rows.append(
            (
                option.name,
                "none" if bound is None else "vacuous" if bound.vacuous else f"{bound.total:.4g}",
                str(option.regret or "–"),
                str(option.switches or "–"),
                "–" if option.replayed is None else str(option.replayed),
                "–" if option.prices is None else "{:.3g} to {:.3g}".format(*option.prices),
            )
        )
    used = [c for c in range(6) if c < 2 or any(row[c] != "–" for row in rows[1:])]
    widths = [max(len(row[c]) for row in rows) for c in used]
    for row in rows:
        cells = (row[c].ljust(width) for c, width in zip(used, widths, strict=True))
        click.echo("  ".join(cells).rstrip())
    if made.sweep:
        sweep = made.sweep
        click.echo("\nβ        avg regret [95%]            optimistic plans")
        for beta, regret, optimistic in zip(
            sweep.betas, sweep.regret, sweep.optimistic, strict=True
        ):
            share = "–" if optimistic is None else f"{100 * optimistic:.0f}%"
            mark = "  ← chosen" if beta == sweep.chosen else ""
            click.echo(f"{beta:<8.3g} {regret!s:27} {share}{mark}")
        click.echo(
            f"A third of it multiplies regret by {sweep.loss_low:.2f}, three times it by "
            f"{sweep.loss_high:.2f}."
        )
    click.echo(f"\nβ = {made.beta:g} ({made.beta_source})")
    click.echo(f"Take {made.recommended.name}: {made.reason}\n")
    click.echo(made.code)
    if out is not None:
        click.echo(f"\nwritten to {out}")
