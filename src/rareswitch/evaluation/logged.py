"""A log laid out for evaluation: what was seen, offered, taken and earned, stage by stage."""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.support.arguments import Bools, Floats, Ints, Rows, short_repr
from rareswitch.trajectories.offered import Features, choice_offered, rows_offered
from rareswitch.trajectories.trajectory import Trajectory

# Of longer episodes the probability is no float any more; no policy agrees with them so far.
LEAST_LIKELIHOOD = 1e-150


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedStage:
    """The distinct states of one stage, by the rows that they offered, and who was in them.

    `rows` are those of all states end to end, (R, d) or of one-hot maps (R,), and `starts` (T,)
    says where those of each begin. `state` (N,) is the state of each episode, −1 where it was over,
    and `taken` (N,) the place of its action among the rows offered, −1 where it took none.
    """

    rows: Rows
    starts: Ints
    state: Ints
    taken: Ints

    @property
    def played(self) -> Bools:
        """Which episodes took an action at this stage (N,)."""
        return self.taken >= 0

    def taken_rows(self, episodes: Bools) -> Rows:
        """Return the rows of the actions that these episodes took."""
        return self.rows[self.starts[self.state[episodes]] + self.taken[episodes]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedEpisodes:
    """N episodes over H stages, those that were over earlier filled up with nothing.

    `rewards` (N, H) are as the environment gave them, 0 after the end; `likelihood` (N, H) is the
    probability of the actions up to each stage under whatever was logged, the last one kept after
    the end.
    """

    stages: tuple[LoggedStage, ...]
    rewards: Floats
    likelihood: Floats
    cut_off: int

    @classmethod
    def of(cls, log: Iterable[Trajectory], features: Features, horizon: int) -> "LoggedEpisodes":
        """Lay out the trajectories of a log, each up to the horizon."""
        if not isinstance(log, Iterable) or isinstance(log, Trajectory):
            raise TypeError(f"log must be a list of Trajectories; got {short_repr(log)}")
        if not callable(features):
            raise TypeError(
                "features must be a feature map, or a function from a state to rows; got "
                f"{short_repr(features)}"
            )
        stages = [_GrowingStage() for _ in range(horizon)]
        steps: list[tuple[Floats, Floats]] = []  # rewards and likelihood of each episode
        cut_off = 0
        for number, given in enumerate(log):
            trajectory, propensities = _checked(given, number, horizon)
            for t, stage in enumerate(stages):
                if t < len(trajectory):
                    stage.add(*choice_offered(trajectory, features, t))
                elif t == len(trajectory) and not trajectory.terminated:
                    stage.add(rows_offered(trajectory, features, t), -1)
                    cut_off += 1
                else:
                    stage.pass_over()
            steps.append((trajectory.rewards, propensities.cumprod()))
        if len(steps) < 2:
            raise ValueError(f"log must hold at least two trajectories; got {len(steps)}")
        rewards, likelihood = np.zeros((2, len(steps), horizon))
        for i, (earned, path) in enumerate(steps):
            rewards[i, : len(earned)] = earned
            likelihood[i, : len(path)], likelihood[i, len(path) :] = path, path[-1]
        return cls(
            stages=tuple(stage.settled() for stage in stages),
            rewards=rewards,
            likelihood=np.maximum(likelihood, LEAST_LIKELIHOOD),
            cut_off=cut_off,
        )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return len(self.stages)


class _GrowingStage:
    """The states of a stage while they are collected."""

    def __init__(self) -> None:
        self._position: dict[bytes, int] = {}
        self._rows: list[Rows] = []
        self._state: list[int] = []
        self._taken: list[int] = []

    def add(self, rows: Rows, taken: int) -> None:
        """Note the state of the next episode by its rows, and the place of the action taken."""
        key = hashlib.blake2b(rows.tobytes(), digest_size=16).digest()
        position = self._position.setdefault(key, len(self._rows))
        if position == len(self._rows):
            self._rows.append(rows)
        self._state.append(position)
        self._taken.append(taken)

    def pass_over(self) -> None:
        """Note that the next episode was over."""
        self._state.append(-1)
        self._taken.append(-1)

    def settled(self) -> LoggedStage:
        lengths = [len(rows) for rows in self._rows]
        return LoggedStage(
            rows=np.concatenate(self._rows) if self._rows else np.zeros((0, 1)),
            starts=np.cumsum([0, *lengths[:-1]]) if lengths else np.zeros(0, np.int64),
            state=np.array(self._state),
            taken=np.array(self._taken),
        )


def _checked(trajectory: Any, number: int, horizon: int) -> tuple[Trajectory, Floats]:
    """Return a trajectory up to the horizon, and its propensities, which must be there."""
    if not isinstance(trajectory, Trajectory):
        raise TypeError(f"log must be a list of Trajectories; got {short_repr(trajectory)}")
    trajectory = trajectory.until(horizon)
    if trajectory.propensities is None:
        raise ValueError(
            f"log must have propensities; trajectory {number} has none. Where the policy that "
            "played is known, conditional_propensities(policy, trajectory, features) are they"
        )
    return trajectory, trajectory.propensities
