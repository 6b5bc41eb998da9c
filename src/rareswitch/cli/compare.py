"""`rareswitch compare`: estimate the gain of a trained policy from a log."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import allow_option
from rareswitch.cli.environments import refusals
from rareswitch.cli.experiments import need
from rareswitch.cli.progress import progress
from rareswitch.cli.saved import opened
from rareswitch.cli.training_table import line

if TYPE_CHECKING:
    from rareswitch.evaluation import Comparison
    from rareswitch.gym.run import RunFolder
    from rareswitch.trajectories import Trajectory
    from rareswitch.trajectories.steps import Columns

# Equal to evaluation.ESTIMATORS; importing that would load NumPy.
ESTIMATORS = ("doubly robust", "self-normalised", "per-decision", "trajectory")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--version",
    type=click.IntRange(1),
    help="Deployed policy to judge.  [default: the recommended policy]",
)
@click.option(
    "--against",
    type=click.IntRange(1),
    help="Deployed policy to compare with.  [default: the policies of the log]",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="File of episodes (.jsonl, .parquet, .csv).  [default: the folder's log, from the later "
    "policy on]",
)
@click.option(
    "--columns",
    multiple=True,
    metavar="PART=COLUMN,…",
    help="Columns of a --log with a row for each step, e.g. observation=stock,weekday. May be "
    "repeated.",
)
@click.option(
    "--estimator",
    type=click.Choice(ESTIMATORS),
    default=ESTIMATORS[0],
    help="Estimator of the return.",
)
@click.option(
    "--fit-propensities",
    is_flag=True,
    help="Estimate the propensities of a --log that has none.",
)
@allow_option
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of folds and resamples.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    folder: Path,
    version: int | None,
    against: int | None,
    log: Path | None,
    columns: tuple[str, ...],
    estimator: str,
    fit_propensities: bool,
    allow: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Estimate the gain of a policy from logged episodes.

    No episode is played. FOLDER is the folder of a `rareswitch train`. With --version, the episodes
    are those of its log from the deployment of the later policy on; neither policy was fitted on
    them. The recommended policy was fitted on the whole log, so it gets no verdict without a --log
    of other episodes. Long horizons need many episodes, because an episode counts only as far as
    the policy would have acted the same. If the features are code of yours, module:name, allow
    their module and that of the environment: --allow module.

    \b
    Examples:
      rareswitch compare cards --version 12
      rareswitch compare cards --version 12 --against 3
      rareswitch compare cards --log other-seed/log.jsonl
      rareswitch compare shop --log sales.csv --columns episode=week --columns action=order
    """
    need("gym")
    from rareswitch.evaluation import Method
    from rareswitch.evaluation import compare as judged

    with refusals(), progress("compare", 1, quiet=as_json) as report:
        saved = opened(folder)
        training, candidate = saved.folder, saved.agent(version, allow)
        stages = candidate.policy.stages or training.picked["stages"]
        found = judged(
            candidate,
            chosen(training, log, named(columns, log), version, against),
            against=None if against is None else training.policy(against),
            propensities="fitted" if fit_propensities else "logged",
            method=Method(estimator=estimator, stages=stages, seed=seed),
            in_sample=version is None and (log or training.log).resolve() == training.log.resolve(),
            against_name=None if against is None else f"version {against}",
            progress=lambda work, done, total: report(done, work, total),
        )
    if as_json:
        click.echo(json.dumps(described(found, version, against), indent=2))
        return
    line("verdict", found.verdict)
    name = "recommended" if version is None else f"version {version}"
    line(name, f"return {found.candidate.value}")
    if found.against is not None:
        line(f"version {against}", f"return {found.against.value}")
    line("the log", f"return {found.logged}")
    line("evidence", found.candidate.evidence)
    for warning in found.warnings:
        line("note", warning)


def chosen(
    training: RunFolder,
    log: Path | None,
    columns: Columns | None,
    version: int | None,
    other: int | None,
) -> Iterator[Trajectory]:
    """Return the episodes of `log`, or of the training since the later deployment."""
    from rareswitch.trajectories import read_log

    if log is not None:
        return read_log(log, columns=columns)
    every = read_log(training.log, drop_torn=True)
    if version is None:
        return every
    later = max(version, other or 0)
    return (one for one in every if (one.version or 0) >= later)


def named(texts: Sequence[str], log: Path | None) -> Columns | None:
    """Return the columns of --columns by the parts of a step.

    >>> named(["observation=stock,weekday", "action=order"], Path("sales.csv"))
    {'observation': ['stock', 'weekday'], 'action': 'order'}
    """
    if not texts:
        return None
    if log is None or log.suffix in (".jsonl", ".ndjson"):
        raise ValueError("--columns needs a --log with a row for each step, .csv or .parquet")
    columns: dict[str, str | list[str]] = {}
    for text in texts:
        part, equals, names = text.partition("=")
        if not equals or not names or part in columns:
            raise ValueError(
                "--columns must be PART=COLUMN or PART=COLUMN,COLUMN, as in "
                f"observation=stock,weekday, once for each part; got {text}"
            )
        columns[part] = names.split(",") if "," in names else names
    return columns


def described(found: Comparison, version: int | None, other: int | None) -> dict[str, Any]:
    """Return a comparison for `--json`."""
    return {
        "version": version,
        "against": other,
        "episodes": found.candidate.weights.episodes,
        "propensities": found.candidate.propensities,
        "verdict": found.verdict,
        "effective_episodes": float(found.candidate.weights.effective[-1]),
        "largest_possible_weight": found.candidate.weights.possible,
        "gain": found.gain.to_dict(),
        "candidate": found.candidate.value.to_dict(),
        "in_force": None if found.against is None else found.against.value.to_dict(),
        "logged": found.logged.to_dict(),
        "in_sample": found.in_sample,
        "warnings": found.warnings,
    }
