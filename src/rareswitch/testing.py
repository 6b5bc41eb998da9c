"""Checks to run on a switching rule or a feature map of your own.

Each raises an AssertionError that says what is wrong.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.schedule import Clock, Schedule


def check_schedule(
    schedule: Schedule, *, horizon: int = 3, episodes: int = 200, seed: int = 0
) -> None:
    """Check that a schedule answers with a bool, purely, and keeps what it promises.

    It is shown the clocks of a learner whose determinants grow at random, switching whenever it
    asks to. A schedule with `persistent` must stay due until the switch; one with `upcoming` must
    be due exactly at the dates it names.

    >>> from rareswitch import DeterminantGrowth
    >>> check_schedule(DeterminantGrowth(eta=2.0))
    """
    name = type(schedule).__name__
    rng = np.random.default_rng(seed)
    growth = rng.exponential(1.0 / np.arange(1, episodes + 1)[:, None], (episodes, horizon))
    logdet = np.zeros(horizon)
    deployed = logdet
    updates, since = 1, 1
    for k in range(2, episodes + 1):
        logdet = logdet + growth[k - 1]
        clock = Clock(
            episode=k,
            logdet=logdet.copy(),
            logdet_deployed=deployed.copy(),
            deployed=since,
            updates=updates,
        )
        due = schedule.due(clock)
        assert isinstance(due, bool | np.bool), (
            f"{name}.due must return a bool; it returned {due!r} before episode {k}"
        )
        unchanged = (clock.logdet == logdet).all() and (clock.logdet_deployed == deployed).all()
        assert unchanged, f"{name}.due must not change its clock; it did before episode {k}"
        assert schedule.due(clock) == due, (
            f"{name}.due must be a pure function of the clock; asked twice before episode {k}, "
            "it answered differently"
        )
        if due and getattr(schedule, "persistent", False):
            later = replace(clock, episode=k + 1, logdet=logdet + rng.random(horizon))
            assert schedule.due(later), (
                f"{name} says it is persistent, but was due before episode {k} and, without a "
                f"switch, no longer before episode {k + 1}"
            )
        if hasattr(schedule, "upcoming"):
            date = schedule.upcoming(since)
            assert date is None or date > since, (
                f"{name}.upcoming({since}) must be a later episode or None; got {date}"
            )
            assert due == (date == k), (
                f"{name}.upcoming({since}) = {date}, but before episode {k} the rule is "
                f"{'due' if due else 'not due'}"
            )
        if due:
            deployed = logdet
            updates, since = updates + 1, k


def check_features(
    features: Callable[[Any], Floats], states: Iterable[Any], *, dim: int | None = None
) -> float:
    """Check a map from a state to the features (A, d) of its feasible actions; return L = max‖φ‖.

    Every state must give at least one finite row, of one dimension, the same when asked again.
    L above 1 is allowed; pass it to the bounds as `feature_norm`.

    >>> check_features(lambda s: np.eye(2) * s, [0.5, 1.0], dim=2)
    1.0
    """
    largest = -1.0
    for state in states:
        rows = np.array(features(state), dtype=np.float64)
        assert rows.ndim == 2, f"features of {state!r} must be (A, d); got shape {rows.shape}"
        assert len(rows), (
            f"features of {state!r} must have a row for some feasible action; got none"
        )
        dim = rows.shape[1] if dim is None else dim
        assert rows.shape[1] == dim, (
            f"features of {state!r} must have d = {dim}; got {rows.shape[1]}"
        )
        assert np.isfinite(rows).all(), f"features of {state!r} must be finite"
        assert np.array_equal(rows, features(state)), (
            f"features of {state!r} must be the same every time; asked twice, they differ"
        )
        largest = max(largest, float(np.linalg.norm(rows, axis=1).max()))
    assert largest >= 0.0, "states must hold at least one state"
    return largest
