"""The request of a plan, and the choice of an option."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rareswitch.core.task import Task, planned_episodes
from rareswitch.planning.options import Option
from rareswitch.planning.rounds import Rounds, mean_regret
from rareswitch.rules.budget import AdaptiveBudget, SpreadBudget
from rareswitch.rules.paper import UniformGrid
from rareswitch.rules.waiting import inner_rule
from rareswitch.support.arguments import real, set_fields


@dataclass(frozen=True, kw_only=True)
class Request:
    """Exactly one of a budget of deployments, a target regret and a price of a deployment.

    If regret is unknown, the target is a shortfall.
    """

    switches: int | None
    target: float | None
    price: float | None

    def __post_init__(self) -> None:
        if sum(value is None for value in (self.switches, self.target, self.price)) != 2:
            raise ValueError("exactly one of switches, target and price must be given")
        for name in ("target", "price"):
            if (value := getattr(self, name)) is not None:
                set_fields(self, **{name: real(name, value, least=0.0)})

    def budgets(self, episodes: int) -> list[int]:
        """Return the budgets to try."""
        return ladder(episodes) if self.switches is None else [self.switches]


def ladder(episodes: int) -> list[int]:
    """Return the default budgets: 0, then about three a decade, up to K−1."""
    steps = [m * 10**e for e in range(len(str(episodes))) for m in (1, 2, 5)]
    return [0, *(b for b in steps if b < episodes - 1), episodes - 1] if episodes > 1 else [0]


def choose(
    request: Request, options: Sequence[Option], task: Task, rounds: Rounds | None
) -> tuple[Option, str]:
    """Return the best option and the reason; without rounds the choice rests on guarantees."""
    episodes = planned_episodes(task, "a plan")
    if request.price is not None:
        return _least_cost(options, episodes, request.price)
    if request.target is not None:
        if rounds is None:
            raise ValueError(
                "target needs a simulator: at practical sizes every bound of the paper exceeds the "
                "regret of random actions. Give a simulator, or a budget of switches instead"
            )
        return _fewest(options, request.target)
    assert request.switches is not None
    kept = [o for o in options if o.candidate.deployment_limit <= request.switches]
    if rounds is not None:
        return _least_regret(kept, rounds)
    return _most_certain(kept, task, request.switches)


def _least_cost(options: Sequence[Option], episodes: int, price: float) -> tuple[Option, str]:
    costs = [o.expected_regret(episodes) + price * o.expected_deployments() for o in options]
    if not np.isfinite(costs).any():
        raise ValueError(
            "price needs a simulator: no regret bound is proved for this exploration. Give "
            "a simulator, or a budget of switches instead"
        )
    best = options[int(np.argmin(costs))]
    vacuous = best.bound is not None and best.bound.vacuous
    basis = "the regret bound (vacuous here)" if vacuous else "the regret bound"
    basis = f"simulated {best.measure}" if best.regret else basis
    low, high = best.prices or (price, price)
    return best, (
        f"{basis} plus {price:g} for each deployment after the first is least, and stays least for "
        f"prices from {low:.3g} to {high:.3g}."
    )


def _fewest(options: Sequence[Option], target: float) -> tuple[Option, str]:
    reached = [o for o in options if o.regret and o.regret.high <= target]
    if not reached:
        least = min(options, key=lambda o: o.regret.high if o.regret else np.inf)
        reachable = math.ceil(1e4 * least.regret.high) / 1e4 if least.regret else np.nan
        raise ValueError(
            f"target must be at least {reachable:g}, the lowest that an option reaches with its "
            f"interval ({least.name}); got {target:g}"
        )
    best = min(reached, key=lambda o: (o.expected_deployments(), mean_regret(o.outcomes)))
    return best, (
        f"it reaches the target with the fewest deployments after the first: {best.deployments}."
    )


def _least_regret(options: Sequence[Option], rounds: Rounds) -> tuple[Option, str]:
    """Choose the option with the least regret; list options not measurably worse in pairs."""
    best = min(options, key=lambda o: mean_regret(o.outcomes))
    level = [
        o.title for o in options if o is not best and not rounds.worse(o.outcomes, best.outcomes)
    ]
    rest = f"; not measurably worse on the same rounds: {', '.join(level)}" if level else ""
    others = [o for o in options if o.mixture is not best.mixture]
    if others:
        other = min(others, key=lambda o: mean_regret(o.outcomes))
        kind = "mixture" if other.mixture else "single policy"
        rest += f". With the same budget the best {kind}, {other.title}, has {other.regret}"
    return best, f"it has the least simulated {best.measure}, {best.regret} per episode{rest}."


def _most_certain(options: Sequence[Option], task: Task, budget: int) -> tuple[Option, str]:
    episodes = planned_episodes(task, "a plan")
    if budget in (0, episodes - 1):
        best = next((option for option in options if option.mixture), options[0])
        return best, "it is the only switching rule of the package with that budget."
    mixture = any(option.mixture for option in options)
    if mixture or all(option.bound is None for option in options):
        why = ", and a mixture explores more within a deployment than one policy"
        best = _of_kind(options, SpreadBudget, mixture=mixture)
        wider = best.with_more_members(task)
        more = f", and show whether {wider.exploration.members} members are better" if wider else ""
        return best, (
            f"it keeps the budget on every path and spends all of it{why if mixture else ''}. No "
            f"bound on its regret is proved: a simulator would estimate it{more}."
        )
    product = task.dim * task.horizon
    if budget >= product:
        kind: type[object] = AdaptiveBudget
        reason = (
            f"the budget is at least dH = {product}, so a rule based on the data keeps Theorem 2's "
            "bound, and this rule also uses the budget that earlier growth left over."
        )
    else:
        kind = UniformGrid
        reason = (
            f"the budget is below dH = {product}: a rule based on the data may leave much of it "
            "unspent, while a grid spends all of it."
        )
    return _of_kind(options, kind, mixture=False), reason


def _of_kind(options: Sequence[Option], kind: type[object], *, mixture: bool) -> Option:
    found = (
        o
        for o in options
        if type(inner_rule(o.candidate.schedule)) is kind and o.mixture is mixture
    )
    return next(found)
