"""Read Minari datasets as trajectories, without importing Minari."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from rareswitch.support.arguments import short_repr
from rareswitch.trajectories.trajectory import Trajectory, trajectory_at


def from_minari(
    dataset: Any, *, propensity: str | None = None, mask: str | None = None
) -> Iterator[Trajectory]:
    """Yield the episodes of a Minari dataset with discrete actions lazily.

    `propensity` and `mask` name entries of recorded infos: the probability of the action in the
    info of its step, and the feasible actions in the info of an observation (such as "action_mask"
    in Gymnasium's Taxi).
    """
    if not hasattr(dataset, "iterate_episodes"):
        raise TypeError(f"dataset must be a Minari dataset; got {short_repr(dataset)}")
    start = getattr(getattr(dataset, "action_space", None), "start", 0)
    for episode in dataset.iterate_episodes():
        place = f"episode {episode.id} of the dataset"
        values = {
            "observations": _unstacked(episode.observations, len(episode) + 1),
            "actions": _actions(episode.actions, start),
            "rewards": episode.rewards,
            "terminated": bool(episode.terminations[-1]) if len(episode) else None,
            "key": int(episode.id),
        }
        if propensity is not None:
            told = _info(episode, propensity, place)
            single = told.ndim == 2 and told.shape[1] == 1  # numbers stored as arrays
            values["propensities"] = (told[:, 0] if single else told)[-len(episode) :]
        if mask is not None:
            values["masks"] = _info(episode, mask, place).astype(bool)
        yield trajectory_at(place, values)


def _actions(actions: Any, start: int) -> Any:
    """Return actions counted from 0; leave actions of several parts for a later check."""
    whole = isinstance(actions, np.ndarray) and actions.dtype.kind in "iu"
    return actions - start if whole else actions


def _unstacked(stacked: Any, count: int) -> Any:
    """Return a list of observations, given their parts stacked along time."""
    if isinstance(stacked, dict):
        parts = {key: _unstacked(part, count) for key, part in stacked.items()}
        return [{key: part[t] for key, part in parts.items()} for t in range(count)]
    if isinstance(stacked, tuple):
        return list(zip(*(_unstacked(part, count) for part in stacked), strict=True))
    return stacked


def _info(episode: Any, name: str, place: str) -> Any:
    if name not in (episode.infos or {}):
        known = ", ".join(episode.infos or {}) or "none"
        raise ValueError(f"{place}: infos must hold {name!r}; got {known}")
    return np.asarray(episode.infos[name])
