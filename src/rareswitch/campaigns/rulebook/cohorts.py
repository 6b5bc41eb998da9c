"""The returns of each version, and the intake, counted in the order in which reports came.

A cohort is the episodes that one version played, as shares of the horizon. A corrected episode
counts in its first place with its last return; a withdrawn episode does not count.

An interval for a mean holds at every look at once: it is the empirical-Bernstein confidence
sequence of Waudby-Smith and Ramdas (2023, Theorem 2). For observations x in [0, 1] with one
conditional mean, and any λ_t that is settled before x_t is seen,

    Σλx / Σλ  ±  (log(2/α) + Σ v·ψ(λ)) / Σλ,      v_t = (x_t − m_{t−1})²,   ψ(λ) = −log(1−λ) − λ,

covers the mean at all t together with probability 1 − α. Looking after every observation, and
stopping at any of them, does not make the interval wrong more often.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from heapq import merge
from operator import attrgetter
from typing import Any, NamedTuple

from rareswitch.campaigns.rulebook.rows import Head, canonical, digest_of

# λ is tuned to this α; the interval is valid for any.
TUNED_FOR = math.log(2 / 0.05)
LARGEST_LAMBDA = 0.5


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
        """The plain mean, if there is one."""
        return self.total / self.observations if self.observations else None

    @property
    def next_place(self) -> Place:
        """The place of the next observation."""
        t = self.observations + 1
        variance = (0.25 + self.squares) / t
        chosen = math.sqrt(2.0 * TUNED_FOR / (variance * t * math.log1p(t)))
        return Place(t, (0.5 + self.total) / t, min(chosen, LARGEST_LAMBDA))

    def after(self, x: float) -> "RunningMean":
        """Return the sums after one more observation."""
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
        seen = self[version]
        place = seen.next_place
        self.episodes += 1
        self._set(version, seen.add(place, total / self.horizon, 1))
        self._set(INTAKE, self[INTAKE].after(0.0))
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
        """Begin the intake anew, since a campaign that was stopped for it goes on."""
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
        return {v: _seal(text) for v, text in (kept | {INTAKE: canonical(summary)}).items()}

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


def _seal(text: str) -> str:
    return f"{digest_of(text)} {text}"


def _unseal(sealed: str) -> str:
    seal, _, text = sealed.partition(" ")
    if digest_of(text) != seal:
        raise ValueError("it was altered")
    return text


def in_their_order(rows: Iterable[Any], refusals: Iterable[Any]) -> Iterator[Any]:
    """Return rows of the log, and each refusal after the row that was the last row then."""
    return merge(rows, refusals, key=attrgetter("seq"))
