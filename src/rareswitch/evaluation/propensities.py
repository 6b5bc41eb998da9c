"""Fit propensities to the actions of a log without propensities.

They assume a policy that depends only on the current observation. Frequent states are counted;
other observations of numbers get a multinomial logistic regression.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from rareswitch.support.arguments import Bools, Floats, Ints, short_repr
from rareswitch.trajectories.trajectory import Trajectory

# A fit needs at least this number of steps for each cell or coefficient.
LEAST_STEPS = 10
# A fit of more coefficients takes too long.
MOST_COEFFICIENTS = 500
RIDGE = 1.0
NEWTON_STEPS = 25


def fitted_propensities(log: list[Trajectory]) -> list[Trajectory]:
    """Return trajectories with the propensities of a policy fitted to all of them."""
    states = [each.observations[t] for each in log for t in range(len(each))]
    actions = np.concatenate([each.actions for each in log])
    masks = _masks(log, 1 + int(actions.max()))
    cells = [state.tobytes() if isinstance(state, np.ndarray) else repr(state) for state in states]
    if LEAST_STEPS * len({*cells}) <= len(cells):
        fitted = _by_counts(cells, actions, masks)
    else:
        fitted = _by_regression(states, actions, masks)
    ends = np.cumsum([len(each) for each in log])[:-1]
    parts = np.split(fitted, ends)
    return [replace(each, propensities=part) for each, part in zip(log, parts, strict=True)]


def _masks(log: list[Trajectory], actions: int) -> Bools:
    """Return the feasible actions of every step, (n, A)."""
    known = [each.masks[:-1] for each in log if each.masks is not None]
    if len(known) == len(log):
        return np.concatenate(known)
    return np.ones((sum(map(len, log)), actions), bool)


def _by_counts(cells: list[Any], actions: Ints, masks: Bools) -> Floats:
    """Return the share of each action among the steps in its state with the same offer."""
    places = [(cell, mask.tobytes()) for cell, mask in zip(cells, masks, strict=True)]
    visits = Counter(places)
    taken = Counter(zip(places, actions.tolist(), strict=True))
    shares = [
        taken[place, a] / visits[place] for place, a in zip(places, actions.tolist(), strict=True)
    ]
    return np.array(shares)


def _by_regression(states: list[Any], actions: Ints, masks: Bools) -> Floats:
    """Return the probabilities of the actions by a logistic regression on standardised numbers."""
    try:
        numbers = np.array(states, np.float64).reshape(len(states), -1)
    except (TypeError, ValueError):
        raise ValueError(
            'propensities="fitted" needs frequent states or observations of numbers; got '
            f"{short_repr(states[0])}"
        ) from None
    spread = numbers.std(axis=0)
    rows = (numbers - numbers.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
    rows = np.column_stack([np.ones(len(rows)), rows])
    count = masks.shape[1] * rows.shape[1]
    if count > MOST_COEFFICIENTS or LEAST_STEPS * count > len(rows):
        raise ValueError(
            f'propensities="fitted" needs at most {MOST_COEFFICIENTS} coefficients and '
            f"{LEAST_STEPS} steps for each; got {count} coefficients and {len(rows)} steps"
        )
    return logistic_probabilities(rows, actions, masks)[np.arange(len(rows)), actions]


def logistic_probabilities(rows: Floats, actions: Ints, masks: Bools) -> Floats:
    """Fit the probabilities of all actions (n, A) to the taken actions, by Newton's method.

    Coefficients have a ridge, so they stay finite even if the actions are perfectly separable.
    """
    count, width = masks.shape[1], rows.shape[1]
    weights = np.zeros((width, count))
    taken = np.eye(count)[actions]
    for _ in range(NEWTON_STEPS):
        chances = _softmax(rows @ weights, masks)
        slope = rows.T @ (taken - chances) - RIDGE * weights
        curve = RIDGE * np.eye(width * count).reshape(width, count, width, count)
        for a in range(count):
            for b in range(count):
                spread = chances[:, a] * ((a == b) - chances[:, b])
                curve[:, a, :, b] += (rows * spread[:, None]).T @ rows
        step = np.linalg.solve(curve.reshape(width * count, -1), slope.ravel())
        weights += step.reshape(weights.shape)
        if np.abs(step).max() < 1e-10:
            break
    return _softmax(rows @ weights, masks)


def _softmax(scores: Floats, masks: Bools) -> Floats:
    scores = np.where(masks, scores, -np.inf)
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances: Floats = powers / powers.sum(axis=1, keepdims=True)
    return chances
