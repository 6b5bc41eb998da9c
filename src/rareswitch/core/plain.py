"""Schedules and ways to be optimistic as plain values, and back: for snapshots, without pickle."""

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from rareswitch.core.budget import AdaptiveBudget, Capped, TotalGrowth
from rareswitch.core.grids import EpisodeGrid
from rareswitch.core.optimism import Bonus, Perturbation
from rareswitch.core.schedule import DeterminantGrowth, EveryEpisode, UniformGrid

KINDS: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        EveryEpisode,
        UniformGrid,
        EpisodeGrid,
        DeterminantGrowth,
        TotalGrowth,
        AdaptiveBudget,
        Capped,
        Bonus,
        Perturbation,
    )
}


def to_plain(value: Any) -> dict[str, Any] | None:
    """Return {"kind": …, arguments}, or None for an object of the user's own."""
    if type(value) not in KINDS.values() or not is_dataclass(value):
        return None
    plain: dict[str, Any] = {"kind": type(value).__name__}
    for field in fields(value):
        part = getattr(value, field.name)
        if field.name == "schedule":
            part = to_plain(part)
            if part is None:
                return None
        plain[field.name] = part.item() if isinstance(part, np.generic) else part
    return plain


def from_plain(plain: dict[str, Any]) -> Any:
    """Return the object that `to_plain` described."""
    arguments = {
        name: from_plain(value) if isinstance(value, dict) else value
        for name, value in plain.items()
        if name != "kind"
    }
    return KINDS[plain["kind"]](**arguments)
