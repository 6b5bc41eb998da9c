"""A plan's recommendation as text to paste: Python code, or options of a command."""

from dataclasses import dataclass, is_dataclass
from typing import Any

from rareswitch.core.clock import Schedule
from rareswitch.core.exploration import is_paper_bonus
from rareswitch.core.recipe import Recipe
from rareswitch.rules.table import EXPLORATIONS, RULES, row_of
from rareswitch.rules.words import imports_of, to_python, to_words


@dataclass(frozen=True, kw_only=True)
class Paste:
    """A rule with its recipe.

    >>> from rareswitch import UniformGrid
    >>> paste = Paste(schedule=UniformGrid(batches=3), recipe=Recipe.paper(beta=0.5))
    >>> paste.options()
    ['--schedule', 'uniform-grid,batches=3', '--beta', '0.5']
    >>> paste.arguments
    ['rs.UniformGrid(batches=3),', 'rs.Recipe.paper(beta=0.5),']
    """

    schedule: Schedule
    recipe: Recipe

    @property
    def imports(self) -> list[str]:
        """The lines that import the names in the arguments."""
        own = imports_of(self.schedule) | imports_of(self.recipe.exploration)
        return ["import rareswitch as rs", *sorted(own)]

    @property
    def arguments(self) -> list[str]:
        """The lines of the schedule and the recipe in Python, each with its comma."""
        explores, ridge = self.recipe.exploration, self.recipe.ridge
        said = [] if ridge == 1.0 else [f"ridge={ridge!r}"]
        if (control := self.recipe.control) is not None:
            plays = "control" if control.action is None else control.action
            said.append(f"control=rs.Control({plays}, share={control.share!r})")
        said += [f"floor={self.recipe.floor!r}"] if self.recipe.floor else []
        said += ["burn_in=True"] if self.recipe.burn_in else []
        if is_paper_bonus(explores):
            recipe = f"rs.Recipe.paper({', '.join([f'beta={explores.beta!r}', *said])}),"
        else:
            if explores != Recipe().exploration:
                said.insert(0, f"exploration={to_python(explores)}")
            recipe = f"rs.Recipe({', '.join([*said, 'seed=0'])}),"
        if explores.members > 1 or not self.recipe.learned_only:
            recipe += "  # the seed decides allocations: draw your own, and keep it"
        return [f"{to_python(self.schedule)},", recipe]

    def options(self) -> list[str] | None:
        """Return the rule and the exploration as options of a command, or None if impossible."""
        schedule, explores = _words(self.schedule), self.recipe.exploration
        exploration = _words(explores)
        if schedule is None or exploration is None:
            return None
        control, shares = self.recipe.control, list[str]()
        if control is not None:
            if control.action is None:
                return None  # a policy has no name
            shares += ["--control", f"{control.action},share={control.share!r}"]
        shares += ["--floor", repr(self.recipe.floor)] if self.recipe.floor else []
        shares += ["--burn-in"] if self.recipe.burn_in else []
        if is_paper_bonus(explores):
            return ["--schedule", schedule, "--beta", repr(explores.beta), *shares]
        return ["--schedule", schedule, "--exploration", exploration, *shares]


def _words(thing: Any) -> str | None:
    """Return the text of a rule or exploration for the command line, or None if impossible."""
    row = row_of(thing)
    if row not in (*RULES, *EXPLORATIONS):
        module, _, name = row.name.partition(":")
        if module == "__main__" or "." in name or not is_dataclass(thing):
            return None  # no module to import it from, or unknown arguments
    try:
        return to_words(thing)
    except ValueError:
        return None
