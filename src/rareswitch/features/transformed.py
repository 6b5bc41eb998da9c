"""Any fitted transformer or pipeline of scikit-learn, as it is."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.basis import Basis
from rareswitch.features.probe import behaviour
from rareswitch.support import codec
from rareswitch.support.arguments import Floats, floats, set_fields, short_repr


@dataclass(frozen=True, eq=False, repr=False)
class Transformed(Basis):
    """What a fitted `transformer` makes of a state: anything with `transform` and sizes.

    It costs what scikit-learn costs for one row, some hundred microseconds. `basis_of` turns the
    transformers that have a basis of their own here into those, twenty times faster.

    A transformer is code and has no bytes. The digest is that of what it does on the `probe`, a
    sample of states (N, n).
    """

    kind: ClassVar[str] = "transformed"

    transformer: Any
    probe: Floats = field(kw_only=True)
    _does: str = field(init=False)

    def __post_init__(self) -> None:
        if not callable(getattr(self.transformer, "transform", None)):
            raise TypeError(
                f"transformer must have a transform method; got {short_repr(self.transformer)}"
            )
        probe = floats("probe", self.probe, ("N", "n"))
        if not len(probe):
            raise ValueError("probe must have at least one state; got none")
        inputs = probe.shape[1]
        expected = getattr(self.transformer, "n_features_in_", inputs)
        if expected != inputs:
            raise ValueError(f"probe must have {expected} columns; got {inputs}")
        size = len(_dense(self.transformer.transform(probe[:1]))[0])
        name = f"{size} of {type(self.transformer).__name__}"
        set_fields(self, probe=probe, inputs=inputs, size=size, name=name)
        set_fields(self, _does=behaviour(map(self.values, probe)))

    @property
    def code(self) -> str:
        return self.name

    def described(self, arrays: codec.Arrays) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "inputs": self.inputs, "does": self._does}

    def values(self, x: Floats) -> Floats:
        rows = _dense(self.transformer.transform(x[None]))
        return floats(f"what {self.name} makes of {short_repr(x)}", rows, (1, self.size))[0]

    def longest(self, inputs: float) -> float:
        return float("inf")


def _dense(rows: Any) -> Floats:
    """Return what a transformer made, which may be sparse or a data frame, as an array (N, m)."""
    return np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows, np.float64)
