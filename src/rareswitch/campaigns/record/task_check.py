"""Whether reports are of episodes of the task that was agreed on."""

import math
from collections.abc import Sequence

import numpy as np

from rareswitch.campaigns.errors import RefusedError
from rareswitch.campaigns.protocol import Protocol
from rareswitch.campaigns.report import Report


def all_of_task(reports: Sequence[Report], protocol: Protocol) -> bool:
    """Return whether all reports are of this task: sooner known than of one after the other."""
    try:
        check_of_task(reports, protocol)
    except RefusedError:
        return False
    return True


def check_of_task(reports: Sequence[Report], protocol: Protocol) -> None:
    """Refuse reports of which one is not of an episode of this task."""
    history, names = protocol.no_data, protocol.actions
    try:
        history.check(*[report.episode for report in reports])
    except (TypeError, ValueError) as error:
        raise RefusedError(str(error)) from None
    told = [first for report in reports if (first := report.first_features) is not None]
    if told:
        first = np.concatenate(told)
        if history.one_hot and first.max() >= protocol.task.dim:
            raise RefusedError(
                f"first_features must be below {protocol.task.dim}; got {first.max()}"
            )
        longest = 1.0 if history.one_hot else math.sqrt(np.vecdot(first, first).max())
        if not longest <= protocol.task.feature_norm * (1.0 + 1e-9):
            raise RefusedError(
                f"first_features must be no longer than {protocol.task.feature_norm:g}; got "
                f"{longest:.6g}"
            )
    if names:
        offered = [*told, *(rows for report in reports for rows in report.episode.next_features)]
        if (most := max(map(len, offered), default=0)) > len(names):
            raise RefusedError(
                f"at most {len(names)} actions may be offered; got {most} in one state"
            )
