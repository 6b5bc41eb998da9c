"""Many runs of one schedule on known worlds: exact regret, updates and switches.

Regret is V*₁(s₁) − V₁^π(s₁) by policy evaluation, never from sampled returns. Many runs on worlds
with the same features step together: each is fitted, plays until its next switch is due, and is
fitted again, whatever its episode. A run alone gives the same numbers.
"""

from collections.abc import Sequence

import numpy as np

from rareswitch.core.arguments import Bools, Floats, Ints, one_of, real, whole
from rareswitch.core.gram import Gram
from rareswitch.core.learner import TIES
from rareswitch.core.lsvi import fit_finite
from rareswitch.core.optimism import Bonus, Optimism, Perturbation
from rareswitch.core.policy import Policy
from rareswitch.core.schedule import Clock, Schedule
from rareswitch.core.streams import Seed, Stream, generator
from rareswitch.core.tally import Tally
from rareswitch.sim.mdp import FiniteMDP
from rareswitch.sim.rollout import logdet_growth, rollout
from rareswitch.sim.run import Run, initial_states, noise_of

# Deployments after which the norms that a simulation watches are computed anew.
RECOMPUTE_EVERY = 32


class Simulation:
    """R runs of one schedule, advanced one deployment at a time by `step()`.

    `runs()` may be called at any time and returns what has been played so far.
    """

    def __init__(
        self,
        worlds: Sequence[FiniteMDP],
        schedule: Schedule,
        *,
        episodes: int,
        seeds: Sequence[Seed],
        beta: float = 1.0,
        ridge: float = 1.0,
        ties: str = "direction",
        clip: bool = True,
        optimism: Optimism | None = None,
        initial_state: int | str | Ints = 0,
        noise: Floats | None = None,
    ) -> None:
        first = worlds[0]
        if not alike(worlds):
            raise ValueError("worlds stepped together must share features and horizon")
        if len(seeds) != len(worlds):
            raise ValueError(
                f"seeds must be one for each of {len(worlds)} worlds; got {len(seeds)}"
            )
        if not callable(getattr(schedule, "due", None)):
            raise TypeError(f"schedule must have a method due(clock) -> bool; got {schedule!r}")
        self.schedule = schedule
        self.episodes = whole("episodes", episodes, least=1)
        self.optimism: Optimism = Bonus(beta) if optimism is None else optimism
        one_of("ties", ties, TIES)
        self.clip = clip
        runs, horizon, states = len(worlds), first.horizon, first.states
        self._space = first.space
        self._transitions = np.stack([world.transitions for world in worlds])
        self._rewards = np.stack([world.rewards for world in worlds])
        self._optimal = np.stack([world.optimal_values()[0] for world in worlds])  # (R, S)
        self._initial = np.stack(
            [initial_states(initial_state, states, self.episodes, seed) for seed in seeds]
        )
        self._noise = np.stack([noise_of(noise, self.episodes, horizon, seed) for seed in seeds])
        self._ties = [generator(s, Stream.TIES) for s in seeds] if ties == "direction" else None
        self._perturbations = [generator(seed, Stream.PERTURBATION) for seed in seeds]
        self._offsets: Floats | None = None
        ridge = real("ridge", ridge, above=0.0)
        self.gram = Gram((runs, horizon), first.dim, ridge, watch=self._space.columns)
        self._tally = Tally(self._space, runs, horizon)
        self._pairs = np.ogrid[:runs, :horizon, :states]
        self.episode = np.ones(runs, np.int64)  # the next to be played
        self._deployments = 0
        self._segments = np.ones(runs, np.int64)  # lengths of the last ones
        self._policy_actions = np.zeros((runs, horizon, states), np.int64)
        self.weights = np.zeros((runs, horizon, first.dim))
        self.whitener = np.zeros_like(self.gram.whitener)
        self._directions = np.zeros_like(self.weights)
        self._local_switches = np.zeros(runs, np.int64)
        self._updates = np.zeros(runs, np.int64)
        self._plan_values = np.full((runs, self.episodes), np.nan)  # where there was no update
        self._switched = np.zeros((runs, self.episodes), bool)
        self._regret = np.zeros((runs, self.episodes))
        self._states = np.zeros((runs, self.episodes, horizon + 1), np.int32)
        self._actions = np.zeros((runs, self.episodes, horizon), np.int32)

    @property
    def live(self) -> Bools:
        """Which runs have episodes left to play (R,)."""
        return self.episode <= self.episodes

    @property
    def done(self) -> bool:
        return not self.live.any()

    def step(self) -> None:
        """Fit a policy for every run and play it until the next switch is due."""
        self.deploy()
        self.play()

    def runs(self) -> list[Run]:
        """Return each run up to the episode it has reached."""
        return [self._run(r) for r in range(len(self.episode))]

    def deploy(self) -> None:
        """Fit a policy for every run on what it has seen."""
        live = np.flatnonzero(self.live)
        self._deployments += 1
        if self._deployments % RECOMPUTE_EVERY == 0:
            self.gram.recompute_watched()
        if self._ties is not None:
            for r in live:
                self._directions[r] = self._ties[r].standard_normal(self._directions.shape[1:])
        if isinstance(self.optimism, Perturbation):
            self._draw_offsets(self.optimism, live)
        weights, self.values, choices = fit_finite(
            self.gram,
            self._tally,
            beta=self.optimism.beta,
            offsets=self._offsets,
            clip=self.clip,
            directions=None if self._ties is None else self._directions,
        )
        kept = slice(None) if live.size == len(self.episode) else live
        self.weights[kept] = weights[kept]
        self.whitener[kept] = self.gram.whitener[kept]
        actions = self._space.actions[choices]
        changes = (actions != self._policy_actions).sum(axis=(1, 2))
        k = self.episode[live]
        changes = np.where(k > 1, changes[live], 0)  # the first policy replaces none
        self._switched[live, k - 1] = changes > 0
        self._local_switches[live] += changes
        self._updates[live] += 1
        self._plan_values[live, k - 1] = self.values[live, 0, self._initial[live, k - 1]]
        here = (*self._pairs, actions)
        self._policy_actions = actions
        self._policy_features = self._space.rows[choices]  # (R, H, S, d)
        self._policy_rewards = self._rewards[here]  # (R, H, S)
        self._policy_transitions = self._transitions[here]  # (R, H, S, S)
        value = np.zeros_like(self._optimal)
        for h in reversed(range(actions.shape[1])):
            value = self._policy_rewards[:, h] + np.matvec(self._policy_transitions[:, h], value)
        # V*₁ − V₁^π at every state (R, S); below zero is rounding.
        self._gap = np.maximum(self._optimal - value, 0.0)
        self._trace_deployed = self.gram.trace.copy()

    def _draw_offsets(self, perturbation: Perturbation, live: Ints) -> None:
        if self._offsets is None:
            runs, horizon, dim = self.weights.shape
            self._offsets = np.zeros((runs, horizon, perturbation.draws, dim))
        for r in live:
            drawn = perturbation.offsets(self._perturbations[r], self.gram.whitener[r])
            self._offsets[r] = drawn

    def play(self) -> None:
        """Play every run until its next switch is due, and absorb what it saw."""
        left = self.episodes + 1 - self.episode
        if hasattr(self.schedule, "upcoming"):  # then all runs are at the same episode
            k = int(self.episode[0])
            date = self.schedule.upcoming(k)
            lengths = left if date is None else np.minimum(left, date - k)
            states = self._rollout(int(lengths[0]))
        else:
            lengths, states = self._search(left)
        run, step = np.nonzero(np.arange(states.shape[1]) < lengths[:, None])
        played = states[run, step]  # (episodes of all runs, H+1)
        index = self.episode[run] - 1 + step
        stage = np.arange(played.shape[1] - 1)
        self._regret[run, index] = self._gap[run, played[:, 0]]
        self._states[run, index] = played
        self._actions[run, index] = self._policy_actions[run[:, None], stage, played[:, :-1]]
        self._absorb(states, lengths, run, played)
        self.episode += lengths
        self._segments = lengths

    def _rollout(self, length: int) -> Ints:
        """Return the states (R, L, H+1) of each run's next episodes under its policy."""
        index = np.minimum(self.episode[:, None] - 1 + np.arange(length), self.episodes - 1)
        run = np.arange(len(index))[:, None]
        cdf = self._policy_transitions.cumsum(axis=-1)
        return rollout(cdf, self._initial[run, index], self._noise[run, index])

    def _search(self, left: Ints) -> tuple[Ints, Ints]:
        """Look ahead, further and further, until every run's next switch is in sight.

        Returns how many episodes each run plays before it (R,), and the states (R, L, H+1).
        """
        length = 2 * int(self._segments.max())
        while True:
            ahead = np.minimum(length, left)
            states = self._rollout(int(ahead.max()))
            wait = self._wait(states, ahead)
            if ((wait < ahead) | (ahead == left)).all():
                return np.minimum(wait + 1, ahead), states
            length *= 2

    def _wait(self, states: Ints, ahead: Ints) -> Ints:
        """Find the least m < ahead (R,) so that a switch is due after m+1 episodes, or ahead."""
        every_state = np.arange(self._policy_actions.shape[2])
        visits = np.cumsum(states[:, :, :-1, None] == every_state, axis=1, dtype=np.int32)
        whitened = self._policy_features @ self.gram.whitener.mT
        low, high = np.zeros_like(ahead), ahead.copy()
        persistent = getattr(self.schedule, "persistent", False)
        while (open_ := np.flatnonzero(low < high)).size:
            # A rule that stays due is bisected; any other is asked before every episode.
            m = (low[open_] + high[open_]) // 2 if persistent else low[open_]
            growth = logdet_growth(whitened[open_], visits[open_, m])
            due = np.array([self._due(r, *at) for r, *at in zip(open_, m, growth, strict=True)])
            high[open_[due]] = m[due]
            low[open_[~due]] = m[~due] + 1
        return low

    def _due(self, r: np.int64, m: np.int64, growth: Floats) -> bool:
        """Ask the schedule after run r has played m+1 episodes of the policy in force."""
        deployed = int(self.episode[r])
        clock = Clock(
            episode=deployed + 1 + int(m),
            logdet=self.gram.logdet[r] + growth,
            logdet_deployed=self.gram.logdet[r].copy(),
            deployed=deployed,
            updates=int(self._updates[r]),
            trace_deployed=self._trace_deployed[r].copy(),
        )
        return bool(self.schedule.due(clock))

    def _absorb(self, states: Ints, lengths: Ints, run: Ints, played: Ints) -> None:
        """Absorb the episodes one by one, or all visits of a state in one go: the fewer steps.

        Segments of rules without dates differ between runs; for them it is always the states, so
        that a run's numbers do not depend on its companions.
        """
        every_run, every_stage, _ = self._pairs
        runs, horizon, count = self._policy_actions.shape
        longest = int(lengths.max())
        if longest < count and hasattr(self.schedule, "upcoming"):
            for j in range(longest):
                here = (every_run[..., 0], every_stage[..., 0], states[:, j, :-1])
                features, rewards = self._policy_features[here], self._policy_rewards[here]
                self.gram.absorb(features)
                self._tally.absorb(features, rewards, states[:, j, 1:])
        else:
            moves = count_moves(run, played, (runs, horizon, count, count))
            self._tally.absorb_moves(moves, self._policy_features, self._policy_rewards)
            visits = moves.sum(axis=-1)
            for s in np.flatnonzero(visits.any(axis=(0, 1))):
                self.gram.absorb(self._policy_features[:, :, s], visits[:, :, s])

    def _run(self, r: int) -> Run:
        played = int(self.episode[r]) - 1
        updates = np.flatnonzero(~np.isnan(self._plan_values[r]))
        policy = None
        if self._updates[r]:
            policy = Policy(
                weights=self.weights[r],
                whitener=self.whitener[r],
                beta=self.optimism.beta,
                directions=None if self._ties is None else self._directions[r],
                offsets=None if self._offsets is None else self._offsets[r],
                clip=self.clip,
                version=int(self._updates[r]),
            )
        return Run(
            regret=self._regret[r, :played].copy(),
            states=self._states[r, :played].astype(np.int64),
            actions=self._actions[r, :played].astype(np.int64),
            update_episodes=updates + 1,
            switch_episodes=np.flatnonzero(self._switched[r]) + 1,
            plan_values=self._plan_values[r, updates],
            local_switches=int(self._local_switches[r]),
            policy=policy,
        )


def alike(worlds: Sequence[FiniteMDP]) -> bool:
    """Return whether runs on these worlds can step together: same features, same horizon."""
    first = worlds[0]
    return all(
        world.horizon == first.horizon
        and np.array_equal(world.features, first.features)
        and np.array_equal(world.feasible, first.feasible)
        for world in worlds[1:]
    )


def companions(worlds: Sequence[FiniteMDP]) -> list[list[int]]:
    """Return the positions of the worlds that step together: all of them, or each alone."""
    everyone = list(range(len(worlds)))
    return [everyone] if alike(worlds) else [[r] for r in everyone]


def count_moves(run: Ints, played: Ints, shape: tuple[int, int, int, int]) -> Floats:
    """Count the moves (R, H, S, S) from state to state of episodes (n, H+1), each of one run."""
    stage = np.arange(shape[1])
    cells = np.ravel_multi_index((run[:, None], stage, played[:, :-1], played[:, 1:]), shape)
    return np.bincount(cells.ravel(), minlength=int(np.prod(shape))).reshape(shape).astype(float)
