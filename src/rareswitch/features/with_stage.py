"""The stage as a feature, for worlds whose stages share one regression and yet differ."""

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.wrapper import Wrapper
from rareswitch.support.arguments import Rows, set_fields, whole


@dataclass(frozen=True, eq=False, repr=False)
class WithStage(Wrapper):
    """The rows of a `map` with the stage h of `horizon` H.

    Rows φ of floats become (φ, t·φ, t) with t = h/(H−1), from 0 to 1: what each feature is worth
    may change at a constant rate from the first stage to the last, d = 2·d′ + 1. One-hot rows
    become one for each stage, at position h·d′ + i: d = H·d′, as if stages were learned apart.

    After the last step of an episode cut off at the horizon, h is H: the rows are those of the last
    stage, and worth nothing.
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
