"""Rules that end a campaign, evaluated by the engine after every episode.

Looks are continuous, so all intervals hold at every look together (`running_mean.py`). A rule about
versions shares its error among them: version v has α/(v(v+1)) of it, which adds up to α.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Protocol

from rareswitch.campaigns.stopping.running_mean import RunningMean
from rareswitch.support.arguments import real, set_fields, whole


class Progress(NamedTuple):
    """What a rule sees: episodes recorded and refused, and the returns of one version.

    `returns` are those of the episodes that `version` played, as shares of the horizon.
    """

    episodes: int
    horizon: int
    version: int
    returns: RunningMean
    intake: RunningMean  # 1 for what was refused, 0 for what was recorded


class Watched(NamedTuple):
    """What a rule looks at: a value, and whether it has passed the threshold; then also why."""

    rule: str
    value: float
    threshold: float
    passed: bool
    reason: str = ""

    @property
    def plain(self) -> dict[str, Any]:
        """What the ledger keeps of it, unrounded."""
        kept = {"rule": self.rule, "value": self.value, "threshold": self.threshold}
        return kept | {"margin": self.value - self.threshold}


class StoppingRule(Protocol):
    """A reason to stop."""

    name: ClassVar[str]

    def watch(self, progress: Progress) -> Watched | None:
        """Return how far it is; None while the rule waits."""
        ...


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Stop when the mean return of a version is surely below `below`.

    >>> from rareswitch.campaigns.stopping.running_mean import RunningMean
    >>> bad = RunningMean()
    >>> for _ in range(100):
    ...     bad = bad.after(0.0)
    >>> seen = Progress(episodes=100, horizon=1, version=2, returns=bad, intake=RunningMean())
    >>> Harm(below=0.2).watch(seen).reason
    'version 2 returns at most 0.111 on average, which is below 0.2'
    """

    name: ClassVar[str] = "harm"

    below: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        set_fields(
            self,
            below=real("below", self.below, above=0.0),
            confidence=_confidence(self.confidence),
        )

    def watch(self, progress: Progress) -> Watched | None:
        high = _highest_mean(progress, self.confidence)
        if high >= self.below:
            return Watched(self.name, high, self.below, passed=False)
        reason = (
            f"version {progress.version} returns at most {high:.3g} on average, which is below "
            f"{self.below:g}"
        )
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

    def watch(self, progress: Progress) -> Watched | None:
        if progress.episodes < self.after:
            return None
        high = _highest_mean(progress, self.confidence)
        if high >= self.target:
            return Watched(self.name, high, self.target, passed=False)
        reason = (
            f"after {progress.episodes} episodes version {progress.version} returns at most "
            f"{high:.3g} on average, and {self.target:g} is the target"
        )
        return Watched(self.name, high, self.target, True, reason)


@dataclass(frozen=True, kw_only=True)
class DataQuality:
    """Stop when surely more than the share `most` of what is reported has to be refused."""

    name: ClassVar[str] = "data-quality"

    most: float
    confidence: float = 0.95

    def __post_init__(self) -> None:
        set_fields(
            self,
            most=real("most", self.most, least=0.0, below=1.0),
            confidence=_confidence(self.confidence),
        )

    def watch(self, progress: Progress) -> Watched | None:
        low = progress.intake.bounds(self.confidence).low
        if low <= self.most:
            return Watched(self.name, low, self.most, passed=False)
        reason = f"at least {low:.0%} of what is reported is refused, and {self.most:.0%} may be"
        return Watched(self.name, low, self.most, True, reason)


RULES: tuple[type[Any], ...] = (Harm, Futility, DataQuality)


def rule_of(plain: Mapping[str, Any]) -> StoppingRule:
    """Return the rule that {"rule": name, arguments} describes."""
    arguments = dict(plain)
    name = arguments.pop("rule", None)
    for kind in RULES:
        if kind.name == name:
            known = [field.name for field in fields(kind)]
            if unknown := [key for key in arguments if key not in known]:
                raise ValueError(f"{name} has no key {unknown[0]!r}; it takes {', '.join(known)}")
            try:
                rule: StoppingRule = kind(**arguments)
            except TypeError as error:
                if missing := [key for key in known if key not in arguments]:
                    raise ValueError(f"{name} needs {missing[0]}; {error}") from None
                raise
            return rule
    names = ", ".join(kind.name for kind in RULES)
    raise ValueError(f"rule must be one of {names}; got {name!r}")


def plain_rule(rule: StoppingRule) -> dict[str, Any]:
    """Return what `rule_of` takes."""
    return {"rule": rule.name} | vars(rule)


def _confidence(value: Any) -> float:
    return real("confidence", value, least=0.5, below=1.0)


def _highest_mean(progress: Progress, confidence: float) -> float:
    """Return the upper end of the interval of a version's mean return."""
    version = progress.version
    share = (1.0 - confidence) / (version * (version + 1))
    return progress.horizon * progress.returns.bounds(1.0 - share).high
