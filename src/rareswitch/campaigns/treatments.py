"""Episodes by subgroup and treatment: how many, their returns, and their adverse events.

The treatment is the first action that was given. In an episode of one step it is the action that
may have caused harm; in a longer episode harm of later actions is not separated. The means are
plain: a policy gives an action to participants whom it seems to suit, so they do not compare
actions. `action_comparison.py` does.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

MOST_ACTIONS = 12

TREATMENT_COLUMNS = {
    "subgroup": "Name of the subgroup; empty if the protocol or the report has none.",
    "action": "Name of the first action that was given; empty if the reports do not tell.",
    "episodes": "Episodes with a report.",
    "mean_return": "Their plain mean return.",
    "told": "Episodes of these whose reports tell about adverse events.",
    "events": "Episodes of these with at least one adverse event, by kind; harm of later actions "
    "is not separated.",
}


class Treated(NamedTuple):
    """An episode: subgroup, index of the first action given, return, and adverse events.

    `action` is None if the report does not tell the action.
    """

    subgroup: str | None
    action: int | None
    total: float
    events: Mapping[str, int] | None


def treatment_rows(
    treated: Iterable[Treated],
    *,
    subgroups: Sequence[str],
    actions: Sequence[str],
    kinds: Sequence[str],
) -> list[dict[str, Any]]:
    """Return a row for each action in each subgroup that has an episode.

    Episodes without a subgroup come last, and so do those without an action. `kinds` are the
    declared kinds of adverse events. There are no rows if the protocol names no actions, or too
    many for a table.
    """
    if not 2 <= len(actions) <= MOST_ACTIONS:
        return []
    names = (*actions, None)
    cells: dict[str | None, list[list[Treated]]] = {}
    for one in treated:
        place = len(actions) if one.action is None else one.action
        cells.setdefault(one.subgroup, [[] for _ in names])[place].append(one)
    return [
        {"subgroup": subgroup, "action": name, **_counts(cell, kinds)}
        for subgroup in (*subgroups, None)
        if subgroup in cells
        for name, cell in zip(names, cells[subgroup], strict=True)
        if name is not None or cell
    ]


def _counts(cell: Sequence[Treated], kinds: Sequence[str]) -> dict[str, Any]:
    told = [one.events for one in cell if one.events is not None]
    mean = math.fsum(one.total for one in cell) / len(cell) if cell else None
    events = {kind: sum(events.get(kind, 0) > 0 for events in told) for kind in kinds}
    return {"episodes": len(cell), "mean_return": mean, "told": len(told), "events": events}
