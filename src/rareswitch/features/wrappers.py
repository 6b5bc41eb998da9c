"""Wrappers of feature maps that add a mask or the stage, bound rows, or turn rows into floats."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np

from rareswitch.features.custom import as_features, behaviour, name_of
from rareswitch.features.feature_map import (
    UNVERIFIED,
    FeatureMap,
    Features,
    blocks_of,
    checked_map,
    truths,
)
from rareswitch.support import codec
from rareswitch.support.arguments import Bools, Floats, Rows, real, set_fields, short_repr, whole


@dataclass(frozen=True, eq=False, repr=False)
class Wrapper(Features):
    """A map around another map, by default with its sizes and feasible actions."""

    map: FeatureMap

    def __post_init__(self) -> None:
        inner = as_features(checked_map("map", self.map))
        names = ("dim", "actions", "one_hot", "norm", "name")
        sizes = {name: getattr(inner, name) for name in names}
        set_fields(self, map=inner, blocks=blocks_of(inner), **sizes)

    def feasible(self, state: Any, h: int = 0) -> Bools | None:
        return self.map.feasible(state, h)


@dataclass(frozen=True, eq=False, repr=False)
class Dense(Wrapper):
    """The rows of a one-hot `map` as floats (A, d)."""

    kind: ClassVar[str] = "dense"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.one_hot:
            raise ValueError(f"map must be one-hot; {self.name!r} has rows of floats already")
        set_fields(self, one_hot=False, name=f"{self.name}, as floats")

    def __call__(self, state: Any, h: int = 0) -> Floats:
        rows = np.zeros((self.actions, self.dim))
        rows[np.arange(self.actions), self.map(state, h)] = 1.0
        rows.flags.writeable = False
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class UnitRows(Wrapper):
    """Each row of a `map` divided by `bound`, or by its length if that is larger.

    For a map of `ActionBlocks`, `UnitNorm` in its basis does the same and costs less.
    """

    kind: ClassVar[str] = "unit-rows"

    bound: float = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        bound = real("bound", self.bound, above=0.0)
        if self.one_hot:
            raise ValueError(f"map must have rows of floats; those of {self.name!r} have length 1")
        set_fields(
            self,
            bound=bound,
            norm=min(1.0, self.norm / bound),
            name=f"{self.name} divided by L = {bound:.4g}",
        )

    @classmethod
    def measured(cls, map: FeatureMap, states: Iterable[Any]) -> Self:
        """Return the division by the length of the longest row of these states."""
        rows = as_features(checked_map("map", map))
        lengths = [float(np.linalg.norm(rows(state), axis=1).max()) for state in states]
        if not any(lengths):
            raise ValueError("states must have a nonzero row; all rows are 0")
        return cls(map, bound=max(lengths))

    def __call__(self, state: Any, h: int = 0) -> Floats:
        rows = self.map(state, h)
        # Block by block, so that rows with the same numbers in different blocks stay equal.
        apart = rows.reshape(self.actions, self.blocks, -1)
        lengths = np.sqrt(np.square(apart).sum(axis=2).sum(axis=1))
        scaled: Floats = rows / np.maximum(lengths, self.bound)[:, None]
        scaled.flags.writeable = False
        return scaled


@dataclass(frozen=True, eq=False, repr=False)
class WithStage(Wrapper):
    """The rows of a `map` with the stage h of `horizon` H, for stages that share one regression.

    Rows φ of floats become (φ, t·φ, t) with t = h/(H−1), from 0 to 1: the weight of each feature
    may change linearly from the first stage to the last, d = 2·d′ + 1. One-hot rows get a position
    for each stage, h·d′ + i: d = H·d′, as if stages were learned separately.

    After the last step of an episode truncated at the horizon, h is H: the rows are those of the
    last stage, and their value is 0.
    """

    kind: ClassVar[str] = "with-stage"

    horizon: int = field(kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        horizon = whole("horizon", self.horizon, least=1)
        dim = whole("dim", self.dim * horizon if self.one_hot else 2 * self.dim + 1, least=1)
        set_fields(
            self,
            horizon=horizon,
            dim=dim,
            blocks=1,
            norm=self.norm if self.one_hot else math.hypot(self.norm, self.norm, 1.0),
            name=f"{self.name}, by stage of {horizon}",
        )

    def __call__(self, state: Any, h: int = 0) -> Rows:
        if not 0 <= h <= self.horizon:
            raise ValueError(f"h must be from 0 to {self.horizon}; got {h}")
        stage = min(h, self.horizon - 1)
        inner = self.map(state, h)
        rows: Rows
        if self.one_hot:
            rows = inner + stage * self.map.dim
        else:
            size = self.map.dim
            share = stage / (self.horizon - 1) if stage else 0.0
            rows = np.empty((self.actions, self.dim))
            rows[:, :size] = inner
            np.multiply(inner, share, out=rows[:, size:-1])
            rows[:, -1] = share
        rows.flags.writeable = False
        return rows


@dataclass(frozen=True, eq=False, repr=False)
class Masked(Wrapper):
    """A `map` with the actions that a `mask` allows.

    The mask is a function from a state to booleans (A,), or for a one-hot map a table (S, A). Calls
    return the rows of all actions; actors and learners keep `rows[feasible]`. A state without any
    feasible action is an error.

    A table is data and is part of the bytes. A function is code: its digest covers its results on
    the `probe`, a sample of states, or without a probe only its name.

    >>> from rareswitch.features import OneHot
    >>> table = Masked(OneHot(states=2, actions=3), [[True, True, False], [False, False, True]])
    >>> table(0), table.feasible(0), table(0)[table.feasible(0)]
    (array([0, 1, 2]), array([ True,  True, False]), array([0, 1]))
    """

    kind: ClassVar[str] = "masked"

    mask: Callable[[Any], Any] | Bools
    probe: Iterable[Any] = field(default=(), kw_only=True)
    _allowed: Callable[[Any], Bools] = field(init=False)
    _does: str | None = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        given, actions = self.mask, self.actions
        if not callable(given):
            set_fields(self, **_by_table(self.map, given), name=f"{self.name}, masked", probe=())
            return

        def allowed(state: Any) -> Bools:
            said = given(state)
            try:
                return truths("mask", said, (actions,))
            except ValueError as error:
                raise ValueError(f"{error} in state {short_repr(state)}") from None

        probe = tuple(self.probe)
        name = f"{self.name}, masked by {name_of(given)}{'' if probe else UNVERIFIED}"
        set_fields(self, _allowed=allowed, name=name, probe=probe)
        set_fields(self, _does=behaviour(map(self.feasible, probe)) if probe else None)

    def __call__(self, state: Any, h: int = 0) -> Rows:
        return self.map(state, h)

    def feasible(self, state: Any, h: int = 0) -> Bools:
        allowed, inner = self._allowed(state), self.map.feasible(state, h)
        both: Bools = allowed if inner is None else allowed & inner
        if not both.any():
            raise ValueError(
                f"mask must allow an action in every state; none in {short_repr(state)}"
            )
        return both

    @property
    def code(self) -> str | None:
        return name_of(self.mask) if callable(self.mask) else super().code

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        if not callable(self.mask):
            return super().described(arrays)
        inner = {"digest": self.map.digest}
        return {"kind": self.kind, "map": inner, "mask": name_of(self.mask), "does": self._does}


def _by_table(map: Any, given: Any) -> dict[str, Any]:
    """Return the fields for a mask given as a table (S, A): the table and its look-up."""
    index = getattr(map, "index", None)
    if index is None:
        raise TypeError(
            f"mask must be a function of the state, unless the map is a OneHot; got "
            f"{short_repr(given)}"
        )
    table = truths("mask", given, (map.dim // map.actions, map.actions))
    if not table.any(axis=1).all():
        row = int(np.argmin(table.any(axis=1)))
        raise ValueError(f"mask must allow an action in every state; none in row {row}")
    return {"mask": table, "_allowed": lambda state: table[index(state)]}
