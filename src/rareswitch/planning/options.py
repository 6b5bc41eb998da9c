"""The options of a plan: rules that keep a budget, with recipes and simulated results."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rareswitch.core.clock import Schedule, checked_schedule
from rareswitch.core.control import ROLES
from rareswitch.core.exploration import Ensemble, Exploration, is_paper_bonus
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, planned_episodes
from rareswitch.planning.rounds import Estimate, Rounds, optimistic, regrets
from rareswitch.rules.table import RULES, row_of
from rareswitch.rules.theory import RegretBound
from rareswitch.rules.waiting import Waiting, inner_rule
from rareswitch.rules.words import to_python, to_words
from rareswitch.rules.worth import Worthwhile
from rareswitch.sim.outcome import Outcome
from rareswitch.support.arguments import short_repr, whole

# The most members that a plan tries; the experiment `members` has the same limit.
MOST_MEMBERS = 128
# Rules with at most this many deployments are also tried with `Worthwhile`.
MOST_LOOKS = 50


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A schedule and its guarantees; `own` if the user gave it.

    `deployment_limit` is the maximum of deployments after the first on any path: the rule's
    guarantee (`guaranteed`), or K−1. `bound` is the theorem's bound on the total regret, with c =
    1, or None if there is no theorem.
    """

    name: str
    schedule: Schedule
    deployment_limit: int
    guaranteed: bool
    bound: RegretBound | None
    own: bool = False

    @property
    def code(self) -> str:
        """The schedule as Python code, with rareswitch imported as rs."""
        return to_python(self.schedule)

    @property
    def label(self) -> str:
        """The name of the rule in figures, without an exploration."""
        row = row_of(inner_rule(self.schedule))
        return row.plain_label if self.name == row.name and row in RULES else self.name


def candidates_for(
    budget: int, task: Task, *, ridge: float = 1.0, first: int = 0, apart: int = 0
) -> list[Candidate]:
    """Return the rules of the table that keep a budget of deployments after the first.

    For 0 and for K−1 there is a single rule: no further deployment, and one before every episode.
    `first` and `apart` make all of them wait (`rules.Waiting`).

    >>> task = Task(dim=2, horizon=3, episodes=100)
    >>> [candidate.name for candidate in candidates_for(99, task)]
    ['every-episode']
    """
    last = planned_episodes(task, "a plan") - 1
    budget = whole("switches", budget, least=0, most=last)
    found = []
    for row in RULES:
        if not hasattr(row.cls, "for_budget"):
            continue
        try:
            schedule = row.cls.for_budget(task, switches=budget, ridge=ridge)
        except ValueError:  # no rule of this kind for that budget
            continue
        if first or apart:
            schedule = checked_schedule(Waiting(schedule, first=first, apart=apart), task)
        candidate = _candidate(row.name, schedule, task, ridge)
        if candidate.deployment_limit <= budget:
            found.append(candidate)
    return found[:1] if budget in (0, last) else found


def own_candidates(
    schedules: Iterable[Schedule], task: Task, *, ridge: float = 1.0
) -> list[Candidate]:
    """Return the candidates of the user's own rules."""
    if not isinstance(schedules, Iterable) or isinstance(schedules, np.ndarray):
        raise TypeError(f"candidates must be a list of schedules; got {short_repr(schedules)}")
    checked = [checked_schedule(schedule, task, "candidates") for schedule in schedules]
    made = [_candidate(_own_name(schedule), schedule, task, ridge) for schedule in checked]
    return [replace(candidate, own=True) for candidate in made]


def _candidate(name: str, schedule: Schedule, task: Task, ridge: float) -> Candidate:
    promise = getattr(schedule, "deployment_limit", None)
    # The theorems assume own stages.
    bound = None if task.pools.shared else getattr(schedule, "regret_bound", None)
    limit = planned_episodes(task, "a plan") - 1
    if promise is not None:
        limit = math.floor(min(limit, promise(task, ridge)))
    return Candidate(
        name=name,
        schedule=schedule,
        deployment_limit=limit,
        guaranteed=promise is not None,
        bound=bound and bound(task, ridge),
    )


def _own_name(schedule: Schedule) -> str:
    """Return the rule's text for the command line, or else the name of its class."""
    try:
        return to_words(schedule)
    except ValueError:
        return row_of(schedule).name


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate with a recipe, and their simulated or replayed results.

    `regret` is the average per episode, or the shortfall if that is the simulator's `measure`, and
    `mean_return` the average return, if known. `deployments` counts deployments after the first,
    and `switches` those that changed an action. `replayed` counts the deployments after the first
    on a given log. `prices` is the range of prices of a deployment, in units of reward, at which
    this option is the cheapest (None: never).
    """

    candidate: Candidate
    recipe: Recipe
    outcomes: tuple[Outcome, ...] = field(default=(), repr=False)
    regret: Estimate | None = None
    mean_return: Estimate | None = None
    deployments: Estimate | None = None
    switches: Estimate | None = None
    optimistic: float | None = None
    replayed: int | None = None
    prices: tuple[float, float] | None = None

    @property
    def exploration(self) -> Exploration:
        return self.recipe.exploration

    @property
    def measure(self) -> str:
        """The measure of `regret`, "regret" or "shortfall"."""
        return self.outcomes[0].measure if self.outcomes else "regret"

    @property
    def mixture(self) -> bool:
        return self.exploration.members > 1

    @property
    def untuned(self) -> bool:
        """Whether fits estimate noise and ridge, so that no β is tuned."""
        return self.exploration.estimate

    @property
    def exploration_words(self) -> str:
        """The suffix of names: estimates, or a mixture with its members unless they are 32."""
        if not self.mixture:
            return " (estimates)" if self.untuned else ""
        count = self.exploration.members
        return " (mixture)" if count == Ensemble().members else f" (mixture of {count})"

    @property
    def title(self) -> str:
        """The rule's name, with a suffix for its exploration."""
        return f"{self.candidate.name}{self.exploration_words}"

    @property
    def label(self) -> str:
        """The name in figures: with the paper's bonus, rules of the paper have its names."""
        row = row_of(inner_rule(self.candidate.schedule))
        if is_paper_bonus(self.exploration) and self.candidate.label == row.plain_label:
            return row.label
        return f"{self.candidate.label}{self.exploration_words}"

    @property
    def name(self) -> str:
        if not self.candidate.guaranteed:
            return f"{self.title}, not guaranteed"
        return f"{self.title}, at most {self.candidate.deployment_limit}"

    @property
    def bound(self) -> RegretBound | None:
        """The bound on the regret, if the exploration is the paper's bonus."""
        proved = is_paper_bonus(self.exploration) and self.recipe.learned_only
        return self.candidate.bound if proved else None

    def with_outcomes(
        self, outcomes: tuple[Outcome, ...], rounds: Rounds, episodes: int
    ) -> "Option":
        """Return the option with the results of its rounds, unless they refute the user's limit."""
        if self.candidate.own and self.candidate.guaranteed:
            self._require_limit(outcomes)
        earned = [one.mean_return for one in outcomes if one.mean_return is not None]
        counts = np.array([(one.deployments - 1, one.switches) for one in outcomes], float)
        return replace(
            self,
            outcomes=outcomes,
            regret=rounds.estimate(regrets(outcomes) / episodes),
            mean_return=(
                rounds.estimate(np.array(earned)) if len(earned) == len(outcomes) else None
            ),
            deployments=rounds.estimate(counts[:, 0]),
            switches=rounds.estimate(counts[:, 1]),
            optimistic=optimistic(outcomes),
        )

    def _require_limit(self, outcomes: tuple[Outcome, ...]) -> None:
        limit = self.candidate.deployment_limit
        for number, one in enumerate(outcomes):
            if one.deployments - 1 > limit:
                raise ValueError(
                    f"deployment_limit of {self.candidate.name} must be at least the deployments "
                    f"after the first of every run; it is {limit}, and round {number} has "
                    f"{one.deployments - 1}. Correct the rule's deployment_limit, its due or the "
                    "simulator"
                )

    @property
    def by_role(self) -> dict[str, dict[str, float]] | None:
        """The share of episodes of each role, and its average regret per episode.

        None if the simulator does not report roles, or if learned members play everything.
        """
        told = [one.by_role for one in self.outcomes if one.by_role is not None]
        if not told or len(told) < len(self.outcomes) or self.recipe.learned_only:
            return None
        found = {}
        for role in ROLES:
            counts = [each.get(role, (0, 0.0)) for each in told]
            played, regret = (sum(column) for column in zip(*counts, strict=True))
            if played:
                everyone = sum(episodes for each in told for episodes, _ in each.values())
                found[role] = {"share": played / everyone, "regret": regret / played}
        return found

    def with_more_members(self, task: Task) -> "Option | None":
        """Return the option with the largest useful number of members, if it is at least doubled.

        More members than episodes in a deployment are useless. With two actions at each stage, more
        than 2^(H−1) members do not explore further, so the number grows with the horizon.
        """
        episodes = planned_episodes(task, "a plan") / (1.0 + self.expected_deployments())
        count = min(MOST_MEMBERS, int(episodes), 2 ** min(task.horizon - 1, 30))
        explores = self.exploration
        if not isinstance(explores, Ensemble) or count < 2 * explores.members:
            return None
        wider = replace(self.recipe, exploration=replace(explores, members=count))
        return replace(self, recipe=wider, outcomes=(), regret=None)

    def with_looks(self) -> "Option | None":
        """Return a mixture's option with `Worthwhile`, which declines candidates, or None."""
        rule, name = self.candidate.schedule, f"worthwhile {self.candidate.name}"
        if not self.mixture or not self.candidate.deployment_limit or hasattr(rule, "accepts"):
            return None
        if self.expected_deployments() > MOST_LOOKS:
            return None
        looking = replace(self.candidate, name=name, schedule=Worthwhile(rule), bound=None)
        return replace(self, candidate=looking, outcomes=(), regret=None, replayed=None)

    def saved(self, base: "Option") -> str:
        """Describe the deployments that this option saves, compared with another option."""
        return (
            f"{self.title} declines candidates that are not worth a deployment: it makes "
            f"{self.deployments} instead of {base.expected_deployments():.4g}, with {self.regret}."
        )

    def expected_deployments(self) -> float:
        """Return the deployments after the first: the simulated mean, or else the limit."""
        return self.deployments.mean if self.deployments else float(self.candidate.deployment_limit)

    def expected_regret(self, episodes: int) -> float:
        """Return the total regret: the simulated mean, or else the bound."""
        if self.regret is not None:
            return self.regret.mean * episodes
        return self.bound.total if self.bound else np.inf


def price_options(options: Sequence[Option], episodes: int) -> list[Option]:
    """Return the options with the range of prices at which each is the cheapest."""
    points = [(o.expected_deployments(), o.expected_regret(episodes)) for o in options]
    filled = []
    for (n, regret), option in zip(points, options, strict=True):
        low, high = 0.0, np.inf
        for m, other in points:
            if m > n:
                low = max(low, (regret - other) / (m - n))
            elif m < n:
                high = min(high, (other - regret) / (n - m))
            elif other < regret:
                high = -1.0
        prices = (float(low), float(high)) if low <= high and np.isfinite(regret) else None
        filled.append(replace(option, prices=prices))
    return filled
