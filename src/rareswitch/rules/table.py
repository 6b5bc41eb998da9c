"""The names and labels of switching rules and explorations.

TOML, the command line, snapshots, plans and figures use this table. Its class defines the arguments
and guarantees of a rule, so a new rule is one class and one line here.
"""

from typing import Any, NamedTuple

from rareswitch.core.exploration import Bonus, Ensemble, Perturbation
from rareswitch.rules.budget import AdaptiveBudget, Capped, SpreadBudget, TotalGrowth
from rareswitch.rules.grids import EpisodeGrid, GeometricGrid, MinimaxGrid
from rareswitch.rules.paper import DeterminantGrowth, EveryEpisode, UniformGrid
from rareswitch.rules.waiting import Waiting
from rareswitch.rules.worth import Worthwhile


class Row(NamedTuple):
    """A class, its name in text, and its label in figures."""

    cls: type[Any]
    name: str
    label: str

    @property
    def plain_label(self) -> str:
        """The label of a rule without the paper's bonus: an algorithm of the paper has both.

        >>> [row.plain_label for row in RULES[:4]]
        ['every episode', 'uniform grid', 'determinant growth', 'adaptive budget']
        """
        of_the_paper = self.label.startswith("LSVI-UCB")
        return self.name.replace("-", " ") if of_the_paper else self.label


RULES = (
    Row(EveryEpisode, "every-episode", "LSVI-UCB"),
    Row(UniformGrid, "uniform-grid", "LSVI-UCB-Batch"),
    Row(DeterminantGrowth, "determinant-growth", "LSVI-UCB-RareSwitch"),
    Row(AdaptiveBudget, "adaptive-budget", "adaptive budget"),
    Row(SpreadBudget, "spread-budget", "spread budget"),
    Row(TotalGrowth, "total-growth", "total growth"),
    Row(GeometricGrid, "geometric-grid", "geometric grid"),
    Row(MinimaxGrid, "minimax-grid", "minimax grid"),
    Row(EpisodeGrid, "episode-grid", "grid of dates"),
    Row(Capped, "capped", "capped"),
    Row(Worthwhile, "worthwhile", "worthwhile"),
    Row(Waiting, "waiting", "waiting"),
)
EXPLORATIONS = (
    Row(Bonus, "bonus", "bonus"),
    Row(Perturbation, "perturbation", "perturbation"),
    Row(Ensemble, "ensemble", "mixture"),
)


def row_of(thing: Any) -> Row:
    """Return the row of a rule or exploration, or of its class; a user's class gets a new row."""
    cls = thing if isinstance(thing, type) else type(thing)
    for row in (*RULES, *EXPLORATIONS):
        if row.cls is cls:
            return row
    return Row(cls, f"{cls.__module__}:{cls.__qualname__}", cls.__name__)
