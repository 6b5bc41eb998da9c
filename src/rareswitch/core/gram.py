"""Λ = λI + Σφφᵀ of each pool of steps, stored as W with WᵀW = Λ⁻¹ (`whitener`).

W is a square root of Λ⁻¹: in the coordinates Wφ every direction is known equally well. The paper
uses only the inverse and the determinant of Λ: ‖φ‖²_{Λ⁻¹} = ‖Wφ‖², Λ⁻¹b = Wᵀ(Wb), and log det Λ. W
is updated by the square-root form of Sherman–Morrison (Potter 1963), so a squared norm is never
negative and rounding errors grow with the square root of Λ's condition number. Λ itself is not
stored: float64 cannot represent a ridge of 1e-6 added to a sum of 1e5, and a Cholesky factor of Λ
loses the directions that no feature has visited.

An added episode can be removed, by the same formulas with −φφᵀ. If φ is the only feature in its
direction, 1 − φᵀΛ⁻¹φ is about λ/‖φ‖², computed from a W of about 1/√λ. Λ⁻¹ then has a relative
error of about machine epsilon times (1 + ‖φ‖²/λ)^{3/2}; the error is much smaller if other features
in that direction remain.

If each feature is nonzero in only one of B blocks of m coordinates, Λ and W are block-diagonal.
Matrices are then (..., d, m), with the blocks stacked vertically; `split_blocks` returns (..., B,
m, m). A full matrix (..., d, d) is a single block.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rareswitch.core.task import Pools
from rareswitch.support.arguments import Floats, Ints, Rows
from rareswitch.support.persistent import PersistentArray, PersistentNumbers

# The minimum of 1 − φᵀΛ⁻¹φ at a removal: rounding may make it 0 or negative.
LEAST_LEFT = np.finfo(np.float64).eps


class Gram(NamedTuple):
    """Gram matrices (..., P, d, d) in square-root form; immutable.

    `logdet` and `trace` (..., P) are log det Λ and tr Λ.
    """

    whitener: Floats
    logdet: Floats
    trace: Floats

    @classmethod
    def of_ridge(cls, leading: tuple[int, ...], dim: int, ridge: float) -> "Gram":
        """Return λI for each of the leading axes (Alg. 2, line 1)."""
        whitener = np.tile(np.eye(dim) / np.sqrt(ridge), (*leading, 1, 1))
        return _read_only(
            whitener, np.full(leading, dim * np.log(ridge)), np.full(leading, dim * ridge)
        )

    @classmethod
    def of_arrays(cls, whitener: Floats, logdet: Floats, trace: Floats) -> "Gram":
        """Return the Gram with these arrays of each pool."""
        return cls(whitener, logdet, trace)

    def add(self, features: Floats) -> tuple["Gram", Floats, Floats]:
        """Add one φφᵀ to every matrix, features (..., P, d); a zero feature changes nothing.

        Also returns u = Λ⁻¹φ and s = 1/√(1 + φᵀΛ⁻¹φ), for the old Λ: Λ⁻¹ decreases by s²·uuᵀ.
        """
        whitened = np.matvec(self.whitener, features)  # Wφ
        direction = np.vecmat(whitened, self.whitener)  # Λ⁻¹φ = Wᵀ(Wφ)
        squared_norm = np.vecdot(whitened, whitened)  # φᵀΛ⁻¹φ
        shrink = 1.0 / (1.0 + squared_norm)
        root = np.sqrt(shrink)
        step = shrink / (1.0 + root)
        change = np.einsum("...i,...j->...ij", step[..., None] * whitened, direction)
        gram = _read_only(
            np.subtract(self.whitener, change, out=change),
            self.logdet + np.log1p(squared_norm),  # the matrix determinant lemma
            self.trace + np.vecdot(features, features),
        )
        return gram, direction, root

    def remove(self, features: Floats) -> "Gram":
        """Remove one φφᵀ from every matrix, features (..., P, d) that were added before."""
        whitened = np.matvec(self.whitener, features)  # Wφ
        direction = np.vecmat(whitened, self.whitener)  # Λ⁻¹φ
        squared_norm = np.minimum(np.vecdot(whitened, whitened), 1.0 - LEAST_LEFT)
        root = np.sqrt(1.0 - squared_norm)
        step = 1.0 / (root * (1.0 + root))  # (1/√(1−q) − 1)/q with q = φᵀΛ⁻¹φ
        change = np.einsum("...i,...j->...ij", step[..., None] * whitened, direction)
        return _read_only(
            np.add(self.whitener, change, out=change),
            self.logdet + np.log1p(-squared_norm),
            self.trace - np.vecdot(features, features),
        )

    def add_block(self, features: Floats, *, sign: float = 1.0) -> "Gram":
        """Add n features to every matrix together, (..., P, n, d); with sign −1, remove them.

        W becomes (I ± BBᵀ)^{−1/2}·W with B = WFᵀ. BBᵀ and BᵀB have the same positive eigenvalues,
        so the smaller matrix is decomposed. Each eigenvalue is computed again as the squared length
        of B along its eigenvector, so small eigenvalues are accurate too.
        """
        whitened = features @ self.whitener.mT  # Bᵀ (..., n, d)
        steps, dim = whitened.shape[-2:]
        if steps < dim:
            turn = np.linalg.eigh(whitened @ whitened.mT).eigenvectors
            turned = turn.mT @ whitened
            squares = _signed(np.square(turned).sum(axis=-1), sign)
            root = np.sqrt(1.0 + squares)
            shares = (sign / (root * (1.0 + root)))[..., None] * turned
            whitener = self.whitener - turned.mT @ (shares @ self.whitener)
        else:
            turn = np.linalg.eigh(whitened.mT @ whitened).eigenvectors
            squares = _signed(np.square(whitened @ turn).sum(axis=-2), sign)
            shrunk = (turn * (1.0 / np.sqrt(1.0 + squares))[..., None, :]) @ turn.mT
            whitener = shrunk @ self.whitener
        return _read_only(
            whitener,
            self.logdet + np.log1p(squares).sum(axis=-1),
            self.trace + sign * np.square(features).sum(axis=(-2, -1)),
        )

    def add_episode(self, features: Rows, pools: Pools) -> "Gram":
        """Add the steps of one episode, features (n, d), to each pool that contains them.

        Alg. 1, line 7; Alg. 2, line 5.
        """
        if pools.shared:
            return self.add_block(pools.spread(features[:, None, :]))
        return self.add(_padded(features, pools.horizon))[0]

    def remove_episode(self, features: Rows, pools: Pools) -> "Gram":
        """Remove the steps of one episode, features (n, d), that `add_episode` added.

        The relative error of Λ⁻¹ is at most about machine epsilon times (1 + ‖φ‖²/λ)^{3/2}. If
        rounding makes φᵀΛ⁻¹φ at least 1, it counts as just below 1.
        """
        if pools.shared:
            return self.add_block(pools.spread(features[:, None, :]), sign=-1.0)
        return self.remove(_padded(features, pools.horizon))


def _padded(features: Rows, horizon: int) -> Rows:
    """Pad features (n, d) with a zero feature for each stage not played, (H, d)."""
    if len(features) == horizon:
        return features
    padded = np.zeros((horizon, features.shape[1]))
    padded[: len(features)] = features
    return padded


def _signed(squares: Floats, sign: float) -> Floats:
    """Return ±squares, kept above −1 in spite of rounding."""
    return np.maximum(sign * squares, LEAST_LEFT - 1.0)


def _read_only(whitener: Floats, logdet: Floats, trace: Floats) -> Gram:
    whitener.flags.writeable = logdet.flags.writeable = trace.flags.writeable = False
    return Gram(whitener, logdet, trace)


class OneHotGram(NamedTuple):
    """The diagonals λ + counts (P, d) of Gram matrices of one-hot features; immutable.

    >>> gram = OneHotGram.of_ridge(2, dim=3, ridge=1.0)
    >>> gram = gram.add_episode(np.array([2, 2]), Pools(2, shared=True))
    >>> gram.counts, gram.trace
    (array([[0., 0., 1.],
           [0., 0., 2.]]), array([4., 5.]))
    """

    visits: PersistentNumbers  # visits of position i of pool p, at index p·d + i
    logdet: Floats
    trace: Floats
    dim: int
    ridge: float

    @classmethod
    def of_ridge(cls, pools: int, dim: int, ridge: float) -> "OneHotGram":
        """Return λI for each pool."""
        logdet, trace = np.full(pools, dim * np.log(ridge)), np.full(pools, dim * ridge)
        logdet.flags.writeable = trace.flags.writeable = False
        return cls(PersistentNumbers(), logdet, trace, dim, ridge)

    @property
    def counts(self) -> Floats:
        """The number of visits of each position in each pool (P, d)."""
        return self.visits.array(len(self.trace) * self.dim).reshape(-1, self.dim)

    @property
    def whitener(self) -> Floats:
        """The diagonal of W (P, d)."""
        return 1.0 / np.sqrt(self.ridge + self.counts)

    def add_episode(self, positions: Ints, pools: Pools) -> "OneHotGram":
        """Add the features e_i at `positions` (n,) to each pool that contains their step."""
        return self._count(positions, pools, 1)

    def remove_episode(self, positions: Ints, pools: Pools) -> "OneHotGram":
        """Remove the features e_i at `positions` (n,) that `add_episode` added."""
        return self._count(positions, pools, -1)

    def add_episodes(self, episodes: Sequence[Ints], pools: Pools) -> "OneHotGram":
        """Add several episodes; the result equals adding them in turn, bit for bit."""
        if pools.shared or len(episodes) < 2:
            gram = self
            for positions in episodes:
                gram = gram.add_episode(positions, pools)
            return gram
        stage = np.concatenate([np.arange(len(positions)) for positions in episodes])
        places, inverse, times = np.unique(
            stage * self.dim + np.concatenate(episodes), return_inverse=True, return_counts=True
        )
        # The visits before each step: stored visits, and visits in earlier episodes here.
        before, rank = self.visits.take(places.tolist()), np.empty_like(stage)
        rank[np.argsort(inverse, kind="stable")] = np.concatenate([*map(np.arange, times)])
        visited = before[inverse] + rank
        logdet, trace = self.logdet.copy(), self.trace.copy()
        # np.add.at adds in order, so the result equals adding in turn.
        np.add.at(logdet, stage, np.log((visited + 1.0 + self.ridge) / (visited + self.ridge)))
        np.add.at(trace, stage, 1.0)
        return self._with(places, before + times, logdet, trace)

    def _count(self, positions: Ints, pools: Pools, sign: int) -> "OneHotGram":
        pool, step = pools.places(len(positions))
        # A shared pool may contain a position more than once.
        visits = Counter((pool * self.dim + positions[step]).tolist())
        places, times = np.array([*visits]), np.array([*visits.values()])
        before = self.visits.take(visits)
        after = before + sign * times
        if sign < 0 and after.min() < 0.0:
            raise ValueError("episode must have been absorbed before; got positions without visits")
        grown = np.log((after + self.ridge) / (before + self.ridge))
        logdet = self.logdet + np.bincount(places // self.dim, grown, pools.count)
        trace = self.trace + sign * np.bincount(pool, minlength=pools.count)
        return self._with(places, after, logdet, trace)

    def _with(self, places: Ints, visits: Floats, logdet: Floats, trace: Floats) -> "OneHotGram":
        logdet.flags.writeable = trace.flags.writeable = False
        changed = self.visits.put(places.tolist(), visits.tolist())
        return OneHotGram(changed, logdet, trace, self.dim, self.ridge)


class BlockGram(NamedTuple):
    """Gram matrices of features that are nonzero in one of B blocks of m coordinates; immutable.

    >>> gram = BlockGram.of_ridge(2, dim=4, blocks=2, ridge=1.0)
    >>> gram = gram.add_episode(np.array([[0.0, 0.0, 1.0, 0.0]]), Pools(2))
    >>> gram.trace, gram.whitener.shape
    (array([5., 4.]), (2, 4, 2))
    """

    whiteners: PersistentArray  # W of block b of pool p at index p·B + b, (P·B, m, m)
    logdet: Floats
    trace: Floats

    @classmethod
    def of_ridge(cls, pools: int, dim: int, blocks: int, ridge: float) -> "BlockGram":
        """Return λI for each pool."""
        block = Gram.of_ridge((pools * blocks,), dim // blocks, ridge)
        logdet, trace = (each.reshape(pools, blocks).sum(axis=1) for each in block[1:])
        return cls(PersistentArray(block.whitener), logdet, trace)

    @classmethod
    def of_arrays(cls, whitener: Floats, logdet: Floats, trace: Floats) -> "BlockGram":
        """Return the Gram with these arrays of each pool, with W in the shape of `whitener`."""
        size = whitener.shape[-1]
        return cls(PersistentArray(whitener.reshape(-1, size, size)), logdet, trace)

    @property
    def whitener(self) -> Floats:
        """W of each pool, with stacked blocks (P, d, m)."""
        whiteners = self.whiteners.array
        return whiteners.reshape(len(self.trace), -1, whiteners.shape[-1])

    def add_episode(self, features: Floats, pools: Pools) -> "BlockGram":
        """Add the steps of one episode, features (n, d), to each pool that contains them."""
        return self._change(features, pools, 1.0)

    def remove_episode(self, features: Floats, pools: Pools) -> "BlockGram":
        """Remove the steps of one episode, features (n, d), that `add_episode` added."""
        return self._change(features, pools, -1.0)

    def _change(self, features: Floats, pools: Pools, sign: float) -> "BlockGram":
        """Add or remove the steps of one episode; only visited blocks change."""
        blocks, steps = len(self.whiteners) // len(self.trace), len(features)
        block, numbers = split_rows(features, blocks)
        if pools.shared:
            visited = np.unique(block)
            places = np.arange(pools.count)[:, None] * blocks + visited
            whiteners, logdet, trace = self.whiteners.take(places), self.logdet, self.trace
            contains = pools.contains[:, :steps, None]
            for i, there in enumerate(block == visited[:, None]):
                part = Gram(whiteners[:, i], logdet, trace)
                part = part.add_block(contains[:, there] * numbers[there], sign=sign)
                whiteners[:, i], logdet, trace = part
            return BlockGram(self.whiteners.put(places, whiteners), logdet, trace)
        own = np.arange(steps) * blocks + block
        part = Gram(self.whiteners.take(own), self.logdet[:steps], self.trace[:steps])
        part = part.add(numbers)[0] if sign > 0.0 else part.remove(numbers)
        logdet, trace = self.logdet.copy(), self.trace.copy()
        logdet[:steps], trace[:steps] = part.logdet, part.trace
        logdet.flags.writeable = trace.flags.writeable = False
        return BlockGram(self.whiteners.put(own, part.whitener), logdet, trace)


def split_rows(rows: Floats, blocks: int) -> tuple[Ints, Floats]:
    """Return the block of each row of an episode (n, d), and its numbers in that block (n, m).

    A row of zeros counts as in the first block.
    """
    apart = rows.reshape(len(rows), blocks, rows.shape[1] // blocks)
    visited = apart.any(axis=2)
    if np.count_nonzero(visited) > len(rows) or (visited.sum(axis=1) > 1).any():
        raise ValueError(
            f"episode must have rows that are nonzero in only one of the task's {blocks} blocks of "
            f"{apart.shape[2]} coordinates; got a row that is nonzero in "
            f"{visited.sum(axis=1).max()} blocks"
        )
    block: Ints = visited.argmax(axis=1)
    return block, apart[np.arange(len(rows)), block]


def split_blocks(matrix: Floats) -> Floats:
    """Return a matrix (..., d, m) of stacked blocks as (..., B, m, m)."""
    size = matrix.shape[-1]
    return matrix.reshape(*matrix.shape[:-2], -1, size, size)


def matvec(matrix: Floats, vector: Floats) -> Floats:
    """Return the product of a matrix (..., d, m) of blocks with a vector (..., d)."""
    apart = vector.reshape(*vector.shape[:-1], -1, matrix.shape[-1])
    product: Floats = np.matvec(split_blocks(matrix), apart)
    return product.reshape(*product.shape[:-2], vector.shape[-1])


def vecmat(vector: Floats, matrix: Floats) -> Floats:
    """Return the product of a vector (..., d) with a matrix (..., d, m) of blocks."""
    apart = vector.reshape(*vector.shape[:-1], -1, matrix.shape[-1])
    product: Floats = np.vecmat(apart, split_blocks(matrix))
    return product.reshape(*product.shape[:-2], vector.shape[-1])


def solve(whitener: Floats, target: Floats, *, one_hot: bool = False) -> Floats:
    """Return Λ⁻¹·target = Wᵀ(W·target) for target (..., d) and W (..., d, m), or its diagonal."""
    if one_hot:
        return np.square(whitener) * target
    return vecmat(matvec(whitener, target), whitener)
