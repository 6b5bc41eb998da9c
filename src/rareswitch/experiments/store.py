"""Pieces of work, and the folder of finished pieces.

A piece is some rounds of one arm. Its key is the SHA-256 of everything that determines its numbers,
including the code. Rounds are cut at fixed places and random streams are keyed by round, so the
numbers do not depend on workers, order or interruptions: an interrupted run continues where it
stopped, experiments share the pieces they have in common, and numbers of another spec or of other
code are never used.
"""

import hashlib
import json
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

import rareswitch
from rareswitch.experiments.algorithms import Arrays
from rareswitch.experiments.spec import Arm, Experiment, own_files
from rareswitch.support.archive import load_archive, save_archive, write_bytes
from rareswitch.support.arguments import real

# Rounds stepped together. Another number gives other keys and the same numbers.
ROUNDS_PER_PIECE = 30
# Rounds of a simulated world, which may be slow and do not step together.
SIMULATED_ROUNDS_PER_PIECE = 1
# The format of pieces and of folders of results. Readers refuse any other.
FORMAT = 2
MARKER = "rareswitch.json"


@cache
def code_digest() -> str:
    """Return the SHA-256 of all .py files of the package."""
    package = Path(rareswitch.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\n".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Piece:
    """Some rounds of one arm, for the code with this digest."""

    arm: Arm
    episodes: int
    seed: int
    first: int
    last: int  # exclusive
    code: str = field(default_factory=code_digest)

    @property
    def rounds(self) -> range:
        return range(self.first, self.last)

    @cached_property
    def key(self) -> str:
        code = [self.code, *own_code(self.arm)]
        parts = [FORMAT, *code, self.arm.setting, self.episodes, self.seed, self.first, self.last]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:32]


class Computed(NamedTuple):
    """The arrays of a finished piece, its CPU time, and the versions that computed it."""

    arrays: Arrays  # one row for each round
    cpu_seconds: float
    versions: dict[str, str]


def cut_into_pieces(experiment: Experiment) -> list[Piece]:
    """Return the pieces of an experiment, arm by arm."""
    simulated = experiment.measure == "return"
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


def own_code(arm: Arm) -> list[str]:
    """Return the digests of the files of users' code that an arm names."""
    files = {file for name in arm.own_names for file in own_files(name, arm.folders, arm.allow)}
    return [hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in sorted(files)]


class Store:
    """A folder of finished pieces by key: arrays, and a JSON file of details."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, piece: Piece) -> bool:
        return self._path(piece).exists() and self._details_path(piece).exists()

    def save(self, piece: Piece, computed: Computed) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        details = {"cpu_seconds": round(computed.cpu_seconds, 3), "versions": computed.versions}
        write_bytes(self._details_path(piece), json.dumps(details).encode())
        save_archive(self._path(piece), computed.arrays)

    def load(self, piece: Piece) -> Computed:
        path = self._path(piece)
        arrays = load_archive(path)
        rounds = len(piece.rounds)
        values = "returns" if piece.arm.simulated else "regret"
        by_episode = {values, "deployed", "switched"}  # (rounds, episodes); others (rounds, …)
        shapes_fit = by_episode <= arrays.keys() and all(
            array.shape[: len(shape)] == shape
            for name, array in arrays.items()
            for shape in [(rounds, piece.episodes) if name in by_episode else (rounds,)]
        )
        if not shapes_fit or not np.isfinite(arrays[values]).all():
            raise ValueError(
                f"{path} must be a piece of {rounds} rounds and {piece.episodes} episodes; move it "
                "away to compute the piece again"
            )
        path = self._details_path(piece)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            versions = {str(name): str(version) for name, version in found["versions"].items()}
            return Computed(arrays, real("cpu_seconds", found["cpu_seconds"], least=0.0), versions)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} does not hold the time and versions of a piece ({error!r}); move it away "
                "to compute the piece again"
            ) from None

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.key}.npz"

    def _details_path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.key}.json"


def open_folder(out: Path) -> Store:
    """Create or open a folder of results; raise ValueError if it has other contents."""
    marker = out / MARKER
    try:
        # Another process may be writing a marker.
        if (
            out.exists()
            and not marker.exists()
            and (
                not out.is_dir() or any(not p.name.startswith(f".{MARKER}.") for p in out.iterdir())
            )
        ):
            raise ValueError(f"{out} exists and is not a results folder of rareswitch")
        out.mkdir(parents=True, exist_ok=True)
        if marker.exists():
            check_format(marker)
        else:
            write_bytes(marker, json.dumps({"format": FORMAT}).encode())
    except OSError as error:
        raise ValueError(f"{out} cannot be written to ({error.strerror})") from None
    return Store(out / "pieces")


def check_format(path: Path) -> None:
    """Raise ValueError for a JSON file of another format."""
    try:
        found = json.loads(path.read_text(encoding="utf-8")).get("format")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error})") from None
    if found != FORMAT:
        other = "an older format" if found is None else f"format {found}"
        raise ValueError(
            f"{path.parent} holds results in {other}, and this version of rareswitch reads and "
            f"writes format {FORMAT}; choose another folder"
        )
