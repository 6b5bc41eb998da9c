"""Which steps the regression of each stage learns from: its own, or those of all stages.

The paper's worlds may change from stage to stage, so stage h learns from the steps of stage h alone
(`stages="own"`). Where rewards and transitions do not depend on the stage, all of them speak about
one and the same function (`stages="shared"`): the regressions of all stages but the last learn from
the steps of all stages but the last, each with the targets of its own stage. What the last stage's
steps led to is worth nothing to their own episode, but not to a regression of an earlier stage:
where it is not known, they cannot be in that pool. The last stage, whose targets are rewards alone,
learns from every step.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.core.arguments import Floats, Ints, frozen, one_of, settle, whole

STAGES = ("own", "shared")


@dataclass(frozen=True)
class Pools:
    """The pools of steps of a task with horizon H, one for each Λ.

    >>> pools = Pools(4, "shared")
    >>> pools.steps, [pools.of(h) for h in range(4)]
    (array([3., 4.]), [0, 0, 0, 1])
    >>> pools.members
    array([[1., 1., 1., 0.],
           [1., 1., 1., 1.]])
    """

    horizon: int
    stages: str = "own"

    def __post_init__(self) -> None:
        settle(
            self,
            horizon=whole("horizon", self.horizon, least=1, most=10**6),
            stages=one_of("stages", self.stages, STAGES),
        )

    @property
    def shared(self) -> bool:
        """Whether stages share; a single one has nothing to share."""
        return self.stages == "shared" and self.horizon > 1

    @property
    def count(self) -> int:
        return 2 if self.shared else self.horizon

    def of(self, h: int) -> int:
        """Return the pool that stage h learns from."""
        return int(h == self.horizon - 1) if self.shared else h

    @cached_property
    def members(self) -> Floats:
        """1 where a pool has the steps of a stage, else 0, (P, H)."""
        if not self.shared:
            return frozen(np.eye(self.horizon))
        members = np.ones((2, self.horizon))
        members[0, -1] = 0.0
        return frozen(members)

    @cached_property
    def steps(self) -> Floats:
        """The most steps that an episode adds to each pool (P,)."""
        if not self.shared:
            return frozen(np.ones(self.horizon))
        return frozen(self.members.sum(axis=1))

    def stages_of(self, pool: int) -> range:
        """Return the stages whose steps a pool has.

        >>> [Pools(4, stages).stages_of(1) for stages in ("own", "shared")]
        [range(1, 2), range(0, 4)]
        """
        if not self.shared:
            return range(pool, pool + 1)
        return range(self.horizon - 1 + pool)

    def places(self, steps: int) -> tuple[Ints, Ints]:
        """Return each place that the first steps of an episode take: its pool, and the step.

        >>> [places.tolist() for places in Pools(3, "shared").places(2)]
        [[0, 0, 1, 1], [0, 1, 0, 1]]
        """
        if not self.shared:
            return np.arange(steps), np.arange(steps)
        pool, step = np.nonzero(self.members[:, :steps])
        return pool, step

    def summed(self, stages: Floats) -> Floats:
        """Return the sums over each pool, (..., H, n) to (..., P, n)."""
        return self.members @ stages if self.shared else stages

    def pooled(self, steps: npt.NDArray[Any]) -> Floats:
        """Return what each pool has of the steps of the first stages, 0 where it has none.

        Steps (..., n, C, d) become (..., P, n·C, d), or stay (..., n, C, d) where stages are their
        own.
        """
        if not self.shared:
            return steps
        *leading, stages, count, dim = steps.shape
        apart = steps[..., None, :, :, :] * self.members[:, :stages, None, None]
        return apart.reshape(*leading, self.count, stages * count, dim)
