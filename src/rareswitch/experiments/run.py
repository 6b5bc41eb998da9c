"""Run experiments: compute missing pieces, write a folder for each experiment, and a report."""

import platform
import time
from collections.abc import Callable, Sequence
from concurrent.futures import BrokenExecutor, Executor, as_completed
from importlib import metadata
from pathlib import Path

import numpy as np

import rareswitch
from rareswitch.experiments import FIELD
from rareswitch.experiments.algorithms import Arrays, Rounds, Scheduled
from rareswitch.experiments.claims import Claim
from rareswitch.experiments.results import (
    Results,
    assemble,
    load_manifest,
    load_results,
    save_results,
)
from rareswitch.experiments.spec import Arm, ArmError, Experiment, explain_error
from rareswitch.experiments.store import (
    Computed,
    Piece,
    Store,
    code_digest,
    cut_into_pieces,
    open_folder,
)
from rareswitch.experiments.worlds import (
    Adversary,
    Gymnasium,
    ObliviousAdversary,
    Simulated,
    build_world,
)
from rareswitch.sim.simulation import companions

# Called with the number of finished pieces, of all pieces, and the last finished piece.
Progress = Callable[[int, int, Piece | None], None]
QUIET: Progress = lambda done, total, piece: None  # noqa: E731


def run(
    experiments: Sequence[Experiment], out: Path, executor: Executor, progress: Progress = QUIET
) -> dict[str, Results]:
    """Run experiments, computing only missing pieces, and write a folder for each."""
    store = open_folder(out)
    for experiment in experiments:
        _check_place(experiment, out / experiment.name)
    pieces = {experiment.name: cut_into_pieces(experiment) for experiment in experiments}
    run_pieces([piece for own in pieces.values() for piece in own], store, executor, progress)
    results = {}
    for experiment in experiments:
        results[experiment.name] = found = assemble(experiment, pieces[experiment.name], store)
        save_results(found, out / experiment.name)
        _draw(found, out / experiment.name)
    return results


def reproduce(
    experiments: Sequence[Experiment],
    out: Path,
    executor: Executor,
    progress: Progress = QUIET,
    command: str = "rareswitch reproduce",
) -> tuple[dict[str, Results], list[Claim]]:
    """Run experiments, check the paper's claims on them and write report.html."""
    from rareswitch.experiments import report

    results = run(experiments, out, executor, progress)
    claims = report.check_claims(results)
    report.write_report(results, claims, out, command)
    return results, claims


def plot(folder: Path) -> None:
    """Draw the figure of a results folder again from its saved runs.

    The folder of the whole field has no runs: its figure and tables use the folders of its worlds
    beside it.
    """
    if folder.name != FIELD or (folder / "manifest.json").exists():
        _draw(load_results(folder), folder)
        return
    from rareswitch.experiments import load, report

    beside = {name: folder.parent / name for name in load.field_specs()}
    worlds = {name: load_results(path) for name, path in beside.items() if path.is_dir()}
    if not worlds:
        raise ValueError(f"{folder} has no results of the field beside it, such as field-tabular")
    report.write_field(worlds, folder)


def run_pieces(
    pieces: Sequence[Piece], store: Store, executor: Executor, progress: Progress = QUIET
) -> None:
    """Compute the pieces that the store lacks, and save each after its end."""
    distinct = {piece.key: piece for piece in pieces}
    missing = [piece for piece in distinct.values() if not store.has(piece)]
    done = len(distinct) - len(missing)
    progress(done, len(distinct), None)
    # Start the longest pieces first.
    missing.sort(key=_count_deployments, reverse=True)
    futures = {executor.submit(compute, piece): piece for piece in missing}
    for future in as_completed(futures):
        piece = futures[future]
        try:
            computed = future.result()
        except ArmError as error:
            raise error from None  # its message names the place, so the traceback is not needed
        store.save(piece, computed)
        done += 1
        progress(done, len(distinct), piece)


def compute(piece: Piece) -> Computed:
    """Play the rounds of a piece."""
    if piece.code != code_digest():
        raise BrokenExecutor(
            f"worker {platform.node()} runs other code of rareswitch {rareswitch.__version__} than "
            "this run began with; install the same code there, or start again after an edit"
        )
    began = time.process_time()
    try:
        rows = _play(piece.arm, piece.episodes, [(piece.seed, r) for r in piece.rounds])
    except MemoryError:
        raise
    except Exception as error:
        if not piece.arm.own_names and not piece.arm.simulated:
            raise
        arm = piece.arm
        reason = explain_error(error, arm.own_names, arm.folders, arm.allow)
        raise ArmError(f"arm {arm.name!r}: {reason}") from None
    arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Computed(arrays, time.process_time() - began, find_versions(piece.arm))


def find_versions(arm: Arm | None = None) -> dict[str, str]:
    """Return the versions of the code and libraries of this process."""
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    found = {
        "rareswitch": rareswitch.__version__,
        "code": code_digest()[:16],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
        "machine": platform.machine(),
    }
    if arm is not None and isinstance(arm.world, Gymnasium):
        found["gymnasium"] = metadata.version("gymnasium")
    return found


def _play(arm: Arm, episodes: int, seeds: Sequence[tuple[int, int]]) -> list[Arrays]:
    """Return the measurements of each round."""
    spec = arm.world
    if isinstance(spec, Simulated):
        simulator = arm.simulator(episodes)
        algorithm = arm.algorithm(simulator.task)
        assert isinstance(algorithm, Scheduled)  # checked when the spec was read
        return algorithm.simulate(simulator, simulator.task, seeds)
    worlds = [build_world(spec, seed) for seed in seeds]
    rows: list[Arrays] = []
    for group in companions(worlds):
        together, own = [worlds[r] for r in group], [seeds[r] for r in group]
        task = together[0].task(episodes=episodes)
        algorithm = arm.algorithm(task)
        if isinstance(spec, Adversary):
            assert isinstance(algorithm, Scheduled)  # checked when the spec was read
            rows += [algorithm.duel(task, seed, normalized=spec.normalized) for seed in own]
        elif isinstance(spec, ObliviousAdversary):
            assert isinstance(algorithm, Scheduled)
            lengths, target = algorithm.batches(task, spec.states)
            rows += algorithm.play(Rounds(together, own, task, np.repeat(target, lengths)))
        else:
            rows += algorithm.play(Rounds(together, own, task, arm.initial_state))
    return rows


def _draw(results: Results, folder: Path) -> None:
    from rareswitch.experiments.figures import draw  # matplotlib: not in worker processes
    from rareswitch.support import drawing

    drawing.save_figure(draw(results), folder)


def _count_deployments(piece: Piece) -> float:
    task = piece.arm.task(episodes=piece.episodes, seed=piece.seed)
    return piece.arm.algorithm(task).deployment_limit(task)


def _check_place(experiment: Experiment, folder: Path) -> None:
    """Raise ValueError if other results would replace a package experiment of the same name."""
    if not (folder / "manifest.json").exists():
        return
    from rareswitch.experiments.load import is_own

    found = load_manifest(folder)["spec"]
    if found.digest != experiment.digest and is_own(found) and not is_own(experiment):
        raise ValueError(
            f"{folder} holds the package's experiment {experiment.name!r}, and this experiment "
            "differs; choose another name or another --out"
        )
