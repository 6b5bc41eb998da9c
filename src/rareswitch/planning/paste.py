"""What a plan recommends as text to paste: arguments of a learner, or options of a command."""

from dataclasses import dataclass, is_dataclass
from typing import Any

from rareswitch import named
from rareswitch.core.exploration import Exploration, is_plain
from rareswitch.core.rules import EXPLORATIONS, RULES, row_of
from rareswitch.core.schedule import Schedule
from rareswitch.planning.source import expression, imports


@dataclass(frozen=True, kw_only=True)
class Paste:
    """A rule with its exploration and ridge, for so many episodes.

    >>> from rareswitch import Bonus, UniformGrid
    >>> paste = Paste(
    ...     schedule=UniformGrid(episodes=90, batches=3), exploration=Bonus(0.5), ridge=1.0,
    ...     episodes=90,
    ... )
    >>> paste.options({"episodes": 90})
    ['--schedule', 'uniform-grid,batches=3', '--beta', '0.5']
    """

    schedule: Schedule
    exploration: Exploration
    ridge: float
    episodes: int

    @property
    def imports(self) -> list[str]:
        """The lines that import what the arguments name."""
        own = imports(self.schedule) | imports(self.exploration)
        return ["import rareswitch as rs", *sorted(own)]

    @property
    def arguments(self) -> list[str]:
        """The lines of the arguments in Python, each with its comma."""
        explores = self.exploration
        plain = is_plain(explores)
        lines = [
            f"schedule={expression(self.schedule)},",
            f"beta={explores.beta!r}," if plain else f"exploration={expression(explores)},",
            f"ridge={self.ridge!r},",
            f"planned_episodes={self.episodes},",
        ]
        if explores.members > 1:
            lines.append("seed=0,  # allocations follow from it: draw your own, and keep it")
        return lines

    def options(self, settled: dict[str, Any]) -> list[str] | None:
        """Return the words that name rule and exploration on the command line.

        `settled` is what the command settles in the same way. None: they cannot be written there.
        """
        schedule = _written(self.schedule, settled)
        exploration = _written(self.exploration, settled)
        if schedule is None or exploration is None:
            return None
        if is_plain(self.exploration):
            return ["--schedule", schedule, "--beta", repr(self.exploration.beta)]
        return ["--schedule", schedule, "--exploration", exploration]


def _written(thing: Schedule | Exploration, settled: dict[str, Any]) -> str | None:
    """Return a rule or exploration as the command line takes it, or None where it cannot."""
    row = row_of(thing)
    if row not in (*RULES, *EXPLORATIONS):
        module, _, name = row.name.partition(":")
        if module == "__main__" or "." in name or not is_dataclass(thing):
            return None  # nowhere to import it from, or arguments that are not known
    try:
        return named.written(thing, settled)
    except ValueError:
        return None
