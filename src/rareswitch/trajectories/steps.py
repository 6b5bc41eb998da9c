"""Trajectories from a table with one row a step: columns of any data frame, arrays or lists."""

from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import short_repr
from rareswitch.trajectories.trajectory import Trajectory, trajectory_at


def from_steps(
    *,
    episode: Any,
    observation: Any,
    action: Any,
    reward: Any,
    terminated: Any,
    propensity: Any = None,
    mask: Any = None,
    next_observation: Any = None,
    next_mask: Any = None,
) -> list[Trajectory]:
    """Return the trajectories of a table of steps, in the order in which they begin.

    Each argument is a column with a place for every step; those of one episode are in the order of
    time, and become its key. `observation` is what was seen before the action, and may be a table
    of several columns; `mask` (N, A) are the actions that were feasible then. `terminated` is true
    at the step that ended an episode. An episode that was cut off needs `next_observation`, what
    was seen after its last step, and `next_mask` where there are masks.

    >>> from_steps(
    ...     episode=["ada", "ada", "ben"], observation=[0.1, 0.4, 0.2], action=[1, 0, 1],
    ...     reward=[0.0, 1.0, 2.0], terminated=[False, True, True],
    ... )
    [Trajectory(2 steps, return 1, ended), Trajectory(1 steps, return 2, ended)]
    """
    columns = {
        "episode": episode,
        "observation": observation,
        "action": action,
        "reward": reward,
        "terminated": terminated,
        "propensity": propensity,
        "mask": mask,
        "next_observation": next_observation,
        "next_mask": next_mask,
    }
    table = {name: _column(name, given) for name, given in columns.items() if given is not None}
    rows = len(table["episode"])
    if wrong := [name for name, column in table.items() if len(column) != rows]:
        raise ValueError(
            f"{wrong[0]} must have a place for each of the {rows} steps of episode; got "
            f"{len(table[wrong[0]])}"
        )
    places: dict[Any, list[int]] = {}
    for row, key in enumerate(table["episode"].tolist()):
        places.setdefault(key, []).append(row)
    return [_trajectory(key, np.array(at), table) for key, at in places.items()]


def _trajectory(key: Any, rows: npt.NDArray[Any], table: dict[str, Any]) -> Trajectory:
    place = f"episode {short_repr(key)} (rows {rows[0]} to {rows[-1]})"
    ends = table["terminated"][rows]
    if ends.dtype != bool or ends[:-1].any():
        raise ValueError(
            f"{place}: terminated must be True or False at every step, and False before the last"
        )
    values = {
        "observations": _with_last("observation", rows, table, place),
        "actions": table["action"][rows],
        "rewards": table["reward"][rows],
        "terminated": bool(ends[-1]),
        "key": key,
    }
    if "propensity" in table:
        values["propensities"] = table["propensity"][rows]
    if "mask" in table:
        values["masks"] = _with_last("mask", rows, table, place)
    return trajectory_at(place, values)


def _with_last(name: str, rows: npt.NDArray[Any], table: dict[str, Any], place: str) -> Any:
    """Return a column's values before each action and the one after the last.

    Of an episode that ended nobody looks at it: without one, it is the one before.
    """
    before, last = table[name][rows], table.get(f"next_{name}")
    if last is None and not table["terminated"][rows[-1]]:
        raise ValueError(
            f"{place}: next_{name} must be given, since the episode was cut off and did not end"
        )
    after = before[-1] if last is None else last[rows[-1]]
    return [*before, after]


def _column(name: str, given: Any) -> npt.NDArray[Any]:
    """Return a column as an array, of objects where it holds more than numbers of one shape."""
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(len(given), object)
        array[:] = list(given)
    if not array.ndim or not len(array):
        raise ValueError(
            f"{name} must be a column with a place for every step; got {short_repr(given)}"
        )
    return array
