"""Comparison of every action with the control's action, for episodes of one step.

A plain comparison of episodes by action has two biases: a learner gives an action to participants
whom it seems to suit, and gives it less often after bad luck. So this module weights episodes by
the known probabilities of their actions, and compares them within versions.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from rareswitch.campaigns.report import read_bodies
from rareswitch.campaigns.rulebook.attribution import Assigned
from rareswitch.campaigns.rulebook.comparison import (
    LEAST_FREEDOM,
    Difference,
    student_quantile,
    variances,
)
from rareswitch.campaigns.rulebook.rows import EpisodeRow, Record
from rareswitch.campaigns.rulebook.state import State
from rareswitch.core.policy import Policy
from rareswitch.support.arguments import Floats, Ints, Rows

READ_TOGETHER = 512


class Choices(NamedTuple):
    """Episodes of one step: version, return, assigned action, and probability of each action."""

    versions: Ints  # (n,)
    values: Floats  # (n,)
    taken: Ints  # (n,)
    chances: Floats  # (n, A)


class _Pair(NamedTuple):
    """Two actions in one version: means, effective numbers of episodes, and sums of squares."""

    episodes: int  # of the version
    means: tuple[float, float]
    inverses: tuple[float, float]  # Σw²/(Σw)², as 1/n
    squares: tuple[float, float]  # Σw²(x − mean)²
    expected: tuple[float, float]  # its expectation for returns of variance 1
    degrees: int


def compare_actions(
    seen: Choices, action: int, reference: int, confidence: float
) -> tuple[Difference, float | None, float | None]:
    """Return the difference of the returns of `action` and `reference`, and the mean of each.

    Among the episodes of a version with one of the two actions, an episode has `action` with the
    known probability e = π_a/(π_a + π_0), given its state. So a learner's preference for some
    states does not bias the comparison. The weights are overlap weights (Li, Morgan and Zaslavsky
    2018): 1−e for episodes with the action and e for episodes with the reference. The difference
    applies to participants for whom both actions were possible.

    A learner gives an action less often after bad luck, so a mean over all versions is biased, and
    is not normal if no action is best. Within a version the probabilities are fixed. So each
    version's difference is divided by its own standard error s_v, and these ratios have the weights
    √n_v, with n_v the episodes of the version (Zhang, Janson and Murphy 2020). The interval is the
    set of differences δ with |Σ√n_v (δ̂_v − δ)/s_v| ≤ t·√Σn_v. The variance of a return, with the
    weights w², is pooled over versions. The variance of one action is at least the variance of both
    actions together, because one action may have few episodes.
    """
    pairs = [_pair(seen, version, action, reference) for version in np.unique(seen.versions)]
    used = [one for one in pairs if one is not None]
    count = int(((seen.taken == action) | (seen.taken == reference)).sum())
    if not used:
        return Difference(None, None, None, None, count), None, None
    spread = variances(
        [math.fsum(one.squares[k] for one in used) for k in (0, 1)],
        [math.fsum(one.expected[k] for one in used) for k in (0, 1)],
    )
    errors = [
        1.0
        if spread is None
        else math.sqrt(math.fsum(map(math.prod, zip(spread, one.inverses, strict=True))))
        for one in used
    ]
    weights = [math.sqrt(one.episodes) / s for one, s in zip(used, errors, strict=True)]
    total = math.fsum(weights)
    mean, control = (
        math.fsum(w * one.means[k] for w, one in zip(weights, used, strict=True)) / total
        for k in (0, 1)
    )
    value, freedom = mean - control, sum(one.degrees for one in used)
    if spread is None or freedom < LEAST_FREEDOM:
        return Difference(value, None, None, None, count), mean, control
    error = math.sqrt(sum(one.episodes for one in used)) / total
    width = student_quantile(0.5 + confidence / 2.0, freedom) * error
    return Difference(value, value - width, value + width, error, count), mean, control


def _pair(seen: Choices, version: int, action: int, reference: int) -> _Pair | None:
    """Return two actions in a version; None if one of them has no positive weight."""
    mine = seen.versions == version
    values, taken, chances = seen.values[mine], seen.taken[mine], seen.chances[mine]
    among = chances[:, action] + chances[:, reference]
    share = chances[:, action] / np.where(among > 0.0, among, 1.0)  # e
    means, inverses, squares, expected, degrees = [], [], [], [], 0
    for weights in ((taken == action) * (1.0 - share), (taken == reference) * share):
        if not (total := float(weights.sum())) > 0.0:
            return None
        second, third = float((weights**2).sum()), float((weights**3).sum())
        means.append(float((weights * values).sum()) / total)
        inverses.append(second / total**2)
        squares.append(float((weights**2 * (values - means[-1]) ** 2).sum()))
        expected.append(max(0.0, second - 2.0 * third / total + second**2 / total**2))
        degrees += int((weights > 0.0).sum()) - 1
    return _Pair(
        int(mine.sum()),
        (means[0], means[1]),
        (inverses[0], inverses[1]),
        (squares[0], squares[1]),
        (expected[0], expected[1]),
        degrees,
    )


def read_choices(
    record: Record, state: State, rows: Sequence[EpisodeRow], given: Mapping[str, Assigned]
) -> Choices | None:
    """Return the episodes whose reports contain the offered rows and the action.

    Return None if there are none, or if the number of offered actions differs between episodes.

    `rows` are the last rows of episodes, and `given` the assignments by episode.
    """
    policy_of: Callable[[int], Policy] = lru_cache(maxsize=8)(
        lambda version: Policy.from_bytes(record.artifact(state.version(version).digest))
    )
    versions, values, taken = list[int](), list[float](), list[int]()
    chances: list[Floats] = []
    for block in _blocks(rows):
        alike: dict[tuple[int, int], list[int]] = {}
        for place, (row, _, offered) in enumerate(block):
            alike.setdefault((row.version, len(offered)), []).append(place)
        found: dict[int, Floats] = {}
        for (version, _), places in alike.items():
            offers = np.array([block[place].offered for place in places])
            found |= dict(zip(places, policy_of(version).propensities_in(0, offers), strict=True))
        for place, (row, action, offered) in enumerate(block):
            if row.deviations:  # the assigned action counts, not the action given
                name = row.episode_id
                key = given[name].key(name) if name in given else name
                action = policy_of(row.version).player(row.member, key).act(0, offered)
            versions.append(row.version)
            values.append(row.total)
            taken.append(action)
            chances.append(found[place])
    if len({*map(len, chances)}) != 1:  # the same index may mean different actions
        return None
    return Choices(np.array(versions), np.array(values), np.array(taken), np.array(chances))


class _Given(NamedTuple):
    """An episode of one step: its row, the action given, and the offered rows."""

    row: EpisodeRow
    action: int
    offered: Rows


def _blocks(rows: Sequence[EpisodeRow]) -> Iterator[list[_Given]]:
    """Yield the episodes with all needed fields, in batches."""
    for start in range(0, len(rows), READ_TOGETHER):
        block = [(row, row.body) for row in rows[start : start + READ_TOGETHER] if row.body]
        reports = read_bodies([body for _, body in block])
        yield [
            _Given(row, int(report.actions[0]), report.first_features)
            for (row, _), report in zip(block, reports, strict=True)
            if report.first_features is not None and report.actions is not None
        ]
