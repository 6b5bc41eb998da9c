"""Run experiments in pieces: one arm, up to 25 rounds. A piece is a pure function of its key.

Finished pieces are kept under their key, the SHA-256 of all that determines them, so an interrupted
run goes on where it was, experiments share what they have in common, and a changed spec can never
meet old numbers. Rounds are cut at fixed places and streams are keyed by round, so the results do
not depend on workers, order or interruptions.
"""

import hashlib
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from rareswitch.core.learner import Learner
from rareswitch.experiments.archive import load_archive, save_archive, write_bytes
from rareswitch.experiments.spec import (
    Adversary,
    AnchorSpec,
    Arm,
    BudgetSpec,
    DeterminantGrowthSpec,
    EveryEpisodeSpec,
    Experiment,
    RandomPolicySpec,
    UniformGridSpec,
)
from rareswitch.sim.adversary import play_adversary
from rareswitch.sim.anchors import mvp, ucb2_hoeffding
from rareswitch.sim.concentration import empirical_radius
from rareswitch.sim.linear_mdp import FiniteLinearMDP
from rareswitch.sim.run import Run
from rareswitch.sim.simulate import simulate_random
from rareswitch.sim.simulation import Simulation, companions

# Rounds stepped together. Another cut gives other keys, but a round's numbers stay the same.
ROUNDS_PER_PIECE = 25
PIECE_FORMAT = 1

Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class Piece:
    """Some rounds of one arm."""

    arm: Arm
    episodes: int
    seed: int
    first: int
    last: int  # exclusive

    @property
    def key(self) -> str:
        made_by = [PIECE_FORMAT, metadata.version("rareswitch")]
        parts = [*made_by, self.arm.setting(), self.episodes, self.seed, self.first, self.last]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


def pieces_of(experiment: Experiment) -> list[Piece]:
    """Return the pieces of an experiment, arm by arm."""
    cuts = range(0, experiment.rounds, ROUNDS_PER_PIECE)
    return [
        Piece(
            arm=arm,
            episodes=experiment.episodes,
            seed=experiment.seed,
            first=first,
            last=min(first + ROUNDS_PER_PIECE, experiment.rounds),
        )
        for arm in experiment.arms
        for first in cuts
    ]


def compute(piece: Piece) -> tuple[Arrays, float]:
    """Return a piece's arrays, one row for each round, and the CPU seconds it took."""
    began = time.process_time()
    seeds = [(piece.seed, round_) for round_ in range(piece.first, piece.last)]
    arm = piece.arm
    if isinstance(arm.world, Adversary):
        rows = [_duel(arm, arm.world, piece.episodes, seed) for seed in seeds]
    elif isinstance(arm.schedule, RandomPolicySpec | AnchorSpec):
        rows = [_without_features(arm, piece.episodes, seed) for seed in seeds]
    else:
        rows = _learn(arm, piece.episodes, seeds)
    arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return arrays, time.process_time() - began


def _learn(arm: Arm, episodes: int, seeds: Sequence[tuple[int, int]]) -> list[Arrays]:
    assert not isinstance(arm.schedule, RandomPolicySpec | AnchorSpec)
    worlds = [arm.world.build(seed) for seed in seeds]
    rows = []
    for group in companions(worlds):
        together = [worlds[r] for r in group]
        simulation = Simulation(
            together,
            arm.schedule.build(episodes, together[0], arm.ridge),
            episodes=episodes,
            seeds=[seeds[r] for r in group],
            beta=arm.beta,
            ridge=arm.ridge,
            ties=arm.ties,
            optimism=arm.perturbation.build() if arm.perturbation else None,
            initial_state=arm.initial_state,
        )
        before = simulation.gram.logdet.copy()
        radius = np.zeros(len(together))
        while not simulation.done:
            live = simulation.live
            simulation.deploy()
            if arm.measure_radius:
                linear = cast("list[FiniteLinearMDP]", together)
                needed = empirical_radius(simulation, linear)
                radius = np.where(live, np.maximum(radius, needed), radius)
            simulation.play()
        growth = simulation.gram.logdet - before
        for r, run in enumerate(simulation.runs()):
            row = _row(run)
            row["optimistic"] = np.array(run.optimistic_share(together[r].optimal_values()[0]))
            row["radius"] = radius[r]
            row["logdet_growth"] = growth[r]
            rows.append(row)
    return rows


def _without_features(arm: Arm, episodes: int, seed: tuple[int, int]) -> Arrays:
    """Play an arm that does not learn from features: at random, or a tabular anchor."""
    world = arm.world.build(seed)
    start = arm.initial_state
    if isinstance(arm.schedule, AnchorSpec):
        play = mvp if arm.schedule.kind == "mvp" else ucb2_hoeffding
        scale = arm.schedule.scale
        run = play(world, episodes=episodes, scale=scale, seed=seed, initial_state=start)
    else:
        run = simulate_random(world, episodes=episodes, seed=seed, initial_state=start)
    return _row(run) | _unmeasured(world.horizon)


def _duel(arm: Arm, world: Adversary, episodes: int, seed: tuple[int, int]) -> Arrays:
    assert isinstance(arm.schedule, UniformGridSpec)
    schedule = arm.schedule.build(episodes, world.build(seed), arm.ridge)
    learner = Learner(
        dim=2 * world.states + 1,
        horizon=world.horizon,
        schedule=schedule,
        beta=arm.beta,
        ridge=arm.ridge,
        ties=arm.ties,
        seed=seed,
    )
    duel = play_adversary(
        learner,
        states=world.states,
        horizon=world.horizon,
        episodes=episodes,
        starts=schedule.starts,
        normalized=world.normalized,
    )
    starts = np.array(schedule.starts)
    changes = (duel.policies[1:] != duel.policies[:-1]).sum(axis=(1, 2))
    k = np.arange(1, episodes + 1)
    row: Arrays = {
        "regret": duel.regret,
        "updated": np.isin(k, starts),
        "switched": np.isin(k, starts[1:][changes > 0]),
        "local_switches": np.array(int(changes.sum())),
    }
    return row | _unmeasured(world.horizon)


def _row(run: Run) -> Arrays:
    k = np.arange(1, len(run.regret) + 1)
    return {
        "regret": run.regret,
        "updated": np.isin(k, run.update_episodes),
        "switched": np.isin(k, run.switch_episodes),
        "local_switches": np.array(run.local_switches),
    }


def _unmeasured(horizon: int) -> Arrays:
    nothing = np.array(np.nan)
    return {
        "optimistic": nothing,
        "radius": nothing,
        "logdet_growth": np.full(horizon, np.nan),
    }


class Store:
    """The finished pieces in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, piece: Piece) -> bool:
        return self._path(piece).exists()

    def save(self, piece: Piece, arrays: Arrays, seconds: float) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        record = json.dumps({"cpu_seconds": round(seconds, 3)})
        write_bytes(self._path(piece).with_suffix(".json"), record.encode())
        save_archive(self._path(piece), arrays)

    def load(self, piece: Piece) -> Arrays:
        return load_archive(self._path(piece))

    def cpu_seconds(self, piece: Piece) -> float:
        record = self._path(piece).with_suffix(".json")
        if not record.exists():
            return 0.0
        try:
            return float(json.loads(record.read_text())["cpu_seconds"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{record} is not the record of a piece ({error})") from None

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.key}.npz"


@contextmanager
def local_pool(workers: int) -> Iterator[Executor]:
    """Yield a pool of worker processes with one BLAS thread each; leaving early kills them."""
    limits = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in limits}
    os.environ.update(dict.fromkeys(limits, "1"))
    pool = ProcessPoolExecutor(workers, get_context("spawn"), initializer=_become_worker)
    try:
        yield pool
        pool.shutdown()
    except BaseException:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.terminate()
        raise
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _become_worker() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def follow() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def run_pieces(
    pieces: Sequence[Piece],
    store: Store,
    executor: Executor,
    progress: Callable[[int, Piece | None], None] = lambda done, piece: None,
) -> None:
    """Compute what the store lacks, saving each piece as it is finished.

    `progress` is called with the number of pieces done and the one just finished.
    """
    distinct = {piece.key: piece for piece in pieces}
    missing = [piece for piece in distinct.values() if not store.has(piece)]
    done = len(distinct) - len(missing)
    progress(done, None)
    # The most frequent updates first: the longest pieces should not be the last to start.
    missing.sort(key=_expected_updates, reverse=True)
    futures = {executor.submit(compute, piece): piece for piece in missing}
    for future in as_completed(futures):
        piece = futures[future]
        store.save(piece, *future.result())
        done += 1
        progress(done, piece)


def _expected_updates(piece: Piece) -> float:
    schedule = piece.arm.schedule
    if isinstance(schedule, EveryEpisodeSpec):
        return piece.episodes
    if isinstance(schedule, UniformGridSpec):
        return schedule.batches
    if isinstance(schedule, BudgetSpec):
        return schedule.switches
    return 150 if isinstance(schedule, DeterminantGrowthSpec) else 0
