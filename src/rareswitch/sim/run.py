"""The results of a run, the record of running simulations, and their randomness."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rareswitch.core.clock import Ledger
from rareswitch.core.control import ROLES
from rareswitch.core.policy import TIE_TOLERANCE, Policy
from rareswitch.support.arguments import Floats, Ints, floats, one_of, short_repr
from rareswitch.support.bootstrap import running_average
from rareswitch.support.streams import Seed, Stream, generator


class Played(NamedTuple):
    """The episodes that one role played, and their regret."""

    episodes: int
    regret: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Run:
    """The results of K episodes of one run.

    `members` are the numbers of the members that played, `regret` is their regret, and `roles` are
    their roles, positions in `core.control.ROLES`; without roles, learned members play everything.
    `deployment_episodes` are the episodes (counted from 1) before which a policy was deployed.
    `fitted_values` are the values V₁(s₁) of their fits, for a mixture the mean over members. A
    deployment after the first is a switch if it changed the action of some member in some
    (stage, state); `local_switches` counts these pairs.
    """

    regret: Floats  # (K,)
    states: Ints  # (K, H+1)
    actions: Ints  # (K, H)
    members: Ints  # (K,)
    deployment_episodes: Ints
    switch_episodes: Ints
    fitted_values: Floats
    local_switches: int
    policy: Policy | None  # the last one in force; None: uniformly random, or none yet
    roles: Ints | None = None  # (K,)

    @property
    def by_role(self) -> dict[str, Played]:
        """The episodes and the regret of each role that played.

        >>> from rareswitch import Control, Recipe, SpreadBudget, simulate, worlds
        >>> recipe = Recipe(control=Control(0, share=0.2), floor=0.1)
        >>> world = worlds.hard_to_learn(d=5, horizon=4)
        >>> run = simulate(world, SpreadBudget(switches=9), recipe, episodes=500)
        >>> {role: part.episodes for role, part in run.by_role.items()}
        {'learned': 361, 'control': 96, 'floor': 43}
        """
        roles = np.zeros(len(self.regret), np.int64) if self.roles is None else self.roles
        parts = {role: self.regret[roles == place] for place, role in enumerate(ROLES)}
        return {
            role: Played(len(regret), float(regret.sum()))
            for role, regret in parts.items()
            if len(regret)
        }

    @property
    def deployments(self) -> int:
        return len(self.deployment_episodes)

    @property
    def switches(self) -> int:
        return len(self.switch_episodes)

    def optimistic_share(self, optimal: Floats) -> float:
        """Return the fraction of fits with V₁(s₁) ≥ V*₁(s₁), given V*₁ (S,) of the run's world.

        The fraction is NaN for a run without fits, such as random play.
        """
        if not self.deployments:
            return float("nan")
        best = optimal[self.states[self.deployment_episodes - 1, 0]]
        return float(np.mean(self.fitted_values >= best - TIE_TOLERANCE))

    @property
    def average_regret(self) -> Floats:
        """Regret(k)/k, as in the paper's figures."""
        return running_average(self.regret)

    def __repr__(self) -> str:
        return (
            f"Run({len(self.regret)} episodes, regret {self.regret.sum():.4g}, "
            f"{self.deployments} deployments, {self.switches} switches)"
        )


class Record:
    """Arrays indexed (run, episode), and the ledger of each run."""

    def __init__(self, runs: int, episodes: int, horizon: int) -> None:
        self.ledgers = [Ledger() for _ in range(runs)]
        self._fitted_values: list[list[float]] = [[] for _ in range(runs)]
        self._local_switches = np.zeros(runs, np.int64)
        self._switched = np.zeros((runs, episodes), bool)
        self._regret = np.zeros((runs, episodes))
        self._states = np.zeros((runs, episodes, horizon + 1), np.int32)
        self._actions = np.zeros((runs, episodes, horizon), np.int32)
        self._members = np.zeros((runs, episodes), np.int32)
        self._roles = np.zeros((runs, episodes), np.int8)

    def deploy(
        self,
        live: Ints,
        episode: Ints,
        *,
        logdet: Floats,
        trace: Floats,
        values: Floats,
        changes: Ints,
    ) -> None:
        """Record one deployment in each of the live runs, before its episode.

        `values` are V₁(s₁) of the fits. `changes` counts the (stage, state) pairs with a changed
        action.
        """
        logdet.flags.writeable = trace.flags.writeable = False
        entries = zip(live.tolist(), episode.tolist(), logdet, trace, values.tolist(), strict=True)
        for r, k, now, size, value in entries:
            self.ledgers[r] = self.ledgers[r].deploy(episode=k, logdet=now, trace=size)
            self._fitted_values[r].append(value)
        self._switched[live, episode - 1] = changes > 0
        self._local_switches[live] += changes

    def play(
        self,
        run: Ints,
        episode: Ints,
        *,
        states: Ints,
        actions: Ints,
        members: Ints,
        regret: Floats,
        roles: Ints | None = None,
    ) -> None:
        """Record n episodes: states (n, H+1), actions (n, H), all else (n,)."""
        self._regret[run, episode - 1] = regret
        self._states[run, episode - 1] = states
        self._actions[run, episode - 1] = actions
        self._members[run, episode - 1] = members
        if roles is not None:
            self._roles[run, episode - 1] = roles

    def decline(self, r: int, episode: int) -> None:
        """Record that a candidate of run r was declined before an episode."""
        self.ledgers[r] = self.ledgers[r].decline(episode)

    def states(self, r: int, first: int, end: int) -> Ints:
        """Return the states (n, H+1) of run r in the episodes `first` to `end` − 1."""
        return self._states[r, first - 1 : end - 1].astype(np.int64)

    def run(self, r: int, played: int, policy: Policy | None) -> Run:
        """Return the first `played` episodes of run r."""
        return Run(
            regret=self._regret[r, :played].copy(),
            states=self._states[r, :played].astype(np.int64),
            actions=self._actions[r, :played].astype(np.int64),
            members=self._members[r, :played].astype(np.int64),
            deployment_episodes=np.array([d.episode for d in self.ledgers[r]], np.int64),
            switch_episodes=np.flatnonzero(self._switched[r]) + 1,
            fitted_values=np.array(self._fitted_values[r]),
            local_switches=int(self._local_switches[r]),
            policy=policy,
            roles=self._roles[r, :played].astype(np.int64),
        )


def initial_states(choice: int | str | Ints, states: int, episodes: int, seed: Seed) -> Ints:
    """Return the initial state of every episode (K,)."""
    if isinstance(choice, str):
        one_of("initial_state", choice, ("uniform",))
        return generator(seed, Stream.INITIAL).integers(0, states, episodes)
    initial = np.asarray(choice)
    if initial.dtype.kind not in "iu" or initial.shape not in ((), (episodes,)):
        raise ValueError(
            f'initial_state must be a state, {episodes} states or "uniform"; got '
            f"{short_repr(choice)}"
        )
    if initial.min() < 0 or initial.max() >= states:
        raise ValueError(f"initial_state must be from 0 to {states - 1}; got {short_repr(choice)}")
    return np.broadcast_to(initial, episodes).astype(np.int64)


def noise_of(given: Floats | None, episodes: int, horizon: int, seed: Seed) -> Floats:
    """Return the uniforms (K, H) that decide the next states."""
    if given is None:
        return generator(seed, Stream.NOISE).random((episodes, horizon))
    noise = floats("noise", given, (episodes, horizon))
    if noise.min() < 0.0 or noise.max() >= 1.0:
        raise ValueError(f"noise must lie in [0, 1); got {noise.min()} … {noise.max()}")
    return noise
