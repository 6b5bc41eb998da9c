"""The record of an export: the files of a folder, read with Python and NumPy only.

This module recomputes the bytes of bodies from the JSON of the files, and the log-determinants of
switching rules. The rulebook checks everything else.
"""

import hashlib
import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rareswitch.campaigns.errors import DamagedError
from rareswitch.campaigns.proof.export.rows import FORMAT, TEXTS
from rareswitch.campaigns.rulebook.rows import (
    CHAINS,
    NUMBERS,
    OPTIONAL,
    EpisodeRow,
    Head,
    Record,
    canonical,
    digest_of,
)
from rareswitch.core.clock import Clock


class ExportedRecord:
    """The record in a folder; `problems` name the lines that cannot be read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        data = (folder / "manifest.json").read_bytes()
        self.manifest: dict[str, Any] = json.loads(data)
        self.digest = digest_of(data)
        if self.manifest["format"] != FORMAT:
            raise ValueError(f"format must be {FORMAT}; got {self.manifest['format']}")
        self.campaign = str(self.manifest["campaign"])
        self.heads: Mapping[str, Head] = {
            name: Head(int(length), str(link))
            for name, (length, link) in self.manifest["heads"].items()
        }
        if self.heads.keys() != CHAINS.keys():
            raise ValueError(f"heads must be of {', '.join(CHAINS)}")
        self.problems: dict[str, None] = {}  # ordered and distinct
        self._offsets = {name: _offsets(folder / f"{name}.jsonl") for name in CHAINS}
        self._revisions = self._corrected()

    def rows(self, chain: str, *, after: int = 0, upto: int | None = None) -> Iterator[Any]:
        """Yield the rows of a chain in order; a line that is not a row is a problem."""
        offsets = self._offsets[chain]
        if after >= len(offsets):
            return
        with open(self.folder / f"{chain}.jsonl", "rb") as lines:
            lines.seek(offsets[after])
            for place, line in enumerate(lines, start=after + 1):
                if upto is not None and place > upto:
                    return
                try:
                    row = _row(chain, line)
                except (LookupError, TypeError, ValueError, RecursionError) as error:
                    said = f"{chain}: line {place} is not a row: {type(error).__name__}: {error}"
                    self.problems.setdefault(said)
                    continue
                yield row

    def revision(self, episode_id: str, revision: int) -> EpisodeRow:
        seq = self._revisions.get((episode_id, revision))
        for row in self.rows("episodes", after=seq - 1, upto=seq) if seq else ():
            found: EpisodeRow = row
            return found
        raise DamagedError(f"episode {episode_id} has no revision {revision}")

    def artifact(self, digest: str) -> bytes:
        for name, told in self.manifest["files"].items():
            if told == digest and (path := self.folder / name).is_file():
                data = path.read_bytes()
                if digest_of(data) == digest:
                    return data
                raise DamagedError(f"{name} was altered")
        raise DamagedError(f"artifact {digest[:12]} is missing")

    def _corrected(self) -> dict[tuple[str, int], Any]:
        """Return the rows of corrected episodes, by id and revision."""
        found: dict[tuple[str, int], Any] = {}
        counts: dict[str, int] = {}
        for row in self.rows("ledger"):
            payload: Any = json.loads(row.payload) if row.kind == "corrected" else None
            if isinstance(payload, dict):  # else a rule reports the entry
                name = str(payload.get("episode_id"))
                counts[name] = revision = counts.get(name, 0) + 1
                found.setdefault((name, revision - 1), payload.get("corrects"))
                found[name, revision] = payload.get("seq")
        return found


def _offsets(path: Path) -> "array[int]":
    """Return the offset of each line of a file."""
    offsets, place = array("Q"), 0
    with open(path, "rb") as lines:
        for line in lines:
            offsets.append(place)
            place += len(line)
    return offsets


def _row(chain: str, line: bytes) -> Any:
    """Return the row of a line; raise if it is not exactly in the exported form."""
    values, fields = json.loads(line), CHAINS[chain]._fields
    if not isinstance(values, dict) or not {*fields} - {*OPTIONAL} <= {*values} <= {*fields}:
        raise ValueError(f"its columns must be {', '.join(fields)}")
    if type(values[NUMBERS[chain]]) is not int:
        raise TypeError(f"its number is {values[NUMBERS[chain]]!r}")
    written = dict(values)
    if values.get("body") is not None:
        values["body"], written["body"] = _pack(values["body"])
    # Different texts may be the same JSON value: 1 and 1.0, or a duplicate key.
    if canonical(written).encode() + b"\n" != line:
        raise ValueError("it is not in the form in which it was exported")
    for name in TEXTS:
        if name in values:
            values[name] = canonical(values[name])
    return CHAINS[chain](**dict.fromkeys(fields) | values)


def _pack(body: dict[str, Any]) -> tuple[bytes, dict[str, Any]]:
    """Return the bytes of an episode's body, which the links cover, and its plain values.

    The bytes are b"rareswitch", the length of the header, the header, the arrays in order, and the
    SHA-256 of all that. Features are rows of numbers, or positions if they are one-hot.
    """
    rows: Any = np.float64 if isinstance(body["features"][0], list) else np.int64
    following = [np.array(part, rows) for part in body["next_features"]]
    features = np.array(body["features"], rows)
    arrays: dict[str, Any] = {
        "features": features,
        "rewards": np.array(body["rewards"], np.float64),
        "next_features": np.concatenate([features[:0], *following]),
        "lengths": np.array([len(part) for part in following], np.int64),
    }
    types = {"first_features": rows, "actions": np.int64, "propensities": np.float64}
    for name, kind in (types | {"recommended": np.int64}).items():
        if name in body:
            arrays[name] = np.array(body[name], kind)
    listed = [[name, part.dtype.str, list(part.shape)] for name, part in arrays.items()]
    header = canonical({"format": 1, "kind": "report", "meta": {}, "arrays": listed}).encode()
    data = b"rareswitch" + len(header).to_bytes(4, "little") + header
    data += b"".join(part.tobytes() for part in arrays.values())
    again = {name: part.tolist() for name, part in arrays.items() if name != "lengths"}
    again["next_features"] = [part.tolist() for part in following]
    return data + hashlib.sha256(data).digest(), again


class SecondGram:
    """Λ = λI + Σφφᵀ of each pool, summed in extended precision from the exported rows.

    It shares no code with the learner, and checks the log-determinants of switching rules.
    """

    def __init__(self, protocol: Mapping[str, Any]) -> None:
        task = protocol["task"]
        self._dim, self._one_hot, horizon = task["dim"], task["one_hot"], task["horizon"]
        shared = horizon > {"own": horizon, "shared": 1, "auto": 2}[task["stages"]]
        each = [range(h, h + 1) for h in range(horizon)]
        self._pools = [range(horizon - 1), range(horizon)] if shared else each
        self._ridge = protocol["recipe"]["ridge"]
        self._blocks = task.get("blocks", 1)
        # One-hot features are counted, because most positions of a table are never visited.
        empty = Counter if self._one_hot else self._zeros
        self._sums: list[Any] = [empty() for _ in self._pools]
        self.seq = 0

    def go_to(self, record: Record, seq: int) -> None:
        """Add the rows up to row `seq`, with the corrections up to it."""
        for row in record.rows("episodes", after=self.seq, upto=seq):
            self.seq = row.seq
            if not row.learn:
                continue
            if row.revision:
                self._add(record.revision(row.episode_id, row.revision - 1).body, -1)
            self._add(row.body, 1)

    def _add(self, body: bytes | None, sign: int) -> None:
        if body is None:
            return
        start = 14 + int.from_bytes(body[10:14], "little")
        _, dtype, shape = json.loads(body[14:start])["arrays"][0]
        features = np.frombuffer(body, dtype, int(np.prod(shape)), start).reshape(shape)
        for total, stages in zip(self._sums, self._pools, strict=True):
            rows = features[stages.start : stages.stop]
            if self._one_hot:
                for position in rows.tolist():
                    total[position] += sign
            elif len(rows):
                apart = rows.reshape(len(rows), self._blocks, -1).transpose(1, 2, 0)
                total += sign * (apart @ apart.mT)

    def _zeros(self) -> Any:
        size = self._dim // self._blocks
        return np.zeros((self._blocks, size, size), np.longdouble)

    def differs(self, clock: Clock) -> str | None:
        """Describe how the log-determinants of a clock differ from these; None if equal."""
        for pool, total in enumerate(self._sums):
            if self._one_hot:
                counts = np.array([*total.values()], np.longdouble)
                own = float(np.log1p(counts / self._ridge).sum() + self._dim * np.log(self._ridge))
            else:
                counts = total
                gram = (total + self._ridge * np.eye(total.shape[-1])).astype(np.float64)
                own = float(np.linalg.slogdet(gram)[1].sum())
            told = float(clock.logdet[pool])
            # The rounding error of Σφφᵀ is relative to the smallest eigenvalue, the ridge.
            largest = float(np.max(counts, initial=0.0))
            tolerance = 1e-9 * (1.0 + abs(own)) + 1e-14 * self._dim * largest / self._ridge
            if not abs(own - told) <= tolerance:
                return f"log det Λ of pool {pool} is {own!r}, not {told!r}"
        return None
