"""The rules that end a campaign because of returns, refused reports or the number of episodes.

The engine checks them after every row. A rule about the mean return of a version, or about the
difference of one version from the control, splits its error α among versions: version v gets
α/(v(v+1)), and these parts add up to α. A rule about the combined difference watches one sequence,
and uses its whole error.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args

from rareswitch.campaigns.rulebook.cohorts import Cohorts
from rareswitch.campaigns.rulebook.comparison import (
    Stratum,
    largest_difference,
    least_difference,
    log_evidence,
)
from rareswitch.support.arguments import real, set_fields, whole

if TYPE_CHECKING:
    from rareswitch.campaigns.rulebook.terms import Terms

EPISODES = "episodes"  # the rule of every protocol: no more than planned
# Smaller differences between values may be rounding on another machine.
TOLERANCE = 1e-9
# Smaller differences of log evidence may be rounding.
NEAR = 1e-6


class Watched(NamedTuple):
    """The value that a rule watches, whether it has passed the threshold, and the reason if so."""

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

        A value equal to the threshold is exact: a number of episodes, or the end of an interval
        clipped to 0 or 1.
        """
        return 0.0 < abs(self.value - self.threshold) <= TOLERANCE

    def is_told_by(self, payload: Mapping[str, Any]) -> bool:
        """Return whether an entry holds this value up to rounding."""
        numbers = [payload.get(name) for name in ("value", "threshold", "margin")]
        seen = (self.value, self.threshold, self.value - self.threshold)
        return payload.get("rule") == self.rule and all(
            isinstance(told, int | float) and abs(told - value) <= TOLERANCE
            for told, value in zip(numbers, seen, strict=True)
        )


@dataclass(frozen=True, kw_only=True)
class Harm:
    """Stop when the mean return of a version is below `below` with the rule's confidence.

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
        """Refuse a rule that is never met or met from the start."""
        _check_return("below", self.below, horizon)

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        """Return the value that the rule watches; None while the rule waits."""
        high = _highest_mean(cohorts, version, self.confidence)
        if not high < self.below:
            return Watched(self.name, high, self.below)
        means = f"returns at most {high:.3g} on average"
        reason = f"version {version} {means}, which is below {self.below:g}"
        return Watched(self.name, high, self.below, True, reason)


@dataclass(frozen=True, kw_only=True)
class Futility:
    """Stop when, after `after` episodes, the acting version confidently returns less than `target`.

    It is `Harm` with a goal instead of a limit, and it waits to give time to learn.
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
    """Stop when, with confidence, more than the share `most` of all reports is refused."""

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


@dataclass(frozen=True, kw_only=True)
class ControlSuperiority:
    """Stop when learned members confidently return more than the control, by more than `margin`.

    It watches the combined difference of all versions, once `after` episodes are compared.
    `confidence` is one-sided: 0.975 claims a false gain in at most 2.5% of campaigns. A margin
    below 0 tests non-inferiority: −0.05 stops when learned members confidently return at least the
    control minus 0.05. If the confidence was calibrated, `calibrated` is the error at the looks in
    the attached simulation; reports name it.
    """

    name: ClassVar[str] = "control-superiority"

    margin: float = 0.0
    after: int = 1
    confidence: float = 0.975
    calibrated: float | None = None

    def __post_init__(self) -> None:
        _set_comparison(self, "margin", after=self.after)
        if self.calibrated is not None:
            error = real("calibrated", self.calibrated, above=0.0, below=1.0)
            set_fields(self, calibrated=error)

    def check(self, horizon: int, episodes: int) -> None:
        _check_comparison("margin", self.margin, horizon, self.after, episodes)

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        strata = _compared(cohorts, self.after)
        if strata is None:
            return None
        least = cohorts.horizon * least_difference(strata, cohorts.control, 1.0 - self.confidence)
        if not least > self.margin:
            return Watched(self.name, least, self.margin)
        more = f"{abs(least):.3g} {'more' if least >= 0.0 else 'less'} than the control"
        held = "at least" if least >= 0.0 else "at most"
        reason = f"learned members return {held} {more}, and the margin is {self.margin:g}"
        return Watched(self.name, least, self.margin, True, reason)


@dataclass(frozen=True, kw_only=True)
class ControlHarm:
    """Stop when a version confidently returns less than its control, by more than `margin`.

    `confidence` is one-sided, and holds for all versions together.
    """

    name: ClassVar[str] = "control-harm"

    margin: float = 0.0
    confidence: float = 0.975

    def __post_init__(self) -> None:
        _set_comparison(self, "margin")

    def check(self, horizon: int, episodes: int) -> None:
        _check_comparison("margin", self.margin, horizon)

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        stratum = cohorts.strata.get(version)
        if stratum is None or not cohorts.control:
            return None
        error = _share(1.0 - self.confidence, version)
        most = cohorts.horizon * largest_difference([stratum], cohorts.control, error)
        if not most < -self.margin:
            return Watched(self.name, most, -self.margin)
        reason = f"learned members of version {version} return at least {-most:.3g} less than the"
        return Watched(
            self.name, most, -self.margin, True, f"{reason} control, and {self.margin:g} is set"
        )


@dataclass(frozen=True, kw_only=True)
class ControlFutility:
    """Stop when the gain over the control is confidently below `target`, after `after` episodes.

    It watches the combined difference of all versions. `confidence` is one-sided.
    """

    name: ClassVar[str] = "control-futility"

    target: float
    after: int
    confidence: float = 0.95

    def __post_init__(self) -> None:
        _set_comparison(self, "target", after=self.after)

    def check(self, horizon: int, episodes: int) -> None:
        _check_comparison("target", self.target, horizon, self.after, episodes)

    def watch(self, cohorts: Cohorts, version: int) -> Watched | None:
        strata = _compared(cohorts, self.after)
        if strata is None:
            return None
        error = 1.0 - self.confidence
        most = cohorts.horizon * largest_difference(strata, cohorts.control, error)
        if not most < self.target:
            return Watched(self.name, most, self.target)
        reason = f"learned members return at most {most:.3g} more than the control"
        return Watched(
            self.name, most, self.target, True, f"{reason}, and {self.target:g} is the target"
        )


StoppingRule = Harm | Futility | DataQuality | ControlSuperiority | ControlHarm | ControlFutility
AGAINST_CONTROL = (ControlSuperiority, ControlHarm, ControlFutility)
RULES: dict[str, type[StoppingRule]] = {kind.name: kind for kind in get_args(StoppingRule)}


def may_pass(rule: StoppingRule, cohorts: Cohorts, version: int) -> bool:
    """Return False if a rule is certainly not met; this is cheaper than `watch`.

    A rule about the control is met if the evidence at its threshold is large enough, so its bound
    need not be computed.
    """
    share, horizon = cohorts.control, cohorts.horizon
    if not isinstance(rule, AGAINST_CONTROL):
        return not isinstance(rule, DataQuality) or cohorts.intake.total > 0.0
    error = 1.0 - rule.confidence
    if isinstance(rule, ControlSuperiority):
        evidence = evidence_for(rule, cohorts)
    elif not share:
        return False
    elif isinstance(rule, ControlHarm):
        if (stratum := cohorts.strata.get(version)) is None or not stratum.episodes:
            return False
        error = _share(error, version)
        evidence = log_evidence([stratum.exchanged], 1.0 - share, rule.margin / horizon)
    else:
        strata = _compared(cohorts, rule.after)
        if strata is None:
            return False
        exchanged = [one.exchanged for one in strata]
        evidence = log_evidence(exchanged, 1.0 - share, -rule.target / horizon)
    return evidence > -math.log(error) - NEAR


def evidence_for(rule: ControlSuperiority, cohorts: Cohorts) -> float:
    """Return the log evidence that the rule watches; −∞ while the rule waits.

    The rule of confidence c stops when the evidence exceeds 1/(1−c).
    """
    strata = _compared(cohorts, rule.after)
    if strata is None or not any(one.episodes for one in strata):
        return -math.inf
    return log_evidence(strata, cohorts.control, rule.margin / cohorts.horizon)


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
    """Return the table that `rule_of` takes; keys without a value are left out."""
    return {"rule": rule.name} | {k: v for k, v in vars(rule).items() if v is not None}


def _confidence(value: Any) -> float:
    return real("confidence", value, least=0.5, below=1.0)


def _highest_mean(cohorts: Cohorts, version: int, confidence: float) -> float:
    """Return the upper end of the interval of a version's mean return."""
    error = _share(1.0 - confidence, version)
    return cohorts.horizon * cohorts[version].bounds(1.0 - error).high


def _share(error: float, version: int) -> float:
    """Return a version's part of an error; the parts of all versions add up to the error."""
    return error / (version * (version + 1))


def _compared(cohorts: Cohorts, after: int) -> list[Stratum] | None:
    """Return the outcomes of all versions once `after` episodes are compared; None before."""
    strata = [cohorts.strata[version] for version in sorted(cohorts.strata)]
    if not cohorts.control or sum(one.episodes for one in strata) < after:
        return None
    return strata


def _set_comparison(rule: Any, name: str, **more: int) -> None:
    """Check the arguments of a rule about the control."""
    for key, value in more.items():
        set_fields(rule, **{key: whole(key, value, least=1)})
    confidence = _confidence(rule.confidence)
    # A superiority margin below 0 is a margin of non-inferiority.
    least = None if isinstance(rule, ControlSuperiority) else 0.0
    set_fields(rule, **{name: real(name, getattr(rule, name), least=least)}, confidence=confidence)


def _check_comparison(
    name: str, value: float, horizon: int, after: int = 1, episodes: int = 1
) -> None:
    _check_return(name, value, horizon)
    if after > episodes:
        raise ValueError(f"after must be at most {episodes}, the planned episodes; got {after}")


def _check_return(name: str, value: float, horizon: int) -> None:
    if abs(value) > horizon:
        raise ValueError(f"{name} must be at most {horizon}, the largest return; got {value:g}")


def watch(terms: "Terms", cohorts: Cohorts, version: int) -> list[Watched]:
    """Return the value of each stopping rule, in the order of checking."""
    seen = [rule.watch(cohorts, version) for rule in terms.stopping]
    planned, episodes = terms.episodes, cohorts.episodes
    last = Watched(EPISODES, episodes, planned, episodes >= planned, f"all {planned} are recorded")
    return [*filter(None, seen), last]
