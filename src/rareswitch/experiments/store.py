"""The finished pieces in a folder of results, each under its key with a record beside it.

So an interrupted run goes on where it was, experiments share what they have in common, and a
changed spec can never meet old numbers.
"""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rareswitch.archive import load_archive, save_archive, write_bytes
from rareswitch.core.arguments import real
from rareswitch.experiments.algorithms import Arrays
from rareswitch.experiments.pieces import FORMAT, Computed, Piece

MARKER = "rareswitch.json"


class Record(NamedTuple):
    """What is known of a piece beside its numbers."""

    cpu_seconds: float
    versions: dict[str, str]


class Store:
    """A folder of pieces."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def has(self, piece: Piece) -> bool:
        return self._path(piece).exists() and self._record(piece).exists()

    def save(self, piece: Piece, computed: Computed) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        seconds = round(computed.cpu_seconds, 3)
        record = {"cpu_seconds": seconds, "versions": computed.versions}
        write_bytes(self._record(piece), json.dumps(record).encode())
        save_archive(self._path(piece), computed.arrays)

    def load(self, piece: Piece) -> Arrays:
        path = self._path(piece)
        arrays = load_archive(path)
        rounds = len(piece.rounds)
        recorded = piece.arm.recorded
        whole = {recorded, "deployed", "switched"}  # (rounds, episodes); the rest has a row a round
        right = whole <= arrays.keys() and all(
            array.shape[: 1 + (name in whole)] == (rounds, piece.episodes)[: 1 + (name in whole)]
            for name, array in arrays.items()
        )
        if not right or not np.isfinite(arrays[recorded]).all():
            raise ValueError(
                f"{path} is not the piece of {rounds} rounds and {piece.episodes} episodes that it "
                "should be; move it away to compute the piece anew"
            )
        return arrays

    def record(self, piece: Piece) -> Record:
        path = self._record(piece)
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return Record(
                cpu_seconds=real("cpu_seconds", found["cpu_seconds"], least=0.0),
                versions={str(name): str(version) for name, version in found["versions"].items()},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} is not the record of a piece ({error!r}); move it away to compute the "
                "piece anew"
            ) from None

    def _path(self, piece: Piece) -> Path:
        return self.folder / f"{piece.key}.npz"

    def _record(self, piece: Piece) -> Path:
        return self.folder / f"{piece.key}.json"


def open_folder(out: Path) -> Store:
    """Make or enter a folder of results; one that holds something else is refused."""
    marker = out / MARKER
    try:
        if out.exists() and not marker.exists() and (not out.is_dir() or _foreign(out)):
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
    """Refuse a JSON file that another version of the package wrote in another format."""
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


def _foreign(out: Path) -> bool:
    """Whether a folder holds anything but a marker that another process is just writing."""
    return any(not path.name.startswith(f".{MARKER}.") for path in out.iterdir())
