"""The frozen policy of one fit: Q_h(φ) = min{l_h + φᵀw_h + β‖W_hφ‖, H−h}⁺ and its greedy action.

Letters: w_h `weights`, W_h `whitener` (WᵀW = Λ_h⁻¹: it turns ‖φ‖_{Λ⁻¹} into the plain length ‖Wφ‖),
β `beta`, z_h `directions`, l_h `levels` (0 unless they were estimated). Stages are counted from 0,
so the cap at stage h is H−h. A perturbed fit adds the largest φᵀo_j of its `offsets` o_j.

A policy may be a mixture of M members: arrays then have a first axis for them, or none for what
all members share. One member, drawn by the episode's key, plays a whole episode.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.core import codec
from rareswitch.core.allocation import ALLOCATIONS, member_of
from rareswitch.core.arguments import (
    Floats,
    Ints,
    Rows,
    flag,
    floats,
    positions,
    real,
    settle,
    shown,
    whole,
)
from rareswitch.core.stage import Stage, along

# Values closer than this are equal; results then do not hang on the last bit of a BLAS.
TIE_TOLERANCE = 1e-9
# Beyond it, squares exceed every float.
LARGEST = 1e100


def policy_arrays(one_hot: bool) -> dict[str, int]:
    """Return the arrays of a policy, and how many axes each has for one member."""
    whitener = 2 if one_hot else 3  # diagonal for one-hot features
    return {"weights": 2, "whitener": whitener, "levels": 1, "directions": 2, "offsets": 3}


@dataclass(frozen=True, kw_only=True, eq=False)
class Policy:
    """One policy, or a mixture of several. Nothing that a learner does later changes it.

    `directions` breaks ties; None stands for the lowest index. `offsets` are those of a
    `Perturbation`, `levels` those that a fit estimated. `clip=False` leaves Q unclipped. Of a
    mixture, the arrays (H, …) that differ between members are (M, H, …), and `allocation` is the
    number that allocates members to episodes. Where features are `one_hot`, rows are given by the
    positions of their ones, integers (A,) in place of (A, d), and `whitener` by its diagonal.

    >>> rows = np.eye(2)
    >>> policy = Policy(weights=np.array([[0.2, 0.5]]), whitener=np.eye(2)[None], beta=0.25)
    >>> policy.q_values(0, rows), policy.act(0, rows), policy.value(0, rows)
    (array([0.45, 0.75]), 1, 0.75)
    >>> Policy.from_bytes(policy.to_bytes()).digest == policy.digest
    True
    >>> mixture = Policy(weights=np.array([[[0.2, 0.5]], [[0.4, 0.1]]]), allocation=7)
    >>> mixture.propensities(0, rows), mixture.draw("ada").act(0, rows)
    (array([0.5, 0.5]), 1)
    """

    weights: Floats
    whitener: Floats | None = None
    beta: float = 0.0
    levels: Floats | None = None
    directions: Floats | None = None
    offsets: Floats | None = None
    allocation: int | None = None
    clip: bool = True
    one_hot: bool = False

    def __post_init__(self) -> None:
        weights = _stacked("weights", self.weights, ("H", "d"))
        *_, horizon, dim = weights.shape
        if not weights.size:
            raise ValueError(
                f"weights must have a stage and a dimension; got shape {weights.shape}"
            )
        beta = real("beta", self.beta, least=0.0)
        if beta and self.whitener is None:
            raise ValueError(f"whitener must be given for a bonus with beta = {beta:g}; got None")
        clip, one_hot = flag("clip", self.clip), flag("one_hot", self.one_hot)
        settle(self, weights=weights, beta=beta, clip=clip, one_hot=one_hot)
        shapes: dict[str, tuple[int | str, ...]] = {
            "whitener": (horizon, dim) if one_hot else (horizon, dim, dim),
            "levels": (horizon,),
            "directions": (horizon, dim),
            "offsets": (horizon, "J", dim),
        }
        for name, shape in shapes.items():
            if (given := getattr(self, name)) is not None:
                settle(self, **{name: _stacked(name, given, shape)})
        if self.offsets is not None and not self.offsets.size:
            raise ValueError("offsets must hold at least one estimate; got none")
        sizes = {name: len(array) for name, array in self._of_members().items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"arrays of members must be of one number of them; got {sizes}")
        if not sizes:
            if self.allocation is not None:
                raise ValueError(f"allocation must be None for one policy; got {self.allocation}")
        elif self.allocation is None:
            raise ValueError("allocation must be given for a mixture; got None")
        else:
            most = ALLOCATIONS - 1
            settle(self, allocation=whole("allocation", self.allocation, least=0, most=most))

    @property
    def horizon(self) -> int:
        return self.weights.shape[-2]

    @property
    def dim(self) -> int:
        return self.weights.shape[-1]

    @property
    def members(self) -> int:
        """The number M of members; 1 for one policy."""
        return next((len(array) for array in self._of_members().values()), 1)

    def member(self, index: int) -> "Policy":
        """Return one member, counted from 0, as a policy of its own."""
        index = whole("index", index, least=0, most=self.members - 1)
        own = {name: array[index] for name, array in self._of_members().items()}
        return replace(self, allocation=None, **own) if own else self

    def allocate(self, key: str | int) -> int:
        """Return the number of the member that plays the episode of that key, counted from 0."""
        return member_of(self.allocation or 0, key, self.members)

    def draw(self, key: str | int) -> "Policy":
        """Return the member that plays the episode of that key, a text or a whole number.

        It is the same whenever and wherever it is asked: a function of these bytes and the key.
        """
        return self.member(self.allocate(key))

    def stage(self, h: int) -> Stage:
        """Return Q_h, of every member if this is a mixture."""
        h = whole("h", h, least=0, most=self.horizon - 1)
        return Stage(
            weights=self.weights[..., h, :],
            levels=None if self.levels is None else self.levels[..., h],
            whitener=self._whitener(h),
            beta=self.beta,
            offsets=None if self.offsets is None else self.offsets[..., h, :, :],
            cap=float(self.horizon - h) if self.clip else None,
        )

    def q_values(self, h: int, features: Rows) -> Floats:
        """Return the value of each feasible action, features (A, d) to (A,).

        Members of a mixture differ: where their values do, the result is (M, A).
        """
        return self.stage(h).q_values(self._feasible(features))

    def act(self, h: int, features: Rows) -> int:
        """Return the greedy action as an index into the rows of features (A, d)."""
        if self.members > 1:
            raise ValueError(
                f"a mixture of {self.members} members acts through the member drawn for the "
                "episode: policy.draw(key).act(…), with the episode's number or name as key"
            )
        return int(self._choices_in_one(h, features)[0])

    def choices(self, h: int, features: Rows) -> Ints:
        """Return every member's greedy action (M,), as an index into the rows of features.

        Of n states with as many actions each, features (n, A, d) or positions (n, A), it is (M, n).
        """
        try:
            many = np.ndim(features) == 2 + (not self.one_hot) and len(features) > 0
        except ValueError:  # of no shape at all, which is said below
            many = False
        if not many:
            return self._choices_in_one(h, features)
        return self._greedy(h, self._feasible(np.concatenate(features)), states=len(features))

    def value(self, h: int, features: Rows) -> float:
        """Return the value of the state with these actions, the mean of its members' estimates."""
        return float(self.q_values(h, features).max(axis=-1).mean())

    def propensities(self, h: int, features: Rows) -> Floats:
        """Return the share of members that takes each action, features (A, d) to (A,)."""
        choices = self._choices_in_one(h, features)
        return np.bincount(choices, minlength=len(features)) / len(choices)

    def likelihood(self, steps: Iterable[tuple[Rows, int]]) -> float:
        """Return the share of members that takes all of an episode's actions.

        `steps` are (features (A, d), action) from the first stage on. Of two policies the ratio is
        the importance weight of a logged episode: a member plays it from beginning to end, so the
        propensities of its steps must not be multiplied.
        """
        if not isinstance(steps, Iterable) or isinstance(steps, np.ndarray):
            raise TypeError(f"steps must be pairs (features, action); got {shown(steps)}")
        agrees = np.ones(self.members, bool)
        for h, step in enumerate(steps):
            if not isinstance(step, tuple | list) or len(step) != 2:
                raise TypeError(f"steps must be pairs (features, action); got {shown(step)}")
            features, action = step
            choices = self._choices_in_one(h, features)
            agrees &= choices == whole("action", action, least=0, most=len(features) - 1)
        return float(agrees.mean())

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `to_bytes()`, in hexadecimal: equal digests, equal behaviour."""
        return codec.digest("policy", *self._contents())

    def to_bytes(self) -> bytes:
        """Return the policy in the format of `core/codec.py`."""
        return codec.pack("policy", *self._contents())

    def _contents(self) -> tuple[dict[str, Any], codec.Arrays]:
        arrays = {
            name: array
            for name in policy_arrays(self.one_hot)
            if (array := getattr(self, name)) is not None
        }
        meta: dict[str, Any] = {"beta": self.beta, "clip": self.clip}
        if self.allocation is not None:
            meta["allocation"] = self.allocation
        if self.one_hot:
            meta["one_hot"] = True
        return meta, arrays

    @classmethod
    def from_bytes(cls, data: bytes) -> "Policy":
        """Return the policy that `to_bytes` wrote; bytes that were altered are refused."""
        parts = codec.unpack("policy", data)
        parts.only(
            meta=("beta", "clip"),
            arrays=("weights",),
            optional_meta=("allocation", "one_hot"),
            optional=tuple(policy_arrays(one_hot=False)),
        )
        arrays = {
            name: parts.array(name, "<f8", ("n",) * array.ndim)
            for name, array in parts.arrays.items()
        }
        values: dict[str, Any] = parts.meta | arrays
        with parts.reading():
            return cls(**values)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and unpickle through the bytes, so that copies are frozen too."""
        return Policy.from_bytes, (self.to_bytes(),)

    def __repr__(self) -> str:
        mixture = f"members={self.members}, " if self.members > 1 else ""
        return f"Policy(dim={self.dim}, horizon={self.horizon}, {mixture}digest={self.digest[:12]})"

    def _choices_in_one(self, h: int, features: Rows) -> Ints:
        """Return every member's greedy action (M,) in one state."""
        return self._greedy(h, self._feasible(features), states=1)[:, 0]

    def _greedy(self, h: int, rows: Rows, *, states: int) -> Ints:
        """Return every member's greedy action (M, n) in n states whose rows stand end to end."""

        def by_state(values: Floats) -> Floats:
            return values.reshape(-1, states, len(rows) // states)

        values = by_state(self.stage(h).q_values(rows))
        best = values >= values.max(axis=-1, keepdims=True) - TIE_TOLERANCE
        if self.directions is not None and np.count_nonzero(best) > best.size // best.shape[-1]:
            furthest = np.where(best, by_state(along(self.directions[..., h, :], rows)), -np.inf)
            best = furthest >= furthest.max(axis=-1, keepdims=True) - TIE_TOLERANCE
        choices: Ints = best.argmax(axis=-1)
        return choices if len(choices) == self.members else choices.repeat(self.members, axis=0)

    def _of_members(self) -> dict[str, Floats]:
        """Return the arrays that have an axis for members."""
        return {
            name: array
            for name, own in policy_arrays(self.one_hot).items()
            if (array := getattr(self, name)) is not None and array.ndim > own
        }

    def _whitener(self, h: int) -> Floats | None:
        if self.whitener is None:
            return None
        return self.whitener[..., h, :] if self.one_hot else self.whitener[..., h, :, :]

    def _feasible(self, features: Rows) -> Rows:
        if self.one_hot:
            rows: Rows = positions("features", features, self.dim)
        else:
            rows = floats("features", features, ("A", self.dim))
        if not len(rows):
            raise ValueError("features must have at least one row; got an empty feasible set")
        if not self.one_hot and np.abs(rows).max() > LARGEST:
            raise ValueError(f"features must be within ±{LARGEST:g}; got {np.abs(rows).max():g}")
        return rows


def _stacked(name: str, value: Any, shape: tuple[int | str, ...]) -> Floats:
    """Return an array of one policy, or of the members of a mixture along a first axis."""
    try:
        stacked = np.ndim(value) > len(shape)
    except ValueError:  # of no shape at all, which `floats` says better
        stacked = False
    array = floats(name, value, ("M", *shape) if stacked else shape)
    if array.ndim > len(shape) and len(array) < 2:
        raise ValueError(f"{name} must be of two members or more, or of shape {shape}")
    return array
