"""`rareswitch reproduce`, `run` and `plot`: the experiments."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import allow_option
from rareswitch.experiments import FIELD, OF_ITS_THEOREMS, OF_THE_PAPER, PAPER

if TYPE_CHECKING:
    from rareswitch.experiments.claims import Claim
    from rareswitch.experiments.results import Results
    from rareswitch.experiments.spec import Experiment
    from rareswitch.experiments.store import Piece

QUICK_ROUNDS = 3


def scale_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that `reproduce` and `run` share."""
    options = (
        click.option(
            "--rounds", type=click.IntRange(1), help="Rounds.  [default: the experiment's]"
        ),
        click.option(
            "--episodes", type=click.IntRange(1), help="Episodes.  [default: the experiment's]"
        ),
        click.option(
            "--seed", type=click.IntRange(0), help="Root seed.  [default: the experiment's]"
        ),
        click.option(
            "--workers", type=click.IntRange(1), help="Worker processes.  [default: all cores]"
        ),
        click.option(
            "--cluster",
            help="Dask cluster: tcp://scheduler:8786, or local:4 for four workers here.  [default: "
            "none]",
        ),
        click.option("--json", "as_json", is_flag=True, help="Print JSON, no progress."),
    )
    for option in reversed(options):
        command = option(command)
    return command


REPRODUCE = f"""Run the experiments of the paper, and ours, and check claims.

The command draws the figures and writes report.html. NAMES are experiments, by default all: {
    " ".join(PAPER)
}. Those of the paper are {" ".join(OF_THE_PAPER)}; {" ".join(OF_ITS_THEOREMS)} measure its
theorems; the others are ours. One more experiment, {FIELD}, compares mixtures with other
methods in fifteen worlds and takes more than an hour of CPU time; {FIELD}-WORLD, such as {
    FIELD
}-deep-sea, is one of these worlds. After Ctrl-C or a crash, the same
command continues. Results do not depend on the number of workers.

\b
Examples:
  rareswitch reproduce --quick
  rareswitch reproduce figure1 figure2
  rareswitch reproduce --rounds 200 --out many-rounds
  rareswitch reproduce {FIELD} --out results-of-the-field
"""


@click.command(help=REPRODUCE)
@click.argument("names", nargs=-1)
@click.option("--quick", is_flag=True, help=f"Run {QUICK_ROUNDS} rounds of each experiment.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Folder of the results.  [default: results, or results-quick with --quick]",
)
@scale_options
def reproduce(
    names: tuple[str, ...],
    quick: bool,
    out: Path | None,
    rounds: int | None,
    episodes: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Run the experiments of the paper, and ours."""
    need("experiments")
    from rareswitch.experiments.load import load_own
    from rareswitch.experiments.report import few_rounds
    from rareswitch.experiments.run import reproduce as run_all

    out = out or Path("results-quick" if quick else "results")
    overrides = {
        "rounds": rounds or (QUICK_ROUNDS if quick else None),
        "episodes": episodes,
        "seed": seed,
    }
    try:
        specs = load_own(names or PAPER, overrides)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    replaced = replaced_scales(specs, out)
    command = " ".join(["rareswitch reproduce", *names, *(["--quick"] if quick else [])])
    given = {"rounds": rounds, "episodes": episodes, "seed": seed}
    command += "".join(f" --{key} {value}" for key, value in given.items() if value is not None)

    def work(pool: Any, report: Any) -> tuple[dict[str, Results], list[Claim]]:
        return run_all(specs, out, pool, report, command=command)

    results, claims = execute(work, out, pool_of(workers, cluster), as_json)
    if as_json:
        verdicts = [{"name": c.name, "verdict": c.verdict, "evidence": c.evidence} for c in claims]
        click.echo(json.dumps(summary(results, out) | {"claims": verdicts}, indent=2))
        return
    for claim in claims:
        click.echo(f"{claim.verdict:14} {claim.name}: {claim.evidence}")
    click.echo(f"report         {out / 'report.html'}")
    if note := few_rounds({spec.name: spec.rounds for spec in specs}):
        click.echo(f"note: {note}", err=True)
    note_replaced(replaced, out)


@click.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("results"),
    show_default=True,
    help="Folder of the results.",
)
@allow_option
@scale_options
def run(
    spec: Path,
    out: Path,
    allow: tuple[str, ...],
    rounds: int | None,
    episodes: int | None,
    seed: int | None,
    workers: int | None,
    cluster: str | None,
    as_json: bool,
) -> None:
    """Run your own experiment and draw its figure.

    SPEC is a TOML file. The command prints the mean of each arm with its 95% interval, and its
    difference from LSVI-UCB, or from the first arm, paired by rounds. If the file names code of
    yours as module:name, add --allow module.

    \b
    Examples:
      rareswitch run my.toml
      rareswitch run my.toml --rounds 5 --out trial
      rareswitch run my.toml --allow my_rules
    """
    need("experiments")
    from rareswitch.experiments.load import load_spec
    from rareswitch.experiments.report import few_rounds
    from rareswitch.experiments.run import run as run_all

    try:
        overrides = {"rounds": rounds, "episodes": episodes, "seed": seed}
        specs = [load_spec(spec, overrides, allow=allow)]
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    replaced = replaced_scales(specs, out)

    def work(pool: Any, report: Any) -> dict[str, Results]:
        return run_all(specs, out, pool, report)

    results = execute(work, out, pool_of(workers, cluster), as_json)
    if as_json:
        click.echo(json.dumps(summary(results, out), indent=2))
        return
    found = results[specs[0].name]
    against = specs[0].arms[found.baseline].label
    rows, rounds = found.compare(), specs[0].rounds
    several = rounds > 1
    width = max(30, *(len(row["label"]) for row in rows))
    for row in rows:
        line = f"{row['label']:{width}} {found.measure} {row['mean']:.4f} "
        line += "[{:.4f}, {:.4f}]".format(*row["interval"]) if several else "[–]"
        if row["difference"]:
            difference, low, high = row["difference"]
            line += f", {difference:+.4f} "
            line += f"[{low:+.4f}, {high:+.4f}]" if several else "[–]"
            line += f" against {against}"
        click.echo(f"{line}, {row['switches']:.1f} switches")
    click.echo(f"results        {out / specs[0].name}")
    if note := few_rounds({specs[0].name: rounds}):
        click.echo(f"note: {note}", err=True)
    note_replaced(replaced, out)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def plot(folder: Path) -> None:
    """Draw the figure of a results folder again.

    \b
    Examples:
      rareswitch plot results/figure1
      rareswitch plot results/field
    """
    need("experiments")
    from rareswitch.experiments.run import plot as draw_again

    try:
        draw_again(folder)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{folder} cannot be written to ({error.strerror})") from None
    click.echo(f"figure         {folder / 'figure.png'}, .pdf, .svg")


def replaced_scales(specs: Sequence[Experiment], out: Path) -> list[str]:
    """Describe the results in `out` that these experiments replace with another scale."""
    from rareswitch.experiments.results import load_manifest

    replaced = []
    for spec in specs:
        try:
            found = load_manifest(out / spec.name)["spec"]
        except (OSError, ValueError):
            continue
        if (found.rounds, found.episodes, found.seed) != (spec.rounds, spec.episodes, spec.seed):
            scale = f"{found.rounds} rounds of {found.episodes} episodes with seed {found.seed}"
            replaced.append(f"{out / spec.name} held {scale}")
    return replaced


def note_replaced(replaced: list[str], out: Path) -> None:
    """Print a note for results of another scale that were replaced."""
    for one in replaced:
        click.echo(
            f"note: {one}, and now holds the results above; the pieces of both are kept in "
            f"{out / 'pieces'}, so the earlier command restores it without playing again",
            err=True,
        )


def need(extra: str) -> None:
    """Raise if a library of an extra is missing; the error has the command to install it."""
    from rareswitch.support.extras import require

    try:
        require(extra)
    except ImportError as error:
        raise click.ClickException(str(error)) from None


def pool_of(workers: int | None, cluster: str | None) -> AbstractContextManager[Executor]:
    """Return a pool of local processes, or of a cluster's."""
    from rareswitch.compute.local import local_pool

    if cluster is None:
        return local_pool(workers or os.cpu_count() or 1)
    if workers is not None:
        raise click.UsageError("--workers and --cluster exclude each other")
    need("cluster")
    from rareswitch.compute.dask import cluster_pool

    return cluster_pool(cluster, lambda line: click.echo(line, err=True))


def execute(
    work: Callable[[Any, Any], Any],
    out: Path,
    pool: AbstractContextManager[Executor],
    quiet: bool,
) -> Any:
    """Do the work with a pool; after an error or Ctrl-C, print the number of kept pieces."""
    from rareswitch.cli.progress import progress
    from rareswitch.experiments.spec import ArmError

    finished = pieces = 0

    def kept() -> str:
        return f"{finished} of {pieces} pieces are kept in {out}; the same command continues"

    try:
        with pool as executor, progress("pieces", 0, quiet=quiet) as report:

            def show(done: int, total: int, piece: Piece | None) -> None:
                nonlocal finished, pieces
                finished, pieces = done, total
                last = f"{piece.arm.name}, rounds {piece.first}–{piece.last - 1}" if piece else ""
                report(done, last, total)

            return work(executor, show)
    except ArmError as error:
        raise click.ClickException(f"{error}\n{kept()}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    except (BrokenExecutor, OSError, MemoryError) as error:  # a cluster raises the first
        reason = " ".join(str(error).split()) or type(error).__name__
        raise click.ClickException(f"{reason}; {kept()}") from None
    except KeyboardInterrupt:
        click.echo(f"interrupted: {kept()}", err=True)
        raise SystemExit(130) from None


def summary(results: dict[str, Results], out: Path) -> dict[str, Any]:
    """Return the final numbers of each experiment for `--json`."""
    return {
        "out": str(out),
        "experiments": {
            name: {
                "digest": found.experiment.digest,
                "baseline": found.experiment.arms[found.baseline].name,
                "arms": {
                    row["name"]: {
                        f"final_average_{found.measure}": row["mean"],
                        "interval": row["interval"],
                        "difference": row["difference"],
                        "switches": row["switches"],
                    }
                    for row in found.compare()
                },
            }
            for name, found in results.items()
        },
    }
