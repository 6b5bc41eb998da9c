"""One-hot rows as floats, for those who need them."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.wrapper import Wrapper
from rareswitch.support.arguments import Floats, set_fields


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
