"""A log of episodes in partitions, wherever they are, and a fit that visits them.

The backward pass is a map-reduce: every partition returns Σφφᵀ once, and then, for the weights and
whitener of stage h+1, its share of Σφ·[r + max_a Q_{h+1}]. H rounds of d² numbers out and d numbers
back; the data never move. Arrays are visited in blocks, so those that are mapped from disk may be
larger than memory.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from rareswitch.core.arguments import Floats, Ints, real, whole
from rareswitch.core.history import BLOCK_ROWS, Episode, state_values
from rareswitch.core.lsvi import backward
from rareswitch.core.policy import Policy, clipped, optimistic_values


@dataclass(frozen=True, kw_only=True, eq=False)
class StageLog:
    """The steps of one stage: features (n, d), rewards (n,) and the states that followed.

    `lengths` (n,) is the number of actions feasible in the state after each step, 0 where the
    episode ended, and `next_features` (M, d) their features end to end.
    """

    features: Floats
    rewards: Floats
    lengths: Ints
    next_features: Floats


@dataclass(frozen=True, eq=False)
class LogPartition:
    """Some episodes of a log, stage by stage."""

    stages: tuple[StageLog, ...]

    @classmethod
    def from_episodes(cls, episodes: Sequence[Episode], *, horizon: int) -> "LogPartition":
        """Put episodes into one partition in memory."""
        horizon = whole("horizon", horizon, least=1)
        if longest := [len(e) for e in episodes if len(e) > horizon]:
            raise ValueError(f"episodes must have at most {horizon} steps; got {longest[0]}")
        if not episodes:
            raise ValueError("episodes must hold at least one episode; got none")
        dim = episodes[0].features.shape[1]
        stages = []
        for h in range(horizon):
            there = [e for e in episodes if h < len(e)]
            # After the last stage nothing is worth anything.
            following = [e.next_features[h : h + 1] if h + 1 < horizon else () for e in there]
            rows = [state for states in following for state in states]
            stages.append(
                StageLog(
                    features=np.array([e.features[h] for e in there]).reshape(-1, dim),
                    rewards=np.array([e.rewards[h] for e in there]),
                    lengths=np.array([len(s[0]) if s else 0 for s in following], np.int64),
                    next_features=np.concatenate(rows) if rows else np.zeros((0, dim)),
                )
            )
        return cls(tuple(stages))


class Partitions(Protocol):
    """Partitions wherever they are: all that a fit asks of them is a sum over them."""

    def sum(self, function: Callable[..., Floats], *arguments: Any) -> Floats:
        """Return Σ function(partition, *arguments), added in the order of the partitions."""
        ...


class LocalPartitions:
    """Partitions in this process, visited one after the other."""

    def __init__(self, partitions: Iterable[LogPartition]) -> None:
        self._partitions = tuple(partitions)

    def sum(self, function: Callable[..., Floats], *arguments: Any) -> Floats:
        return add_up(function(partition, *arguments) for partition in self._partitions)


def fit_log(
    partitions: Partitions,
    *,
    ridge: float = 1.0,
    beta: float = 1.0,
    clip: bool = True,
    directions: Floats | None = None,
    version: int = 1,
) -> Policy:
    """Return the optimistic policy of a whole log (Alg. 1, lines 5–10), partition by partition.

    >>> episode = Episode(features=np.eye(2), rewards=[0.0, 1.0], next_features=[np.eye(2)])
    >>> log = LocalPartitions([LogPartition.from_episodes([episode] * 9, horizon=2)])
    >>> fit_log(log, beta=0.0).q_values(0, np.eye(2)).round(2)
    array([0.81, 0.  ])
    """
    real("ridge", ridge, above=0.0)
    real("beta", beta, least=0.0)
    gram = partitions.sum(gram_sums)
    horizon, dim, _ = gram.shape
    whitener = np.linalg.inv(np.linalg.cholesky(gram + ridge * np.eye(dim)))
    weights = backward(
        _Solved(whitener),
        partitions.sum(reward_sums),
        lambda h, w: partitions.sum(
            next_value_sums, h, w, whitener[h + 1], beta, float(horizon - h - 1) if clip else None
        ),
    )
    return Policy(
        weights=weights,
        whitener=whitener,
        beta=beta,
        directions=directions,
        clip=clip,
        version=version,
    )


def gram_sums(partition: LogPartition) -> Floats:
    """Return Σφφᵀ of each stage (H, d, d)."""
    return np.stack([_gram_sum(stage.features) for stage in partition.stages])


def reward_sums(partition: LogPartition) -> Floats:
    """Return Σrφ of each stage (H, d)."""
    return np.stack([np.asarray(s.rewards) @ np.asarray(s.features) for s in partition.stages])


def next_value_sums(
    partition: LogPartition,
    h: int,
    weights: Floats,
    whitener: Floats,
    beta: float,
    cap: float | None,
) -> Floats:
    """Return Σφ·max_a Q_{h+1}(s', a) over the steps of stage h (d,)."""
    stage = partition.stages[h]

    def q_values(rows: Floats) -> Floats:
        values = optimistic_values(np.asarray(rows), weights, whitener, beta, None)
        return values if cap is None else clipped(values, cap)

    goes_on = np.asarray(stage.lengths) > 0
    values = np.zeros(len(goes_on))  # an ended episode is worth nothing more
    values[goes_on] = state_values(stage.lengths[goes_on], stage.next_features, q_values)
    return values @ stage.features


def add_up(parts: Iterable[Floats]) -> Floats:
    """Return the sum of arrays, in their order."""
    total: Floats | None = None
    for part in parts:
        total = part if total is None else total + part
    if total is None:
        raise ValueError("partitions must hold at least one partition; got none")
    return total


class _Solved:
    """Λ_h⁻¹·target from a whitener, as `backward` asks for it."""

    def __init__(self, whitener: Floats) -> None:
        self._whitener = whitener

    def solve(self, h: int, target: Floats) -> Floats:
        return np.vecmat(self._whitener[h] @ target, self._whitener[h])


def _gram_sum(features: Floats) -> Floats:
    dim = features.shape[1]
    total = np.zeros((dim, dim))
    for start in range(0, len(features), BLOCK_ROWS):
        block = np.asarray(features[start : start + BLOCK_ROWS])
        total += block.T @ block
    return total
