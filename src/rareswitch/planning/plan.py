"""`plan`: I may change the policy at most B times in K episodes; which rule should I use?"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rareswitch.core.arguments import Floats, floats, real, whole
from rareswitch.core.optimism import Bonus
from rareswitch.core.schedule import Schedule
from rareswitch.core.streams import Stream, generator
from rareswitch.experiments import stats
from rareswitch.planning.beta import BETA_EXPONENTS, BetaSweep, sweep_beta
from rareswitch.planning.candidates import Candidate, Sizes, candidates_for, replay
from rareswitch.planning.estimate import Estimate, estimate, optimistic, regrets
from rareswitch.planning.simulator import Outcome, Simulator

DEFAULT_BETA = 1.0


@dataclass(frozen=True, kw_only=True)
class Option:
    """A candidate with what was simulated or replayed of it.

    `regret` is the average an episode; `replayed` the switches on a given log; `prices` the range
    of prices for a switch, in units of reward, at which this is the cheapest option (None: never).
    """

    candidate: Candidate
    regret: Estimate | None = None
    switches: Estimate | None = None
    optimistic: float | None = None
    replayed: int | None = None
    prices: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        return f"{self.candidate.name}, at most {self.candidate.guaranteed_switches}"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The options, the one to take, why, and the code to paste."""

    sizes: Sizes
    beta: float
    beta_source: str
    options: tuple[Option, ...]
    recommended: Option
    reason: str
    sweep: BetaSweep | None = None

    @property
    def code(self) -> str:
        s = self.sizes
        return (
            "import rareswitch as rs\n\n"
            f"learner = rs.Learner(\n    dim={s.dim},\n    horizon={s.horizon},\n"
            f"    schedule={self.recommended.candidate.code},\n"
            f"    beta={self.beta!r},\n    ridge={s.ridge!r},\n)"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values, for JSON."""
        return {
            "sizes": vars(self.sizes),
            "beta": self.beta,
            "beta_source": self.beta_source,
            "recommended": self.recommended.name,
            "reason": self.reason,
            "code": self.code,
            "options": [_option_dict(option) for option in self.options],
            "beta_sweep": self.sweep.to_dict() if self.sweep else None,
        }


def plan(
    *,
    episodes: int,
    horizon: int,
    dim: int,
    feature_norm: float = 1.0,
    ridge: float = 1.0,
    switches: int | None = None,
    target: float | None = None,
    price: float | None = None,
    beta: float | None = None,
    simulator: Simulator | None = None,
    log: Floats | None = None,
    rounds: int = 20,
    seed: int = 0,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Plan:
    """Plan from exactly one of a budget of switches, a target for regret, or a price of a switch.

    `target` is an average regret an episode, `price` is in units of reward. With a simulator every
    option is played for `rounds` rounds on common random numbers, and where `beta` is not given it
    is chosen by a sweep; without one, the choice rests on what is guaranteed. `log` (n, H, d) are
    logged features on which each rule's switches are counted.

    >>> choice = plan(episodes=2500, horizon=10, dim=13, switches=200)
    >>> choice.recommended.name
    'adaptive budget, at most 200'
    """
    sizes = Sizes(
        episodes=episodes, horizon=horizon, dim=dim, feature_norm=feature_norm, ridge=ridge
    )
    rounds = whole("rounds", rounds, least=2)
    if [switches, target, price].count(None) != 2:
        raise ValueError("exactly one of switches, target and price must be given")
    target = None if target is None else real("target", target, least=0.0)
    price = None if price is None else real("price", price, least=0.0)
    if target is not None and simulator is None:
        raise ValueError(
            "target needs a simulator: no bound of the paper is below what acting at random "
            "loses at practical sizes. Give a simulator, or a budget of switches instead"
        )
    budgets = ladder(sizes.episodes) if switches is None else [switches]
    options = [Option(candidate=c) for b in budgets for c in candidates_for(b, sizes)]
    if log is not None:
        log = floats("log", log, ("n", sizes.horizon, sizes.dim))
        options = [
            replace(o, replayed=len(replay(o.candidate.schedule, log, ridge=ridge)))
            for o in options
        ]

    seeds = [(seed, round_) for round_ in range(rounds)]
    weights = stats.resamples(rounds, generator(seed, Stream.BOOTSTRAP))
    sweep, source = None, "given"
    sweeping = beta is None and simulator is not None
    total = len(options) + (len(BETA_EXPONENTS) if sweeping else 0)
    done = 0

    def play(schedule: Schedule, radius: float) -> Sequence[Outcome]:
        nonlocal done
        assert simulator is not None
        outcomes = simulator(schedule, Bonus(radius), seeds)
        if len(outcomes) != rounds:
            raise ValueError(
                f"simulator must return one outcome for each of {rounds} seeds; got {len(outcomes)}"
            )
        if bad := [o for o in outcomes if not (0.0 <= o.regret < np.inf and o.switches >= 0)]:
            raise ValueError(
                f"simulator must return a finite regret of at least 0 and a number of switches; "
                f"got {bad[0]}"
            )
        done += 1
        progress(done, max(done, total))
        return outcomes

    if sweeping:
        reference = candidates_for(budgets[len(budgets) // 2], sizes)[0].schedule
        sweep = sweep_beta(lambda radius: play(reference, radius), sizes.episodes, weights)
        beta, source = sweep.chosen, "swept on the simulator"
    elif beta is None:
        beta, source = DEFAULT_BETA, "the default; no simulator to choose it with"
    beta = real("beta", beta, least=0.0)
    plays: list[Sequence[Outcome]] = []
    if simulator is not None:
        plays = [play(o.candidate.schedule, beta) for o in options]
        options = [
            _simulated(option, outcomes, sizes.episodes, weights)
            for option, outcomes in zip(options, plays, strict=True)
        ]
    if price is not None:
        options = _priced(options, sizes.episodes)
    if switches is not None and plays:
        recommended, reason = _least_regret(options, plays, weights)
    else:
        recommended, reason = _choose(options, sizes, target=target, price=price)
    return Plan(
        sizes=sizes,
        beta=beta,
        beta_source=source,
        options=tuple(options),
        recommended=recommended,
        reason=reason,
        sweep=sweep,
    )


def ladder(episodes: int) -> list[int]:
    """Return the budgets tried when none is given: 0, then about three a decade, up to K−1."""
    steps = [m * 10**e for e in range(len(str(episodes))) for m in (1, 2, 5)]
    return [0, *(b for b in steps if b < episodes - 1), episodes - 1] if episodes > 1 else [0]


def _simulated(
    option: Option, outcomes: Sequence[Outcome], episodes: int, weights: Floats
) -> Option:
    return replace(
        option,
        regret=estimate(regrets(outcomes) / episodes, weights),
        switches=estimate(np.array([float(o.switches) for o in outcomes]), weights),
        optimistic=optimistic(outcomes),
    )


def _least_regret(
    options: Sequence[Option], plays: Sequence[Sequence[Outcome]], weights: Floats
) -> tuple[Option, str]:
    """Choose the option with the least regret, and name those not measurably worse, paired."""
    totals = [regrets(outcomes) for outcomes in plays]
    best = int(np.argmin([values.mean() for values in totals]))
    level = [
        option.candidate.name
        for i, option in enumerate(options)
        if i != best and stats.difference_interval(totals[i], totals[best], weights)[1] <= 0.0
    ]
    rest = f"; not measurably worse on the same rounds: {', '.join(level)}" if level else ""
    reason = f"it has the least simulated regret, {options[best].regret} an episode{rest}."
    return options[best], reason


def _choose(
    options: Sequence[Option], sizes: Sizes, *, target: float | None, price: float | None
) -> tuple[Option, str]:
    if price is not None:
        costs = [_cost(option, sizes.episodes, price) for option in options]
        best = options[int(np.argmin(costs))]
        vacuous = best.candidate.bound is not None and best.candidate.bound.vacuous
        basis = "the regret bound (vacuous here)" if vacuous else "the regret bound"
        basis = "simulated regret" if best.regret else basis
        low, high = best.prices or (price, price)
        return best, (
            f"{basis} plus {price:g} for each switch is least, and stays least for prices from "
            f"{low:.3g} to {high:.3g}."
        )
    if target is not None:
        reached = [o for o in options if o.regret and o.switches and o.regret.high <= target]
        if not reached:
            least = min(options, key=lambda o: o.regret.high if o.regret else np.inf)
            reachable = math.ceil(1e4 * least.regret.high) / 1e4 if least.regret else np.nan
            raise ValueError(
                f"target must be at least {reachable:g}, the least that is reached for certain "
                f"here (by {least.name}); got {target:g}"
            )
        best = min(reached, key=lambda o: o.switches.mean if o.switches else np.inf)
        return best, f"it reaches the target with the fewest switches: {best.switches}."
    budget = options[0].candidate.guaranteed_switches
    if len(options) == 1:
        return options[0], "it is the only rule with that budget."
    if budget >= sizes.dim * sizes.horizon:
        return options[0], (
            f"the budget is at least dH = {sizes.dim * sizes.horizon}, so a rule that follows the "
            "data keeps Theorem 2's bound, and this one also uses what earlier growth left over."
        )
    grid = next(o for o in options if o.candidate.name == "uniform grid")
    return grid, (
        f"the budget is below dH = {sizes.dim * sizes.horizon}: a rule that follows the data may "
        "leave much of it unspent, while a grid spends all of it."
    )


def _priced(options: Sequence[Option], episodes: int) -> list[Option]:
    """Fill in, for each option, the prices at which none other is cheaper."""
    points = [(_expected_switches(o), _expected_regret(o, episodes)) for o in options]
    priced = []
    for (n, regret), option in zip(points, options, strict=True):
        low, high = 0.0, np.inf
        for m, other in points:
            if m > n:
                low = max(low, (regret - other) / (m - n))
            elif m < n:
                high = min(high, (other - regret) / (n - m))
            elif other < regret:
                high = -1.0
        prices = (float(low), float(high)) if low <= high else None
        priced.append(replace(option, prices=prices))
    return priced


def _cost(option: Option, episodes: int, price: float) -> float:
    return _expected_regret(option, episodes) + price * _expected_switches(option)


def _expected_switches(option: Option) -> float:
    if option.switches is not None:
        return option.switches.mean
    return float(option.candidate.guaranteed_switches)


def _expected_regret(option: Option, episodes: int) -> float:
    if option.regret is not None:
        return option.regret.mean * episodes
    return option.candidate.bound.total if option.candidate.bound else np.inf


def _option_dict(option: Option) -> dict[str, Any]:
    bound = option.candidate.bound
    return {
        "name": option.name,
        "code": option.candidate.code,
        "guaranteed_switches": option.candidate.guaranteed_switches,
        "regret_bound": bound.total if bound else None,
        "regret_bound_vacuous": bound.vacuous if bound else None,
        "regret": vars(option.regret) if option.regret else None,
        "switches": vars(option.switches) if option.switches else None,
        "optimistic": option.optimistic,
        "replayed_switches": option.replayed,
        "cheapest_for_prices": option.prices and [_finite(p) for p in option.prices],
    }


def _finite(value: float) -> float | None:
    """JSON has no infinity."""
    return value if np.isfinite(value) else None
