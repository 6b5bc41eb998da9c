"""The learner: it keeps what it has seen, asks its schedule, and deploys new frozen policies.

`absorb` takes in an episode, `due` asks the schedule, `fit` computes a candidate and `deploy` puts
a policy in force; `observe` is all of them, the loop of a single actor.
"""

import threading
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from rareswitch.core.arguments import shown, whole
from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Bonus, Exploration
from rareswitch.core.health import Health, health_of
from rareswitch.core.history import History
from rareswitch.core.ledger import Deployment, Ledger
from rareswitch.core.lsvi import fit
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.schedule import Clock, Schedule, checked_schedule, declared_sizes
from rareswitch.core.snapshot import Snapshot
from rareswitch.core.streams import Seed
from rareswitch.core.undo import Undo, all_or_nothing

LARGEST_FEATURE_NORM = 1e6


class Learner:
    """Least-squares value iteration that deploys when its schedule says so.

    With `beta` it is the paper's Alg. 1 under `UniformGrid` and Alg. 2 under `DeterminantGrowth`.

    The learner needs only features: states may be infinite and the feasible actions may differ at
    every step. `exploration` is an `Ensemble`, a `Bonus` or a `Perturbation`; without one it is
    `Ensemble()`, a mixture that needs no tuning, and `beta=b`, short for `Bonus(b)`, is the paper's
    algorithm. `ridge` is the paper's λ, which schedules count with; whether fits use it, or one
    that they estimate, is up to the exploration. `ties="direction"` takes, of tied actions, the one
    furthest along a random direction drawn for each member, stage and version; `ties="lowest"` the
    lowest index. `clip=False` drops the clip to [0, H−h] (with H = 1 and a bonus that is SBUCB or
    rarely switching OFUL). An episode with a feature longer than `feature_norm` is refused; it is
    the schedule's, where that declares one, and else 10⁶. After `planned_episodes`, where given,
    nothing is due any more.

    `stages="shared"` lets all stages learn from the steps of all, for worlds that do not depend on
    the stage. With `one_hot=True` features are one-hot rows given by the positions of their ones,
    which may then be very many. An episode that ended early is worth `end_reward` for each stage
    that it did not play. `warm_start` are episodes of another policy: version 1 is fitted on them,
    and they are not counted among the learner's own `episodes`.

    Calls from several threads take turns. Copies and pickles are new learners in the same state.

    >>> import numpy as np
    >>> from rareswitch import DeterminantGrowth
    >>> learner = Learner(dim=2, horizon=1, schedule=DeterminantGrowth(eta=2.0))
    >>> arms = np.eye(2)
    >>> for k in range(1, 21):
    ...     arm = learner.policy.draw(k).act(0, arms)
    ...     done = Episode(features=arms[[arm]], rewards=[float(arm)], next_features=[])
    ...     switched = learner.observe(done)
    >>> learner
    Learner(dim=2, horizon=1, schedule=DeterminantGrowth(eta=2.0), episodes=20, version=4)
    >>> learner.recommend().act(0, arms)
    1
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int,
        schedule: Schedule,
        exploration: Exploration | None = None,
        beta: float | None = None,
        ridge: float = 1.0,
        ties: str = "direction",
        clip: bool = True,
        seed: Seed = 0,
        feature_norm: float | None = None,
        planned_episodes: int | None = None,
        stages: str = "own",
        one_hot: bool = False,
        end_reward: float = 0.0,
        warm_start: Iterable[Episode] = (),
    ) -> None:
        self.recipe = Recipe.of(
            beta=beta, exploration=exploration, ridge=ridge, ties=ties, clip=clip, seed=seed
        )
        self.schedule = checked_schedule(schedule)
        declared = declared_sizes(self.schedule)
        if feature_norm is None:
            feature_norm = declared.get("feature_norm", LARGEST_FEATURE_NORM)
        self.planned_episodes = planned_episodes
        if planned_episodes is not None:
            self.planned_episodes = whole("planned_episodes", planned_episodes, least=1)
        self._history = History(
            dim=dim,
            horizon=horizon,
            ridge=self.recipe.ridge,
            feature_norm=feature_norm,
            stages=stages,
            one_hot=one_hot,
            end_reward=end_reward,
        )
        if declared.get("dim", self.dim) != self.dim:
            raise ValueError(
                f"schedule must be made for dim = {self.dim}; got one for dim = {declared['dim']}"
            )
        self._lock = threading.RLock()
        self.ledger = Ledger()
        self._warm_episodes = 0
        if not isinstance(warm_start, Iterable) or isinstance(warm_start, np.ndarray):
            raise TypeError(f"warm_start must be episodes; got {shown(warm_start)}")
        for episode in warm_start:
            self._history.absorb(episode)
            self._warm_episodes += 1
        self.deploy(self.fit())  # before episode 1 (Alg. 1, line 4 with t_1 = 1)

    @property
    def dim(self) -> int:
        return self._history.dim

    @property
    def horizon(self) -> int:
        return self._history.horizon

    @property
    def episodes(self) -> int:
        """How many episodes have been absorbed, without those of the warm start."""
        return self._history.episodes - self._warm_episodes

    @property
    def stages(self) -> str:
        """Whether each stage learns from its "own" steps, or all from "shared" ones."""
        return self._history.pools.stages

    @property
    def one_hot(self) -> bool:
        """Whether features are one-hot rows given by the positions of their ones."""
        return self._history.one_hot

    @property
    def end_reward(self) -> float:
        """What each stage that an ended episode did not play is worth."""
        return self._history.end_reward

    @property
    def stored_rows(self) -> int:
        """How many rows of next states a fit values: what its time and the memory grow with."""
        with self._lock:
            return self._history.stored_rows

    @property
    def policy(self) -> Policy:
        """The policy in force for the next episode."""
        return self._policy

    @property
    def clock(self) -> Clock:
        """What the schedule sees before the next episode."""
        with self._lock:
            history = self._history
            return self.ledger.clock(
                episode=self.episodes + 1, logdet=history.gram.logdet, steps=history.pools.steps
            )

    @property
    def due(self) -> bool:
        """Whether the schedule asks for a new policy before the next episode."""
        with self._lock:
            if self.planned_episodes is not None and self.episodes >= self.planned_episodes:
                return False  # there is no next episode
            return bool(self.schedule.due(self.clock))

    def absorb(self, episode: Episode) -> None:
        """Take in one finished episode, whichever version acted in it and whenever it comes."""
        with self._lock:
            self._history.absorb(episode)

    def absorb_all(self, episodes: Iterable[Episode], undo: Undo | None = None) -> None:
        """Absorb episodes in their order, all or none: quicker than one by one, to the same end.

        `undo` learns how to take them back, which must be done before anything else happens.
        """
        episodes = tuple(episodes)  # whoever makes them may use this learner
        with self._lock:
            self._history.absorb_all(episodes, undo)

    def fit(self) -> Policy:
        """Return the candidate for the next version; nothing changes, however often it is asked."""
        with self._lock:
            return fit(self._history, self.recipe, version=len(self.ledger) + 1)

    def deploy(self, policy: Policy) -> Deployment:
        """Put a policy in force from the next episode on, and write it down."""
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy; got {type(policy).__name__}")
        if policy.one_hot is not self.one_hot:
            raise ValueError(
                f"policy must have one_hot = {self.one_hot}, as the learner has; got "
                f"{policy.one_hot}"
            )
        if (policy.horizon, policy.dim) != (self.horizon, self.dim):
            raise ValueError(
                f"policy must have horizon {self.horizon} and dim {self.dim}; got "
                f"{policy.horizon} and {policy.dim}"
            )
        with self._lock:
            gram = self._history.gram
            deployment = self.ledger.deploy(
                episode=self.episodes + 1,
                logdet=gram.logdet,
                trace=gram.trace,
                digest=policy.digest,
            )
            self._policy = policy
        return deployment

    def observe(self, episode: Episode) -> bool:
        """Absorb one episode and, if a switch is due, deploy; return whether a new policy acts now.

        All or nothing: if the schedule or the fit raises, the episode is not absorbed either.
        """
        with self._lock, all_or_nothing() as undo:
            self._history.absorb(episode, undo)
            due = self.due
            if due:
                candidate, count, policy = self.fit(), len(self.ledger), self._policy
                undo.append(lambda: self._return_to(count, policy))
                self.deploy(candidate)
            return due

    def _return_to(self, count: int, policy: Policy) -> None:
        self.ledger.forget(count)
        self._policy = policy

    def recommend(self) -> Policy:
        """Return the greedy policy of all data without exploration: what to use after learning."""
        plain = Bonus(0.0, estimate=self.recipe.exploration.estimate)
        greedy = replace(self.recipe, exploration=plain, ties="lowest")
        with self._lock:
            return fit(self._history, greedy, version=0)

    def health(self) -> Health:
        """Return whether exploration is large enough for this task, and learning goes on.

        >>> from rareswitch import EveryEpisode
        >>> learner = Learner(dim=1, horizon=1, schedule=EveryEpisode(), beta=0.01)
        >>> for _ in range(9):
        ...     _ = learner.observe(Episode(features=[[1.0]], rewards=[0.9], next_features=[]))
        >>> learner.health().warnings[0][:55]
        'exploration is too small for the range of values: it li'
        """
        with self._lock:
            return health_of(self._history, self.recipe, self.ledger, self.episodes)

    def snapshot(self) -> bytes:
        """Return the whole state; a learner restored from it goes on byte for byte."""
        with self._lock:
            return Snapshot(
                recipe=self.recipe,
                schedule=self.schedule,
                planned_episodes=self.planned_episodes,
                warm_episodes=self._warm_episodes,
                history=self._history,
                ledger=self.ledger,
                policy=self._policy,
            ).to_bytes()

    @classmethod
    def restore(
        cls,
        data: bytes,
        *,
        schedule: Schedule | None = None,
        exploration: Exploration | None = None,
    ) -> "Learner":
        """Return the learner of a snapshot.

        Rules and explorations of this package are restored with it. Reading bytes runs no code of
        yours: give a rule of your own as `schedule`, and it must be the one that was stored.
        """
        saved = Snapshot.from_bytes(data, schedule=schedule, exploration=exploration)
        learner = cls.__new__(cls)
        learner._lock = threading.RLock()
        learner.recipe, learner.schedule = saved.recipe, saved.schedule
        learner.planned_episodes, learner._warm_episodes = (
            saved.planned_episodes, saved.warm_episodes,
        )  # fmt: skip
        learner._history, learner.ledger, learner._policy = (
            saved.history, saved.ledger, saved.policy,
        )  # fmt: skip
        return learner

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle through a snapshot: nothing is shared, nothing is lost."""
        return _restored, (type(self), self.snapshot(), self.schedule, self.recipe.exploration)

    def __repr__(self) -> str:
        return (
            f"Learner(dim={self.dim}, horizon={self.horizon}, schedule={self.schedule!r}, "
            f"episodes={self.episodes}, version={len(self.ledger)})"
        )


def _restored(
    cls: type[Learner], data: bytes, schedule: Schedule, exploration: Exploration
) -> Learner:
    return cls.restore(data, schedule=schedule, exploration=exploration)
