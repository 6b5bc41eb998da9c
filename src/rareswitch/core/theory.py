"""The paper's constants and bounds, for any feature norm L = max‖φ‖ and any ridge λ.

The paper assumes L = 1 and λ = 1. Scaling every feature by L and the ridge by L² changes no
policy, so K/d becomes K·L²/(λd) throughout. The determinant and switching bounds then hold on every
path; the regret bounds hold with the theorems' probability where L² ≤ λ and both ‖μ_h(S)‖ and ‖θ_h‖
are at most √(d/λ). T = KH; `failure_probability` is the theorems' δ.
"""

import math
from dataclasses import dataclass

from rareswitch.core.arguments import real, whole


@dataclass(frozen=True, kw_only=True)
class RegretBound:
    """A bound on the total regret, term by term; `trivial` is KH, which no regret exceeds."""

    terms: dict[str, float]
    trivial: float

    @property
    def total(self) -> float:
        return sum(self.terms.values())

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: it is not below KH."""
        return self.total >= self.trivial

    def __float__(self) -> float:
        return self.total


def information_gain(
    *, dim: int, episodes: int, feature_norm: float = 1.0, ridge: float = 1.0
) -> float:
    """Return d·log(1 + K·L²/(λd)), the most that one log det Λ_h can grow in K episodes."""
    d = whole("dim", dim, least=1)
    episodes = whole("episodes", episodes, least=0)
    norm = real("feature_norm", feature_norm, above=0.0)
    ridge = real("ridge", ridge, above=0.0)
    return d * math.log1p(episodes * norm**2 / (ridge * d))


def logdet_bound(*, dim: int, episode: int, feature_norm: float = 1.0, ridge: float = 1.0) -> float:
    """Return the bound d·log(λ + (k−1)·L²/d) on log det Λ_h^k before episode k."""
    seen = whole("episode", episode, least=1) - 1
    gain = information_gain(dim=dim, episodes=seen, feature_norm=feature_norm, ridge=ridge)
    return gain + dim * math.log(ridge)


def confidence_radius(
    *,
    dim: int,
    horizon: int,
    episodes: int,
    failure_probability: float = 0.05,
    constant: float = 1.0,
) -> float:
    """Return β = c·d·H·√log(2dT/δ) of Theorems 1 and 2.

    The theorems take L = λ = 1. The constant c exists but is not given; with c = 1 the radius at
    the paper's experiment is in the hundreds, every Q-value is clipped and nothing is learnt, so
    practical values are far smaller.
    """
    d, horizon, episodes = _sizes(dim, horizon, episodes)
    c = real("constant", constant, above=0.0)
    return c * d * horizon * math.sqrt(_log_term(d, horizon, episodes, failure_probability))


def eta_for_budget(
    *,
    switches: int,
    dim: int,
    horizon: int,
    episodes: int,
    feature_norm: float = 1.0,
    ridge: float = 1.0,
) -> float:
    """Return η = (1 + K·L²/(λd))^{dH/B}, with which Alg. 2 switches at most B times (Theorem 2)."""
    _, horizon, episodes = _sizes(dim, horizon, episodes)
    budget = whole("switches", switches, least=1)
    gain = information_gain(dim=dim, episodes=episodes, feature_norm=feature_norm, ridge=ridge)
    log_eta = horizon * gain / budget
    if log_eta > math.log(1e300):
        least = math.ceil(horizon * gain / math.log(1e300))
        raise ValueError(
            f"switches must be at least {least} for eta to be a finite number at this dim, "
            f"horizon and number of episodes; got {switches}"
        )
    return math.exp(log_eta)


def switch_bound(
    *,
    eta: float,
    dim: int,
    horizon: int,
    episodes: int,
    feature_norm: float = 1.0,
    ridge: float = 1.0,
) -> float:
    """Return dH·log(1 + K·L²/(λd))/log η, which N_switch of Alg. 2 never exceeds.

    Vacuous when it is not below K−1, the most that any learner can switch.
    """
    _, horizon, episodes = _sizes(dim, horizon, episodes)
    log_eta = math.log(real("eta", eta, above=1.0))
    gain = information_gain(dim=dim, episodes=episodes, feature_norm=feature_norm, ridge=ridge)
    return horizon * gain / log_eta


def batch_regret_bound(
    *,
    batches: int,
    dim: int,
    horizon: int,
    episodes: int,
    feature_norm: float = 1.0,
    ridge: float = 1.0,
    failure_probability: float = 0.05,
    constant: float = 1.0,
) -> RegretBound:
    """Return the regret bound of LSVI-UCB-Batch (Theorem 1), term by term, as printed.

    Where B does not divide K it holds for the balanced grid; the printed grid's last batch adds up
    to H²·(K mod B).
    """
    d, H, K = _sizes(dim, horizon, episodes)
    B = whole("batches", batches, least=1, most=K)
    gain = information_gain(dim=d, episodes=K, feature_norm=feature_norm, ridge=ridge)
    bonuses = _bonus_sum(d, H, K, gain, feature_norm, ridge, failure_probability, constant)
    terms = {
        "martingale": _martingale(d, H, K, failure_probability),
        "batching": H * H * K * gain / (2 * B * math.log(2)),
        "exploration": 4 * bonuses,
    }
    return RegretBound(terms=terms, trivial=float(K * H))


def rare_switch_regret_bound(
    *,
    eta: float,
    dim: int,
    horizon: int,
    episodes: int,
    feature_norm: float = 1.0,
    ridge: float = 1.0,
    failure_probability: float = 0.05,
    constant: float = 1.0,
) -> RegretBound:
    """Return the regret bound of LSVI-UCB-RareSwitch (Theorem 2), term by term.

    With η = eta_for_budget(switches=B, ...) it is the theorem as printed.
    """
    d, H, K = _sizes(dim, horizon, episodes)
    eta = real("eta", eta, above=1.0)
    gain = information_gain(dim=d, episodes=K, feature_norm=feature_norm, ridge=ridge)
    bonuses = _bonus_sum(d, H, K, gain, feature_norm, ridge, failure_probability, constant)
    terms = {
        "martingale": _martingale(d, H, K, failure_probability),
        "exploration": 2 * math.sqrt(eta) * bonuses,
    }
    return RegretBound(terms=terms, trivial=float(K * H))


def lower_bound(
    *, states: int, horizon: int, episodes: int, batches: int, uniform: bool = False
) -> float:
    """Return the regret that some MDP of the family forces on any learner with B batches (Thm. 3).

    `states` is the number of rewarding states x_1, …, x_d of the construction (feature dimension
    2d + 1). For any grid the construction forces dHT/(4B). On a uniform grid it forces
    d(H−1)T/(2B), with ⌊K/B⌋ in place of K/B where B does not divide K. Needs B ≥ dH. With H = 1
    there is nothing to lose and the bound is vacuous (0).
    """
    d, H, K = _sizes(states, horizon, episodes, first="states")
    B = whole("batches", batches, least=d * H, most=K)
    if H == 1:
        return 0.0
    return d * (H - 1) * H * (K // B) / 2 if uniform else d * H * K * H / (4 * B)


def _sizes(dim: int, horizon: int, episodes: int, first: str = "dim") -> tuple[int, int, int]:
    return (
        whole(first, dim, least=1),
        whole("horizon", horizon, least=1),
        whole("episodes", episodes, least=1),
    )


def _log_term(d: int, H: int, K: int, failure_probability: float) -> float:
    p = real("failure_probability", failure_probability, above=0.0, below=1.0)
    return math.log(2 * d * K * H / p)


def _martingale(d: int, H: int, K: int, failure_probability: float) -> float:
    return 2 * H * math.sqrt(K * H * _log_term(d, H, K, failure_probability))


def _bonus_sum(
    d: int, H: int, K: int, gain: float, L: float, ridge: float, p: float, constant: float
) -> float:
    """Bound Σ_k Σ_h Γ_h^k by β·H·√(K·c·gain).

    φᵀΛ⁻¹φ ≤ c·log(1 + φᵀΛ⁻¹φ) holds with c = x/log(1+x), x = L²/λ, which is below the printed
    c = 2 while L² ≤ λ.
    """
    beta = confidence_radius(dim=d, horizon=H, episodes=K, failure_probability=p, constant=constant)
    x = L**2 / ridge
    return beta * H * math.sqrt(K * max(2.0, x / math.log1p(x)) * gain)
