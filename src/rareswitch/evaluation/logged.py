"""A log laid out for evaluation: the states, offers, actions and rewards of each stage."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rareswitch.evaluation.grouped_rows import GroupedRows
from rareswitch.support.arguments import Bools, Floats, Ints, Rows, floats, short_repr
from rareswitch.trajectories.episodes import RowsOf, offered, place_taken
from rareswitch.trajectories.trajectory import Trajectory

# The probability of a longer episode underflows to 0.
LEAST_LIKELIHOOD = 1e-150
# The sum of probabilities may differ from 1 by rounding.
ROUNDING = 1e-6

# A function from an observation and a stage to the probabilities of all actions (A,).
Chances = Callable[[Any, int], Any]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedStage:
    """The T distinct states of one stage and the episodes that visited them.

    `rows` are the concatenated offered rows of all states, (R, d) or (R,) for one-hot features, and
    `starts` (T,) is the first row of each state. `columns` are the rows for a regression: the
    positions of one-hot features are renumbered within the log. `state` (N,) is the state of each
    episode, −1 after its end, and `taken` (N,) the position of its action among the offered rows,
    −1 without an action. `chances` (R,) are the probabilities of the rows under a given function.
    """

    rows: Rows
    columns: Rows
    starts: Ints
    state: Ints
    taken: Ints
    chances: Floats

    @property
    def played(self) -> Bools:
        """Whether each episode took an action at this stage (N,)."""
        return self.taken >= 0

    @cached_property
    def played_rows(self) -> GroupedRows:
        """The rows of all actions taken at this stage."""
        return GroupedRows(self.taken_rows(self.played))

    def taken_rows(self, episodes: Bools) -> Rows:
        """Return the rows of the actions that these episodes took, for a regression."""
        return self.columns[self.starts[self.state[episodes]] + self.taken[episodes]]


@dataclass(frozen=True, kw_only=True, eq=False)
class LoggedEpisodes:
    """N episodes over H stages; a stage after the end of an episode is empty.

    `rewards` (N, H) are the environment's own, 0 after the end. `likelihood` (N, H) is the
    probability of the actions up to each stage under the policy that wrote the log; it stays the
    same after the end.
    """

    stages: tuple[LoggedStage, ...]
    rewards: Floats
    likelihood: Floats

    @cached_property
    def never_taken(self) -> Bools | None:
        """Whether no episode takes each action (A,).

        None if states offer different numbers of actions: positions then do not identify actions.
        """
        lengths = [np.diff(stage.starts, append=len(stage.rows)) for stage in self.stages]
        offered = np.unique(np.concatenate(lengths))
        if len(offered) != 1:
            return None
        never = np.ones(int(offered[0]), np.bool_)
        for stage in self.stages:
            never[stage.taken[stage.played]] = False
        return never

    @classmethod
    def of(
        cls,
        log: Sequence[Trajectory],
        features: RowsOf | None,
        horizon: int,
        chances: Chances | None = None,
        progress: Callable[[int], None] = lambda done: None,
    ) -> "LoggedEpisodes":
        """Lay out trajectories of at most `horizon` steps with propensities.

        With `chances` a state is identified by its probabilities too. Without `features` its rows
        are the numbers of its actions.
        """
        stages = [_GrowingStage() for _ in range(horizon)]
        rewards, likelihood = np.zeros((2, len(log), horizon))
        for i, trajectory in enumerate(log):
            n = len(trajectory)
            for t, stage in enumerate(stages):
                if t < n or (t == n and not trajectory.terminated):
                    try:
                        state = _state_at(trajectory, t, features, chances)
                    except ValueError as error:
                        raise ValueError(f"trajectory {i} of the log: {error}") from error
                    stage.add(*state)
                else:
                    stage.pass_over()
            rewards[i, :n] = trajectory.rewards
            if trajectory.propensities is not None:
                path = trajectory.propensities.cumprod()
                likelihood[i, :n], likelihood[i, n:] = path, path[-1]
            progress(i + 1)
        return cls(
            stages=_numbered([stage.settled() for stage in stages]),
            rewards=rewards,
            likelihood=np.maximum(likelihood, LEAST_LIKELIHOOD),
        )

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return len(self.stages)

    @property
    def dim(self) -> int:
        """The dimension of the rows, or the number of positions of one-hot rows in the log."""
        every = [stage.columns for stage in self.stages if len(stage.rows)]
        one_hot = every[0].ndim == 1
        return 1 + int(max(rows.max() for rows in every)) if one_hot else every[0].shape[1]


class _GrowingStage:
    """The states of a stage while they are collected."""

    def __init__(self) -> None:
        self._position: dict[bytes, int] = {}
        self._rows: list[Rows] = []
        self._chances: list[Floats] = []
        self._state: list[int] = []
        self._taken: list[int] = []

    def add(self, rows: Rows, chances: Floats, taken: int) -> None:
        """Add the state of the next episode, by its rows, and the position of its action."""
        key = hashlib.blake2b(rows.tobytes() + chances.tobytes(), digest_size=16).digest()
        position = self._position.setdefault(key, len(self._rows))
        if position == len(self._rows):
            self._rows.append(rows)
            self._chances.append(chances)
        self._state.append(position)
        self._taken.append(taken)

    def pass_over(self) -> None:
        """Add that the next episode is over."""
        self._state.append(-1)
        self._taken.append(-1)

    def settled(self) -> LoggedStage:
        lengths = [len(rows) for rows in self._rows]
        rows = np.concatenate(self._rows) if self._rows else np.zeros((0, 1))
        return LoggedStage(
            rows=rows,
            columns=rows,
            starts=np.cumsum([0, *lengths[:-1]]) if lengths else np.zeros(0, np.int64),
            state=np.array(self._state),
            taken=np.array(self._taken),
            chances=np.concatenate(self._chances) if self._chances else np.zeros(0),
        )


def _numbered(stages: list[LoggedStage]) -> tuple[LoggedStage, ...]:
    """Return the stages with the positions of one-hot rows numbered from 0, in their order."""
    every = [stage.rows for stage in stages if stage.rows.ndim == 1]
    if not every:
        return tuple(stages)
    known = np.unique(np.concatenate(every))
    return tuple(
        replace(stage, columns=known.searchsorted(stage.rows)) if stage.rows.ndim == 1 else stage
        for stage in stages
    )


def _state_at(
    trajectory: Trajectory, t: int, features: RowsOf | None, chances: Chances | None
) -> tuple[Rows, Floats, int]:
    """Return the offered rows at observation t, their probabilities, and the action's position.

    The position is −1 after the last step.
    """
    found = None if chances is None else _probabilities(chances, trajectory.observations[t], t)
    if features is not None:
        rows, mask = offered(trajectory, features, t)
    else:
        assert found is not None  # the actions are unknown otherwise
        numbers = np.arange(len(found))
        rows, mask = offered(trajectory, lambda state: numbers, t)
    place = place_taken(trajectory, t, rows, mask) if t < len(trajectory) else -1
    if found is None:
        return rows, np.zeros(0), place
    places = len(rows) if mask is None else len(mask)
    if len(found) != places:
        raise ValueError(
            f"a function must return the probability of each of {places} actions; got {len(found)} "
            f"for {short_repr(trajectory.observations[t])}"
        )
    if mask is not None:
        found = found[mask]
        if not found.sum() > 0.0:
            raise ValueError(
                "a function must give some feasible action a probability above 0; all are 0 at "
                f"step {t} of {trajectory.words}"
            )
    return rows, found / found.sum(), place


def _probabilities(chances: Chances, state: Any, t: int) -> Floats:
    found = floats("the probabilities that a function returns", chances(state, t), ("A",))
    if (found < 0.0).any() or abs(found.sum() - 1.0) > ROUNDING:
        raise ValueError(
            "a function must return probabilities, which are at least 0 and sum to 1; got "
            f"{short_repr(found.tolist())} for {short_repr(state)} at stage {t}"
        )
    return found
