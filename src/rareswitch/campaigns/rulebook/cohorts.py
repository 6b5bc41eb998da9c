"""The returns of each version and the intake, and the rules that end a campaign because of them.

A cohort is the episodes that one version played, as shares of the horizon, counted in the order in
which reports came. A corrected episode counts in its first place with its last return; a withdrawn
episode does not count.

An interval for a mean holds at every look at once: it is the empirical-Bernstein confidence
sequence of Waudby-Smith and Ramdas (2023, Theorem 2). For observations x in [0, 1] with one
conditional mean, and any λ_t that is settled before x_t is seen,

    Σλx / Σλ  ±  (log(2/α) + Σ v·ψ(λ)) / Σλ,      v_t = (x_t − m_{t−1})²,   ψ(λ) = −log(1−λ) − λ,

covers the mean at all t together with probability 1 − α. Looking after every observation, and
stopping at any of them, does not make the interval wrong more often. A rule about versions shares
its error α among them: version v has α/(v(v+1)) of it, which adds up to α.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields
from heapq import merge
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

from rareswitch.campaigns.rulebook.rows import Head, canonical, digest_of
from rareswitch.support.arguments import real, set_fields, whole

if TYPE_CHECKING:
    from rareswitch.campaigns.rulebook.terms import Terms

# λ is tuned to this α; the interval is valid for any.
TUNED_FOR = math.log(2 / 0.05)
LARGEST_LAMBDA = 0.5
EPISODES = "episodes"  # the rule that every protocol has: no more than it plans
# Values that differ by no more may be rounded otherwise on another machine.
TOLERANCE = 1e-9


class Bounds(NamedTuple):
    """The ends of an interval."""

    low: float
    high: float


class Place(NamedTuple):
    """The place of an observation: it was the t-th, and its weight was settled before it came."""

    t: int
    mean: float  # m_{t−1}, with one observation of ½
    weight: float  # λ_t


class RunningMean(NamedTuple):
    """A few sums over observations in [0, 1], whatever their number.

    >>> seen = RunningMean()
    >>> for _ in range(200):
    ...     seen = seen.after(0.75)
    >>> seen.mean, [round(end, 2) for end in seen.bounds(confidence=0.95)]
    (0.75, [0.71, 0.79])
    """

    observations: int = 0
    total: float = 0.0  # Σx
    squares: float = 0.0  # Σ(x_t − m_t)², m_t the mean so far with one observation of ½
    weights: float = 0.0  # Σλ
    weighted: float = 0.0  # Σλx
    spread: float = 0.0  # Σ v·ψ(λ)

    @property
    def mean(self) -> float | None:
        return self.total / self.observations if self.observations else None

    @property
    def next_place(self) -> Place:
        t = self.observations + 1
        variance = (0.25 + self.squares) / t
        chosen = math.sqrt(2.0 * TUNED_FOR / (variance * t * math.log1p(t)))
        return Place(t, (0.5 + self.total) / t, min(chosen, LARGEST_LAMBDA))

    def after(self, x: float) -> "RunningMean":
        return self.add(self.next_place, x, 1)

    def add(self, place: Place, x: float, sign: int) -> "RunningMean":
        """Return the sums with an observation in its place, or without it (sign −1).

        A correction replaces an observation in its place. The weights of later observations stay:
        each was settled before its observation came, so the interval still holds.
        """
        t, mean, weight = place
        observations, total, squares, weights, weighted, spread = self
        mean_after = (mean * t + x) / (t + 1)
        return RunningMean(
            observations + sign,
            total + sign * x,
            squares + sign * (x - mean_after) ** 2,
            weights + sign * weight,
            weighted + sign * weight * x,
            spread + sign * (x - mean) ** 2 * (-math.log1p(-weight) - weight),
        )

    def bounds(self, confidence: float) -> Bounds:
        """Return the interval within [0, 1]."""
        if self.observations <= 0 or self.weights <= 0.0:
            return Bounds(0.0, 1.0)
        centre = self.weighted / self.weights
        width = (math.log(2.0 / (1.0 - confidence)) + self.spread) / self.weights
        return Bounds(max(0.0, centre - width), min(1.0, centre + width))


INTAKE = 0  # the cohort of all reports: 1 for a refused report, 0 for a recorded one
NOTHING = RunningMean()
COUNTED = ("episodes", "refusals")


class Cohorts:
    """The cohorts of a campaign after some rows and refusals.

    `changed` are the versions whose stored text is another.
    """

    def __init__(self, *, horizon: int) -> None:
        self.horizon = horizon
        self._known: dict[int, RunningMean] = {}
        self.changed: set[int] = set()
        self.episodes = 0  # without withdrawn episodes

    def __getitem__(self, version: int) -> RunningMean:
        return self._known.get(version, NOTHING)

    @property
    def intake(self) -> RunningMean:
        """The share of refused reports, since the campaign began or was reopened."""
        return self[INTAKE]

    def record(self, version: int, total: float) -> Place:
        """Count an episode that was just recorded; return its place, for a later correction."""
        known = self._known
        seen = known.get(version, NOTHING)
        place = seen.next_place
        self.episodes += 1
        known[version] = seen.add(place, total / self.horizon, 1)
        known[INTAKE] = known.get(INTAKE, NOTHING).after(0.0)
        self.changed |= {version, INTAKE}
        return place

    def refuse(self) -> None:
        """Count a report that was just refused."""
        self._set(INTAKE, self[INTAKE].after(1.0))

    def correct(self, version: int, place: Place, before: float, after: float | None) -> None:
        """Count an episode with another return, or, if that is None, no more."""
        seen = self[version].add(place, before / self.horizon, -1)
        if after is None:
            self.episodes -= 1
        else:
            seen = seen.add(place, after / self.horizon, 1)
        self._set(version, seen)

    def reopen(self) -> None:
        """Forget all refusals so far: a reopened campaign begins a new intake."""
        self._set(INTAKE, NOTHING)

    def _set(self, version: int, seen: RunningMean) -> None:
        self._known[version] = seen
        self.changed.add(version)

    def texts(self, heads: Mapping[str, Head]) -> dict[int, str]:
        """Return the changed cohorts as sealed texts; the intake names the rows they count."""
        summary = {
            "intake": list(self[INTAKE]),
            "episodes": self.episodes,
            "cohorts": len(self._known.keys() - {INTAKE}),
            "counted": {name: list(heads[name]) for name in COUNTED},
        }
        kept = {version: canonical(list(self[version])) for version in self.changed - {INTAKE}}
        kept[INTAKE] = canonical(summary)
        return {version: f"{digest_of(text)} {text}" for version, text in kept.items()}

    def load(self, texts: Mapping[int, str], heads: Mapping[str, Head]) -> bool:
        """Take all texts of `texts`; return False if they are damaged, or count other rows."""
        try:
            opened = {version: json.loads(_unseal(text)) for version, text in texts.items()}
            summary = opened.pop(INTAKE)
            known = {version: RunningMean(*sums) for version, sums in opened.items()}
            total = sum(seen.observations for seen in known.values())
            if (len(known), total) != (summary["cohorts"], summary["episodes"]):
                return False
            if any(list(heads[name]) != summary["counted"][name] for name in COUNTED):
                return False
            self._known = known | {INTAKE: RunningMean(*summary["intake"])}
        except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
            return False
        self.episodes = total
        self.changed.clear()
        return True


def _unseal(sealed: str) -> str:
    seal, _, text = sealed.partition(" ")
    if digest_of(text) != seal:
        raise ValueError("it was altered")
    return text


def in_their_order(rows: Iterable[Any], refusals: Iterable[Any]) -> Iterator[Any]:
    """Return rows of the log, and each refusal after the row that was the last row then."""
    return merge(rows, refusals, key=attrgetter("seq"))


class Watched(NamedTuple):
    """The value that a rule looks at, whether it has passed the threshold, and why if it has."""

    rule: str
    value: float
    threshold: float
    passed: bool = False
    reason: str = ""

    @property
    def plain(self) -> dict[str, Any]:
        """The payload of the entry that stops a campaign, unrounded."""
        kept = {"rule": self.rule, "value": self.value, "threshold": self.threshold}
        return kept | {"margin": self.value - self.threshold}

    @property
    def near(self) -> bool:
        """Whether another machine may have rounded the value to the other side of the threshold.

        A value that equals the threshold is exact: a number of episodes, or the end of an interval
        that was cut off at 0 or 1.
        """
        return 0.0 < abs(self.value - self.threshold) <= TOLERANCE

    def is_told_by(self, payload: Mapping[str, Any]) -> bool:
        """Return whether an entry tells this value, but for rounding."""
        numbers = [payload.get(name) for name in ("value", "threshold", "margin")]
        seen = (self.value, self.threshold, self.value - self.threshold)
        return payload.get("rule") == self.rule and all(
            isinstance(told, int | float) and abs(told - value) <= TOLERANCE
            for told, value in zip(numbers, seen, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Stop when the mean return of a version is surely below `below`.

    >>> seen = Cohorts(horizon=1)
    >>> for _ in range(100):
    ...     place = seen.record(2, 0.0)
    >>> Harm(below=0.2).watch(seen, 2).reason
    'version 2 returns at most 0.111 on average, which is below 0.2'
    """

    name: ClassVar[str] = "harm"

    below: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        below = real("below", self.below, above=0.0)
        set_fields(self, below=below, confidence=_confidence(self.confidence))

    def check(self, horizon: int, episodes: int) -> None:
        """Refuse a rule that can never be reached, or is reached from the start."""
        _check_return("below", self.below, horizon)

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        """Return the value that the rule looks at; None while the rule waits."""
        high = _highest_mean(cohorts, version, self.confidence)
        if not high < self.below:
            return Watched(self.name, high, self.below)
        means = f"returns at most {high:.3g} on average"
        reason = f"version {version} {means}, which is below {self.below:g}"
        return Watched(self.name, high, self.below, True, reason)


@dataclass(frozen=True, kw_only=True)
class Futility:
    """Stop when, after `after` episodes, the version that acts surely returns less than `target`.

    It is harm with a goal in place of a limit, and it waits until there was time to learn.
    """

    name: ClassVar[str] = "futility"

    target: float
    after: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        set_fields(
            self,
            target=real("target", self.target, above=0.0),
            after=whole("after", self.after, least=1),
            confidence=_confidence(self.confidence),
        )

    def check(self, horizon: int, episodes: int) -> None:
        _check_return("target", self.target, horizon)
        if self.after > episodes:
            raise ValueError(
                f"after must be at most {episodes}, the planned episodes; got {self.after}"
            )

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        if cohorts.episodes < self.after:
            return None
        high = _highest_mean(cohorts, version, self.confidence)
        if not high < self.target:
            return Watched(self.name, high, self.target)
        means = f"version {version} returns at most {high:.3g} on average"
        reason = f"after {cohorts.episodes} episodes {means}, and {self.target:g} is the target"
        return Watched(self.name, high, self.target, True, reason)


@dataclass(frozen=True, kw_only=True)
class DataQuality:
    """Stop when surely more than the share `most` of all reports has to be refused."""

    name: ClassVar[str] = "data-quality"

    most: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        most = real("most", self.most, least=0.0, below=1.0)
        set_fields(self, most=most, confidence=_confidence(self.confidence))

    def check(self, horizon: int, episodes: int) -> None:
        """Any share below 1 can be reached."""

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        low = cohorts.intake.bounds(self.confidence).low
        if not low > self.most:
            return Watched(self.name, low, self.most)
        reason = f"at least {low:.0%} of all reports are refused, and {self.most:.0%} may be"
        return Watched(self.name, low, self.most, True, reason)


StoppingRule = Harm | Futility | DataQuality
RULES: dict[str, type[StoppingRule]] = {kind.name: kind for kind in get_args(StoppingRule)}


def rule_of(plain: Mapping[str, Any]) -> StoppingRule:
    """Return the rule that {"rule": name, arguments} describes."""
    arguments = dict(plain)
    name = arguments.pop("rule", None)
    if not isinstance(name, str) or name not in RULES:
        raise ValueError(f"rule must be one of {', '.join(RULES)}; got {name!r}")
    known = [field.name for field in fields(RULES[name])]
    if unknown := [key for key in arguments if key not in known]:
        raise ValueError(f"{name} has no key {unknown[0]!r}; it takes {', '.join(known)}")
    try:
        return RULES[name](**arguments)
    except TypeError as error:
        if missing := [key for key in known if key not in arguments]:
            raise ValueError(f"{name} needs {missing[0]}; {error}") from None
        raise


def plain_rule(rule: StoppingRule) -> dict[str, Any]:
    """Return what `rule_of` takes."""
    return {"rule": rule.name} | vars(rule)


def _confidence(value: Any) -> float:
    return real("confidence", value, least=0.5, below=1.0)


def _highest_mean(cohorts: Cohorts, version: int, confidence: float) -> float:
    """Return the upper end of the interval of a version's mean return."""
    share = (1.0 - confidence) / (version * (version + 1))
    return cohorts.horizon * cohorts[version].bounds(1.0 - share).high


def _check_return(name: str, value: float, horizon: int) -> None:
    if value > horizon:
        raise ValueError(f"{name} must be at most {horizon}, the largest return; got {value:g}")


def watch(terms: "Terms", cohorts: Cohorts, version: int) -> list[Watched]:
    """Return the value that each stopping rule looks at, in the order in which they are asked."""
    seen = [rule.watch(cohorts, version) for rule in terms.stopping]
    planned, episodes = terms.episodes, cohorts.episodes
    last = Watched(EPISODES, episodes, planned, episodes >= planned, f"all {planned} are recorded")
    return [*filter(None, seen), last]
