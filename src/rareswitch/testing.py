"""Checks to run on a switching rule or a feature map of your own.

Each raises AssertionError with the reason.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rareswitch.core.clock import Clock, Ledger, Schedule, checked_schedule, triggers_of
from rareswitch.core.task import Task, checked_task
from rareswitch.support.arguments import Rows, whole

EPISODES = 200  # for the check of an open-ended task
MOST_AXES = 16  # axes of features in the check, because a table may have millions
MOST_ASKED = 10_000  # episodes in the check before a run: some tenths of a second


def check_schedule(
    schedule: Schedule, task: Task | None = None, *, seed: int = 0, most: int | None = None
) -> None:
    """Check that a schedule answers with a bool, is a pure function, and keeps its promises.

    The check simulates a learner with ridge 1 on `task`, by default Task(dim=2, horizon=3,
    episodes=200), with random features. It asks before every episode and deploys when a switch is
    due. A schedule with `triggers` must be due exactly when one of them is reached. A schedule with
    `stays_due` must stay due until the switch. A schedule with `upcoming` must be due exactly on
    the dates that it returns. A schedule with `deployment_limit` must not deploy more often; an
    open-ended task has no limit. With `most`, the check ends after this number of episodes.

    >>> from rareswitch import DeterminantGrowth
    >>> check_schedule(DeterminantGrowth(eta=2.0))
    """
    task = Task(dim=2, horizon=3, episodes=EPISODES) if task is None else task
    name = type(checked_schedule(schedule, checked_task(task))).__name__
    last = EPISODES if task.episodes is None else task.episodes
    if most is not None:
        last = min(last, whole("most", most, least=1))
    last = whole("episodes", last, least=1, most=10**6)
    pools, rng = task.pools, np.random.default_rng(seed)
    # Features along axes: Λ is diagonal, and this is its diagonal on the axes that occur.
    gram = np.ones((pools.count, min(task.dim, MOST_AXES)))
    logdet, trace = np.zeros(pools.count), np.full(pools.count, float(task.dim))
    pool, step = pools.places(task.horizon)
    ledger = Ledger().deploy(episode=1, logdet=logdet, trace=trace)
    limit = _limit(schedule, task)
    for k in range(2, last + 1):
        axes = rng.integers(gram.shape[1], size=task.horizon)
        lengths = task.feature_norm * rng.random(task.horizon) ** 4  # log det grows 0.1 at first
        np.add.at(gram, (pool, axes[step]), lengths[step] ** 2)
        logdet, trace = np.log(gram).sum(axis=1), (gram - 1.0).sum(axis=1) + task.dim
        clock = ledger.clock(task, episode=k, logdet=logdet)
        due = _ask(schedule, name, clock)
        if due and getattr(schedule, "stays_due", False) and k < last:
            later = ledger.clock(task, episode=k + 1, logdet=logdet + rng.random(pools.count))
            _require(
                bool(schedule.due(later)),
                f"{name} has stays_due = True, but it was due before episode {k} and, without a "
                f"switch, not before episode {k + 1}",
            )
        if hasattr(schedule, "upcoming"):
            _check_date(name, schedule.upcoming(task, clock.deployed_at), clock, due)
        if due:
            _require(
                len(ledger) <= limit,
                f"{name}.deployment_limit(task, 1.0) returned {limit:g}, but deployment "
                f"{len(ledger)} after the first is due before episode {k}",
            )
            ledger = ledger.deploy(episode=k, logdet=logdet, trace=trace)


def _limit(schedule: Schedule, task: Task) -> float:
    """Return the limit of deployments with the ridge 1; infinity without a limit or an end."""
    promise = getattr(schedule, "deployment_limit", None)
    return np.inf if promise is None or task.episodes is None else float(promise(task, 1.0))


def refuse_faulty_rule(schedule: Schedule, task: Task) -> None:
    """Raise ValueError if a rule outside the package fails `check_schedule`.

    The check ends after `MOST_ASKED` episodes. Rules of the package are not checked. An exception
    in the rule's own code is left to the run, which raises it with its place.
    """
    inner: Any = schedule
    while inner is not None and type(inner).__module__.startswith("rareswitch."):
        inner = getattr(inner, "schedule", None)
    if inner is None:
        return
    try:
        check_schedule(schedule, task, most=MOST_ASKED)
    except AssertionError as error:
        raise ValueError(str(error)) from None
    except Exception:
        return


def _ask(schedule: Schedule, name: str, clock: Clock) -> bool:
    """Ask a schedule twice; check the answers, its triggers, and that the clock is unchanged."""
    arrays = (clock.logdet, clock.logdet_deployed, clock.trace_deployed)
    before, episode = [array.copy() for array in arrays], clock.episode
    due = schedule.due(clock)
    _require(
        isinstance(due, bool | np.bool),
        f"{name}.due must return a bool; it returned {due!r} before episode {episode}",
    )
    again, reached = schedule.due(clock), [due]
    if hasattr(schedule, "triggers"):
        reached = [trigger.reached for trigger in triggers_of(schedule, clock)]
    _require(
        all(map(np.array_equal, arrays, before)),
        f"{name} must not change its clock; it did before episode {episode}",
    )
    _require(
        again == due,
        f"{name}.due must be a pure function of the clock; asked twice before episode {episode}, "
        "it answered differently",
    )
    _require(
        any(reached) == due,
        f"{name}.due must be True exactly when a trigger is reached; before episode {episode} it "
        f"is {bool(due)}, and {sum(map(bool, reached))} of {len(reached)} triggers are reached",
    )
    return bool(due)


def _check_date(name: str, date: Any, clock: Clock, due: bool) -> None:
    """Check the date that `upcoming` returned for the policy in force."""
    asked = f"{name}.upcoming(task, {clock.deployed_at})"
    _require(
        date is None or date > clock.deployed_at,
        f"{asked} must return a later episode or None; it returned {date}",
    )
    _require(
        due == (date == clock.episode),
        f"{asked} returned {date}, but before episode {clock.episode} the rule is "
        f"{'due' if due else 'not due'}",
    )


def check_features(
    features: Callable[[Any], Rows], states: Iterable[Any], *, dim: int | None = None
) -> float:
    """Check a map from a state to the features (A, d) of its feasible actions; return L = max‖φ‖.

    Every state must have at least one finite row, all rows must have one dimension, and a second
    call must return the same rows. L above 1 is allowed; give it to the `Task` as `feature_norm`. A
    map with `one_hot` returns positions (A,) from 0 to d−1. If the map has the attributes `dim`,
    `actions`, `blocks` or `norm`, its rows must agree with them.

    >>> check_features(lambda s: np.eye(2) * s, [0.5, 1.0], dim=2)
    1.0
    """
    largest = -1.0
    one_hot, declared = getattr(features, "one_hot", False), getattr(features, "dim", None)
    dim = declared if dim is None else dim
    _require(
        declared in (None, dim), f"features must have d = {dim}; their attribute dim is {declared}"
    )
    actions, norm = getattr(features, "actions", None), getattr(features, "norm", np.inf)
    for state in states:
        rows = np.array(features(state))
        count = len(rows) if rows.ndim else 0
        if one_hot:
            _check_positions(rows, state, dim)
        else:
            _check_rows(rows, state, dim)
            dim = rows.shape[1] if dim is None else dim
            _check_blocks(rows, state, getattr(features, "blocks", 1))
        _require(
            count > 0, f"features of {state!r} must have a row for some feasible action; got none"
        )
        _require(
            actions in (None, count),
            f"features of {state!r} must have {actions} rows, the attribute actions; got {count}",
        )
        _require(
            np.array_equal(rows, features(state)),
            f"features of {state!r} must be the same at every call; two calls differ",
        )
        longest = 1.0 if one_hot else float(np.linalg.norm(rows, axis=1).max())
        _require(
            longest <= norm * (1.0 + 1e-9),
            f"features of {state!r} must not be longer than {norm:g}, the attribute norm; got "
            f"{longest:g}",
        )
        largest = max(largest, longest)
    _require(largest >= 0.0, "states must not be empty")
    return largest


def _check_rows(rows: Rows, state: Any, dim: int | None) -> None:
    _require(rows.ndim == 2, f"features of {state!r} must be (A, d); got shape {rows.shape}")
    _require(
        rows.dtype.kind in "fiu",
        f"features of {state!r} must be real numbers; got {rows.dtype}",
    )
    _require(
        dim in (None, rows.shape[1]),
        f"features of {state!r} must have d = {dim}; got {rows.shape[1]}",
    )
    _require(bool(np.isfinite(rows).all()), f"features of {state!r} must be finite")


def _check_blocks(rows: Rows, state: Any, blocks: int) -> None:
    count, dim = rows.shape
    _require(dim % blocks == 0, f"features must have d divided by {blocks} blocks; got d = {dim}")
    visited = rows.reshape(count, blocks, dim // blocks).any(axis=2).sum(axis=1)
    _require(
        bool(visited.max(initial=0) <= 1),
        f"features of {state!r} must have rows that are nonzero in only one of {blocks} blocks, "
        f"the attribute blocks; got a row with {visited.max(initial=0)}",
    )


def _check_positions(rows: Rows, state: Any, dim: int | None) -> None:
    _require(
        rows.ndim == 1 and rows.dtype.kind in "iu",
        f"features of {state!r} must be positions, whole numbers (A,); got {rows.dtype} of shape "
        f"{rows.shape}",
    )
    inside = not len(rows) or (rows.min() >= 0 and (dim is None or rows.max() < dim))
    _require(bool(inside), f"features of {state!r} must be positions from 0 to d−1; got {rows}")


def _require(condition: bool, message: str) -> None:
    """Raise an AssertionError unless the condition holds, also under `python -O`."""
    if not condition:
        raise AssertionError(message)
