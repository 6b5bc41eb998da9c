"""The deployments of rules on the episodes of a log."""

from collections.abc import Iterable, Sequence
from itertools import islice

import numpy as np

from rareswitch.core.clock import Ledger, Schedule, is_due
from rareswitch.core.episode import Episode
from rareswitch.core.task import Task, planned_episodes
from rareswitch.statistics import history_of
from rareswitch.support.arguments import short_repr


def replay(
    schedule: Schedule, log: Iterable[Episode], task: Task, *, ridge: float = 1.0
) -> list[int]:
    """Return the episodes of a log before which the rule would deploy a new policy.

    This is not a simulation: in the log, deployments do not change later episodes. A rule that
    looks at candidates counts as if it accepted all of them. Episodes after the task's K are left
    out.
    """
    return replay_all([schedule], log, task, ridge=ridge)[0]


def replay_all(
    schedules: Sequence[Schedule], log: Iterable[Episode], task: Task, *, ridge: float = 1.0
) -> list[list[int]]:
    """Replay several rules in one pass, because determinants do not depend on the rule."""
    if not isinstance(log, Iterable) or isinstance(log, np.ndarray):
        raise TypeError(f"log must be episodes, a list or a LogPartition; got {short_repr(log)}")
    history, ledgers = history_of(task, ridge), [Ledger() for _ in schedules]
    gram = history.gram
    for k, episode in enumerate(islice(log, planned_episodes(task, "a replay")), start=1):
        try:
            history.check(episode)
        except (TypeError, ValueError) as error:
            kind = type(error)
            raise kind(f"log must have episodes of the task; in number {k}, {error}") from None
        for i, (schedule, ledger) in enumerate(zip(schedules, ledgers, strict=True)):
            if k == 1 or is_due(schedule, ledger.clock(task, episode=k, logdet=gram.logdet)):
                ledgers[i] = ledger.deploy(episode=k, logdet=gram.logdet, trace=gram.trace)
        gram = gram.add_episode(episode.features, task.pools)
    return [[deployment.episode for deployment in ledger[1:]] for ledger in ledgers]
