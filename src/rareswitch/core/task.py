"""The task: the sizes that budgets, bounds and plans are stated in."""

from dataclasses import dataclass
from typing import Any

from rareswitch.core.arguments import real, settle, shown, whole
from rareswitch.core.pools import Pools


@dataclass(frozen=True, kw_only=True)
class Task:
    """Feature dimension d, horizon H, episodes K and feature norm L = max‖φ‖.

    `stages` says whether each stage learns from its "own" steps, or all from "shared" ones.

    >>> Task(dim=13, horizon=10, episodes=2500)
    Task(dim=13, horizon=10, episodes=2500, feature_norm=1.0, stages='own')
    """

    dim: int
    horizon: int
    episodes: int
    feature_norm: float = 1.0
    stages: str = "own"

    def __post_init__(self) -> None:
        if self.episodes is None:
            raise TypeError(
                "episodes must be given: no budget can be guaranteed without K. A rule that needs "
                "no K is DeterminantGrowth(eta=2.0); its switches grow with log K"
            )
        settle(
            self,
            dim=whole("dim", self.dim, least=1),
            horizon=whole("horizon", self.horizon, least=1),
            episodes=whole("episodes", self.episodes, least=1),
            feature_norm=real("feature_norm", self.feature_norm, above=0.0, most=1e100),
            stages=self.pools.stages,
        )

    @property
    def pools(self) -> Pools:
        """Which steps each stage learns from."""
        return Pools(self.horizon, self.stages)


def checked_task(task: Any) -> Task:
    """Return a task, if it is one."""
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Task; got {shown(task)}")
    return task
