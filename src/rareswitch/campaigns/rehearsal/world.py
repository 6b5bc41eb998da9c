"""The world of a rehearsal: its answers to actions, and the mishaps at sites.

An episode begins at every tick of the clock, at some site.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from rareswitch.core.control import Player
from rareswitch.core.policy import Policy
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.support.arguments import (
    Bools,
    Floats,
    Ints,
    Rows,
    flag,
    one_of,
    real,
    set_fields,
    whole,
)
from rareswitch.support.streams import KeyedStream, Seed, Stream, generator

SHARES = (
    "missing", "repeated", "damaged", "corrected", "withdrawn", "overridden", "crashes", "rejected",
)  # fmt: skip
DURATIONS = ("delay", "outage", "signing")
DELAY_LAWS = ("exponential", "fixed")
# The purposes of random draws; part of every recorded seed.
EPISODE, LEARNER, DECISION = range(3)
MOMENTS = ("before the fit", "before the entry", "after the entry")
# Smaller differences between values of actions count as 0.
EQUAL_VALUES = 1e-9


class Step(NamedTuple):
    """A world's answer to an action.

    `reward` lies in [0, 1]; `offered` are the rows of the next state, or None. An episode that is
    `over` with rows offered was truncated. A world with a known model may set the `expected` reward
    of the action in its state, and whether the action is among the `best` there.
    """

    reward: float
    offered: Rows | None
    over: bool
    expected: float | None = None
    best: bool | None = None


class World(Protocol):
    """A world that plays one episode at a time.

    The draws in an episode depend only on its number, so episodes are the same in any order. A
    world may have a `horizon`, which must equal the protocol's, and a `feature_norm`, which must
    not exceed the protocol's. It may have `loss(policy)`, the expected regret of an episode (or
    None), and `value(policy)`, the expected return of an episode; a control and a floor count by
    their shares.

    Two more methods are optional, about the episode just played. `subgroup() -> str | None` returns
    the participant's subgroup, and `events() -> dict[str, int] | None` the number of adverse events
    of each kind, empty if there were none. They are called, and reported, if the protocol's
    [analysis] declares subgroups or events.
    """

    def begin(self, number: int) -> Rows:
        """Begin an episode, counted from 1; return the rows offered in its first state."""
        ...

    def step(self, place: int) -> Step:
        """Take the action with that index among the offered rows."""
        ...


class FiniteWorld:
    """Episodes of a finite MDP that all begin in one state.

    Episode k has the same noise as the k-th episode of `rareswitch.simulate` with that seed.

    >>> import rareswitch as rs
    >>> world = FiniteWorld(rs.worlds.tabular(states=2, actions=3, horizon=1, seed=0))
    >>> world.begin(1).shape, world.step(2).over
    ((3, 6), True)
    """

    def __init__(self, mdp: FiniteMDP, *, seed: Seed = 0, initial_state: int = 0) -> None:
        self.mdp = checked_world(mdp)
        self._initial = whole("initial_state", initial_state, least=0, most=mdp.states - 1)
        self._offers: list[Rows] = [
            rows[allowed] for rows, allowed in zip(mdp.features, mdp.feasible, strict=True)
        ]
        self._actions: list[Ints] = [np.flatnonzero(allowed) for allowed in mdp.feasible]
        best = mdp.optimal_values()
        self._best = float(best[0, self._initial])
        self._optimal: Bools = mdp.action_values(best) >= best[:-1, :, None] - EQUAL_VALUES
        self._generator = generator(seed, Stream.NOISE)
        self._noise: list[Floats] = []
        self._number = self._stage = self._state = 0

    @property
    def horizon(self) -> int:
        return self.mdp.horizon

    @property
    def feature_norm(self) -> float:
        return self.mdp.feature_norm

    def begin(self, number: int) -> Rows:
        number = whole("number", number, least=1)
        while len(self._noise) < number:
            self._noise.append(self._generator.random(self.mdp.horizon))
        self._number, self._stage, self._state = number, 0, self._initial
        return self._offers[self._state]

    def step(self, place: int) -> Step:
        h, action = self._stage, int(self._actions[self._state][place])
        at = h, self._state, action
        self._state = int((self.mdp.thresholds[at] <= self._noise[self._number - 1][h]).sum())
        self._stage = h + 1
        over = self._stage == self.mdp.horizon
        reward = min(max(float(self.mdp.rewards[at]), 0.0), 1.0)  # corrects rounding
        offered = None if over else self._offers[self._state]
        return Step(reward, offered, over, reward, bool(self._optimal[at]))

    def loss(self, policy: Policy) -> float:
        """Return V*₁ − V₁^π at the first state; for a mixture, the mean over its members.

        A control and a floor count by their shares.
        """
        return max(self._best - self.value(policy), 0.0)

    def value(self, policy: Policy) -> float:
        """Return V₁^π at the first state; for a mixture, the mean over its members."""
        split, control = policy.split, policy.control
        value = split.learned * self._value(policy) if split.learned else 0.0
        if policy.floor:
            value += policy.floor * float(self.mdp.random_values()[0, self._initial])
        if control is not None and control.action is None:
            value += control.share * self._value(policy.controlling)
        elif control is not None:
            actions = [taken[control.take(len(taken))] for taken in self._actions]
            always = self.mdp.policy_values(np.array([actions] * self.mdp.horizon))
            value += control.share * float(always[0, self._initial])
        return value

    def _value(self, policy: Policy) -> float:
        """Return V₁^π at the first state, the mean over the learned members."""
        offered = list(zip(self._offers, self._actions, strict=True))
        actions = [
            [taken[policy.choices(h, rows)] for rows, taken in offered]
            for h in range(self.mdp.horizon)
        ]
        by_member = np.moveaxis(np.array(actions), -1, 0)  # (M, H, S)
        found = [self.mdp.policy_values(one)[0, self._initial] for one in by_member]
        return float(np.mean(found))


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """The number of sites, the delays, and the shares of mishaps.

    The share `missing` of episodes is never reported. Reports arrive `delay` ticks later on
    average; the share `damaged` is first sent in a form that is refused, and the share `repeated`
    is sent twice. The share `corrected` is reported with a wrong last reward and corrected later;
    the share `withdrawn` is withdrawn later. In the share `overridden` of steps, people take
    another action at random.

    The learner runs every `learn_every` ticks; each time its process dies with probability
    `crashes`, and a new process begins `outage` ticks later on average. If a second person must
    sign and `signs` is True, a person decides `signing` ticks after a proposal on average, and
    rejects the share `rejected`. With `signs=False`, candidates wait for you.

    `accrual` episodes begin per unit of time, and `delay`, `outage` and `signing` are in that unit:
    a delay of 60 days at 5 participants a day is 300 episodes. A tick is the time from one episode
    to the next. With `delay_law` "fixed", every report takes exactly `delay`.

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
    accrual: float = 1.0
    delay_law: str = "exponential"

    def __post_init__(self) -> None:
        set_fields(
            self,
            sites=whole("sites", self.sites, least=1, most=10_000),
            learn_every=whole("learn_every", self.learn_every, least=1),
            signs=flag("signs", self.signs),
            accrual=real("accrual", self.accrual, above=0.0, most=1e6),
            delay_law=one_of("delay_law", self.delay_law, DELAY_LAWS),
        )
        for name in (*SHARES, *DURATIONS):
            most = 1.0 if name in SHARES else 1e6
            set_fields(self, **{name: real(name, getattr(self, name), least=0.0, most=most)})

    @classmethod
    def calm(cls) -> "Circumstances":
        """Return circumstances without mishaps: one site that reports at once."""
        none = dict.fromkeys((*SHARES, *DURATIONS), 0.0)
        return cls(sites=1, learn_every=1, **none)  # type: ignore[arg-type]


class EpisodeFate(NamedTuple):
    """The events of one episode; `delay` and `later` are in ticks."""

    site: str
    damage: int  # the kind
    missing: bool
    repeated: bool
    damaged: bool
    corrected: bool
    withdrawn: bool
    delay: int
    later: int  # ticks from its report to its repetition, correction or withdrawal
    overridden: Bools  # (H,)
    choices: Floats  # (H,), uniforms that draw the actions of people


class PlayedEpisode(NamedTuple):
    """A played episode: the rows offered at each step, and the indices of the actions taken.

    The rows after the last step are included if the episode was truncated. `recommended` are the
    player's actions; people may take others. `expected` is the sum of the expected rewards, and
    `best` counts the best actions; both are None if the world does not provide them.
    """

    offered: list[Rows]
    places: list[int]
    rewards: list[float]
    recommended: list[int]
    expected: float | None
    best: int | None


def play(
    world: World, player: Policy | Player, number: int, fate: EpisodeFate | None = None
) -> PlayedEpisode:
    """Let a player play an episode; by its fate, people override some steps."""
    offered: list[Rows] = [world.begin(number)]
    rewards, places, recommended = list[float](), list[int](), list[int]()
    expected: float | None = 0.0
    best: int | None = 0
    for h in range(player.horizon):
        rows = offered[-1]
        recommended.append(player.act(h, rows))
        place = recommended[-1]
        if fate is not None and fate.overridden[h]:
            place = int(fate.choices[h] * len(rows))
        places.append(place)
        reward, following, over, mean, is_best = world.step(place)
        rewards.append(reward)
        expected = None if expected is None or mean is None else expected + mean
        best = None if best is None or is_best is None else best + is_best
        if following is not None and h + 1 < player.horizon:
            offered.append(following)
        if over:
            break
    return PlayedEpisode(offered, places, rewards, recommended, expected, best)


class Fates:
    """The draws of a simulation: each depends only on the number of its episode, look or candidate.

    The draws do not depend on the circumstances, so simulations can be compared.
    """

    def __init__(self, circumstances: Circumstances, *, horizon: int, seed: Seed) -> None:
        self._are, self._horizon = circumstances, horizon
        self._known: dict[int, EpisodeFate] = {}
        self._nobody: tuple[Bools, Floats] = np.zeros(horizon, np.bool), np.zeros(horizon)
        self._shares = [getattr(circumstances, name) for name in EpisodeFate._fields[2:7]]
        self._stream = KeyedStream(seed, Stream.CAMPAIGN)

    def episode(self, number: int) -> EpisodeFate:
        """Return the events of an episode, counted from 1."""
        if (known := self._known.get(number)) is None:
            known = self._known[number] = self._episode(number)
        return known

    def _episode(self, number: int) -> EpisodeFate:
        are, rng = self._are, self._at(EPISODE, number)
        site, damage = int(rng.integers(are.sites)) + 1, int(rng.integers(1 << 16))
        draws = rng.random(5).tolist()
        mishaps = [draw < share for draw, share in zip(draws, self._shares, strict=True)]
        delay, later = (rng.exponential(size=2) * are.delay * are.accrual).tolist()
        if are.delay_law == "fixed":
            delay = are.delay * are.accrual
        people = self._nobody
        if are.overridden:
            people = rng.random(self._horizon) < are.overridden, rng.random(self._horizon)
        return EpisodeFate._make(
            [f"site-{site:02d}", damage, *mishaps, int(delay), 1 + int(later), *people]
        )

    def death(self, tick: int) -> tuple[str, int] | None:
        """Return the moment of the learner's death at a look, and the outage; None if it lives."""
        rng = self._at(LEARNER, tick)
        dies, outage = rng.random(), rng.exponential() * self._are.outage * self._are.accrual
        moment = MOMENTS[int(rng.integers(len(MOMENTS)))]
        return (moment, int(outage)) if dies < self._are.crashes else None

    def decision(self, candidate: int) -> tuple[int, bool]:
        """Return the time to decide about a candidate, and whether it is approved."""
        rng = self._at(DECISION, candidate)
        thought = rng.exponential() * self._are.signing * self._are.accrual
        return int(thought), bool(rng.random() >= self._are.rejected)

    def _at(self, purpose: int, number: int) -> np.random.Generator:
        return self._stream.at(3 * number + purpose)
