"""The task: the sizes of the learning problem, and the steps that each stage learns from."""

from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import (
    Floats,
    Ints,
    explain_arguments,
    flag,
    frozen,
    one_of,
    real,
    set_fields,
    short_repr,
    whole,
)

STAGES = ("auto", "own", "shared")
# "auto" is affordable up to this many numbers in all Λ_h of own stages: 16 MB.
MOST_CHOSEN = 2**21
# One-hot tasks with more positions are wide. Above this size a wide table is as fast and takes half
# the bytes even if every position was visited.
WIDE = 2**12


@explain_arguments
@dataclass(frozen=True, kw_only=True, repr=False)
class Task:
    """Feature dimension d, horizon H, episodes K and feature norm L = max‖φ‖.

    `episodes=None` means an open-ended task. An episode with a feature longer than `feature_norm`
    is an error, because budgets and bounds assume this norm.

    `blocks` is the number of equal blocks of coordinates, if each row is nonzero in only one of
    them, as with `features.ActionBlocks`. Λ then has one matrix for each block. An episode with any
    other row is an error.

    With `stages="own"` each stage learns from its own steps, as in the paper; with "shared" all
    stages learn from common steps, for worlds that do not depend on the stage. With "auto" each fit
    chooses the kind that predicts unseen steps better, and rules use Λ of shared stages. With
    `one_hot`, a feature row is given by the position of its 1; `dim` may then be large. An episode
    that terminated early earns `end_reward` for each stage not played.

    >>> Task(dim=13, horizon=10, episodes=2500)
    Task(dim=13, horizon=10, episodes=2500)
    """

    dim: int
    horizon: int
    episodes: int | None = None
    feature_norm: float = 1.0
    stages: str = "own"
    one_hot: bool = False
    end_reward: float = 0.0
    blocks: int = 1

    def __post_init__(self) -> None:
        set_fields(
            self,
            dim=whole("dim", self.dim, least=1),
            horizon=whole("horizon", self.horizon, least=1, most=10**6),
            feature_norm=real("feature_norm", self.feature_norm, above=0.0, most=1e100),
            stages=one_of("stages", self.stages, STAGES),
            one_hot=flag("one_hot", self.one_hot),
            end_reward=real("end_reward", self.end_reward, least=0.0, most=1.0) + 0.0,  # not -0
            blocks=whole("blocks", self.blocks, least=1, most=self.dim),
        )
        if self.dim % self.blocks:
            raise ValueError(f"blocks must divide dim = {self.dim}; got {self.blocks}")
        if self.one_hot and self.blocks > 1:
            raise ValueError(f"blocks must be 1 for one-hot features; got {self.blocks}")
        if self.episodes is not None:
            set_fields(self, episodes=whole("episodes", self.episodes, least=1))
        if self.one_hot and self.feature_norm < 1.0:
            raise ValueError(
                f"feature_norm must be at least 1, the length of a one-hot feature; got "
                f"{self.feature_norm:g}"
            )

    @property
    def block_size(self) -> int:
        """The number m = d / blocks of coordinates in a block."""
        return self.dim // self.blocks

    @property
    def plain(self) -> dict[str, Any]:
        """All fields as plain values, for bytes and protocols, without `blocks` if it is 1."""
        plain = asdict(self)
        if self.blocks == 1:
            del plain["blocks"]
        return plain

    @cached_property
    def pools(self) -> "Pools":
        """The pools of steps for rules; with "auto", the pools of shared stages."""
        return Pools(self.horizon, shared=self.stages == "shared" or self.chooses_stages)

    @property
    def chooses_stages(self) -> bool:
        """Whether fits choose between own and shared stages; only with more than two stages."""
        return self.stages == "auto" and self.horizon > 2

    @property
    def wide(self) -> bool:
        """Whether learners and policies keep only visited positions of a large table."""
        return self.one_hot and self.dim > WIDE

    def __repr__(self) -> str:
        given = {part.name: (getattr(self, part.name), part.default) for part in fields(self)}
        said = (f"{name}={value!r}" for name, (value, default) in given.items() if value != default)
        return f"Task({', '.join(said)})"


def affordable_stages(dim: int, horizon: int, *, one_hot: bool, blocks: int = 1) -> str:
    """Return "auto", or "shared" if own stages would take too much memory and time.

    A fit that chooses stores and factors one Λ for each stage: H·d² numbers, H·d²/B in B blocks, or
    H·d for one-hot features. The limit is two million. All positions of a table count, because all
    may be visited.

    >>> [affordable_stages(160, horizon, one_hot=False) for horizon in (50, 200)]
    ['auto', 'shared']
    >>> affordable_stages(160, 150, one_hot=False, blocks=2)
    'auto'
    """
    size = 1 if one_hot else dim // blocks
    return "auto" if horizon * dim * size <= MOST_CHOSEN else "shared"


def checked_task(task: Any) -> Task:
    """Return the task, or raise TypeError if it is none."""
    if not isinstance(task, Task):
        raise TypeError(f"task must be a Task; got {short_repr(task)}")
    return task


def planned_episodes(task: Task, what: str) -> int:
    """Return K of a task; the error for an open-ended task names `what`, which needs K.

    >>> planned_episodes(Task(dim=2, horizon=1, episodes=9), "a grid")
    9
    """
    if checked_task(task).episodes is None:
        raise ValueError(
            f"task must have episodes: {what} needs their number K; got an open-ended task, {task}"
        )
    assert task.episodes is not None
    return task.episodes


class Pools:
    """The pools of steps of a task with horizon H, one for each Λ.

    Without sharing, stage h learns only from the steps of stage h. If rewards and transitions do
    not depend on the stage, stages may share: all stages but the last learn from the steps of all
    stages but the last, each with its own targets. A step of the last stage has no recorded next
    state, so an earlier stage, which needs the value of that state, cannot use the step. The last
    stage regresses on rewards only and learns from every step.

    >>> pools = Pools(4, shared=True)
    >>> pools.steps, [pools.index(h) for h in range(4)]
    (array([3., 4.]), [0, 0, 0, 1])
    >>> pools.contains
    array([[1., 1., 1., 0.],
           [1., 1., 1., 1.]])
    """

    def __init__(self, horizon: int, *, shared: bool = False) -> None:
        self.horizon = horizon
        self.shared = shared and horizon > 1  # a single stage has nothing to share
        self.count = 2 if self.shared else horizon

    def index(self, h: int) -> int:
        """Return the pool that stage h learns from."""
        return int(h == self.horizon - 1) if self.shared else h

    @cached_property
    def contains(self) -> Floats:
        """1 if a pool contains the steps of a stage, else 0, (P, H)."""
        if not self.shared:
            return frozen(np.eye(self.horizon), owned=True)
        contains = np.ones((2, self.horizon))
        contains[0, -1] = 0.0
        return frozen(contains, owned=True)

    @cached_property
    def steps(self) -> Floats:
        """The maximum number of steps that an episode adds to each pool (P,)."""
        if not self.shared:
            return frozen(np.ones(self.horizon), owned=True)
        return frozen(self.contains.sum(axis=1), owned=True)

    def stages(self, pool: int) -> range:
        """Return the stages whose steps a pool contains.

        >>> [Pools(4, shared=shared).stages(1) for shared in (False, True)]
        [range(1, 2), range(0, 4)]
        """
        if not self.shared:
            return range(pool, pool + 1)
        return range(self.horizon - 1 + pool)

    def places(self, steps: int) -> tuple[Ints, Ints]:
        """Return the pools and steps to which the first steps of an episode are added.

        >>> [places.tolist() for places in Pools(3, shared=True).places(2)]
        [[0, 0, 1, 1], [0, 1, 0, 1]]
        """
        if not self.shared:
            return np.arange(steps), np.arange(steps)
        pool, step = np.nonzero(self.contains[:, :steps])
        return pool, step

    def sum_stages(self, stages: Floats) -> Floats:
        """Return the sums over the stages of each pool, (..., H, n) to (..., P, n)."""
        return self.contains @ stages if self.shared else stages

    def spread(self, steps: npt.NDArray[Any]) -> Floats:
        """Return the steps in each pool, with 0 for the others.

        Steps (..., n, C, d) of the first n stages become (..., P, n·C, d); without sharing they
        stay (..., n, C, d).
        """
        if not self.shared:
            return steps
        *leading, stages, count, dim = steps.shape
        apart = steps[..., None, :, :, :] * self.contains[:, :stages, None, None]
        return apart.reshape(*leading, self.count, stages * count, dim)
