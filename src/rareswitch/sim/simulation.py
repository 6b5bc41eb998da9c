"""Many runs of one schedule on known worlds: exact regret, deployments and switches.

Regret is V*₁(s₁) − V₁^π(s₁) by policy evaluation, never from sampled returns. Many runs on worlds
with the same features step together: each is fitted, plays until its next switch is due, and is
fitted again, whatever its episode. A run alone gives the same numbers.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from rareswitch.core.arguments import Bools, Floats, Ints, shown, whole
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.schedule import Schedule, checked_schedule
from rareswitch.core.streams import Seed
from rareswitch.sim.companions import alike
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.memory import require_memory
from rareswitch.sim.record import Record
from rareswitch.sim.rollout import count_moves, logdet_growth, rollout
from rareswitch.sim.run import Run, initial_states, noise_of
from rareswitch.sim.tally import Tally


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
        exploration: Exploration | None = None,
        beta: float | None = None,
        ridge: float = 1.0,
        ties: str = "direction",
        clip: bool = True,
        initial_state: int | str | Ints = 0,
        noise: Floats | None = None,
    ) -> None:
        if not isinstance(worlds, Sequence) or not all(checked_world(mdp) for mdp in worlds):
            raise TypeError(f"worlds must be a list of FiniteMDPs; got {shown(worlds)}")
        if not worlds:
            raise ValueError("worlds must hold at least one world; got none")
        if not alike(worlds):
            raise ValueError("worlds stepped together must share features and horizon")
        if not isinstance(seeds, Sequence):
            raise TypeError(f"seeds must be a list of seeds; got {shown(seeds)}")
        if len(seeds) != len(worlds):
            raise ValueError(
                f"seeds must be one for each of {len(worlds)} worlds; got {len(seeds)}"
            )
        first = worlds[0]
        self.schedule = checked_schedule(schedule)
        self.episodes = whole("episodes", episodes, least=1)
        recipe = Recipe.of(beta=beta, exploration=exploration, ridge=ridge, ties=ties, clip=clip)
        self.recipes = [replace(recipe, seed=seed) for seed in seeds]
        runs, horizon, states = len(worlds), first.horizon, first.states
        # Noise, paths and regret, as they are played and as they are handed out; visits ahead.
        each = (64.0 + 5.0 * states) * horizon * self.episodes
        learner = 8.0 * horizon * (4.0 * first.dim**2 + 3.0 * len(first.space.rows))
        require_memory(runs * (each + learner), f"{self.episodes} episodes of {runs} run(s)")
        self._space = first.space
        # P, what decides the next state, and r, side by side: (R, H, S, A, 2S), read in one go.
        self._outcomes = np.stack(
            [
                np.concatenate([w.transitions, w.thresholds, w.rewards[..., None]], axis=-1)
                for w in worlds
            ]
        )
        self._optimal = np.stack([world.optimal_values()[0] for world in worlds])  # (R, S)
        self._initial = np.stack(
            [initial_states(initial_state, states, self.episodes, seed) for seed in seeds]
        )
        self._noise = np.stack([noise_of(noise, self.episodes, horizon, seed) for seed in seeds])
        self.tally = Tally(
            self._space,
            runs=runs,
            horizon=horizon,
            ridge=recipe.ridge,
            beta=recipe.exploration.beta,
        )
        self._record = Record(runs, self.episodes, horizon)
        self._pairs = np.ogrid[:runs, :horizon, :states]
        self.episode = np.ones(runs, np.int64)  # the next to be played
        self._segments = np.ones(runs, np.int64)  # lengths of the last ones
        self.weights = np.zeros((runs, horizon, first.dim))
        self.whitener = np.zeros((runs, horizon, first.dim, first.dim))
        self._directions = np.zeros_like(self.weights) if recipe.ties == "direction" else None
        draws = recipe.exploration.draws
        self._offsets = np.zeros((runs, horizon, draws, first.dim)) if draws else None
        self._policy_actions = np.zeros((runs, horizon, states), np.int64)

    @property
    def live(self) -> Bools:
        """Which runs have episodes left to play (R,)."""
        return self.episode <= self.episodes

    @property
    def done(self) -> bool:
        return not self.live.any()

    def step(self) -> None:
        """Deploy a policy in every run and play it until the next switch is due."""
        self.deploy()
        self.play()

    def runs(self) -> list[Run]:
        """Return each run up to the episode it has reached."""
        return [
            self._record.run(r, int(self.episode[r]) - 1, self._policy(r))
            for r in range(len(self.episode))
        ]

    def deploy(self) -> None:
        """Fit a policy for every run on what it has seen, and put it in force."""
        goes_on = self.live
        live = np.flatnonzero(goes_on)
        self._draw(live)
        weights, choices = self.tally.fit(
            offsets=self._offsets, clip=self.recipes[0].clip, directions=self._directions
        )
        self.weights = _in_force(goes_on, weights, self.weights)
        self.whitener = _in_force(goes_on, self.tally.whitener, self.whitener)
        actions = self._space.actions[choices]
        self._write_down(live, actions)
        outcomes = self._outcomes[*self._pairs, actions]
        self._policy_actions = actions
        self._policy_features = self._space.rows[choices]  # (R, H, S, d)
        self._policy_rewards = outcomes[..., -1]  # (R, H, S)
        self._policy_thresholds = outcomes[..., self._space.states : -1]  # (R, H, S, S−1)
        transitions = outcomes[..., : self._space.states]  # (R, H, S, S)
        value = np.zeros(self._optimal.shape)
        for h in reversed(range(actions.shape[1])):
            value = self._policy_rewards[:, h] + np.matvec(transitions[:, h], value)
        # V*₁ − V₁^π at every state (R, S); below zero is rounding.
        self._gap = np.maximum(self._optimal - value, 0.0)

    def play(self) -> None:
        """Play every run until its next switch is due, and absorb what it saw."""
        left = self.episodes + 1 - self.episode
        if hasattr(self.schedule, "upcoming"):  # then all runs are at the same episode
            lengths = np.minimum(left, self._until(int(self.episode[0])))
            states = self._rollout(int(lengths[0]))
        else:
            lengths, states = self._search(left)
        run, step = np.nonzero(np.arange(states.shape[1]) < lengths[:, None])
        played = states[run, step]  # (episodes of all runs, H+1)
        stage = np.arange(played.shape[1] - 1)
        self._record.play(
            run,
            self.episode[run] + step,
            played,
            self._policy_actions[run[:, None], stage, played[:, :-1]],
            self._gap[run, played[:, 0]],
        )
        self._absorb(states, lengths, run, played)
        self.episode += lengths
        self._segments = lengths

    def _draw(self, live: Ints) -> None:
        """Draw what the next version of each live run needs."""
        horizon, dim = self.weights.shape[1:]
        for r in live.tolist():
            recipe, version = self.recipes[r], len(self._record.ledgers[r]) + 1
            if self._directions is not None:
                self._directions[r] = recipe.directions(version, horizon, dim)
            if self._offsets is not None:
                self._offsets[r] = recipe.offsets(version, self.tally.whitener[r])

    def _write_down(self, live: Ints, actions: Ints) -> None:
        episode = self.episode[live]
        changes = (actions != self._policy_actions).sum(axis=(1, 2))[live]
        changes[episode == 1] = 0  # the first policy replaces none
        self._record.deploy(
            live,
            episode,
            logdet=self.tally.gram.logdet[live],
            trace=self.tally.gram.trace[live],
            values=self.tally.values[live, 0, self._initial[live, episode - 1]],
            changes=changes,
        )

    def _until(self, k: int) -> int:
        """Return the number of episodes from k to the schedule's next date, or to the end."""
        date = self.schedule.upcoming(k)
        if date is None:
            return self.episodes
        return whole(f"{type(self.schedule).__name__}.upcoming({k})", date, least=k + 1) - k

    def _rollout(self, length: int) -> Ints:
        """Return the states (R, L, H+1) of each run's next episodes under its policy."""
        first = int(self.episode[0]) - 1
        if (self.episode == first + 1).all():  # the same episodes in every run: no copy
            ahead = slice(first, first + length)
            initial, noise = self._initial[:, ahead], self._noise[:, ahead]
        else:
            index = np.minimum(self.episode[:, None] - 1 + np.arange(length), self.episodes - 1)
            run = np.arange(len(index))[:, None]
            initial, noise = self._initial[run, index], self._noise[run, index]
        return rollout(self._policy_thresholds, initial, noise)

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
        whitened = self._policy_features @ self.tally.whitener.mT
        low, high = np.zeros_like(ahead), ahead.copy()
        persistent = getattr(self.schedule, "persistent", False)
        while (open_ := np.flatnonzero(low < high)).size:
            # A rule that stays due is bisected; any other is asked before every episode.
            m = (low[open_] + high[open_]) // 2 if persistent else low[open_]
            logdet = self.tally.gram.logdet[open_] + logdet_growth(
                whitened[open_], visits[open_, m]
            )
            due = self._due(open_, self.episode[open_] + 1 + m, logdet)
            high[open_[due]] = m[due]
            low[open_[~due]] = m[~due] + 1
        return low

    def _due(self, runs: Ints, episodes: Ints, logdet: Floats) -> Bools:
        """Ask the schedule, for each of these runs, before an episode with log det Λ_h (n, H)."""
        logdet.flags.writeable = False
        ledgers = self._record.ledgers
        asked = zip(runs.tolist(), episodes.tolist(), logdet, strict=True)
        return np.array(
            [
                bool(self.schedule.due(ledgers[r].clock(episode=k, logdet=now)))
                for r, k, now in asked
            ]
        )

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
                self.tally.absorb(features, rewards, states[:, j, 1:])
        else:
            moves = count_moves(run, played, (runs, horizon, count, count))
            self.tally.absorb_moves(moves, self._policy_features, self._policy_rewards)

    def _policy(self, r: int) -> Policy | None:
        """Return the policy in force in run r, if there is one yet."""
        if not self._record.ledgers[r]:
            return None
        return Policy(
            weights=self.weights[r],
            whitener=self.whitener[r],
            beta=self.tally.beta,
            directions=None if self._directions is None else self._directions[r],
            offsets=None if self._offsets is None else self._offsets[r],
            clip=self.recipes[r].clip,
        )


def _in_force(goes_on: Bools, new: Floats, old: Floats) -> Floats:
    """Return the new (R, …) where a run goes on, and the old where it has ended."""
    if goes_on.all():
        return new
    return np.where(goes_on.reshape(-1, *[1] * (new.ndim - 1)), new, old)
