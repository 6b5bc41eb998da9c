"""`rareswitch compare`: two policies of a training, judged by its log alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rareswitch.cli.allow import allow_option
from rareswitch.cli.environments import refusals
from rareswitch.cli.experiments import need
from rareswitch.cli.saved import opened
from rareswitch.cli.training_table import line

if TYPE_CHECKING:
    from rareswitch.evaluation import Comparison
    from rareswitch.gym.run import RunFolder
    from rareswitch.trajectories import Trajectory

# As evaluation.ESTIMATORS, which would cost NumPy to import here.
ESTIMATORS = ("doubly robust", "self-normalised", "per-decision", "trajectory")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--version",
    type=click.IntRange(1),
    help="The candidate, a deployed policy.  [default: the recommended one]",
)
@click.option(
    "--against",
    type=click.IntRange(1),
    help="The policy in force.  [default: the version before, or the last]",
)
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="Episodes to judge by, with propensities.  [default: those that neither was fitted on]",
)
@click.option(
    "--estimator", type=click.Choice(ESTIMATORS), default=ESTIMATORS[0], help="How to judge."
)
@allow_option
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of folds and resamples.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def compare(
    folder: Path,
    version: int | None,
    against: int | None,
    log: Path | None,
    estimator: str,
    allow: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Say from the log what a switch from one policy of a training to another gains.

    Nothing is played. FOLDER is that of a `rareswitch train`. The episodes are those of its log
    from the deployment of the later of the two on, which neither was fitted on. The recommended
    policy was fitted on all: without a --log of other episodes it looks better than it is, and the
    output says so. Long horizons need a great many episodes, since an episode counts as far as the
    policy would have done the same. An environment or features of your own that the folder names as
    module:name need --allow module.

    \b
    Examples:
      rareswitch compare cards --version 12
      rareswitch compare cards --version 12 --against 3
      rareswitch compare cards --log other-seed/log.jsonl
    """
    need("gym")
    from rareswitch.evaluation import Method
    from rareswitch.evaluation import compare as judged

    with refusals():
        saved = opened(folder)
        training, candidate = saved.folder, saved.agent(version, allow)
        other = before(training, version) if against is None else against
        in_force = training.policy(other)
        episodes, note = chosen(training, log, version, other)
        stages = training.picked["stages"]
        found = judged(
            candidate.policy,
            in_force,
            episodes,
            candidate.features,
            method=Method(estimator=estimator, stages=stages, seed=seed),
        )
    names = ("recommended" if version is None else f"version {version}", f"version {other}")
    warnings = [*note, *found.warnings]
    if as_json:
        click.echo(json.dumps(described(found, version, other, warnings), indent=2))
        return
    line("verdict", found.verdict)
    line(names[0], f"return {found.candidate.value}")
    line(names[1], f"return {found.in_force.value}")
    line("the log", f"return {found.logged} in {found.candidate.weights.episodes} episodes")
    for warning in warnings:
        line("note", warning)


def before(training: RunFolder, version: int | None) -> int:
    """Return the version that a candidate is compared with where none is named."""
    if version == 1:
        raise ValueError("--against must be given for version 1: there is none before it")
    if version is not None:
        return version - 1
    there = training.versions()
    if not there:
        raise ValueError(f"{training.path} must keep policies to be compared; it has none")
    return there[-1]


def chosen(
    training: RunFolder, log: Path | None, version: int | None, other: int
) -> tuple[Iterator[Trajectory], list[str]]:
    """Return the episodes to judge by, and a note where the candidate was fitted on them."""
    from rareswitch.trajectories import read_log

    if log is not None:
        return read_log(log), []
    every = read_log(training.log, drop_torn=True)
    if version is None:
        return every, [
            "the recommended policy was fitted on these very episodes, and looks better than it is"
        ]
    later = max(version, other)
    return (one for one in every if (one.version or 0) >= later), []


def described(
    found: Comparison, version: int | None, other: int, warnings: list[str]
) -> dict[str, Any]:
    """Return a comparison for `--json`."""
    return {
        "version": version,
        "against": other,
        "episodes": found.candidate.weights.episodes,
        "verdict": found.verdict,
        "gain": found.gain._asdict(),
        "candidate": found.candidate.value._asdict(),
        "in_force": found.in_force.value._asdict(),
        "logged": found.logged._asdict(),
        "warnings": warnings,
    }
