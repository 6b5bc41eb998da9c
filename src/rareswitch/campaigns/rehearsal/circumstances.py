"""What goes wrong in the field, and how often: the circumstances of a simulated campaign.

Time is counted in episodes: one begins at every tick of the clock, somewhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rareswitch.support.arguments import Bools, Floats, flag, real, set_fields, whole
from rareswitch.support.streams import KeyedStream, Seed, Stream

SHARES = (
    "missing", "repeated", "damaged", "corrected", "withdrawn", "overridden", "crashes", "rejected",
)  # fmt: skip
DURATIONS = ("delay", "outage", "signing")
# What the numbers of a simulation are drawn for; part of every recorded seed.
EPISODE, LEARNER, DECISION = range(3)
MOMENTS = ("before the fit", "before the entry", "after the entry")


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """How many sites, how late they report, and what share of which mishaps there is.

    Of the episodes that begin, `missing` are never reported; reports come `delay` ticks later on
    average, `damaged` ones first in a form that is refused, and `repeated` ones twice. `corrected`
    ones were reported with a wrong last reward, and are corrected later; `withdrawn` ones are taken
    back later. Of all steps, people decide otherwise than recommended in `overridden`, at random.

    The learner looks every `learn_every` ticks; each time its process dies with probability
    `crashes`, and another begins `outage` ticks later on average. Where a second person has to sign
    and `signs` is True, one decides `signing` ticks after a candidate was proposed on average, and
    turns down `rejected` of them. With `signs=False` candidates wait for you.

    >>> Circumstances(missing=0.1).missing
    0.1
    """

    sites: int = 12
    delay: float = 30.0
    missing: float = 0.02
    repeated: float = 0.02
    damaged: float = 0.01
    corrected: float = 0.005
    withdrawn: float = 0.002
    overridden: float = 0.0
    learn_every: int = 10
    crashes: float = 0.05
    outage: float = 20.0
    signs: bool = True
    signing: float = 30.0
    rejected: float = 0.0

    def __post_init__(self) -> None:
        set_fields(
            self,
            sites=whole("sites", self.sites, least=1, most=10_000),
            learn_every=whole("learn_every", self.learn_every, least=1),
            signs=flag("signs", self.signs),
        )
        for name in (*SHARES, *DURATIONS):
            most = 1.0 if name in SHARES else 1e6
            set_fields(self, **{name: real(name, getattr(self, name), least=0.0, most=most)})

    @classmethod
    def calm(cls) -> "Circumstances":
        """Return circumstances in which nothing goes wrong: one site that reports at once."""
        none = dict.fromkeys((*SHARES, *DURATIONS), 0.0)
        return cls(sites=1, learn_every=1, **none)  # type: ignore[arg-type]


class EpisodeFate(NamedTuple):
    """What happens to one episode, `delay` and `later` in ticks."""

    site: str
    damage: int  # which of the kinds there are
    missing: bool
    repeated: bool
    damaged: bool
    corrected: bool
    withdrawn: bool
    delay: int
    later: int  # when it is sent again, corrected or withdrawn, after its report
    overridden: Bools  # (H,)
    choices: Floats  # (H,), uniforms that say what people do instead


class Fates:
    """What is drawn for a simulation: of every episode, look and candidate by its number alone.

    The same numbers are drawn whatever the circumstances are, so that simulations can be compared.
    """

    def __init__(self, circumstances: Circumstances, *, horizon: int, seed: Seed) -> None:
        self._are, self._horizon = circumstances, horizon
        self._stream = KeyedStream(seed, Stream.CAMPAIGN)

    def episode(self, number: int) -> EpisodeFate:
        """Return what happens to an episode, counted from 1."""
        are, rng = self._are, self._at(EPISODE, number)
        site, damage = int(rng.integers(are.sites)) + 1, int(rng.integers(1 << 16))
        shares = zip(EpisodeFate._fields[2:7], rng.random(5), strict=True)
        mishaps = [bool(draw < getattr(are, name)) for name, draw in shares]
        delay, later = rng.exponential(size=2) * are.delay
        people = rng.random(self._horizon) < are.overridden, rng.random(self._horizon)
        return EpisodeFate._make(
            [f"site-{site:02d}", damage, *mishaps, int(delay), 1 + int(later), *people]
        )

    def death(self, tick: int) -> tuple[str, int] | None:
        """Return when the learner's process dies at a look, and for how long; None if it lives."""
        rng = self._at(LEARNER, tick)
        dies, outage = rng.random(), rng.exponential() * self._are.outage
        moment = MOMENTS[int(rng.integers(len(MOMENTS)))]
        return (moment, int(outage)) if dies < self._are.crashes else None

    def decision(self, candidate: int) -> tuple[int, bool]:
        """Return how long somebody thinks about a candidate, and whether it is approved."""
        rng = self._at(DECISION, candidate)
        return int(rng.exponential() * self._are.signing), bool(rng.random() >= self._are.rejected)

    def _at(self, purpose: int, number: int) -> np.random.Generator:
        return self._stream.at(3 * number + purpose)
