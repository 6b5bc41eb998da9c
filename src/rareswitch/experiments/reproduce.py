"""From specs to a folder of results, figures, claims and a report."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from pathlib import Path

from rareswitch.experiments import claims, figures, report
from rareswitch.experiments.archive import write_bytes
from rareswitch.experiments.results import Runs, assemble, load_runs, save_runs
from rareswitch.experiments.run import Piece, Store, pieces_of, run_pieces
from rareswitch.experiments.spec import Experiment

MARKER = "rareswitch.json"

Progress = Callable[[int, int, Piece | None], None]


def open_folder(out: Path) -> Store:
    """Make or enter an output folder; one that holds something else is refused."""
    marker = out / MARKER
    try:
        if out.exists() and not marker.exists() and (not out.is_dir() or _foreign(out)):
            raise ValueError(f"{out} exists and is not a results folder of rareswitch")
        out.mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            write_bytes(marker, json.dumps({"format": 1}).encode())
    except OSError as error:
        raise ValueError(f"{out} cannot be written to ({error.strerror})") from None
    return Store(out / "pieces")


def _foreign(out: Path) -> bool:
    """Whether a folder holds anything but a marker that another process is just writing."""
    return any(not path.name.startswith(f".{MARKER}.") for path in out.iterdir())


def run(
    experiments: Sequence[Experiment],
    out: Path,
    executor: Executor,
    progress: Progress = lambda done, total, piece: None,
) -> dict[str, Runs]:
    """Run experiments, computing only what is missing, and write a folder for each.

    `progress` is called with the pieces done, their number, and the one just finished.
    """
    store = open_folder(out)
    pieces = [piece for experiment in experiments for piece in pieces_of(experiment)]
    total = len({piece.key for piece in pieces})
    run_pieces(pieces, store, executor, lambda done, piece: progress(done, total, piece))
    results = {}
    for experiment in experiments:
        runs = assemble(experiment, store)
        save_runs(runs, out / experiment.name)
        figures.save_figure(figures.draw(runs), out / experiment.name)
        results[experiment.name] = runs
    return results


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    executor: Executor,
    progress: Progress = lambda done, total, piece: None,
    command: str = "rareswitch reproduce",
) -> tuple[dict[str, Runs], list[claims.Claim]]:
    """Run experiments, check the paper's claims on them and write report.html."""
    results = run(experiments, out, executor, progress)
    checked = claims.check_claims(results)
    write_bytes(out / "report.html", report.render(results, checked, out, command).encode())
    return results, checked


def plot(folder: Path) -> None:
    """Draw the figure of a results folder again, from its saved runs alone."""
    figures.save_figure(figures.draw(load_runs(folder)), folder)
