"""A map whose actions are not all feasible in every state."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.one_hot import OneHot
from rareswitch.features.probe import UNVERIFIED, behaviour, name_of
from rareswitch.features.wrapper import Wrapper
from rareswitch.support import codec
from rareswitch.support.arguments import Bools, Rows, set_fields, short_repr


@dataclass(frozen=True, eq=False, repr=False)
class Masked(Wrapper):
    """A `map` with the actions that a `mask` allows.

    The mask is a function from a state to truth values (A,), or of a one-hot map a table of them
    (S, A). Rows stay those of all actions, and `feasible` says which of them may be taken: what
    acts and what learns keep `rows[feasible]`. A state without any feasible action is an error.

    A table is data and goes with the bytes. A function is code: the digest is that of what it says
    on the `probe`, a sample of states, or without one of its name alone.

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
    """Return a table (S, A) as the mask of a one-hot map, and how to look a state up in it."""
    if not isinstance(map, OneHot):
        raise TypeError(
            f"mask must be a function of the state, unless the map is a OneHot; got "
            f"{short_repr(given)}"
        )
    table, number = truths("mask", given, (map.states, map.actions)), map.index
    if not table.any(axis=1).all():
        row = int(np.argmin(table.any(axis=1)))
        raise ValueError(f"mask must allow an action in every state; none in row {row}")
    return {"mask": table, "_allowed": lambda state: table[number(state)]}


def truths(name: str, value: Any, shape: tuple[int, ...]) -> Bools:
    """Return a read-only array of truth values of that shape, given as such or as 0 and 1."""
    given = np.asarray(value)
    kind = given.dtype.kind
    truthful = kind == "b" or (kind in "iu" and given.size and 0 <= given.min() <= given.max() <= 1)
    if not truthful or given.shape != shape:
        raise ValueError(f"{name} must be truth values of shape {shape}; got {short_repr(value)}")
    array: Bools = given.astype(np.bool)
    array.flags.writeable = False
    return array
