"""The unit of work: some rounds of one arm, a pure function of its key.

The key is the SHA-256 of all that determines the numbers. Rounds are cut at fixed places and
streams are keyed by round, so the results do not depend on workers, order or interruptions.
"""

import hashlib
import inspect
import json
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rareswitch import named
from rareswitch.experiments.algorithms import Arrays, Scheduled, unmeasured
from rareswitch.experiments.simulated import Simulated, own_files
from rareswitch.experiments.spec import Arm, Experiment
from rareswitch.experiments.worlds import Adversary, Known
from rareswitch.processes import portable
from rareswitch.sim.companions import companions
from rareswitch.sim.mdp import FiniteMDP

# Rounds stepped together. Another cut gives other keys, but a round's numbers stay the same.
ROUNDS_PER_PIECE = 25
# Rounds of a simulated world, which gain nothing by company and may take long.
SIMULATED_ROUNDS_PER_PIECE = 1
# What is in a piece and in a folder of results. Readers refuse any other.
FORMAT = 2


@dataclass(frozen=True)
class Piece:
    """Some rounds of one arm."""

    arm: Arm
    episodes: int
    seed: int
    first: int
    last: int  # exclusive

    @property
    def rounds(self) -> range:
        return range(self.first, self.last)

    @property
    def key(self) -> str:
        made_by = [FORMAT, metadata.version("rareswitch"), *own_code(self.arm)]
        parts = [*made_by, self.arm.setting(), self.episodes, self.seed, self.first, self.last]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Computed(NamedTuple):
    """What a piece came to, what it cost, and with which versions."""

    arrays: Arrays  # one row for each round
    cpu_seconds: float
    versions: dict[str, str]


def pieces_of(experiment: Experiment) -> list[Piece]:
    """Return the pieces of an experiment, arm by arm."""
    simulated = experiment.arms[0].simulated  # as all are then
    size = SIMULATED_ROUNDS_PER_PIECE if simulated else ROUNDS_PER_PIECE
    return [
        Piece(
            arm=arm,
            episodes=experiment.episodes,
            seed=experiment.seed,
            first=first,
            last=min(first + size, experiment.rounds),
        )
        for arm in experiment.arms
        for first in range(0, experiment.rounds, size)
    ]


def compute(piece: Piece) -> Computed:
    """Play the rounds of a piece."""
    began = time.process_time()
    rows = _rows(piece.arm, piece.episodes, [(piece.seed, r) for r in piece.rounds])
    arrays = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
    return Computed(arrays, time.process_time() - began, versions(piece.arm))


def _rows(arm: Arm, episodes: int, seeds: Sequence[tuple[int, int]]) -> list[Arrays]:
    """Return what was measured in each round."""
    if isinstance(arm.world, Simulated):
        return _simulated_rows(arm, episodes, seeds)
    world = arm.world
    worlds = [_world(world, seed) for seed in seeds]
    rows: list[Arrays] = []
    for group in companions(worlds):
        together, own = [worlds[r] for r in group], [seeds[r] for r in group]
        algorithm = arm.algorithm(together[0].task(episodes=episodes))
        if isinstance(world, Adversary):
            assert isinstance(algorithm, Scheduled)  # checked when the spec was read
            settings = world.model_dump(exclude={"kind"})
            rows += [algorithm.duel(episodes=episodes, seed=seed, **settings) for seed in own]
        else:
            start = arm.initial_state
            rows += algorithm.play(together, episodes=episodes, seeds=own, initial_state=start)
    return rows


def _simulated_rows(arm: Arm, episodes: int, seeds: Sequence[tuple[int, int]]) -> list[Arrays]:
    """Return what was measured in each round of a world that is only simulated."""
    simulator = arm.simulator(episodes)
    algorithm = arm.algorithm(simulator.task)
    assert isinstance(algorithm, Scheduled)  # checked when the spec was read
    try:
        rows = algorithm.simulate(simulator, episodes=episodes, seeds=seeds)
    except Exception as error:  # of code that is not the package's
        raise portable(error) from error
    return [row | unmeasured(simulator.task.horizon) for row in rows]


@lru_cache(maxsize=2 * ROUNDS_PER_PIECE)
def _world(spec: Known, seed: tuple[int, int]) -> FiniteMDP:
    """Build a world once for all the arms that this process plays on it."""
    return spec.build(seed)


def versions(arm: Arm | None = None) -> dict[str, str]:
    """Return what this process computes with, and what an arm's world needs beside it."""
    libraries = arm.world.libraries() if arm and isinstance(arm.world, Simulated) else []
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    return {
        "rareswitch": metadata.version("rareswitch"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "blas": f"{blas['name']} {blas['version']}",
        "machine": platform.machine(),
        **{name: metadata.version(name) for name in libraries},
    }


def own_code(arm: Arm) -> list[str]:
    """Return digests of the modules of your own that the arm names: changed code, other pieces."""
    files = {inspect.getfile(cls) for cls in _own_classes(arm.model_dump(exclude={"world"}))}
    if isinstance(arm.world, Simulated):
        files |= own_files(arm.world)
    return [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in sorted(files)]


def _own_classes(value: Any) -> Iterator[type[Any]]:
    if isinstance(value, dict):
        if ":" in str(value.get("kind", "")):
            yield named.find(value["kind"])
        for part in value.values():
            yield from _own_classes(part)
