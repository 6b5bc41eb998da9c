"""The frozen policy of one fit: Q_h(φ) = min{φᵀw_h + β‖W_hφ‖, H−h}⁺ and its greedy action.

Letters: w_h `weights`, W_h `whitener` (WᵀW = Λ_h⁻¹: it turns ‖φ‖_{Λ⁻¹} into the plain length ‖Wφ‖),
β `beta`, z_h `directions`. Stages are counted from 0, so the cap at stage h is H−h. A perturbed fit
has β = 0 and adds the largest φᵀo_m of its `offsets` o_m instead.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import Floats, flag, floats, real, settle, whole

# Values closer than this are equal; results then do not hang on the last bit of a BLAS.
TIE_TOLERANCE = 1e-9
# Beyond it, squares exceed every float.
LARGEST = 1e100


class Stage(NamedTuple):
    """Q of one stage, as a function of feature rows; `cap` is H−h, or None for no clip."""

    weights: Floats  # (..., d)
    whitener: Floats  # (..., d, d)
    beta: float
    offsets: Floats | None  # (..., M, d)
    cap: float | None

    def q_values(self, rows: Floats) -> Floats:
        """Return min{φᵀw + β‖Wφ‖ + max_m φᵀo_m, cap}⁺ of each row (n, d) (Alg. 1, lines 9–10)."""
        values = rows @ self.weights
        if self.beta:
            whitened = rows @ self.whitener.T
            values += self.beta * np.sqrt(np.vecdot(whitened, whitened))
        if self.offsets is not None:
            values += (rows @ self.offsets.T).max(axis=1)
        return values if self.cap is None else clipped(values, self.cap)


def clipped(values: Floats, cap: float | Floats) -> Floats:
    """Return min{values, cap}⁺ (Alg. 1, line 10), in place."""
    np.minimum(values, cap, out=values)
    return np.maximum(values, 0.0, out=values)


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """One policy. Nothing that a learner does later changes it.

    `directions` (H, d) breaks ties; None stands for the lowest index. `offsets` (H, M, d) are those
    of a `Perturbation`. `clip=False` leaves Q unclipped.

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

    def __post_init__(self) -> None:
        weights = floats("weights", self.weights, ("H", "d"))
        horizon, dim = weights.shape
        if not horizon or not dim:
            raise ValueError(
                f"weights must have a stage and a dimension; got shape {weights.shape}"
            )
        settle(
            self,
            weights=weights,
            whitener=floats("whitener", self.whitener, (horizon, dim, dim)),
            beta=real("beta", self.beta, least=0.0),
            clip=flag("clip", self.clip),
        )
        if self.directions is not None:
            settle(self, directions=floats("directions", self.directions, (horizon, dim)))
        if self.offsets is not None:
            offsets = floats("offsets", self.offsets, (horizon, "M", dim))
            if not offsets.shape[1]:
                raise ValueError("offsets must hold at least one estimate; got none")
            settle(self, offsets=offsets)

    @property
    def horizon(self) -> int:
        return self.weights.shape[0]

    @property
    def dim(self) -> int:
        return self.weights.shape[1]

    def stage(self, h: int) -> Stage:
        """Return Q_h."""
        h = whole("h", h, least=0, most=self.horizon - 1)
        return Stage(
            weights=self.weights[h],
            whitener=self.whitener[h],
            beta=self.beta,
            offsets=None if self.offsets is None else self.offsets[h],
            cap=float(self.horizon - h) if self.clip else None,
        )

    def q_values(self, h: int, features: Floats) -> Floats:
        """Return the optimistic value of each feasible action, features (A, d) to (A,)."""
        return self.stage(h).q_values(self._feasible(features))

    def act(self, h: int, features: Floats) -> int:
        """Return the greedy action as an index into the rows of features (A, d)."""
        rows = self._feasible(features)
        values = self.stage(h).q_values(rows)
        best = np.flatnonzero(values >= values.max() - TIE_TOLERANCE)
        if self.directions is not None and best.size > 1:
            along = rows[best] @ self.directions[h]
            best = best[along >= along.max() - TIE_TOLERANCE]
        return int(best[0])

    def value(self, h: int, features: Floats) -> float:
        """Return the optimistic value of the state whose feasible actions have these features."""
        return float(self.q_values(h, features).max())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`, in hexadecimal: equal digests, equal behaviour."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the policy in the format of `core/codec.py`."""
        arrays = {"weights": self.weights, "whitener": self.whitener}
        if self.directions is not None:
            arrays["directions"] = self.directions
        if self.offsets is not None:
            arrays["offsets"] = self.offsets
        return codec.pack("policy", {"beta": self.beta, "clip": self.clip}, arrays)

    @classmethod
    def from_bytes(cls, data: bytes) -> "Policy":
        """Return the policy that `to_bytes` wrote; bytes that were altered are refused."""
        parts = codec.unpack("policy", data)
        parts.only(
            meta=("beta", "clip"),
            arrays=("weights", "whitener"),
            optional=("directions", "offsets"),
        )
        axes = {"whitener": ("H", "d", "d"), "offsets": ("H", "M", "d")}
        arrays = {
            name: parts.array(name, "<f8", axes.get(name, ("H", "d"))) for name in parts.arrays
        }
        values: dict[str, Any] = parts.meta | arrays
        with parts.reading():
            return cls(**values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the bytes, so that copies are frozen too."""
        return Policy.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        return f"Policy(dim={self.dim}, horizon={self.horizon}, digest={self.digest[:12]})"

    def _feasible(self, features: Floats) -> Floats:
        rows = floats("features", features, ("A", self.dim))
        if not len(rows):
            raise ValueError("features must have at least one row; got an empty feasible set")
        if np.abs(rows).max() > LARGEST:
            raise ValueError(f"features must be within ±{LARGEST:g}; got {np.abs(rows).max():g}")
        return rows
