"""Run experiments: compute the pieces that are missing, and write a folder for each experiment."""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from pathlib import Path

from rareswitch import drawing
from rareswitch.experiments import figures
from rareswitch.experiments.load import PAPER, is_paper
from rareswitch.experiments.pieces import Piece, compute, pieces_of
from rareswitch.experiments.results import Results, assemble, load_manifest, save_results
from rareswitch.experiments.spec import Experiment
from rareswitch.experiments.store import Store, open_folder

Progress = Callable[[int, int, Piece | None], None]


def run(
    experiments: Sequence[Experiment],
    out: Path,
    executor: Executor,
    progress: Progress = lambda done, total, piece: None,
) -> dict[str, Results]:
    """Run experiments, computing only what is missing, and write a folder for each.

    `progress` is called with the pieces done, their number, and the one just finished.
    """
    store = open_folder(out)
    for experiment in experiments:
        _check_place(experiment, out / experiment.name)
    pieces = [piece for experiment in experiments for piece in pieces_of(experiment)]
    run_pieces(pieces, store, executor, progress)
    results = {}
    for experiment in experiments:
        results[experiment.name] = found = assemble(experiment, store)
        save_results(found, out / experiment.name)
        drawing.save_figure(figures.draw(found), out / experiment.name)
    return results


def run_pieces(
    pieces: Sequence[Piece],
    store: Store,
    executor: Executor,
    progress: Progress = lambda done, total, piece: None,
) -> None:
    """Compute what the store lacks, saving each piece as it is finished."""
    distinct = {piece.key: piece for piece in pieces}
    missing = [piece for piece in distinct.values() if not store.has(piece)]
    done = len(distinct) - len(missing)
    progress(done, len(distinct), None)
    # The longest pieces should not be the last to start.
    missing.sort(key=_most_deployments, reverse=True)
    futures = {executor.submit(compute, piece): piece for piece in missing}
    for future in as_completed(futures):
        piece = futures[future]
        store.save(piece, future.result())
        done += 1
        progress(done, len(distinct), piece)


def _most_deployments(piece: Piece) -> float:
    task = piece.arm.task(episodes=piece.episodes, seed=piece.seed)
    return piece.arm.algorithm(task).deployment_limit(task)


def _check_place(experiment: Experiment, folder: Path) -> None:
    """Keep the paper's results from being replaced by those of a namesake."""
    if experiment.name not in PAPER or is_paper(experiment):
        return
    if (folder / "manifest.json").exists() and is_paper(load_manifest(folder).spec):
        raise ValueError(
            f"{folder} holds the paper's experiment of the name {experiment.name!r}, and this is "
            "another; choose another name or another --out"
        )
