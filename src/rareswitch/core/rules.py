"""The table of switching rules and explorations: each known by one name, label and colour.

TOML, the command line, snapshots, plans and figures read it. A rule's arguments and guarantees are
those of its class, so adding one is one class and one line here.
"""

import math
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np

from rareswitch.core.budget import AdaptiveBudget, Capped, SpreadBudget, TotalGrowth
from rareswitch.core.exploration import Bonus, Ensemble, Perturbation
from rareswitch.core.grids import EpisodeGrid, GeometricGrid, MinimaxGrid
from rareswitch.core.schedule import DeterminantGrowth, EveryEpisode, UniformGrid


class Row(NamedTuple):
    """One rule: its class, the name it is called by, and how it is shown."""

    kind: type[Any]
    name: str
    label: str
    colour: str
    marker: str


RULES = (
    Row(EveryEpisode, "every-episode", "LSVI-UCB", "#000000", "D"),
    Row(UniformGrid, "uniform-grid", "LSVI-UCB-Batch", "#d55e00", "s"),
    Row(DeterminantGrowth, "determinant-growth", "LSVI-UCB-RareSwitch", "#56a0d3", "o"),
    Row(AdaptiveBudget, "adaptive-budget", "adaptive budget", "#0072b2", "P"),
    Row(SpreadBudget, "spread-budget", "spread budget", "#e69f00", "d"),
    Row(TotalGrowth, "total-growth", "total growth", "#009e73", "^"),
    Row(GeometricGrid, "geometric-grid", "geometric grid", "#cc79a7", "v"),
    Row(MinimaxGrid, "minimax-grid", "minimax grid", "#8c6bb1", "<"),
    Row(EpisodeGrid, "episode-grid", "grid of dates", "#b8860b", ">"),
    Row(Capped, "capped", "capped", "#7f7f7f", "X"),
)
EXPLORATIONS = (
    Row(Bonus, "bonus", "bonus", "#1f4e79", "o"),
    Row(Perturbation, "perturbation", "perturbation", "#b2521f", "s"),
    Row(Ensemble, "ensemble", "mixture", "#c2185b", "*"),
)
OWN = ("a rule of your own", "#4d4d4d", "*")


def row_of(thing: Any) -> Row:
    """Return the row of a rule or exploration, or of its class; one is made for a user's own."""
    kind = thing if isinstance(thing, type) else type(thing)
    for row in (*RULES, *EXPLORATIONS):
        if row.kind is kind:
            return row
    return Row(kind, f"{kind.__module__}:{kind.__qualname__}", *OWN)


def describe(thing: Any) -> dict[str, Any]:
    """Return {"kind": name, arguments}: plain values that say which rule or exploration it is.

    >>> describe(Capped(UniformGrid(episodes=9, batches=3), switches=1))["schedule"]["kind"]
    'uniform-grid'
    """
    plain: dict[str, Any] = {"kind": row_of(thing).name}
    if is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            plain[field.name] = _plain(getattr(thing, field.name))
    return plain


def rebuild(plain: Any) -> Any:
    """Return what `describe` described, if it is one of the table; else a ValueError names it."""
    if not isinstance(plain, dict) or not isinstance(plain.get("kind"), str):
        raise ValueError(f"a rule must be described by its kind and arguments; got {plain!r}")
    arguments = {name: value for name, value in plain.items() if name != "kind"}
    for row in (*RULES, *EXPLORATIONS):
        if row.name == plain["kind"]:
            nested = {k: rebuild(v) if isinstance(v, dict) else v for k, v in arguments.items()}
            return row.kind(**nested)
    raise ValueError(f"{plain['kind']!r} is none of the package's rules and explorations")


def _plain(part: Any) -> Any:
    """Return what JSON can hold of an argument: itself, its kind, or for anything else its repr."""
    if isinstance(part, tuple | list):
        return [_plain(value) for value in part]
    if isinstance(part, np.ndarray | np.generic):
        return _plain(part.tolist())
    if part is None or isinstance(part, bool | int | str):
        return part
    if isinstance(part, float):
        return part if math.isfinite(part) else repr(part)
    nameless = repr(part) == object.__repr__(part)  # it tells an address
    return describe(part) if is_dataclass(part) or nameless else repr(part)
