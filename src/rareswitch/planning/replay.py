"""What a rule does on the data of a log: when it would have deployed."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import numpy as np

from rareswitch.core.arguments import positive_ridge, shown
from rareswitch.core.episode import Episode
from rareswitch.core.gram import Gram
from rareswitch.core.ledger import Ledger
from rareswitch.core.one_hot import OneHotGram
from rareswitch.core.pools import Pools
from rareswitch.core.schedule import Schedule
from rareswitch.core.task import Task


def replay(
    schedule: Schedule, log: Iterable[Episode], task: Task, *, ridge: float = 1.0
) -> list[int]:
    """Return the episodes of a log before which the rule would have deployed anew.

    What the learner would have done differently after a deployment is not in a log: the answer is
    what the rule does on such data, not a simulation. Episodes after the task's K are left out.
    """
    return replay_all([schedule], log, task, ridge=ridge)[0]


def replay_all(
    schedules: Sequence[Schedule], log: Iterable[Episode], task: Task, *, ridge: float = 1.0
) -> list[list[int]]:
    """Replay several rules in one pass: what is learnt from a log depends on none of them."""
    pools, ridge = task.pools, positive_ridge(ridge)
    gram: Gram | OneHotGram = Gram((pools.count,), task.dim, ridge)
    ledgers = [Ledger() for _ in schedules]
    for k, episode in enumerate(_checked(log, task), start=1):
        if k == 1 and episode.one_hot:
            gram = OneHotGram(pools.count, task.dim, ridge)
        for schedule, ledger in zip(schedules, ledgers, strict=True):
            if k == 1 or schedule.due(
                ledger.clock(episode=k, logdet=gram.logdet, steps=pools.steps)
            ):
                ledger.deploy(episode=k, logdet=gram.logdet, trace=gram.trace)
        _grow(gram, pools, episode)
    return [[deployment.episode for deployment in ledger[1:]] for ledger in ledgers]


def _grow(gram: Gram | OneHotGram, pools: Pools, episode: Episode) -> None:
    """Add the features of an episode to each pool that has them."""
    if isinstance(gram, OneHotGram):
        pool, step = pools.places(len(episode))
        gram.absorb(pool, episode.features[step])
    elif pools.shared:
        gram.absorb_block(pools.pooled(episode.features[:, None, :]))
    else:
        features = np.zeros((pools.horizon, episode.dim))
        features[: len(episode)] = episode.features
        gram.absorb(features)


def _checked(log: Iterable[Episode], task: Task) -> Iterator[Episode]:
    """Give each episode, once it is known to be one of the task, and of one kind with the first."""
    if not isinstance(log, Iterable) or isinstance(log, np.ndarray):
        raise TypeError(f"log must be episodes, a list or a LogPartition; got {shown(log)}")
    one_hot = None
    for k, episode in enumerate(islice(log, task.episodes), start=1):
        if not isinstance(episode, Episode):
            raise TypeError(f"log must be of Episodes; number {k} is a {type(episode).__name__}")
        one_hot = episode.one_hot if one_hot is None else one_hot
        if episode.one_hot is not one_hot:
            raise ValueError(
                "log must have rows of features, or positions of one-hot ones, in all episodes; "
                f"episode {k} has {'positions' if episode.one_hot else 'rows'}"
            )
        fits = episode.dim <= task.dim if one_hot else episode.dim == task.dim
        if not fits or len(episode) > task.horizon:
            raise ValueError(
                f"log must have episodes of dim {task.dim} and at most {task.horizon} steps, as "
                f"the task has; episode {k} has dim {episode.dim} and {len(episode)} steps"
            )
        longest = 1.0 if one_hot else float(np.linalg.norm(episode.features, axis=1).max())
        if longest > task.feature_norm * (1 + 1e-9):
            raise ValueError(
                f"log must have features no longer than the task's feature_norm = "
                f"{task.feature_norm:g}, on which the limits rest; episode {k} has ‖φ‖ = "
                f"{longest:.6g}"
            )
        yield episode
