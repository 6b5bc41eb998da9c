"""The history of features that are nonzero in one of B blocks of m coordinates.

Zeros are not stored. A row is given by its m numbers x and its block. Most next states have one x
for all feasible actions, in different blocks: `ActionBlocks` makes such rows. A next state is then
a single row (x, mask), where the mask (B,) is 1 for the blocks of feasible actions. A next state
whose rows differ in x has a row (x, mask) for each of them.

The steps that led to a next state are in blocks too. So a next state is stored once for each block
of these steps: the number of the block is the last column of its rows, (x, mask, block), and Σ(x,
1, r) is over the steps in that block.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from rareswitch.core.episode import Episode
from rareswitch.core.gram import BlockGram, split_rows
from rareswitch.core.lsvi import QFunction
from rareswitch.core.task import Pools
from rareswitch.statistics.dense import DenseHistory, Steps
from rareswitch.statistics.history import Signed
from rareswitch.statistics.next_states import BLOCK_ROWS, NextStates, add_in_turn, visits
from rareswitch.support.arguments import Floats, Ints


class BlockHistory(DenseHistory):
    """Λ in blocks, compensated sums over steps, and next states without zeros."""

    gram: BlockGram

    def _without_data(self) -> tuple[BlockGram, "BlockNextStates"]:
        dim, blocks, size = self.task.dim, self.task.blocks, self.task.block_size
        gram = BlockGram.of_ridge(self.pools.count, dim, blocks, self.ridge)
        return gram, BlockNextStates.none(size, width=size + blocks + 1)

    def _checked(self, *episodes: Episode) -> list[Episode]:
        for episode in episodes:
            self._check_kind(episode)
        blocks, size = self.task.blocks, self.task.block_size
        narrow = [narrow_episode(episode, blocks) for episode in episodes]
        if narrow:
            rows = [part[:, :size] for e in narrow for part in (e.features, e.next_rows)]
            self._check_lengths(np.concatenate(rows, axis=None), size)
        return narrow

    def _lost_shape(self, lengths: Ints) -> tuple[int | str]:
        return ("J or 0",)

    def _steps(self, changes: Sequence[Signed]) -> "BlockSteps":
        return BlockSteps(changes, self.task.blocks, self.pools)


def narrow_episode(episode: Episode, blocks: int) -> Episode:
    """Remove the zeros from the rows of an episode.

    `features` become (x, mask) with the mask of one block; `next_rows` become (x, mask, block),
    with the block of the previous step.

    >>> rows = np.array([[0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 2.0]])
    >>> wide = Episode(features=rows[1:], rewards=[1.0], next_features=[rows])
    >>> narrow = narrow_episode(wide, blocks=2)
    >>> narrow.features, narrow.next_rows
    (array([[0., 2., 0., 1.]]), array([[0., 2., 1., 1., 1.]]))
    """
    came, led = split_rows(episode.features, blocks)
    steps, size = led.shape
    features = np.zeros((steps, size + blocks))
    features[:, :size] = led
    features[np.arange(steps), size + came] = 1.0
    block, numbers = split_rows(episode.next_rows, blocks)
    wide = np.array(episode.lengths, np.int64)
    state, starts = np.repeat(np.arange(len(wide)), wide), np.cumsum(wide) - wide
    lengths = wide
    if len(wide):
        same = (numbers == numbers[starts[state]]).all(axis=1)
        lengths = np.where(np.logical_and.reduceat(same, starts), 1, wide)
    first = np.cumsum(lengths) - lengths
    # Rows with the same x get the first place of their state, other rows one place each.
    place = first[state] + np.where(lengths[state] == 1, 0, np.arange(len(block)) - starts[state])
    next_rows = np.zeros((int(lengths.sum()), size + blocks + 1))
    next_rows[place, :size] = numbers
    next_rows[place, size + block] = 1.0
    next_rows[:, -1] = np.repeat(came[: len(lengths)], lengths)
    return Episode.trusted(features, episode.rewards, next_rows, lengths.tolist())


class BlockSteps(Steps):
    """The concatenated steps (x, 1, r) of narrow episodes, and the block of each step."""

    def __init__(self, changes: Sequence[Signed], blocks: int, pools: Pools) -> None:
        self._blocks = blocks
        super().__init__(changes, pools)

    def _features(self) -> Floats:
        rows = super()._features()
        size = rows.shape[1] - self._blocks
        self._block: Ints = rows[:, size:].argmax(axis=1)
        return rows[:, :size]

    def leading_on(self, pool: int) -> tuple[Floats, list[bytes]]:
        """Return the steps of a pool with their blocks, (x, 1, r, block), and the next states."""
        steps, states = super().leading_on(pool)
        return np.column_stack([steps, self._block[self._places[pool]]]), states

    def _wide(self) -> Floats:
        size, steps = self._steps.shape[1] - 2, np.arange(len(self._steps))
        wide = np.zeros((len(steps), self._blocks * size + 2))
        wide[steps[:, None], self._block[:, None] * size + np.arange(size)] = self._steps[:, :-2]
        wide[:, -2:] = self._steps[:, -2:]
        return wide


class BlockNextStates(NextStates):
    """Distinct pairs of a next state and the block of the steps that led to it.

    `rows` are (x, mask, block), `sums` are Σ(x, 1, r), and `ended` has such a sum for each block
    (2, B, m+2).
    """

    @classmethod
    def none(cls, dim: int, *, width: int | None = None) -> Self:
        """Return an empty table, for x of m numbers and rows of m + B + 1."""
        assert width is not None
        return replace(
            super().none(dim, width=width), ended=np.zeros((2, width - dim - 1, dim + 2))
        )

    @classmethod
    def from_arrays(
        cls, *, sums: Floats, lost: Floats, lengths: Ints, rows: Floats, ended: Floats
    ) -> Self:
        if len(lost) not in (0, len(sums)):
            raise ValueError("next states must have lost numbers for all of them or for none")
        found = super().from_arrays(sums=sums, lost=lost, lengths=lengths, rows=rows, ended=ended)
        masks, block = found._masks(rows), rows[:, -1]
        known = np.isin(masks, (0.0, 1.0)).all() and np.isin(block, np.arange(masks.shape[1])).all()
        known = known and masks.any(axis=1).all()
        one = np.repeat(block[np.cumsum(lengths) - lengths], lengths) == block
        if not known or not one.all():
            raise ValueError("next states must have masks of 0 and 1, and the number of a block")
        return found

    def _masks(self, rows: Floats) -> Floats:
        return rows[:, self.sums.shape[1] - 2 : -1]

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        none_lost = {} if self._lost.array.any() else {"lost": self.sums[:0]}
        return super().to_arrays() | none_lost

    def add(self, steps: Floats, states: list[bytes]) -> Self:
        """Return the table with added steps (x, 1, r, block) (n, m+3) and their next states."""
        ended, steps, block = self.ended, steps[:, :-1], steps[:, -1]
        if b"" in states:
            goes_on = np.array([bool(state) for state in states])
            ended = ended.copy()
            for b in np.unique(block[~goes_on]).astype(np.int64):
                there = ~goes_on & (block == b)
                ended[:, b] = add_in_turn(ended[0, b], ended[1, b], steps[there])
            steps, states = steps[goes_on], [state for state in states if state]
        return replace(super().add(steps, states), ended=ended)

    def value_sums(self, following: QFunction, ended: float) -> Floats:
        size, leading = self.sums.shape[1] - 2, following.weights.shape[:-1]
        at_end = self.ended.sum(axis=0)  # (B, m+2)
        total = np.zeros((*leading, len(at_end), size))  # Σ V·x in each block
        rest = np.zeros((*leading, 3))  # Σ V·(1, r, V)
        total += ended * at_end[:, :-2]
        rest += ended * np.append(at_end[:, -2:].sum(axis=0), ended * self.ended[0, :, -2].sum())
        for part in self._parts:
            values = following.best_values(part.numbers, part.masks)
            if part.starts is not None:
                values = np.maximum.reduceat(values, part.starts, axis=-1)
            values = values.take(part.order, axis=-1)
            for block, here in part.blocks:
                products = values[..., here] @ part.sums[here]
                if part.lost is not None:
                    products += values[..., here] @ part.lost[here]
                total[..., block, :] += products[..., :-2]
                rest[..., :2] += products[..., -2:]
            rest[..., 2:] += np.square(values, out=values) @ part.sums[:, -2:-1]  # exact counts
        return np.concatenate([total.reshape(*leading, -1), rest], axis=-1)

    @cached_property
    def _parts(self) -> list["_Part"]:
        """Blocks of states, prepared for `value_sums`: a fit calls it for every stage."""
        size = self.sums.shape[1] - 2
        most = max(1, BLOCK_ROWS // (self.rows.shape[1] - size - 1))
        parts, all_lost = [], self.lost if self._lost.array.any() else None
        for some, theirs, starts in visits(self.lengths, most):
            rows = self.rows[theirs]
            masks, block = self._masks(rows), rows[starts, -1].astype(np.int64)
            order = np.argsort(block, kind="stable")
            visited, first = np.unique(block[order], return_index=True)
            bounds = [*first.tolist(), len(order)]
            parts.append(
                _Part(
                    numbers=rows[:, :size],
                    masks=None if masks.all() else masks,
                    starts=starts if len(starts) < len(rows) else None,
                    order=order,
                    blocks=[*zip(visited.tolist(), map(slice, bounds, bounds[1:]), strict=True)],
                    sums=self.sums[some].take(order, 0),
                    lost=all_lost[some].take(order, 0) if all_lost is not None else None,
                )
            )
        return parts


class _Part(NamedTuple):
    """Some next states, and the steps that led to them, ordered by block."""

    numbers: Floats
    masks: Floats | None  # None: all actions are feasible
    starts: Ints | None  # the first row of each state; None: each has one row
    order: Ints
    blocks: list[tuple[int, slice]]
    sums: Floats
    lost: Floats | None  # None: 0, as for states reached once
