"""The frozen policy of one fit: Q_h(φ) = min{φᵀw_h + β‖W_hφ‖, H−h}⁺ and its greedy action.

Letters: w_h `weights`, W_h `whitener` (WᵀW = Λ_h⁻¹), β `beta`, z_h `directions`. Stages are
counted from 0, so the cap at stage h is H−h. A perturbed fit has β = 0 and adds the largest φᵀo_m
of its `offsets` instead.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import Floats, Ints, floats, real, whole

# Values closer than this are equal; results then do not hang on the last bit of a BLAS.
TIE_TOLERANCE = 1e-9


def bonuses(squared_norms: Floats, beta: float) -> Floats:
    """Return Γ = β·‖φ‖_{Λ⁻¹} (Alg. 1, line 9); a norm below zero is rounding."""
    bonus = np.maximum(squared_norms, 0.0)
    np.sqrt(bonus, out=bonus)
    bonus *= beta
    return bonus


def clipped(values: Floats, cap: float | Floats) -> Floats:
    """Return min{values, cap}⁺ (Alg. 1, line 10), in place."""
    np.minimum(values, cap, out=values)
    return np.maximum(values, 0.0, out=values)


def optimistic_values(
    rows: Floats, weights: Floats, whitener: Floats, beta: float, offsets: Floats | None
) -> Floats:
    """Return φᵀw + Γ(φ) + max_m φᵀo_m of each feature row, before the clip."""
    values = rows @ weights
    if beta:
        whitened = rows @ whitener.T
        values += bonuses(np.vecdot(whitened, whitened), beta)
    if offsets is not None:
        values += (rows @ offsets.T).max(axis=1)
    return values


def best_rows(
    values: Floats, top: Floats, starts: Ints, columns: Floats, directions: Floats | None
) -> Ints:
    """Return the greedy row (M, S) of each segment of M vectors of values.

    `values` is (M, N), in segments that begin at `starts` (S,) and attain `top` (M, S). Of the rows
    whose value is at least top − TIE_TOLERANCE, the one whose feature (a column of (d, N)) lies
    furthest along the vector's direction (M, d) wins, then the lowest index; without directions,
    the lowest index.
    """
    count, size = values.shape
    lengths = np.append(starts[1:], size) - starts
    tied = np.flatnonzero(values >= np.repeat(top - TIE_TOLERANCE, lengths, axis=1))
    segments = (np.arange(count)[:, None] * size + starts).ravel()
    first = np.searchsorted(tied, segments)  # where each segment's ties begin
    if directions is not None and tied.size > segments.size:
        vector, row = np.divmod(tied, size)
        crowded = np.bincount(vector, minlength=count) > starts.size
        along = np.zeros(tied.size)
        among = crowded[vector]
        position = np.cumsum(crowded) - 1
        along[among] = np.vecmat(directions[crowded], columns)[position[vector[among]], row[among]]
        furthest = np.maximum.reduceat(along, first) - TIE_TOLERANCE
        tied = tied[along >= np.repeat(furthest, np.append(first[1:], tied.size) - first)]
        first = np.searchsorted(tied, segments)
    best: Ints = (tied[first] % size).reshape(top.shape)
    return best


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """One deployed policy. Nothing that a learner does later changes it.

    `version` counts the fits of its learner from 1 (0: recommended, not deployed). `directions`
    (H, d) breaks ties; None stands for the lowest index. `offsets` (H, M, d) are those of a
    `Perturbation`. `clip=False` leaves Q unclipped.

    >>> rows = np.eye(2)
    >>> policy = Policy(weights=np.array([[0.2, 0.5]]), whitener=np.eye(2)[None], beta=0.25)
    >>> policy.q_values(0, rows), policy.act(0, rows), policy.value(0, rows)
    (array([0.45, 0.75]), 1, 0.75)
    >>> Policy.from_bytes(policy.to_bytes()).digest == policy.digest
    True
    """

    weights: Floats
    whitener: Floats
    beta: float
    directions: Floats | None = None
    offsets: Floats | None = None
    clip: bool = True
    version: int = 1

    def __post_init__(self) -> None:
        weights = floats("weights", self.weights, ("H", "d"))
        shape = weights.shape
        object.__setattr__(self, "weights", weights)
        whitener = floats("whitener", self.whitener, (*shape, shape[1]))
        object.__setattr__(self, "whitener", whitener)
        if self.directions is not None:
            object.__setattr__(self, "directions", floats("directions", self.directions, shape))
        if self.offsets is not None:
            offsets = floats("offsets", self.offsets, (shape[0], "M", shape[1]))
            object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "beta", real("beta", self.beta, least=0.0))
        object.__setattr__(self, "version", whole("version", self.version, least=0))

    @property
    def horizon(self) -> int:
        return self.weights.shape[0]

    @property
    def dim(self) -> int:
        return self.weights.shape[1]

    def q_values(self, h: int, features: Floats) -> Floats:
        """Return the optimistic value of each feasible action, features (A, d) to (A,)."""
        return self._q_values(h, self._feasible(h, features))

    def act(self, h: int, features: Floats) -> int:
        """Return the greedy action as an index into the rows of features (A, d)."""
        rows = self._feasible(h, features)
        values = self._q_values(h, rows)[None]
        top = values.max(axis=1, keepdims=True)
        direction = None if self.directions is None else self.directions[h : h + 1]
        return int(best_rows(values, top, np.zeros(1, np.int64), rows.T, direction)[0, 0])

    def value(self, h: int, features: Floats) -> float:
        """Return the optimistic value of the state whose feasible actions have these features."""
        return float(self.q_values(h, features).max())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`, in hexadecimal."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the policy in the format of `core/codec.py`."""
        arrays = {"weights": self.weights, "whitener": self.whitener}
        if self.directions is not None:
            arrays["directions"] = self.directions
        if self.offsets is not None:
            arrays["offsets"] = self.offsets
        meta = {"beta": self.beta, "clip": self.clip, "version": self.version}
        return codec.pack("policy", meta, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Policy":
        """Return the policy that `to_bytes` wrote; bytes that were altered are refused."""
        meta, arrays = codec.unpack("policy", data)
        return cls(**meta | arrays)

    def _q_values(self, h: int, rows: Floats) -> Floats:
        offsets = None if self.offsets is None else self.offsets[h]
        values = optimistic_values(rows, self.weights[h], self.whitener[h], self.beta, offsets)
        return clipped(values, float(self.horizon - h)) if self.clip else values

    def _feasible(self, h: int, features: Floats) -> Floats:
        whole("h", h, least=0, most=self.horizon - 1)
        rows = floats("features", features, ("A", self.dim))
        if not len(rows):
            raise ValueError("features must have at least one row; got an empty feasible set")
        return rows
