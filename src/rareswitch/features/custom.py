"""A feature map of the user's own: any function from a state to the rows of all actions."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.feature_map import PARTS, FeatureMap, Features, checked_map
from rareswitch.features.probe import UNVERIFIED, behaviour, name_of
from rareswitch.support import codec
from rareswitch.support.arguments import (
    Ints,
    Rows,
    flag,
    floats,
    positions,
    real,
    set_fields,
    short_repr,
    whole,
)

TOLERANCE = 1e-9  # of a length that is 1 but for rounding


@dataclass(frozen=True, eq=False, repr=False)
class Custom(Features):
    """The rows that a `function` of the state returns: (A, d), or with `one_hot` positions (A,).

    What it returns is checked at every call and copied. A `norm` says that no row is longer; a row
    that is, is an error.

    The digest cannot say what code does, only what it did: on the `probe`, a sample of states, to
    nine digits. Without a probe it says the name and the sizes and nothing more, and the name ends
    in "unverified". From a probe `actions` and `dim` are known; else they must be given.

    >>> def dose(patient):
    ...     return np.column_stack([np.ones(3), [0.0, 0.5, 1.0], np.arange(3) * patient["age"]])
    >>> Custom(dose, probe=[{"age": 0.3}, {"age": 0.7}]).dim
    3
    >>> Custom(dose, actions=3, dim=3).name
    'dose, unverified'
    """

    kind: ClassVar[str] = "custom"

    function: Callable[[Any], Any]
    actions: int = field(default=0, kw_only=True)
    dim: int = field(default=0, kw_only=True)
    name: str = field(default="", kw_only=True)
    norm: float = field(default=math.inf, kw_only=True)
    one_hot: bool = field(default=False, kw_only=True)
    probe: Iterable[Any] = field(default=(), kw_only=True)
    _does: str | None = field(init=False)

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise TypeError(f"function must be callable; got {short_repr(self.function)}")
        one_hot, probe = flag("one_hot", self.one_hot), tuple(self.probe)
        norm = math.inf if self.norm == math.inf else real("norm", self.norm, above=0.0)
        told = np.shape(self.function(probe[0])) if probe else ()
        sizes = {"actions": self.actions, "dim": self.dim}
        for axis, size in enumerate(sizes):
            sizes[size] = sizes[size] or (told[axis] if axis < len(told) else 0)
            if not sizes[size]:
                raise ValueError(f"{size} must be given where no probe tells it")
        name = self.name or name_of(self.function)
        if not probe and not name.endswith(UNVERIFIED):
            name += UNVERIFIED
        set_fields(
            self,
            actions=whole("actions", sizes["actions"], least=1),
            dim=whole("dim", sizes["dim"], least=1),
            name=name,
            norm=1.0 if one_hot else norm,
            one_hot=one_hot,
            probe=probe,
        )
        set_fields(self, _does=behaviour(map(self, probe)) if probe else None)

    def __call__(self, state: Any, h: int = 0) -> Rows:
        rows = self.function(state)
        try:
            return self._positions(rows) if self.one_hot else self._floats(rows)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{error} (what {self.name} makes of {short_repr(state)})") from None

    def _floats(self, rows: Any) -> Rows:
        checked = floats("rows", rows, (self.actions, self.dim))
        if math.isfinite(self.norm):
            longest = math.sqrt(np.vecdot(checked, checked).max())
            if longest > self.norm * (1.0 + TOLERANCE):
                raise ValueError(f"rows must not be longer than {self.norm:g}; got {longest:g}")
        return checked

    def _positions(self, rows: Any) -> Ints:
        checked = positions("rows", rows, self.dim)
        if len(checked) != self.actions:
            raise ValueError(f"rows must be {self.actions} positions; got {len(checked)}")
        return checked

    @property
    def code(self) -> str:
        return self.name

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        sizes = {"actions": self.actions, "dim": self.dim, "one_hot": self.one_hot}
        return {"kind": self.kind, "name": self.name, "does": self._does, **sizes}


def as_features(thing: Any, **sizes: Any) -> FeatureMap:
    """Return a feature map as it is, or make one of any function from a state to rows (A, d).

    `sizes` are the arguments of `Custom`: `actions` and `dim`, or a `probe` that tells them.

    >>> as_features(lambda state: np.eye(2) * state, actions=2, dim=2, name="scaled")(0.5)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    if any(hasattr(thing, part) for part in PARTS) and not isinstance(thing, type):
        return checked_map("features", thing)
    if not callable(thing):
        raise TypeError(
            "features must be a feature map, or a function from a state to rows; got "
            f"{short_repr(thing)}"
        )
    return Custom(thing, **sizes)
