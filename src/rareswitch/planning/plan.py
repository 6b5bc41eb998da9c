"""`plan`: choose a rule for at most B deployments in K episodes."""

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from rareswitch.core.clock import Schedule
from rareswitch.core.control import Control
from rareswitch.core.episode import Episode, NoOffersError
from rareswitch.core.exploration import Bonus, Exploration
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, planned_episodes
from rareswitch.learning.learner import checked_recipe
from rareswitch.learning.snapshot import describe_recipe
from rareswitch.planning.choice import Request, choose
from rareswitch.planning.options import (
    Candidate,
    Option,
    candidates_for,
    own_candidates,
    price_options,
)
from rareswitch.planning.paste import Paste
from rareswitch.planning.replay import replay_all
from rareswitch.planning.rounds import BETA_EXPONENTS, BetaSweep, Rounds, sweep_beta
from rareswitch.rules.budget import AdaptiveBudget, SpreadBudget
from rareswitch.rules.waiting import inner_rule
from rareswitch.rules.words import describe
from rareswitch.sim.outcome import MEASURES, Simulator
from rareswitch.support.arguments import flag, short_repr

# Without a given budget, explorations without tuning are tried up to this many deployments.
MOST_UNTUNED = 50
# One policy without tuning: every fit estimates the noise, and the bonus is 1 times the noise.
ESTIMATED = Bonus(1.0, estimate=True)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options, the recommended option, the reason, and code to paste."""

    task: Task
    exploration_source: str
    options: tuple[Option, ...]
    recommended: Option
    reason: str
    sweep: BetaSweep | None = None

    @property
    def recipe(self) -> Recipe:
        return self.recommended.recipe

    @property
    def exploration(self) -> Exploration:
        return self.recipe.exploration

    @property
    def measure(self) -> str:
        """The measure of the simulator: "regret", or "shortfall" if regret is unknown."""
        return self.recommended.measure

    @property
    def paste(self) -> Paste:
        """The recommendation, for output as code or as a command."""
        return Paste(schedule=self.recommended.candidate.schedule, recipe=self.recipe)

    @property
    def code(self) -> str:
        """Python code that makes the learner."""
        arguments = (f"rs.{self.task!r},", *self.paste.arguments)
        lines = [*self.paste.imports, "", "learner = rs.Learner("]
        return "\n".join([*lines, *(f"    {argument}" for argument in arguments), ")"])

    @property
    def command(self) -> str | None:
        """The command that plays the recommended rule, in a world given by --instance or similar.

        None if the command line cannot express the rule or the exploration, or if stages share
        their steps.
        """
        options = None if self.task.pools.shared else self.paste.options()
        if options is None:
            return None
        numbers = ["--ridge", repr(self.recipe.ridge), "--episodes", str(self.task.episodes)]
        rule: Any = self.recommended.candidate.schedule
        while hasattr(rule, "schedule"):
            rule = rule.schedule
        if isinstance(rule, AdaptiveBudget | SpreadBudget):
            numbers += ["--feature-norm", repr(self.task.feature_norm)]  # thresholds need it
        return shlex.join(["rareswitch", "learn", *options, *numbers])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        plain: dict[str, Any] = _json_value(
            {
                "task": self.task,
                "ridge": self.recipe.ridge,
                "exploration": describe(self.exploration),
                "exploration_source": self.exploration_source,
                "recommended": self.recommended.name,
                "reason": self.reason,
                "measure": self.measure,
                "measure_is": MEASURES[self.measure],
                "code": self.code,
                "command": self.command,
                "options": [_option_dict(option) for option in self.options],
                "beta_sweep": self.sweep and _sweep_dict(self.sweep, self.measure),
            }
        )
        if not self.recipe.learned_only:
            told = describe_recipe(self.recipe)
            plain |= {k: told[k] for k in ("control", "floor", "burn_in") if k in told}
        return plain


def plan(
    task: Task,
    *,
    switches: int | None = None,
    target: float | None = None,
    price: float | None = None,
    recipe: Recipe | None = None,
    ridge: float | None = None,
    randomise: bool = True,
    control: Control | None = None,
    floor: float = 0.0,
    burn_in: bool = False,
    first: int = 0,
    apart: int = 0,
    candidates: Iterable[Schedule] = (),
    simulator: Simulator | None = None,
    log: Iterable[Episode] | None = None,
    rounds: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Plan from exactly one of a budget, a target regret, or a price of a deployment.

    `switches`, the budget, and `price`, in units of reward, count deployments after the first;
    `target` is an average regret per episode, or a shortfall if the simulator measures shortfall.
    `candidates` are your own rules to compare with the package's rules. Without a `recipe`, every
    rule is tried with the paper's bonus, with a simulator also with `Bonus(1.0, estimate=True)`,
    and, unless `randomise` is False, with a mixture, `Ensemble()`, all with this `ridge` (by
    default 1). The last two are left out at budgets above 50 unless requested by `switches`.

    With a simulator every option is played for `rounds` rounds on common random numbers, and β is
    chosen by a sweep. If the horizon is long, the best mixture is also played with up to 128
    members, which become an option if they are measurably better. A recommended mixture is also
    played with `Worthwhile` around its rule, which becomes an option if it makes measurably fewer
    deployments at equal regret. Without a simulator, the choice rests on guarantees. Each rule's
    deployments are counted on the episodes of `log`.

    `control`, `floor` and `burn_in` are options of the `Recipe` of every option. `first` and
    `apart` make the package's rules wait for reported episodes (`rules.Waiting`), but not your own
    rules in `candidates`.

    >>> task = Task(dim=13, horizon=10, episodes=2500)
    >>> plan(task, switches=9).recommended.name
    'spread-budget (mixture), at most 9'
    >>> plan(task, switches=200, randomise=False).recommended.name
    'adaptive-budget, at most 200'
    """
    request = Request(switches=switches, target=target, price=price)
    randomise = flag("randomise", randomise)
    if recipe is not None and ridge is not None:
        raise TypeError(f"recipe and ridge exclude each other: a recipe has a ridge; got {ridge}")
    if recipe is not None and checked_recipe(recipe).exploration.members > 1 and not randomise:
        raise ValueError(
            f"recipe must have one member if randomise is False; got {short_repr(recipe)}"
        )
    episodes = planned_episodes(task, "a plan")
    shares: dict[str, Any] = {"control": control, "floor": floor, "burn_in": burn_in}
    if recipe is not None and any(shares.values()):
        raise TypeError("recipe excludes control, floor and burn_in: a recipe has its own")
    default = recipe or Recipe(ridge=1.0 if ridge is None else ridge, **shares)
    waits = {"first": first, "apart": apart}
    candidate_list = _candidates(request, task, default.ridge, candidates, waits)
    untuned = _untuned(request, candidate_list) if recipe is None else []
    mixed = untuned if randomise else []
    estimated = untuned if simulator is not None else []
    played = None
    if simulator is not None:
        count = len(candidate_list) + len(estimated) + len(mixed)
        count += len(BETA_EXPONENTS) if recipe is None else 0
        played = Rounds(
            simulator, task, rounds=rounds, seed=seed, simulations=count, progress=progress
        )
    source, sweep, single = "given", None, default
    if recipe is None:
        source, sweep = _choose_beta(request, task, default, played, waits)
        beta = 1.0 if sweep is None else sweep.chosen
        single = replace(default, exploration=Bonus(beta))
    options = [Option(candidate=candidate, recipe=single) for candidate in candidate_list]
    one_policy = replace(default, exploration=ESTIMATED)
    options += [Option(candidate=candidate, recipe=one_policy) for candidate in estimated]
    options += [Option(candidate=candidate, recipe=default) for candidate in mixed]
    if log is not None:
        options = _replay(options, log, task, default.ridge)
    if played is not None:
        options = _simulate(options, played, episodes)
    if price is not None:
        options = price_options(options, episodes)
    recommended, reason = choose(request, options, task, played)
    if played is not None and recipe is None and (wider := recommended.with_more_members(task)):
        (wider,) = _simulate([wider], played, episodes)
        if played.worse(recommended.outcomes, wider.outcomes):
            options = [*options, wider]
            options = options if price is None else price_options(options, episodes)
            recommended, reason = choose(request, options, task, played)
        else:
            reason += f" {wider.title} has {wider.regret}, not measurably less."
    looking = recommended.with_looks() if played is not None and recipe is None else None
    if played is not None and looking is not None:
        looking = _try(looking, played, episodes)
        if looking is not None and played.saves(looking.outcomes, recommended.outcomes):
            options, said = [*options, looking], looking.saved(recommended)
            options = options if price is None else price_options(options, episodes)
            if switches is None:
                recommended, reason = choose(request, options, task, played)
            else:
                recommended = looking
                reason = f"the rule inside was chosen because {reason}"
            reason += f" {said}"
    return Plan(
        task=task,
        exploration_source="no tuning" if recommended.untuned and recipe is None else source,
        options=tuple(options),
        recommended=recommended,
        reason=reason,
        sweep=sweep,
    )


def _candidates(
    request: Request, task: Task, ridge: float, own: Iterable[Schedule], waits: dict[str, int]
) -> list[Candidate]:
    budgets = request.budgets(planned_episodes(task, "a plan"))
    ours = [one for b in budgets for one in candidates_for(b, task, ridge=ridge, **waits)]
    return [*ours, *own_candidates(own, task, ridge=ridge)]


def _untuned(request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the rules to try without tuning: more switches take long and hardly help."""
    if request.switches is not None:
        return list(candidates)
    return [one for one in candidates if one.deployment_limit <= MOST_UNTUNED]


def _choose_beta(
    request: Request, task: Task, recipe: Recipe, rounds: Rounds | None, waits: dict[str, int]
) -> tuple[str, BetaSweep | None]:
    """Sweep β with the adaptive rule of the median budget; return the source of β and the sweep."""
    if rounds is None:
        return "the default, for lack of a simulator", None
    episodes = planned_episodes(task, "a plan")
    budgets = request.budgets(episodes)
    middle = candidates_for(budgets[len(budgets) // 2], task, ridge=recipe.ridge, **waits)
    ours = [candidate.schedule for candidate in middle]
    adaptive = (one for one in ours if isinstance(inner_rule(one), AdaptiveBudget))
    reference = next(adaptive, ours[0])
    return "swept on the simulator", sweep_beta(reference, recipe, rounds, episodes)


def _replay(
    options: Sequence[Option], log: Iterable[Episode], task: Task, ridge: float
) -> list[Option]:
    dates = replay_all([o.candidate.schedule for o in options], log, task, ridge=ridge)
    return [replace(o, replayed=len(its)) for o, its in zip(options, dates, strict=True)]


def _simulate(options: Sequence[Option], rounds: Rounds, episodes: int) -> list[Option]:
    return [
        o.with_outcomes(rounds.play(o.candidate.schedule, o.recipe), rounds, episodes)
        for o in options
    ]


def _try(option: Option, rounds: Rounds, episodes: int) -> Option | None:
    """Simulate a rule that looks at candidates; None if the episodes lack `first_features`."""
    try:
        return _simulate([option], rounds, episodes)[0]
    except NoOffersError:
        return None


def _option_dict(option: Option) -> dict[str, Any]:
    candidate, bound = option.candidate, option.bound
    return {
        "name": option.name,
        "schedule": describe(candidate.schedule),
        "exploration": describe(option.exploration),
        "code": candidate.code,
        "deployment_limit": candidate.deployment_limit,
        "guaranteed": candidate.guaranteed,
        "regret_bound": bound.total if bound else None,
        "regret_bound_vacuous": bound.vacuous if bound else None,
        "regret": option.regret if option.measure == "regret" else None,
        "shortfall": option.regret if option.measure == "shortfall" else None,
        "mean_return": option.mean_return,
        "deployments": option.deployments,
        "switches": option.switches,
        "optimistic": option.optimistic,
        "replayed_deployments": option.replayed,
        "cheapest_for_prices": option.prices,
    } | ({} if option.by_role is None else {"by_role": option.by_role})


def _sweep_dict(sweep: BetaSweep, measure: str) -> dict[str, Any]:
    """Return a sweep as plain values, with the measure as the key of the regret."""
    return {measure if name == "regret" else name: part for name, part in vars(sweep).items()}


def _json_value(value: Any) -> Any:
    """Return a value for JSON, without dataclasses, NaN and infinity."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
