"""Logs of episodes in columns and partitions, their statistics, and folders.

The backward pass over partitions is a map-reduce: every partition returns Σφφᵀ and Σrφ once, and
then its part of Σφ·max_a Q_{h+1} for each Q_{h+1}. There are H rounds of at most d² numbers out and
d numbers back, for each member; the data never move. Arrays are read in blocks, so arrays mapped
from disk may be larger than memory.

A partition is saved as a folder of plain .npy files:

    partition.json   format, number of stages, dimension
    steps.npy        the number of steps of each episode
    stage-0/ …       features.npy, rewards.npy, lengths.npy, next_features.npy of each stage
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from rareswitch.core.episode import Episode
from rareswitch.core.lsvi import QFunction
from rareswitch.core.sharing import KINDS
from rareswitch.core.task import Pools
from rareswitch.statistics.next_states import BLOCK_ROWS, state_values
from rareswitch.support.archive import DAMAGE
from rareswitch.support.arguments import (
    Floats,
    Ints,
    one_of,
    positive_ridge,
    real,
    short_repr,
    whole,
)

FORMAT = 1  # of a folder


@dataclass(frozen=True, kw_only=True, eq=False)
class StageLog:
    """The steps of one stage: features (n, d), rewards (n,) and the next states.

    `lengths` (n,) are the numbers of feasible actions in the next states, 0 if the episode ended,
    and `next_features` (M, d) their concatenated features.
    """

    features: Floats
    rewards: Floats
    lengths: Ints
    next_features: Floats


@dataclass(frozen=True, eq=False)
class LogPartition:
    """Some episodes of a log, stage by stage; iteration yields the episodes.

    `steps` (episodes,) is the number of steps of each: stage h has the episodes with more than h.
    """

    stages: tuple[StageLog, ...]
    steps: Ints

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode], *, horizon: int) -> "LogPartition":
        """Put episodes into one partition in memory."""
        horizon = whole("horizon", horizon, least=1, most=10**6)
        if not isinstance(episodes, Sequence) or not all(isinstance(e, Episode) for e in episodes):
            raise TypeError(f"episodes must be a list of Episodes; got {short_repr(episodes)}")
        if longest := [len(e) for e in episodes if len(e) > horizon]:
            raise ValueError(f"episodes must have at most {horizon} steps; got {longest[0]}")
        if any(episode.one_hot for episode in episodes):
            raise ValueError("episodes must have rows of features; got one-hot positions")
        dims = sorted({episode.dim for episode in episodes})
        if not dims:
            raise ValueError("episodes must not be empty")
        if len(dims) > 1:
            raise ValueError(f"episodes must have one dimension; got {dims}")
        stages = []
        for h in range(horizon):
            there = [e for e in episodes if h < len(e)]
            # After the last stage every value is 0.
            following = [e.next_features[h : h + 1] if h + 1 < horizon else () for e in there]
            rows = [state for states in following for state in states]
            stages.append(
                StageLog(
                    features=np.array([e.features[h] for e in there]).reshape(-1, dims[0]),
                    rewards=np.array([e.rewards[h] for e in there]),
                    lengths=np.array([len(s[0]) if s else 0 for s in following], np.int64),
                    next_features=np.concatenate(rows) if rows else np.zeros((0, dims[0])),
                )
            )
        return cls(tuple(stages), np.array([len(e) for e in episodes]))

    @property
    def horizon(self) -> int:
        return len(self.stages)

    @property
    def dim(self) -> int:
        return self.stages[0].features.shape[1]

    def __len__(self) -> int:
        return len(self.steps)

    def __iter__(self) -> Iterator[Episode]:
        position, row = [0] * self.horizon, [0] * self.horizon
        for steps in np.asarray(self.steps).tolist():
            features, rewards, following = [], [], []
            for h, stage in enumerate(self.stages[:steps]):
                features.append(stage.features[position[h]])
                rewards.append(stage.rewards[position[h]])
                length = int(stage.lengths[position[h]])
                if length:
                    following.append(stage.next_features[row[h] : row[h] + length])
                position[h], row[h] = position[h] + 1, row[h] + length
            yield Episode(
                features=np.array(features), rewards=np.array(rewards), next_features=following
            )


class Partitions(Protocol):
    """Partitions in any place; statistics need only `map`."""

    def map(self, function: Callable[..., Floats], *arguments: Any) -> list[Floats]:
        """Return function(partition, *arguments) of every partition, in order."""
        ...


class LocalPartitions:
    """Partitions in this process, evaluated in turn."""

    def __init__(self, partitions: Iterable[LogPartition]) -> None:
        self._partitions = tuple(partitions)
        if not all(isinstance(partition, LogPartition) for partition in self._partitions):
            raise TypeError("partitions must all be LogPartitions")

    def map(self, function: Callable[..., Floats], *arguments: Any) -> list[Floats]:
        return [function(partition, *arguments) for partition in self._partitions]


class LogStatistics:
    """The statistics of a whole log, partition by partition, for `fit`.

    `stages`, "own" or "shared", and `end_reward` mean the same as in a `Task`. Λ is summed and then
    factored, so errors in directions that no feature has visited are of the order of 1e-16·‖Λ‖/λ; a
    `History` is more exact if λ is tiny.

    >>> from rareswitch.core.policy import fit
    >>> from rareswitch.core.recipe import Recipe
    >>> episode = Episode(features=np.eye(2), rewards=[0.0, 1.0], next_features=[np.eye(2)])
    >>> log = LocalPartitions([LogPartition.from_episodes([episode] * 9, horizon=2)])
    >>> policy = fit(LogStatistics(log), Recipe.paper(beta=0.0), version=1)
    >>> policy.q_values(0, np.eye(2)).round(2)
    array([0.81, 0.  ])
    """

    one_hot = False

    def __init__(
        self,
        partitions: Partitions,
        *,
        ridge: float = 1.0,
        stages: str = "own",
        end_reward: float = 0.0,
    ) -> None:
        self.ridge = positive_ridge(ridge)
        self._end_reward = real("end_reward", end_reward, least=0.0, most=1.0)
        if not callable(getattr(partitions, "map", None)):
            raise TypeError(
                f"partitions must be LocalPartitions or like them; got {short_repr(partitions)}"
            )
        self._partitions = partitions
        stage_grams = self._sum(_gram_sums)
        horizon, dim, _ = stage_grams.shape
        self.dim = dim
        self.pools = Pools(horizon, shared=one_of("stages", stages, KINDS) == "shared")
        gram = self.pools.sum_stages(stage_grams.reshape(horizon, -1)).reshape(-1, dim, dim)
        regular = gram + self.ridge * np.eye(gram.shape[-1])
        try:
            self.whitener: Floats = np.linalg.inv(np.linalg.cholesky(regular))
        except np.linalg.LinAlgError:
            raise ValueError(
                f"ridge must be larger for such features: {self.ridge:g} is below the rounding "
                f"error of a sum of {np.abs(gram).max():.3g}"
            ) from None
        self.step_sums: Floats
        self.reward_sums: Floats
        self.step_sums, self.reward_sums = self.pools.sum_stages(self._sum(_step_sums))

    def fold(self) -> Self:
        return self

    def next_value_sums(self, h: int, following: QFunction, pool: int | None = None) -> Floats:
        ended = self._end_reward * (self.pools.horizon - 1 - h)
        stages = self.pools.stages(self.pools.index(h) if pool is None else pool)
        return self._sum(_next_value_sums, stages, following, ended)

    def _sum(self, function: Callable[..., Floats], *arguments: Any) -> Floats:
        """Add up over partitions in order, after a check that all have the same shape."""
        parts = self._partitions.map(function, *arguments)
        if not parts:
            raise ValueError("partitions must hold at least one partition; got none")
        for i, part in enumerate(parts):
            if part.shape != parts[0].shape:
                raise ValueError(
                    f"partitions must agree in horizon and dimension; partition {i} gives "
                    f"{part.shape} where partition 0 gives {parts[0].shape}"
                )
        return sum(parts[1:], start=parts[0])


def _gram_sums(partition: LogPartition) -> Floats:
    """Return Σφφᵀ of each stage (H, d, d)."""
    return np.stack([_gram_sum(stage.features) for stage in partition.stages])


def _gram_sum(features: Floats) -> Floats:
    dim = features.shape[1]
    total = np.zeros((dim, dim))
    for start in range(0, len(features), BLOCK_ROWS):
        block = np.asarray(features[start : start + BLOCK_ROWS])
        total += block.T @ block
    return total


def _step_sums(partition: LogPartition) -> Floats:
    """Return Σ(φ, 1, r) and Σ r·(φ, 1, r) of each stage (2, H, d+2)."""
    sums = np.zeros((2, partition.horizon, partition.dim + 2))
    for h, stage in enumerate(partition.stages):
        rewards = np.asarray(stage.rewards)
        if len(rewards) and not (rewards.min() >= 0.0 and rewards.max() <= 1.0):
            raise ValueError(f"rewards must lie in [0, 1]; rewards of stage {h} do not")
        sums[:, h] = _weighted(np.stack([np.ones_like(rewards), rewards]), stage)
    return sums


def _next_value_sums(
    partition: LogPartition, stages: range, following: QFunction, ended: float
) -> Floats:
    """Return Σ V·(φ, 1, r, V) over the steps of some stages, with V the value of the next state.

    `ended` is the value of the end of an episode.
    """
    total = np.zeros((*following.weights.shape[:-1], partition.dim + 3))
    for stage in (partition.stages[h] for h in stages):
        lengths = np.asarray(stage.lengths)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        for start in range(0, len(lengths), BLOCK_ROWS):
            stop = min(start + BLOCK_ROWS, len(lengths))
            block = StageLog(
                features=stage.features[start:stop],
                rewards=stage.rewards[start:stop],
                lengths=lengths[start:stop],
                next_features=stage.next_features[ends[start] : ends[stop]],
            )
            goes_on = block.lengths > 0
            values = np.full((*total.shape[:-1], stop - start), ended)
            values[..., goes_on] = state_values(
                block.lengths[goes_on], block.next_features, following
            )
            total[..., :-1] += _weighted(values, block)
            total[..., -1] += np.vecdot(values, values)
    return total


def _weighted(values: Floats, stage: StageLog) -> Floats:
    """Return Σ v·(φ, 1, r) over the steps of a stage, (..., n) to (..., d+2)."""
    parts = (values @ stage.features, values.sum(axis=-1), values @ np.asarray(stage.rewards))
    return np.concatenate([parts[0], parts[1][..., None], parts[2][..., None]], axis=-1)


def save_partition(partition: LogPartition, folder: Path | str) -> None:
    """Write a partition to a new folder, with a subfolder for each stage."""
    folder = Path(folder)
    if folder.exists():
        raise ValueError(f"folder must not exist yet; {folder} does")
    for h, stage in enumerate(partition.stages):
        (folder / f"stage-{h}").mkdir(parents=True)
        for field in fields(stage):
            np.save(folder / f"stage-{h}" / f"{field.name}.npy", getattr(stage, field.name))
    np.save(folder / "steps.npy", partition.steps)
    about = {"format": FORMAT, "horizon": partition.horizon, "dim": partition.dim}
    (folder / "partition.json").write_text(json.dumps(about))


def open_partition(folder: Path | str) -> LogPartition:
    """Open the partition of a folder; its arrays are read lazily.

    The arrays are checked against partition.json; an error names a damaged array.
    """
    folder = Path(folder)
    horizon, dim = _about(folder)
    steps = _load(folder / "steps.npy", np.int64, ("n",))
    if not len(steps) or steps.min() < 1 or steps.max() > horizon:
        raise ValueError(f"{folder / 'steps.npy'} must count steps from 1 to the horizon {horizon}")
    stages = tuple(_load_stage(folder / f"stage-{h}", h, steps, dim) for h in range(horizon))
    if (folder / f"stage-{horizon}").exists():
        raise ValueError(f"{folder} must have only the {horizon} stages of its partition.json")
    return LogPartition(stages, steps)


def _about(folder: Path) -> tuple[int, int]:
    """Return the horizon and dimension from partition.json, after a check of its format."""
    path = folder / "partition.json"
    try:
        about = dict(json.loads(path.read_bytes()))
    except OSError:
        raise ValueError(f"{folder} must be a saved partition; it has no {path.name}") from None
    except (ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{path} does not describe a partition ({error})") from None
    if about.get("format") != FORMAT:
        raise ValueError(
            f"{path} must be of format {FORMAT}; got {about.get('format')!r}, written by another "
            "version of rareswitch"
        )
    try:
        horizon = whole("horizon", about.get("horizon"), least=1)
        return horizon, whole("dim", about.get("dim"), least=1)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} does not describe a partition ({error})") from None


def _load_stage(folder: Path, h: int, steps: Ints, dim: int) -> StageLog:
    there = steps[steps > h]
    lengths = _load(folder / "lengths.npy", np.int64, (len(there),))
    if (lengths < 0).any() or (lengths[there > h + 1] == 0).any():
        raise ValueError(f"{folder / 'lengths.npy'} must count the actions after every step")
    return StageLog(
        features=_load(folder / "features.npy", np.float64, (len(there), dim)),
        rewards=_load(folder / "rewards.npy", np.float64, (len(there),)),
        lengths=lengths,
        next_features=_load(folder / "next_features.npy", np.float64, (int(lengths.sum()), dim)),
    )


def _load(path: Path, dtype: type[Any], shape: tuple[int | str, ...]) -> Any:
    """Map an array from disk, after a check of its header and size."""
    try:
        with open(path, "rb") as file:
            if (version := np.lib.format.read_magic(file)) != (1, 0):
                raise ValueError(f"format {version} of .npy")
            found, by_columns, kind = np.lib.format.read_array_header_1_0(file)
            start, end = file.tell(), file.seek(0, os.SEEK_END)
    except DAMAGE as error:
        raise ValueError(f"{path} cannot be read ({str(error)[:200]})") from None
    fits = len(found) == len(shape) and all(
        isinstance(want, str) or have == want for have, want in zip(found, shape, strict=True)
    )
    if not fits or kind != dtype or by_columns:
        raise ValueError(
            f"{path} must be {np.dtype(dtype)} of shape {shape}; got {kind} of {found}"
        )
    if math.prod(found) * kind.itemsize != end - start:
        raise ValueError(f"{path} must hold {found} numbers; it has {end - start} bytes of them")
    return np.memmap(path, kind, "r", start, found)
