"""Read trajectories from a table with one row a step: a data frame, columns, lists or CSV."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rareswitch.support.arguments import short_repr
from rareswitch.trajectories.trajectory import Trajectory, trajectory_at

# The columns of a table, by their names in `from_steps`.
Columns = Mapping[str, str | Sequence[str]]
# The default names of the columns of a table.
NAMES = {
    "episode": ("episode", "episode_id", "trajectory", "trajectory_id", "session", "session_id"),
    "observation": ("observation", "obs", "state"),
    "action": ("action",),
    "reward": ("reward",),
    "terminated": ("terminated", "terminal", "done"),
    "propensity": ("propensity", "pscore"),
    "mask": ("mask", "action_mask"),
    "next_observation": ("next_observation", "next_obs", "next_state"),
    "next_mask": ("next_mask", "next_action_mask"),
    "version": ("version",),
    "step": ("step", "t"),
}
# Parts that may be several columns, each with a suffix: observation_0 or observation_age.
WIDE = ("observation", "mask", "next_observation", "next_mask")
REQUIRED = ("episode", "observation", "action", "reward", "terminated")


def is_table(given: Any) -> bool:
    """Return whether `given` is a data frame, or another table with named columns."""
    return isinstance(given, Mapping) or (
        hasattr(given, "__getitem__") and bool(_names(given)) and not isinstance(given, np.ndarray)
    )


def from_table(
    table: Any, columns: Columns | None = None, place: str = "table"
) -> list[Trajectory]:
    """Return the trajectories of a table of steps with default column names.

    `columns` gives other names. Rows are sorted by the column `step`, if it exists; an episode has
    each step once, and whole numbers from 0 or 1 on have no gaps.

    >>> from_table({"episode": [0, 0], "obs_x": [1, 2], "obs_y": [3, 4], "action": [0, 1],
    ...             "reward": [0, 1], "done": [0, 1]})
    [Trajectory(2 steps, return 1, ended)]
    """
    there = _names(table)
    chosen = _chosen(there, {} if columns is None else columns, place)
    if missing := [role for role in REQUIRED if role not in chosen]:
        raise ValueError(
            f"{place} must be a log of episodes, or a table of steps with a column for each of "
            f"{', '.join(REQUIRED)}; it has {', '.join(there)}, and lacks {', '.join(missing)}. "
            "Name them: read_log(…, columns={"
            + ", ".join(f'"{role}": "…"' for role in missing)
            + "}), with rareswitch compare "
            + " ".join(f"--columns {role}=…" for role in missing)
            + ", or give them to from_steps"
        )
    given = {
        role: _together(role, name, table) if isinstance(name, list) else table[name]
        for role, name in chosen.items()
    }
    named = "terminated" in (columns or {})
    if chosen["terminated"] == "done" and "truncated" in there and not named:
        raise ValueError(
            f"{place} must distinguish terminated from truncated episodes; it has done and "
            'truncated. Name the column of true ends: read_log(…, columns={"terminated": "…"}), '
            "with rareswitch compare --columns terminated=…"
        )
    if "step" not in given:
        return from_steps(**given)
    order = np.argsort(np.asarray(given["step"]), kind="stable")
    ordered = {role: _column(role, column)[order] for role, column in given.items()}
    return _trajectories(ordered, order)


def _together(role: str, names: list[str], table: Any) -> npt.NDArray[Any]:
    """Return several columns of numbers as one table."""
    columns = [np.asarray(table[name]) for name in names]
    for name, column in zip(names, columns, strict=True):
        if column.dtype.kind in "OSU" and any(isinstance(cell, str) for cell in column.tolist()):
            raise ValueError(
                f"{role} must have numbers in each of its columns {', '.join(names)}; got texts in "
                f"{name}: replace them by numbers"
            )
    return np.column_stack(columns)


def _names(table: Any) -> list[str]:
    """Return the names of a table's columns, or an empty list if it is no table."""
    if isinstance(table, Mapping):
        return list(table)
    names = getattr(table, "column_names", None)  # of Arrow; pandas and polars have columns
    if names is None:
        names = getattr(table, "columns", None)
    listed = [] if names is None or callable(names) else list(names)
    return listed if all(isinstance(name, str) for name in listed) else []


def _chosen(there: list[str], columns: Columns, place: str) -> dict[str, str | list[str]]:
    """Return the column or columns of each part of a step."""
    if unknown := [role for role in columns if role not in NAMES]:
        raise ValueError(f"columns must name {', '.join(NAMES)}; got {unknown[0]}")
    chosen: dict[str, str | list[str]] = {}
    for role, name in columns.items():
        named = [name] if isinstance(name, str) else list(name)
        if absent := [one for one in named if one not in there]:
            raise ValueError(
                f"columns must name columns of {place}, which has {', '.join(there)}; got "
                f"{absent[0]} for {role}"
            )
        chosen[role] = name if isinstance(name, str) else named
    for role, names in NAMES.items():
        if role in chosen:
            continue
        if found := [one for one in names if one in there]:
            chosen[role] = found[0]
        elif role in WIDE and (
            wide := [one for one in there if one.startswith(tuple(f"{n}_" for n in names))]
        ):
            chosen[role] = wide
    return chosen


def read_csv(path: Path) -> dict[str, list[Any]]:
    """Return the columns of a CSV file with a header, as whole numbers, numbers or texts."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = list(csv.reader(file))
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError(f"{path} must have a header, and the same number of cells in every row")
    return {name: _parsed([row[i] for row in rows[1:]]) for i, name in enumerate(rows[0])}


def _parsed(cells: list[str]) -> list[Any]:
    truths = {"true": True, "false": False}
    for parse in (int, float, lambda cell: truths[cell.lower()]):
        try:
            return [parse(cell) for cell in cells]
        except (ValueError, KeyError):
            continue
    return cells


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
    version: Any = None,
) -> list[Trajectory]:
    """Return the trajectories of a table of steps, in the order of their first rows.

    Each argument is a column with an entry for every step; the rows of an episode are in the order
    of time, and `episode` becomes its key. `observation`, before the action, may be a table of
    several columns; `mask` (N, A) marks the feasible actions. `terminated` is true, or 1, at the
    step that ended an episode. A truncated episode needs `next_observation`, the observation after
    its last step, and `next_mask` if there are masks. `version` is the version of the policy.

    >>> from_steps(
    ...     episode=["ada", "ada", "ben"], observation=[0.1, 0.4, 0.2], action=[1, 0, 1],
    ...     reward=[0.0, 1.0, 2.0], terminated=[0, 1, 1],
    ... )
    [Trajectory(2 steps, return 1, ended), Trajectory(1 step, return 2, ended)]
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
        "version": version,
    }
    table = {name: _column(name, given) for name, given in columns.items() if given is not None}
    return _trajectories(table, np.arange(len(table["episode"])))


def _trajectories(table: dict[str, Any], numbers: npt.NDArray[Any]) -> list[Trajectory]:
    """Return the trajectories of sorted columns, whose rows have these numbers in the table."""
    rows = len(table["episode"])
    if wrong := [name for name, column in table.items() if len(column) != rows]:
        raise ValueError(
            f"{wrong[0]} must have an entry for each of the {rows} steps of episode; got "
            f"{len(table[wrong[0]])}"
        )
    if "next_mask" in table and "mask" not in table:
        raise ValueError(
            "mask must be given with next_mask: name the column of the feasible actions before "
            'each action, read_log(…, columns={"mask": "…"}) or --columns mask=…, or leave out '
            "next_mask"
        )
    places: dict[Any, list[int]] = {}
    for row, key in enumerate(table["episode"].tolist()):
        places.setdefault(key, []).append(row)
    return [_trajectory(key, np.array(at), table, numbers[at]) for key, at in places.items()]


def _trajectory(
    key: Any, rows: npt.NDArray[Any], table: dict[str, Any], numbers: npt.NDArray[Any]
) -> Trajectory:
    place = f"episode {short_repr(key)} (rows {numbers.min()} to {numbers.max()})"
    if "step" in table:
        _check_steps(place, table["step"][rows])
    ends = table["terminated"][rows]
    if ends.dtype != bool or ends[:-1].any():
        raise ValueError(
            f"{place}: terminated must be True or False, or 1 or 0, at every step, and False "
            "before the last"
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
    if "version" in table:
        versions = table["version"][rows]
        if (versions != versions[0]).any():
            raise ValueError(f"{place}: version must be the same at every step")
        values["version"] = versions[0]
    return trajectory_at(place, values)


def _check_steps(place: str, steps: npt.NDArray[Any]) -> None:
    """Raise ValueError if a step comes twice, or if one of counted steps is missing."""
    if (twice := steps[1:][steps[1:] == steps[:-1]]).size:
        raise ValueError(f"{place}: every step must come once; step {twice[0]} comes twice")
    counted = steps.dtype.kind in "iu" and steps[0] in (0, 1)
    if counted and (after := steps[:-1][np.diff(steps) != 1]).size:
        raise ValueError(f"{place}: steps must have no gaps; step {after[0] + 1} is missing")


def _with_last(name: str, rows: npt.NDArray[Any], table: dict[str, Any], place: str) -> Any:
    """Return a column's values before each action and the value after the last.

    The last value of a terminated episode is never used; by default it repeats the value before.
    """
    before, last = table[name][rows], table.get(f"next_{name}")
    if last is None and not table["terminated"][rows[-1]]:
        raise ValueError(f"{place}: next_{name} must be given, because the episode is truncated")
    after = before[-1] if last is None else last[rows[-1]]
    return [*before, after]


def _column(name: str, given: Any) -> npt.NDArray[Any]:
    """Return a column as an array, of objects unless it holds numbers of one shape."""
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(len(given), object)
        array[:] = list(given)
    if not array.ndim or not len(array):
        raise ValueError(
            f"{name} must be a column with an entry for every step; got {short_repr(given)}"
        )
    if name in ("mask", "next_mask") and array.ndim == 1 and isinstance(array[0], str):
        raise ValueError(
            f"{name} must be a column of 0 and 1 for each action, such as {name}_0, {name}_1, …, "
            f"or a list in each row, which a CSV file cannot hold; got {short_repr(str(array[0]))}"
        )
    truths = name in ("terminated", "mask", "next_mask") and array.dtype.kind in "iuf"
    if truths and np.isin(array, (0, 1)).all():  # databases have 0 and 1
        return array.astype(bool)
    if name == "action" and array.dtype.kind == "f" and (array == np.round(array)).all():
        return array.astype(np.int64)  # data frames with a missing value turn integers into floats
    if array.dtype == object and isinstance(array[0], np.ndarray | list):  # lists in one column
        return _stacked(name, array)
    return array


def _stacked(name: str, column: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return lists of one length as a table, and other columns unchanged."""
    try:
        return _column(name, np.array(column.tolist()))
    except ValueError:
        return column
