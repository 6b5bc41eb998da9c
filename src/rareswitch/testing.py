"""Checks to run on a switching rule or a feature map of your own.

Each raises an AssertionError that says what is wrong.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rareswitch.core.arguments import Rows, whole
from rareswitch.core.ledger import Ledger
from rareswitch.core.schedule import Clock, Schedule, checked_schedule


def check_schedule(
    schedule: Schedule, *, horizon: int = 3, episodes: int = 200, seed: int = 0
) -> None:
    """Check that a schedule answers with a bool, purely, and keeps what it promises.

    It is shown the clocks of a learner whose determinants grow at random, and followed whenever it
    asks for a switch. A schedule with `persistent` must stay due until the switch; one with
    `upcoming` must be due exactly at the dates it names.

    >>> from rareswitch import DeterminantGrowth
    >>> check_schedule(DeterminantGrowth(eta=2.0))
    """
    name = type(checked_schedule(schedule)).__name__
    horizon = whole("horizon", horizon, least=1, most=10**6)
    episodes = whole("episodes", episodes, least=1, most=10**6)
    rng = np.random.default_rng(seed)
    growth = rng.exponential(1.0 / np.arange(1, episodes + 1)[:, None], (episodes, horizon))
    logdet, trace = np.zeros(horizon), np.ones(horizon)
    ledger = Ledger()
    ledger.deploy(episode=1, logdet=logdet, trace=trace)
    for k in range(2, episodes + 1):
        logdet, trace = logdet + growth[k - 1], trace + 1.0
        clock = ledger.clock(episode=k, logdet=logdet)
        due = _ask(schedule, name, clock)
        if due and getattr(schedule, "persistent", False):
            later = ledger.clock(episode=k + 1, logdet=logdet + rng.random(horizon))
            _require(
                bool(schedule.due(later)),
                f"{name} says it is persistent, but was due before episode {k} and, without a "
                f"switch, no longer before episode {k + 1}",
            )
        if hasattr(schedule, "upcoming"):
            date = schedule.upcoming(clock.deployed)
            _require(
                date is None or date > clock.deployed,
                f"{name}.upcoming({clock.deployed}) must be a later episode or None; got {date}",
            )
            _require(
                due == (date == k),
                f"{name}.upcoming({clock.deployed}) = {date}, but before episode {k} the rule is "
                f"{'due' if due else 'not due'}",
            )
        if due:
            ledger.deploy(episode=k, logdet=logdet, trace=trace)


def _ask(schedule: Schedule, name: str, clock: Clock) -> bool:
    """Ask a schedule twice, with an eye on what it answers and on its clock."""
    arrays = (clock.logdet, clock.logdet_deployed, clock.trace_deployed)
    before = [array.copy() for array in arrays]
    due = schedule.due(clock)
    _require(
        isinstance(due, bool | np.bool),
        f"{name}.due must return a bool; it returned {due!r} before episode {clock.episode}",
    )
    _require(
        all(map(np.array_equal, arrays, before)),
        f"{name}.due must not change its clock; it did before episode {clock.episode}",
    )
    _require(
        schedule.due(clock) == due,
        f"{name}.due must be a pure function of the clock; asked twice before episode "
        f"{clock.episode}, it answered differently",
    )
    return bool(due)


def check_features(
    features: Callable[[Any], Rows], states: Iterable[Any], *, dim: int | None = None
) -> float:
    """Check a map from a state to the features (A, d) of its feasible actions; return L = max‖φ‖.

    Every state must give at least one finite row, of one dimension, the same when asked again.
    L above 1 is allowed; pass it to the bounds as `feature_norm`. Of a feature map with `one_hot`
    rows are positions (A,) from 0 to d−1. What a map says of itself, `dim`, `actions` and `norm`,
    must hold.

    >>> check_features(lambda s: np.eye(2) * s, [0.5, 1.0], dim=2)
    1.0
    """
    largest = -1.0
    one_hot, said = getattr(features, "one_hot", False), getattr(features, "dim", None)
    dim = said if dim is None else dim
    _require(said in (None, dim), f"features must have d = {dim}; they say that it is {said}")
    actions, norm = getattr(features, "actions", None), getattr(features, "norm", np.inf)
    for state in states:
        rows = np.array(features(state), dtype=None if one_hot else np.float64)
        count = len(rows) if rows.ndim else 0
        if one_hot:
            _require_positions(rows, state, dim)
        else:
            _require(
                rows.ndim == 2, f"features of {state!r} must be (A, d); got shape {rows.shape}"
            )
            dim = rows.shape[1] if dim is None else dim
            _require(
                rows.shape[1] == dim,
                f"features of {state!r} must have d = {dim}; got {rows.shape[1]}",
            )
            _require(bool(np.isfinite(rows).all()), f"features of {state!r} must be finite")
        _require(
            count > 0, f"features of {state!r} must have a row for some feasible action; got none"
        )
        _require(
            actions in (None, count),
            f"features of {state!r} must have {actions} rows, as the map says; got {count}",
        )
        _require(
            np.array_equal(rows, features(state)),
            f"features of {state!r} must be the same every time; asked twice, they differ",
        )
        longest = 1.0 if one_hot else float(np.linalg.norm(rows, axis=1).max())
        _require(
            longest <= norm * (1.0 + 1e-9),
            f"features of {state!r} must not be longer than {norm:g}, as the map says; got "
            f"{longest:g}",
        )
        largest = max(largest, longest)
    _require(largest >= 0.0, "states must hold at least one state")
    return largest


def _require_positions(rows: Rows, state: Any, dim: int | None) -> None:
    _require(
        rows.ndim == 1 and rows.dtype.kind in "iu",
        f"features of {state!r} must be positions, whole numbers (A,); got {rows.dtype} of shape "
        f"{rows.shape}",
    )
    inside = not len(rows) or (rows.min() >= 0 and (dim is None or rows.max() < dim))
    _require(bool(inside), f"features of {state!r} must be positions from 0 to d−1; got {rows}")


def _require(condition: bool, message: str) -> None:
    """Fail, also under `python -O`, which passes over `assert`."""
    if not condition:
        raise AssertionError(message)
