"""`plan`: I may deploy at most B times in K episodes; which rule should I use?"""

import math
import shlex
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from typing import Any

from rareswitch.core.arguments import flag, positive_ridge, shown
from rareswitch.core.budget import AdaptiveBudget
from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Bonus, Ensemble, Exploration
from rareswitch.core.recipe import Recipe
from rareswitch.core.rules import describe
from rareswitch.core.schedule import Schedule
from rareswitch.core.task import Task, checked_task
from rareswitch.outcome import MEASURES, Simulator
from rareswitch.planning.beta import BETA_EXPONENTS, BetaSweep, sweep_beta
from rareswitch.planning.candidates import Candidate, candidates_for, own_candidates
from rareswitch.planning.choice import Request, choose
from rareswitch.planning.option import Option, priced
from rareswitch.planning.paste import Paste
from rareswitch.planning.replay import replay_all
from rareswitch.planning.rounds import Rounds

# Budgets of a plan that was given none: beyond it, mixtures are not tried.
MOST_FOR_MIXTURES = 50


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options, the one to take, why, and the code to paste."""

    task: Task
    ridge: float
    exploration_source: str
    options: tuple[Option, ...]
    recommended: Option
    reason: str
    sweep: BetaSweep | None = None

    @property
    def exploration(self) -> Exploration:
        return self.recommended.exploration

    @property
    def measure(self) -> str:
        """What was simulated: "regret", or "shortfall" where that is not known."""
        return self.recommended.measure

    @property
    def paste(self) -> Paste:
        """The recommendation, to be written as code or as a command."""
        return Paste(
            schedule=self.recommended.candidate.schedule,
            exploration=self.exploration,
            ridge=self.ridge,
            episodes=self.task.episodes,
        )

    @property
    def code(self) -> str:
        """Python that makes the learner."""
        arguments = (
            f"dim={self.task.dim},",
            f"horizon={self.task.horizon},",
            *([f"stages={self.task.stages!r},"] if self.task.pools.shared else []),
            *self.paste.arguments,
        )
        lines = [*self.paste.imports, "", "learner = rs.Learner("]
        return "\n".join([*lines, *(f"    {argument}" for argument in arguments), ")"])

    @property
    def command(self) -> str | None:
        """The command that plays the recommended rule; --instance and the like name the world.

        None where the rule or the exploration cannot be written on the command line, or stages
        share their steps.
        """
        if self.task.pools.shared:
            return None
        # A feature norm is said wherever a rule has one: `learn` would take that of its world.
        settled = {"episodes": self.task.episodes, "dim": self.task.dim, "ridge": self.ridge}
        if (options := self.paste.options(settled)) is None:
            return None
        numbers = ["--ridge", repr(self.ridge), "--episodes", str(self.task.episodes)]
        return shlex.join(["rareswitch", "learn", *options, *numbers])

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        plain: dict[str, Any] = _plain(
            {
                "task": self.task,
                "ridge": self.ridge,
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
        return plain


def plan(
    task: Task,
    *,
    switches: int | None = None,
    target: float | None = None,
    price: float | None = None,
    ridge: float = 1.0,
    beta: float | None = None,
    exploration: Exploration | None = None,
    randomise: bool = True,
    candidates: Iterable[Schedule] = (),
    simulator: Simulator | None = None,
    log: Iterable[Episode] | None = None,
    rounds: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Plan from exactly one of a budget, a target for regret, or a price of a deployment.

    `switches`, the budget, and `price`, in units of reward, count deployments after the first;
    `target` is an average regret an episode, or shortfall if that is what the simulator measures.
    `candidates` are rules of your own to judge beside the package's. Where neither `beta` nor
    `exploration` is given, every rule is judged with the paper's bonus and, unless `randomise` is
    False, with a mixture, `Ensemble()`; at budgets above 50 that no one asked for, mixtures are
    left out. With a simulator every option is played for `rounds` rounds on common random numbers,
    and β is chosen by a sweep; without one, the choice rests on what is guaranteed. On the episodes
    of `log` each rule's deployments are counted.

    >>> task = Task(dim=13, horizon=10, episodes=2500)
    >>> plan(task, switches=9).recommended.name
    'spread-budget (mixture), at most 9'
    >>> plan(task, switches=200, randomise=False).recommended.name
    'adaptive-budget, at most 200'
    """
    request = Request(switches=switches, target=target, price=price)
    given = (
        None
        if beta is None and exploration is None
        else Recipe.of(beta=beta, exploration=exploration).exploration
    )
    ridge, randomise = positive_ridge(ridge), flag("randomise", randomise)
    if not randomise and given is not None and given.members > 1:
        raise ValueError(
            f"exploration must have one member where randomise is False; got {shown(given)}"
        )
    candidate_list = _candidates(request, task, ridge, candidates)
    mixed = [] if given is not None or not randomise else _mixtures(request, candidate_list)
    played = None
    if simulator is not None:
        count = len(candidate_list) + len(mixed) + (len(BETA_EXPONENTS) if given is None else 0)
        played = Rounds(simulator, rounds=rounds, seed=seed, simulations=count, progress=progress)
    source, sweep = "given", None
    if given is None:
        source, sweep = _settled(request, task, ridge, played)
    single = given or Bonus(1.0 if sweep is None else sweep.chosen)
    options = [Option(candidate=candidate, exploration=single) for candidate in candidate_list]
    options += [Option(candidate=candidate, exploration=Ensemble()) for candidate in mixed]
    if log is not None:
        options = _replayed(options, log, task, ridge)
    if played is not None:
        options = _simulated(options, played, task.episodes)
    if price is not None:
        options = priced(options, task.episodes)
    recommended, reason = choose(request, options, task, played)
    return Plan(
        task=task,
        ridge=ridge,
        exploration_source="nothing to tune" if recommended.mixture and given is None else source,
        options=tuple(options),
        recommended=recommended,
        reason=reason,
        sweep=sweep,
    )


def _candidates(
    request: Request, task: Task, ridge: float, own: Iterable[Schedule]
) -> list[Candidate]:
    budgets = request.budgets(checked_task(task).episodes)
    ours = [one for budget in budgets for one in candidates_for(budget, task, ridge=ridge)]
    return [*ours, *own_candidates(own, task, ridge=ridge)]


def _mixtures(request: Request, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the rules to judge with mixtures: more switches hardly help them, and take long."""
    if request.switches is not None:
        return list(candidates)
    return [one for one in candidates if one.deployment_limit <= MOST_FOR_MIXTURES]


def _settled(
    request: Request, task: Task, ridge: float, rounds: Rounds | None
) -> tuple[str, BetaSweep | None]:
    """Sweep β with the adaptive rule of the middle budget; return where β is from, and how."""
    if rounds is None:
        return "the default; no simulator to choose it with", None
    budgets = request.budgets(task.episodes)
    ours = [c.schedule for c in candidates_for(budgets[len(budgets) // 2], task, ridge=ridge)]
    reference = next((one for one in ours if isinstance(one, AdaptiveBudget)), ours[0])
    return "swept on the simulator", sweep_beta(reference, rounds, task.episodes)


def _replayed(
    options: Sequence[Option], log: Iterable[Episode], task: Task, ridge: float
) -> list[Option]:
    dates = replay_all([o.candidate.schedule for o in options], log, task, ridge=ridge)
    return [replace(o, replayed=len(its)) for o, its in zip(options, dates, strict=True)]


def _simulated(options: Sequence[Option], rounds: Rounds, episodes: int) -> list[Option]:
    return [
        o.simulated(rounds.play(o.candidate.schedule, o.exploration), rounds, episodes)
        for o in options
    ]


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
    }


def _sweep_dict(sweep: BetaSweep, measure: str) -> dict[str, Any]:
    """Return a sweep under the name of what was measured."""
    return {measure if name == "regret" else name: part for name, part in vars(sweep).items()}


def _plain(value: Any) -> Any:
    """Return what JSON can hold: no dataclasses, and no numbers that are not finite."""
    if is_dataclass(value) and not isinstance(value, type):
        value = asdict(value)
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
