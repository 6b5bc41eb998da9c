"""Rules that end a campaign, evaluated by the engine after every episode.

Looks are continuous, so all intervals hold at every look together (`cohorts.py`). A rule about
versions shares its error α among them: version v has α/(v(v+1)) of it, which adds up to α.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.support.arguments import real, set_fields, whole

if TYPE_CHECKING:
    from rareswitch.campaigns.rulebook.terms import Terms

EPISODES = "episodes"  # the rule that every protocol has: no more than it plans
# Values that differ by no more may be rounded otherwise on another machine.
TOLERANCE = 1e-9


class Watched(NamedTuple):
    """The value that a rule looks at, whether it has passed the threshold, and why if it has."""

    rule: str
    value: float
    threshold: float
    passed: bool
    reason: str

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
        means = f"returns at most {high:.3g} on average"
        reason = f"version {version} {means}, which is below {self.below:g}"
        return Watched(self.name, high, self.below, high < self.below, reason)


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
        means = f"version {version} returns at most {high:.3g} on average"
        reason = f"after {cohorts.episodes} episodes {means}, and {self.target:g} is the target"
        return Watched(self.name, high, self.target, high < self.target, reason)


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
        reason = f"at least {low:.0%} of all reports are refused, and {self.most:.0%} may be"
        return Watched(self.name, low, self.most, low > self.most, reason)


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


def watch(terms: "Terms", cohorts: Cohorts, version: int) -> Iterator[Watched]:
    """Yield the value that each stopping rule looks at, in the order in which they are asked."""
    for rule in terms.stopping:
        if (seen := rule.watch(cohorts, version)) is not None:
            yield seen
    episodes, planned = cohorts.episodes, terms.episodes
    yield Watched(EPISODES, episodes, planned, episodes >= planned, f"all {planned} are recorded")
