"""Simulate many runs of one schedule on known worlds, with exact regret.

This is a second engine beside `Learner`, for many runs in finite worlds; a test compares both
action by action. Regret is V*₁(s₁) − V₁^π(s₁) of the member that plays, by policy evaluation, never
from sampled returns. Runs on worlds with the same features step together: each run is fitted, plays
until its next switch is due, and is fitted again. Runs may be at different episodes. A run alone
gives the same numbers.

A policy of M members on S states is a table of M·S cells, member by member, with one action each. A
run in which member m plays moves between the cells m·S … m·S + S−1. The seats of a control and a
floor follow the members: `sim/others.py`.
"""

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from itertools import zip_longest
from typing import Self

import numpy as np

from rareswitch.core.candidate import RECENT, Candidate
from rareswitch.core.clock import Schedule, checked_schedule, is_due
from rareswitch.core.control import FLOOR, ROLES, Split
from rareswitch.core.lsvi import QFunction
from rareswitch.core.policy import Policy, policy_of
from rareswitch.core.recipe import Recipe
from rareswitch.core.sharing import KINDS
from rareswitch.core.task import Task, checked_task, planned_episodes
from rareswitch.learning.learner import checked_recipe
from rareswitch.sim.both_tallies import BothTallies
from rareswitch.sim.mdp import FiniteMDP, checked_world
from rareswitch.sim.others import Others
from rareswitch.sim.rollout import MOST_SUMMED, Visits, count_moves, logdet_growth, rollout
from rareswitch.sim.run import Record, Run, initial_states, noise_of
from rareswitch.sim.tally import Tally
from rareswitch.support.arguments import (
    Bools,
    Floats,
    Ints,
    frozen,
    require_memory,
    short_repr,
    whole,
)
from rareswitch.support.streams import Seed

RANDOM = ROLES.index(FLOOR)


class Simulation:
    """R runs of one schedule, advanced one deployment at a time by `step()`.

    `task` must have the worlds' dim and horizon. Each run has one seed, which decides the world's
    noise and replaces the recipe's seed. `runs()` returns the episodes played so far.
    """

    def __init__(
        self,
        worlds: Sequence[FiniteMDP],
        schedule: Schedule,
        recipe: Recipe | None = None,
        *,
        task: Task,
        seeds: Sequence[Seed],
        initial_state: int | str | Ints = 0,
        noise: Floats | None = None,
    ) -> None:
        _check_worlds(worlds, checked_task(task))
        if not isinstance(seeds, Sequence):
            raise TypeError(f"seeds must be a list of seeds; got {short_repr(seeds)}")
        if len(seeds) != len(worlds):
            raise ValueError(
                f"seeds must hold one seed for each of {len(worlds)} worlds; got {len(seeds)}"
            )
        first, recipe = worlds[0], checked_recipe(recipe)
        self.episodes = planned_episodes(task, "a simulation")
        self.task, self.schedule = task, checked_schedule(schedule, task)
        self.recipes = [replace(recipe, seed=seed) for seed in seeds]
        runs, horizon, states = len(worlds), first.horizon, first.states
        self._members = recipe.exploration.members
        self._others = Others(first, recipe)
        cells = self._others.seats * states
        # Noise, paths and regret, during play and in the results; visits ahead.
        each = (64.0 + 5.0 * min(cells, MOST_SUMMED)) * horizon * self.episodes
        rows = self._members * len(first.space.rows)
        table = cells * (5.0 * states + 3.0 * first.dim)
        learner = 8.0 * horizon * (4.0 * first.dim**2 + 3.0 * rows + table)
        learner *= 1 + task.chooses_stages
        require_memory(runs * (each + learner), f"{self.episodes} episodes of {runs} run(s)")
        self._space = first.space
        # P, the thresholds of the next state, and r, side by side: (R, H, S, A, 2S), one read.
        self._outcomes = np.stack(
            [
                np.concatenate([w.transitions, w.thresholds, w.rewards[..., None]], axis=-1)
                for w in worlds
            ]
        )
        self._optimal = np.stack([world.optimal_values()[0] for world in worlds])  # (R, S)
        self._random: Floats | None = None  # of a floor
        if self._others.random:
            self._random = np.stack([world.random_values()[0] for world in worlds])
        self._initial = np.stack(
            [initial_states(initial_state, states, self.episodes, seed) for seed in seeds]
        )
        self._noise = np.stack([noise_of(noise, self.episodes, horizon, seed) for seed in seeds])
        kind = BothTallies if task.chooses_stages else Tally
        self.tally = kind(self._space, runs=runs, pools=task.pools, recipe=recipe)
        self._shares = np.zeros(runs, bool)
        self._record = Record(runs, self.episodes, horizon)
        self._here = np.ogrid[:runs, :horizon]
        self._places = np.ogrid[:runs, :horizon, :1, :states]
        self.episode = np.ones(runs, np.int64)  # next episode to play
        self._segments = np.ones(runs, np.int64)  # lengths of the last segments
        self.q_functions: tuple[QFunction, ...] = ()  # of the last fit
        self._in_force: list[tuple[QFunction, ...]] = [()] * runs
        draws = recipe.exploration.draws
        members, sizes = self._members, (horizon, first.dim)
        by_member = sizes if members == 1 else (members, *sizes)
        self._directions = np.zeros((runs, *by_member)) if recipe.ties == "direction" else None
        self._perturbations = (
            np.zeros((runs, members, horizon, draws, first.dim)) if draws else None
        )
        self._fits = [(0, Split(members))] * runs  # of the policy in force
        self._actions = np.zeros((runs, horizon, members, states), np.int64)
        self._choices = self._actions  # rows of the catalogue

    @property
    def live(self) -> Bools:
        """Whether each run has episodes left to play (R,)."""
        return self.episode <= self.episodes

    @property
    def done(self) -> bool:
        return not self.live.any()

    def step(self) -> None:
        """Deploy a policy in every run and play it until the next switch is due."""
        self.deploy()
        self.play()

    def run(self, progress: Callable[[int], object] = lambda played: None) -> Self:
        """Step to the end; call `progress` with the episodes that every run has played."""
        while not self.done:
            self.step()
            progress(int(self.episode.min()) - 1)
        return self

    def runs(self) -> list[Run]:
        """Return the episodes of each run so far."""
        return [
            self._record.run(r, int(self.episode[r]) - 1, self._policy(r))
            for r in range(len(self.episode))
        ]

    def deploy(self) -> None:
        """Fit a policy for every run, and deploy it if the schedule accepts it."""
        live = np.flatnonzero(self.live)
        looks = hasattr(self.schedule, "accepts")
        before = [self._policy(r) for r in live.tolist()] if looks else []
        shared, fits = self._shares.copy(), self._fits.copy()
        directions = copy(self._directions)
        shares = self.tally.choose()
        self._shares[live] = shares[live]
        self._draw(live)
        self.q_functions, choices = self.tally.fit(self._perturbations, self._directions)
        for r, in_force in zip_longest(live.tolist(), before):
            stages, self._in_force[r] = self._in_force[r], self.q_functions
            if in_force is not None and not self._accepts(r, in_force):
                self._record.decline(r, int(self.episode[r]))
                self._in_force[r], choices[r] = stages, self._choices[r]
                self._shares[r], self._fits[r] = shared[r], fits[r]
                if self._directions is not None and directions is not None:
                    self._directions[r] = directions[r]
                live = live[live != r]
        actions = self._space.actions[choices]  # (R, H, M, S)
        self._write_down(live, actions)
        self._actions, self._choices = actions, choices
        others = self._others
        if others.seats > self._members:
            actions, choices = (
                np.concatenate([one, np.broadcast_to(more, (len(one), *more.shape))], axis=2)
                for one, more in ((actions, others.actions), (choices, others.rows))
            )
        self._tabulate(actions, choices)

    def _accepts(self, r: int, in_force: Policy) -> bool:
        """Ask the schedule of run r whether its newest policy is worth a deployment."""
        policy, ledger = self._policy(r), self._record.ledgers[r]
        assert policy is not None
        now = int(self.episode[r])
        logdet = self.tally.gram.logdet[r]
        clock = ledger.clock(self.task, episode=now, logdet=logdet)
        offers = self._others.menus
        recent = self._record.states(r, max(clock.deployed_at, now - RECENT), now)
        paths = [tuple(offers[state] for state in path[:-1]) for path in recent]
        candidate = Candidate(clock=clock, policy=policy, in_force=in_force, paths=paths)
        return bool(self.schedule.accepts(candidate))

    def play(self) -> None:
        """Play every run until its next switch is due, and absorb its episodes."""
        left = self.episodes + 1 - self.episode
        if hasattr(self.schedule, "upcoming"):  # then all runs are at the same episode
            lengths = np.minimum(left, self._until(int(self.episode[0])))
            states, members, seats = self._rollout(int(lengths[0]))
        else:
            lengths, states, members, seats = self._search(left)
        run, step = np.nonzero(np.arange(states.shape[1]) < lengths[:, None])
        played, member = states[run, step], members[run, step]  # of the episodes of all runs
        cells = self._cells(played, seats[run, step])
        stage, roles = np.arange(cells.shape[1]), self._roles(run, member)
        self._record.play(
            run,
            self.episode[run] + step,
            states=played,
            actions=self._cell_actions[run[:, None], stage, cells],
            members=member,
            roles=roles,
            regret=self._gap[run, np.where(roles == RANDOM, -1, member), played[:, 0]],
        )
        longest = int(lengths.max())
        count = self._cell_actions.shape[2]
        # Absorb episode by episode or cell by cell, whichever takes fewer steps. Segments of rules
        # without dates differ between runs; such rules always go cell by cell, so that a run's
        # numbers do not depend on the other runs.
        if longest < count and hasattr(self.schedule, "upcoming"):
            everyone = self._cells(states, seats)
            for j in range(longest):
                here = (*self._here, everyone[:, j])
                features, rewards = self._cell_features[here], self._cell_rewards[here]
                self.tally.absorb(features, rewards, states[:, j, 1:])
        else:
            shape = (*self._cell_actions.shape, self._space.states)
            moves = count_moves(run, cells, played[:, 1:], shape)
            self.tally.absorb_moves(moves, self._cell_features, self._cell_rewards)
        self.episode += lengths
        self._segments = lengths

    def _cells(self, states: Ints, seats: Ints) -> Ints:
        """Return the cells (..., H) of episodes with states (..., H+1).

        Seats are (...), or (..., H) if an episode may change its seat.
        """
        each = seats[..., None] if seats.ndim < states.ndim else seats
        return states[..., :-1] + each * self._space.states

    def _roles(self, run: Ints, member: Ints) -> Ints:
        """Return the role of each player, a place in `ROLES`."""
        if self._others.seats == self._members:
            return np.zeros_like(member)
        floor = np.array([split.members + split.controls for _, split in self._fits])[run]
        return np.where(member < floor, np.where(member < self._members, 0, 1), RANDOM)

    def _draw(self, live: Ints) -> None:
        """Draw directions, perturbations and the split for the next version of each live run."""
        horizon, dim = len(self._actions[0]), self._space.rows.shape[1]
        for r in live.tolist():
            recipe, version = self.recipes[r], self._record.ledgers[r].fits + 1
            if self._directions is not None:
                self._directions[r] = recipe.directions(version, horizon, dim)
            if self._perturbations is not None:
                self._perturbations[r] = recipe.perturbations(
                    version, horizon, dim, shared=bool(self._shares[r])
                )
            self._fits[r] = version, recipe.split(version, controls=self._others.controls)

    def _write_down(self, live: Ints, actions: Ints) -> None:
        episode = self.episode[live]
        changed = (actions != self._actions).any(axis=2)  # for some member
        if self.recipes[0].burn_in:  # the members of its first policy never acted
            second = np.array([len(ledger) == 1 for ledger in self._record.ledgers])
            changed |= second[:, None, None]
        changes = changed.sum(axis=(1, 2))[live]
        changes[episode == 1] = 0  # the first policy replaces no policy
        initial = self._initial[live, episode - 1]
        self._record.deploy(
            live,
            episode,
            logdet=self.tally.gram.logdet[live],
            trace=self.tally.gram.trace[live],
            values=self.tally.values[0, live, :, initial].mean(axis=1),
            changes=changes,
        )

    def _tabulate(self, actions: Ints, choices: Ints) -> None:
        """Tabulate every cell, given the actions and rows (R, H, M, S) of the seats."""
        runs, horizon, members, states = choices.shape
        run, stage, _, state = self._places
        outcomes = self._outcomes[run, stage, state, actions]  # (R, H, M, S, 2S)
        rewards, transitions = outcomes[..., -1], outcomes[..., :states]
        value = np.zeros((runs, members, states))
        for h in reversed(range(horizon)):
            value = rewards[:, h] + np.matvec(transitions[:, h], value)
        # V*₁ − V₁^π of every player at every state (R, P, S); negative values are rounding errors.
        if self._random is not None:  # the floor's seats together are one player
            players = self._members + self._others.controls
            value = np.concatenate([value[:, :players], self._random[:, None]], axis=1)
        self._gap = np.maximum(self._optimal[:, None] - value, 0.0)
        cells = (runs, horizon, members * states)
        self._cell_actions = actions.reshape(cells)  # (R, H, C)
        self._cell_features = self._space.rows[choices.reshape(cells)]  # (R, H, C, d)
        self._cell_rewards = rewards.reshape(cells)
        self._cell_limits = outcomes[..., states:-1].reshape(*cells, states - 1)

    def _until(self, k: int) -> int:
        """Return the number of episodes from k to the schedule's next date, or to the end."""
        date = self.schedule.upcoming(self.task, k)
        if date is None:
            return self.episodes
        return whole(f"{type(self.schedule).__name__}.upcoming(…, {k})", date, least=k + 1) - k

    def _rollout(self, length: int) -> tuple[Ints, Ints, Ints]:
        """Return states (R, L, H+1), members (R, L) and seats of each run's next episodes.

        Seats are the members, or (R, L, H) if the floor plays too.
        """
        first = int(self.episode[0]) - 1
        if (self.episode == first + 1).all():  # all runs at one episode: slices need no copy
            ahead = slice(first, first + length)
            initial, noise = self._initial[:, ahead], self._noise[:, ahead]
        else:
            index = np.minimum(self.episode[:, None] - 1 + np.arange(length), self.episodes - 1)
            run = np.arange(len(index))[:, None]
            initial, noise = self._initial[run, index], self._noise[run, index]
        members = np.zeros(initial.shape, np.int64)
        others, random = self._others, np.zeros(members.shape, bool)
        draws = np.zeros(noise.shape if others.random else 0, np.int64)
        for r, (_, split) in enumerate(self._fits):
            if split.allocation is not None:
                keys = range(int(self.episode[r]), int(self.episode[r]) + length)
                members[r] = [split.draw(key) for key in keys]
                if split.floor:
                    random[r] = members[r] == split.players - 1
                    named = [keys[k] for k in np.flatnonzero(random[r])]
                    draws[r, random[r]] = others.draws(split.allocation, named)
        if not random.any():
            return rollout(self._cell_limits, initial, noise, members), members, members

        def seat(h: int, states: Ints) -> Ints:
            return np.where(random, others.seat(draws[..., h], states), members)

        states = rollout(self._cell_limits, initial, noise, seat)
        seats = [seat(h, states[..., h]) for h in range(noise.shape[2])]
        return states, members, np.stack(seats, axis=-1)

    def _search(self, left: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Double the look-ahead until it contains every run's next switch.

        Return the number of episodes that each run plays before it (R,), states, members and seats.
        """
        length = 2 * int(self._segments.max())
        while True:
            ahead = np.minimum(length, left)
            states, members, seats = self._rollout(int(ahead.max()))
            wait = self._wait(self._cells(states, seats), ahead)
            if ((wait < ahead) | (ahead == left)).all():
                return np.minimum(wait + 1, ahead), states, members, seats
            length *= 2

    def _wait(self, cells: Ints, ahead: Ints) -> Ints:
        """Return the least m so that a switch is due after m+1 episodes, at most `ahead` (R,)."""
        visits = Visits(cells, self._cell_actions.shape[2])
        pools = self.tally.pools
        whitened = pools.spread(self._cell_features) @ self.tally.whitener.mT
        low, high = np.zeros_like(ahead), ahead.copy()
        stays_due = getattr(self.schedule, "stays_due", False)
        while (open_ := np.flatnonzero(low < high)).size:
            # Bisect for rules that stay due; ask all other rules before every episode.
            m = (low[open_] + high[open_]) // 2 if stays_due else low[open_]
            logdet = self.tally.gram.logdet[open_] + logdet_growth(
                whitened[open_], pools.spread(visits.until(open_, m)[..., None])[..., 0]
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
                is_due(self.schedule, ledgers[r].clock(self.task, episode=k, logdet=now))
                for r, k, now in asked
            ]
        )

    def _policy(self, r: int) -> Policy | None:
        """Return the policy in force in run r, or None before the first."""
        if not self._record.ledgers[r]:
            return None
        return policy_of(
            [q_function.select(r) for q_function in self._in_force[r]],
            self.recipes[r],
            directions=None if self._directions is None else frozen(self._directions[r]),
            version=self._fits[r][0],
            stages=KINDS[int(self._shares[r])] if self.task.chooses_stages else None,
        )


def alike(worlds: Sequence[FiniteMDP]) -> bool:
    """Return whether runs on these worlds can step together (same features and horizon)."""
    first = worlds[0]
    return all(
        world.horizon == first.horizon
        and np.array_equal(world.features, first.features)
        and np.array_equal(world.feasible, first.feasible)
        for world in worlds[1:]
    )


def companions(worlds: Sequence[FiniteMDP]) -> list[list[int]]:
    """Return groups of positions of worlds that step together: one group, or each world alone."""
    everyone = list(range(len(worlds)))
    return [everyone] if alike(worlds) else [[r] for r in everyone]


def _check_worlds(worlds: Sequence[FiniteMDP], task: Task) -> None:
    if not isinstance(worlds, Sequence) or not all(checked_world(world) for world in worlds):
        raise TypeError(f"worlds must be a list of FiniteMDPs; got {short_repr(worlds)}")
    if not worlds:
        raise ValueError("worlds must not be empty")
    if not alike(worlds):
        raise ValueError("worlds must have the same features, feasible actions and horizon")
    first = worlds[0]
    if (first.dim, first.horizon) != (task.dim, task.horizon):
        raise ValueError(
            f"task must have the worlds' dim {first.dim} and horizon {first.horizon}; got {task}"
        )
    if first.feature_norm > task.feature_norm * (1.0 + 1e-9):
        raise ValueError(
            f"task must have at least the worlds' feature_norm {first.feature_norm:.6g}; got "
            f"{task.feature_norm:g}"
        )
    if task.one_hot or task.end_reward or task.blocks > 1:
        raise ValueError(
            f"task must have no one_hot, no end_reward and no blocks in a simulation; got {task}"
        )
