"""Features with a block of coordinates for every action."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from rareswitch.features.basis import Basis, checked_basis
from rareswitch.features.feature_map import Features
from rareswitch.support.arguments import Floats, set_fields, whole


@dataclass(frozen=True, eq=False, repr=False)
class ActionBlocks(Features):
    """Row a is (0, …, 0, x, 0, …, 0), with x the `basis` of the state in block a: d = A·m.

    >>> from rareswitch.features import Polynomial
    >>> ActionBlocks(Polynomial(inputs=2, degree=1), actions=2)([3.0, 4.0])
    array([[1., 3., 4., 0., 0., 0.],
           [0., 0., 0., 1., 3., 4.]])
    """

    kind: ClassVar[str] = "action-blocks"

    basis: Basis
    actions: int = field(kw_only=True)

    def __post_init__(self) -> None:
        checked_basis("basis", self.basis)
        actions = whole("actions", self.actions, least=1, most=10**6)
        set_fields(
            self,
            actions=actions,
            blocks=actions,
            dim=actions * self.basis.size,
            norm=self.basis.norm,
            name=f"{actions} actions × [{self.basis.name}]",
        )

    def __call__(self, state: Any, h: int = 0) -> Floats:
        actions, size = self.actions, self.basis.size
        # Block a begins at a·(A + 1)·m, so in rows of length (A + 1)·m all blocks come first.
        numbers = np.zeros(actions * (actions + 1) * size)
        numbers.reshape(actions, -1)[:, :size] = self.basis(state)
        numbers.flags.writeable = False
        return numbers[: actions * actions * size].reshape(actions, -1)
