"""The rules that keep a budget of B switches, with what is guaranteed of each."""

import math
from dataclasses import dataclass
from operator import index

from rareswitch.core import theory
from rareswitch.core.arguments import Floats, floats, real, whole
from rareswitch.core.budget import AdaptiveBudget, TotalGrowth
from rareswitch.core.gram import Gram
from rareswitch.core.grids import EpisodeGrid
from rareswitch.core.schedule import Clock, DeterminantGrowth, EveryEpisode, Schedule, UniformGrid


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The task: episodes K, horizon H, feature dimension d, norm L = max‖φ‖ and ridge λ."""

    episodes: int
    horizon: int
    dim: int
    feature_norm: float = 1.0
    ridge: float = 1.0

    def __post_init__(self) -> None:
        if self.episodes is None:
            raise ValueError(
                "episodes must be given: no budget can be guaranteed without K. A rule that needs "
                "no K is DeterminantGrowth(eta=2.0); its switches grow with log K"
            )
        for name in ("episodes", "horizon", "dim"):
            object.__setattr__(self, name, whole(name, getattr(self, name), least=1))
        for name in ("feature_norm", "ridge"):
            object.__setattr__(self, name, real(name, getattr(self, name), above=0.0))


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A schedule, the code that makes it, and what is certain about it.

    `bound` is the theorem's on the total regret (c = 1); None where the paper has none.
    """

    name: str
    schedule: Schedule
    code: str
    guaranteed_switches: int
    bound: theory.RegretBound | None


def candidates_for(budget: int, sizes: Sizes) -> list[Candidate]:
    """Return the rules that make at most `budget` switches in K episodes, on every path."""
    K = sizes.episodes
    try:
        budget = index(budget)
    except TypeError:
        raise TypeError(f"switches must be a whole number; got {budget!r}") from None
    if not 0 <= budget < K:
        raise ValueError(
            f"switches must be from 0 to {K - 1}: before the first of {K} episodes nothing has "
            f"been learnt, and EveryEpisode() makes {K - 1}; got {budget}"
        )
    if budget == K - 1:
        return [_every_episode(sizes)]
    if budget == 0:
        return [_grid(1, sizes)]
    return [
        _adaptive(budget, sizes),
        _total(budget, sizes),
        _grid(budget + 1, sizes),
        _geometric(budget + 1, sizes),
        *_theorem(budget, sizes),
    ]


def replay(schedule: Schedule, features: Floats, *, ridge: float = 1.0) -> list[int]:
    """Return the episodes before which the rule would have switched on logged features (n, H, d).

    What the learner would have done differently after a switch is not in a log: the answer is
    what the rule does on such data, not a simulation.
    """
    features = floats("features", features, ("n", "H", "d"))
    count, horizon, dim = features.shape
    gram = Gram((horizon,), dim, real("ridge", ridge, above=0.0))
    switched: list[int] = []
    deployed, logdet, trace = 1, gram.logdet.copy(), gram.trace.copy()
    for k in range(2, count + 1):
        gram.absorb(features[k - 2])
        clock = Clock(
            episode=k,
            logdet=gram.logdet,
            logdet_deployed=logdet,
            deployed=deployed,
            updates=len(switched) + 1,
            trace_deployed=trace,
        )
        if schedule.due(clock):
            switched.append(k)
            deployed, logdet, trace = k, gram.logdet.copy(), gram.trace.copy()
    return switched


def _every_episode(sizes: Sizes) -> Candidate:
    return Candidate(
        name="every episode",
        schedule=EveryEpisode(),
        code="rs.EveryEpisode()",
        guaranteed_switches=sizes.episodes - 1,
        bound=_batch_bound(sizes.episodes, sizes),
    )


def _grid(batches: int, sizes: Sizes) -> Candidate:
    return Candidate(
        name="uniform grid",
        schedule=UniformGrid(episodes=sizes.episodes, batches=batches),
        code=f"rs.UniformGrid(episodes={sizes.episodes}, batches={batches})",
        guaranteed_switches=batches - 1,
        bound=_batch_bound(batches, sizes),
    )


def _geometric(batches: int, sizes: Sizes) -> Candidate:
    return Candidate(
        name="geometric grid",
        schedule=EpisodeGrid.geometric(episodes=sizes.episodes, batches=batches),
        code=f"rs.EpisodeGrid.geometric(episodes={sizes.episodes}, batches={batches})",
        guaranteed_switches=batches - 1,
        bound=None,
    )


def _adaptive(budget: int, sizes: Sizes) -> Candidate:
    code = (
        f"rs.AdaptiveBudget(switches={budget}, episodes={sizes.episodes}, dim={sizes.dim}, "
        f"feature_norm={sizes.feature_norm!r}, ridge={sizes.ridge!r})"
    )
    return Candidate(
        name="adaptive budget",
        schedule=AdaptiveBudget(
            switches=budget,
            episodes=sizes.episodes,
            dim=sizes.dim,
            feature_norm=sizes.feature_norm,
            ridge=sizes.ridge,
        ),
        code=code,
        guaranteed_switches=budget,
        bound=_growth_bound(_total_growth(budget, sizes).log_eta, sizes),
    )


def _total(budget: int, sizes: Sizes) -> Candidate:
    schedule = _total_growth(budget, sizes)
    return Candidate(
        name="total growth",
        schedule=schedule,
        code=f"rs.TotalGrowth(log_eta={schedule.log_eta!r})",
        guaranteed_switches=budget,
        bound=_growth_bound(schedule.log_eta, sizes),
    )


def _theorem(budget: int, sizes: Sizes) -> list[Candidate]:
    """Return the any-stage rule of Theorem 2, unless its η exceeds every float."""
    try:
        schedule = DeterminantGrowth.for_budget(switches=budget, **vars(sizes))
    except ValueError:
        return []
    return [
        Candidate(
            name="any-stage growth (Theorem 2)",
            schedule=schedule,
            code=f"rs.DeterminantGrowth(eta={schedule.eta!r})",
            guaranteed_switches=budget,
            bound=_growth_bound(math.log(schedule.eta), sizes),
        )
    ]


def _total_growth(budget: int, sizes: Sizes) -> TotalGrowth:
    return TotalGrowth.for_budget(switches=budget, **vars(sizes))


def _batch_bound(batches: int, sizes: Sizes) -> theory.RegretBound:
    return theory.batch_regret_bound(batches=batches, **vars(sizes))


def _growth_bound(log_eta: float, sizes: Sizes) -> theory.RegretBound:
    """Theorem 2 for a rule that lets no stage grow by more than η between switches."""
    eta = math.exp(min(log_eta, 700.0))  # beyond, the bound is vacuous many times over
    return theory.rare_switch_regret_bound(eta=eta, **vars(sizes))
