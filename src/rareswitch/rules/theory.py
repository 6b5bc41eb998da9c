"""The paper's constants and bounds, for any feature norm L = max‖φ‖ and any ridge λ.

The paper assumes L = 1 and λ = 1. Scaling every feature by L and the ridge by L² changes no policy,
so K/d becomes K·L²/(λd) everywhere. The determinant and switching bounds then hold on every path;
the regret bounds hold with the theorems' probability if L² ≤ λ and both ‖μ_h(S)‖ and ‖θ_h‖ are at
most √(d/λ). T = KH; `failure_probability` is the theorems' δ; a `Task` has d, H, K and L.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rareswitch.core.task import Task, checked_task, planned_episodes
from rareswitch.support.arguments import positive_ridge, real, whole


@dataclass(frozen=True, kw_only=True)
class RegretBound:
    """A bound on the total regret, term by term; `trivial` is KH, the maximum of any regret."""

    terms: dict[str, float]
    trivial: float

    @property
    def total(self) -> float:
        return sum(self.terms.values())

    @property
    def vacuous(self) -> bool:
        """Whether the bound is not below KH."""
        return self.total >= self.trivial

    def __float__(self) -> float:
        return self.total


def information_gain(task: Task, *, ridge: float = 1.0, episodes: int | None = None) -> float:
    """Return d·log(1 + K·L²/(λd)), the maximum growth of one log det Λ_h in K episodes.

    `episodes` replaces the task's K. If stages share, an episode adds up to n = H steps to a Λ, and
    n·K replaces K.
    """
    checked_task(task)
    K = _episodes(task) if episodes is None else whole("episodes", episodes, least=0)
    return _growth(task, ridge, K * int(task.pools.steps.max()))


def _growth(task: Task, ridge: float, K: int) -> float:
    """Return d·log(1 + K·L²/(λd)), the maximum growth of a log det in K steps."""
    ridge = positive_ridge(ridge)
    squared = task.feature_norm**2
    if squared / ridge > 1e290:  # K times this ratio may overflow; the 1 is negligible
        return task.dim * (math.log(max(K, 1)) + math.log(squared) - math.log(ridge * task.dim))
    return task.dim * math.log1p(K * squared / (ridge * task.dim))


def total_growth(task: Task, *, ridge: float = 1.0, episodes: int | None = None) -> float:
    """Return the maximum of the total growth of all log det Λ in K episodes, on every path.

    It is dH·log(1 + K·L²/(λd)) for own stages. If stages share, an episode adds up to n steps to a
    pool, so it is the sum of d·log(1 + n·K·L²/(λd)) over pools.
    """
    checked_task(task)
    K = _episodes(task) if episodes is None else whole("episodes", episodes, least=0)
    if not task.pools.shared:
        return information_gain(task, ridge=ridge, episodes=K) * task.horizon
    return sum(_growth(task, ridge, int(n) * K) for n in task.pools.steps)


def logdet_bound(task: Task, *, episode: int, ridge: float = 1.0) -> float:
    """Return the bound d·log(λ + (k−1)·L²/d) on log det Λ_h^k before episode k.

    If stages share, n·(k−1) replaces k−1, as in `information_gain`.
    """
    seen = whole("episode", episode, least=1) - 1
    return information_gain(task, ridge=ridge, episodes=seen) + task.dim * math.log(ridge)


def confidence_radius(
    task: Task, *, failure_probability: float = 0.05, constant: float = 1.0
) -> float:
    """Return β = c·d·H·√log(2dT/δ) of Theorems 1 and 2.

    The theorems take L = λ = 1. They do not give the constant c. With c = 1 the radius in the
    paper's experiment is in the hundreds, every Q-value is clipped and nothing is learnt, so
    practical values are far smaller.
    """
    c = real("constant", constant, above=0.0, most=1e100)
    log_term = _log_term(task, failure_probability)
    return c * task.dim * task.horizon * math.sqrt(log_term)


def eta_for_budget(task: Task, *, switches: int, ridge: float = 1.0) -> float:
    """Return η = (1 + K·L²/(λd))^{dH/B}, with which Alg. 2 switches at most B times (Theorem 2).

    It is e^{G/B} with G the `total_growth`, also for shared stages.
    """
    budget = whole("switches", switches, least=1)
    growth = total_growth(task, ridge=ridge)
    if growth / budget > math.log(1e300):
        least = math.ceil(growth / math.log(1e300))
        raise ValueError(
            f"switches must be at least {least} for a finite eta at this dim, "
            f"horizon and number of episodes; got {switches}"
        )
    return max(math.exp(growth / budget), math.nextafter(1.0, 2.0))


def switch_bound(
    task: Task, *, eta: float, ridge: float = 1.0, episodes: int | None = None
) -> float:
    """Return dH·log(1 + K·L²/(λd))/log η, the upper bound on N_switch of Alg. 2.

    It is the `total_growth` over log η, also for shared stages.

    It is vacuous if it is not below K−1, the maximum number of switches of any learner.
    """
    log_eta = math.log(real("eta", eta, above=1.0))
    return total_growth(task, ridge=ridge, episodes=episodes) / log_eta


def batch_regret_bound(
    task: Task,
    *,
    batches: int,
    ridge: float = 1.0,
    failure_probability: float = 0.05,
    constant: float = 1.0,
) -> RegretBound:
    """Return the regret bound of LSVI-UCB-Batch (Theorem 1), term by term, as printed.

    If B does not divide K, it holds for the balanced grid; the last batch of the printed grid adds
    up to H²·(K mod B).
    """
    H, K = _own_stages(task).horizon, _episodes(task)
    B = whole("batches", batches, least=1, most=K)
    gain = information_gain(task, ridge=ridge)
    terms = {
        "martingale": _martingale(task, failure_probability),
        "batching": H * H * K * gain / (2 * B * math.log(2)),
        "exploration": 4 * _bonus_sum(task, ridge, failure_probability, constant),
    }
    return RegretBound(terms=terms, trivial=float(K * H))


def rare_switch_regret_bound(
    task: Task,
    *,
    eta: float | None = None,
    log_eta: float | None = None,
    ridge: float = 1.0,
    failure_probability: float = 0.05,
    constant: float = 1.0,
) -> RegretBound:
    """Return the regret bound of LSVI-UCB-RareSwitch (Theorem 2), term by term.

    It holds for every rule under which no stage grows by more than η between switches. With η =
    eta_for_budget(task, switches=B) it is the theorem as printed. `log_eta` replaces an η that
    exceeds every float.
    """
    if (eta is None) == (log_eta is None):
        raise TypeError("either eta or log_eta must be given")
    if eta is not None:
        log_eta = math.log(real("eta", eta, above=1.0))
    _own_stages(task)
    root = math.exp(min(real("log_eta", log_eta, above=0.0), 700.0) / 2)  # vacuous above
    terms = {
        "martingale": _martingale(task, failure_probability),
        "exploration": 2 * root * _bonus_sum(task, ridge, failure_probability, constant),
    }
    return RegretBound(terms=terms, trivial=float(_episodes(task) * task.horizon))


def lower_bound(
    *, states: int, horizon: int, episodes: int, batches: int, uniform: bool = False
) -> float:
    """Return the regret of any learner with B batches on some MDP of the family (Theorem 3).

    `states` is the number of rewarding states x_1, …, x_d of the construction (feature dimension 2d
    + 1). For any grid it is dHT/(4B). On a uniform grid it is d(H−1)T/(2B), with ⌊K/B⌋ instead of
    K/B if B does not divide K. It needs B ≥ dH. With H = 1 the bound is vacuous (0).
    """
    d = whole("states", states, least=1)
    H = whole("horizon", horizon, least=1)
    K = whole("episodes", episodes, least=1)
    B = whole("batches", batches, least=d * H, most=K)
    if H == 1:
        return 0.0
    return d * (H - 1) * H * (K // B) / 2 if uniform else d * H * K * H / (4 * B)


def least_expected_regret(*, horizon: int, lengths: Sequence[int], members: int = 1) -> float:
    """Return the minimum expected regret in one state of the family with random right actions.

    The minimum is over all learners with at most M = `members` policies in a batch: 1 means one
    policy for each batch, and M at least the longest batch means every batch learner. `lengths` are
    the numbers of episodes of the batches that start in the state, in order. Right actions are
    independent and uniform. For d states, add the values of all states.

    >>> least_expected_regret(horizon=6, lengths=[32] * 5)  # 32·H(H−1)/4
    240.0
    >>> least_expected_regret(horizon=6, lengths=[32] * 5, members=16)
    129.0
    """
    H = whole("horizon", horizon, least=1, most=10_000)
    M = whole("members", members, least=1)
    try:
        sizes = [whole("lengths", length, least=1) for length in list(lengths)]
    except TypeError as error:
        raise TypeError(f"lengths must be a list of batch lengths ({error})") from None
    # A guess is right with probability 1/2, so the first wrong guess is the G-th with probability
    # 2⁻ᴳ. With r stages unknown, the expected loss is E max(r − G, 0) = r − 2 + 2¹⁻ʳ.
    unknown = np.arange(H, 0, -1)
    loss = unknown - 2 + 2.0 ** (1 - unknown)
    known = np.zeros(H)  # P(m = 0 … H−1 stages are known); at H there is no loss
    known[0] = 1.0
    total = 0.0
    for length in sizes:
        total += length * float(known @ loss)
        # N policies cover at most N of the 2ᵏ ways to continue for k stages.
        reached = np.minimum(1.0, min(M, length) * 2.0 ** -np.arange(H + 1))
        steps = np.concatenate([[0.0], reached[:-1] - reached[1:]])
        known = np.convolve(known, steps)[:H]
    return total


def _episodes(task: Task) -> int:
    return planned_episodes(task, "a bound")


def _own_stages(task: Task) -> Task:
    """Return the task if it has own stages, as the theorems assume, or raise an error."""
    if checked_task(task).pools.shared:
        raise ValueError('task must have stages="own": no regret bound is proved for shared stages')
    return task


def _log_term(task: Task, failure_probability: float) -> float:
    p = real("failure_probability", failure_probability, above=0.0, below=1.0)
    episodes = _episodes(task)
    return math.log(2 * task.dim * episodes * task.horizon / p)


def _martingale(task: Task, failure_probability: float) -> float:
    log_term = _log_term(task, failure_probability)
    return 2 * task.horizon * math.sqrt(_episodes(task) * task.horizon * log_term)


def _bonus_sum(task: Task, ridge: float, p: float, constant: float) -> float:
    """Bound Σ_k Σ_h Γ_h^k by β·H·√(K·c·gain).

    φᵀΛ⁻¹φ ≤ c·log(1 + φᵀΛ⁻¹φ) holds with c = x/log(1+x), x = L²/λ, which is below the printed c = 2
    if L² ≤ λ.
    """
    beta = confidence_radius(task, failure_probability=p, constant=constant)
    gain = information_gain(task, ridge=ridge)
    x = task.feature_norm**2 / ridge
    squares = _episodes(task) * max(2.0, x / math.log1p(x)) * gain
    return beta * task.horizon * math.sqrt(squares)
