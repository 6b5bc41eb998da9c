"""The fields of one episode as a log holds them, checked, with the place where they stand."""

from typing import Any

from rareswitch.trajectories.trajectory import FIELDS, Trajectory

REQUIRED = ("observations", "actions", "rewards", "terminated")


def trajectory_of(values: dict[str, Any], place: str) -> Trajectory:
    """Return the trajectory with these fields; what is wrong names the place and the field.

    >>> trajectory_of({"observations": [0, 1], "actions": [0], "rewards": [0.5]}, "a.jsonl, line 3")
    Traceback (most recent call last):
        ...
    ValueError: a.jsonl, line 3: terminated must be there; got observations, actions, rewards
    """
    if missing := [name for name in REQUIRED if values.get(name) is None]:
        raise ValueError(f"{place}: {missing[0]} must be there; got {', '.join(values)}")
    if unknown := [name for name in values if name not in FIELDS]:
        raise ValueError(
            f"{place}: {unknown[0]} is no field of an episode; those are {', '.join(FIELDS)}"
        )
    try:
        return Trajectory(**values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{place}: {error}") from None
