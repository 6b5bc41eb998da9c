"""What R runs of K episodes leave behind, filled in as they are played."""

import numpy as np

from rareswitch.core.arguments import Floats, Ints
from rareswitch.core.ledger import Ledger
from rareswitch.core.policy import Policy
from rareswitch.sim.run import Run


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
        """Write down one deployment in each of the live runs, before its episode.

        `values` are V₁(s₁) of the fits and `changes` the numbers of (stage, state) pairs in which
        they changed an action.
        """
        logdet.flags.writeable = trace.flags.writeable = False
        entries = zip(live.tolist(), episode.tolist(), logdet, trace, values.tolist(), strict=True)
        for r, k, now, size, value in entries:
            self.ledgers[r].deploy(episode=k, logdet=now, trace=size)
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
    ) -> None:
        """Write down n episodes: states (n, H+1), actions (n, H), all else (n,)."""
        self._regret[run, episode - 1] = regret
        self._states[run, episode - 1] = states
        self._actions[run, episode - 1] = actions
        self._members[run, episode - 1] = members

    def run(self, r: int, played: int, policy: Policy | None) -> Run:
        """Return run r up to the episodes played."""
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
        )
