"""The learner: store episodes, ask the schedule, and deploy new frozen policies.

`absorb` adds an episode, `due` asks the schedule, `fit` computes a candidate, `accepts` asks a
schedule that looks at candidates, and `deploy` or `decline` records the decision. `observe`
combines them for a single actor (Alg. 2, lines 2–21): the actor plays an episode with `policy`
(line 19) and passes it to `observe`, which adds it to Λ_h (line 5), asks whether a switch is due
(line 7), and if so fits Q_h (lines 8–13) and deploys the policy.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rareswitch.core.candidate import RECENT, Candidate
from rareswitch.core.clock import Clock, Deployment, Ledger, Schedule, checked_schedule, is_due
from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Bonus, Exploration
from rareswitch.core.policy import Policy, check_control, fit
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task, checked_task
from rareswitch.learning.health import Health, health_of
from rareswitch.learning.snapshot import Snapshot
from rareswitch.statistics import History, history_of
from rareswitch.support.arguments import Rows, explain_arguments, require_memory, short_repr
from rareswitch.support.persistent import PersistentList


class _State(NamedTuple):
    """The mutable parts of a learner; replacing all of them together makes a change atomic."""

    task: Task
    schedule: Schedule
    history: History
    ledger: Ledger
    policy: Policy
    paths: PersistentList[tuple[Rows, ...]]  # of the policy in force, for a rule with `accepts`


@explain_arguments
class Learner:
    """Least-squares value iteration that deploys when its schedule asks for it.

    The learner needs only features: states may be infinite and the feasible actions may differ at
    every step. Under `Recipe.paper(beta=b)` it is the paper's Alg. 1 with `UniformGrid` and Alg. 2
    with `DeterminantGrowth`; the default recipe deploys a mixture that needs no tuning. If the task
    has `episodes`, no switch is due after the last of them.

    `warm_start` are episodes of another policy: version 1 is fitted on them, and `episodes` does
    not count them. Copies and pickles are new learners in the same state. A learner and its copies
    share memory and belong to one thread; a pickle shares nothing.

    >>> import numpy as np
    >>> from rareswitch import DeterminantGrowth
    >>> learner = Learner(Task(dim=2, horizon=1), DeterminantGrowth(eta=2.0))
    >>> arms = np.eye(2)
    >>> for k in range(1, 21):
    ...     arm = learner.policy.draw(k).act(0, arms)
    ...     done = Episode(features=arms[[arm]], rewards=[float(arm)], next_features=[])
    ...     switched = learner.observe(done)
    >>> learner
    Learner(Task(dim=2, horizon=1), DeterminantGrowth(eta=2.0), episodes=20, version=4)
    >>> learner.recommend().act(0, arms)
    1
    """

    def __init__(
        self,
        task: Task,
        schedule: Schedule,
        recipe: Recipe | None = None,
        *,
        warm_start: Iterable[Episode] = (),
    ) -> None:
        checked_schedule(schedule, checked_task(task))
        self._recipe = checked_recipe(recipe)
        if not isinstance(warm_start, Iterable) or isinstance(warm_start, np.ndarray):
            raise TypeError(f"warm_start must be episodes; got {short_repr(warm_start)}")
        _require_room(task, self._recipe)
        history = history_of(task, self._recipe.ridge, warm_start)
        self._warm_episodes = history.episodes
        history = history.fold()
        # Alg. 2 cannot switch at k = 1 and leaves π¹ undefined; the first version is fitted before
        # episode 1, as in Alg. 1, where t_1 = 1.
        policy = fit(history, self._recipe, version=1)
        check_control(self._recipe.control, policy)
        self._state = _State(task, schedule, history, Ledger(), policy, PersistentList())
        self.deploy(policy)

    @property
    def task(self) -> Task:
        return self._state.task

    @property
    def schedule(self) -> Schedule:
        return self._state.schedule

    @property
    def recipe(self) -> Recipe:
        return self._recipe

    @property
    def episodes(self) -> int:
        """The number of absorbed episodes, without the warm start and without corrections."""
        return self._state.history.episodes - self._warm_episodes

    @property
    def policy(self) -> Policy:
        """The policy in force for the next episode."""
        return self._state.policy

    @property
    def ledger(self) -> Ledger:
        """All deployments so far."""
        return self._state.ledger

    @property
    def clock(self) -> Clock:
        """The schedule's clock before the next episode."""
        logdet = self._state.history.gram.logdet
        return self.ledger.clock(self.task, episode=self.episodes + 1, logdet=logdet)

    @property
    def due(self) -> bool:
        """Whether the schedule asks for a new policy before the next episode."""
        if self.task.episodes is not None and self.episodes >= self.task.episodes:
            return False  # there is no next episode
        return is_due(self.schedule, self.clock)

    @property
    def stored_rows(self) -> int:
        """The number of stored rows of next states; the time and memory of a fit grow with it."""
        return self._state.history.fold().stored_rows

    def absorb(self, *episodes: Episode) -> None:
        """Add finished episodes of any version, in any order.

        The call is atomic: if one episode is invalid, none is absorbed. A rule that looks at
        candidates needs episodes with `first_features`.
        """
        if listed := [one for one in episodes if isinstance(one, list | tuple)]:
            raise TypeError(
                "episode must be an Episode, and several are separate arguments, as in "
                f"absorb(*episodes); got {short_repr(listed[0])}"
            )
        history, paths = self._state.history.absorb(*episodes), self._state.paths
        if hasattr(self.schedule, "accepts"):
            told = [episode for episode in episodes if episode.first_features is not None]
            paths = paths.extend([episode.offers for episode in told])
            if len(paths) >= 2 * RECENT:
                paths = PersistentList(paths[-RECENT:])
        self._state = self._state._replace(history=history, paths=paths)

    def correct(self, old: Episode, new: Episode | None) -> None:
        """Replace an absorbed episode by its correction, or remove it if `new` is None.

        The caller guarantees that `old` was absorbed and not removed or replaced since. The cost is
        the cost of two episodes. `episodes`, the clock's `episode` and the ledger do not change: a
        date that was reached stays reached. The call is atomic: if an episode is invalid, nothing
        changes.
        """
        history = self._state.history
        history = history.remove(old) if new is None else history.replace(old, new)
        self._state = self._state._replace(history=history)

    def fit(self) -> Policy:
        """Return the candidate for the next version; repeated calls return the same bytes."""
        state = self._state = self._folded()
        return fit(state.history, self._recipe, version=state.ledger.fits + 1)

    def deploy(self, policy: Policy) -> Deployment:
        """Deploy a policy from the next episode on, and record it in the ledger."""
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy; got {type(policy).__name__}")
        task = self.task
        if policy.one_hot is not task.one_hot:
            raise ValueError(
                f"policy must have one_hot = {task.one_hot}, like the task; got {policy.one_hot}"
            )
        if (policy.horizon, policy.dim) != (task.horizon, task.dim):
            raise ValueError(
                f"policy must have horizon {task.horizon} and dim {task.dim}; got "
                f"{policy.horizon} and {policy.dim}"
            )
        gram = self._state.history.gram
        # Growth counts from log det Λ_h and tr Λ_h at the deployment (Alg. 2, line 10).
        ledger = self.ledger.deploy(
            episode=self.episodes + 1, logdet=gram.logdet, trace=gram.trace, digest=policy.digest
        )
        self._state = self._state._replace(ledger=ledger, policy=policy, paths=PersistentList())
        deployment: Deployment = ledger[-1]
        return deployment

    def accepts(self, policy: Policy) -> bool:
        """Return whether the schedule accepts a candidate; without `accepts` it accepts all."""
        looks = getattr(self.schedule, "accepts", None)
        return looks is None or bool(looks(self.candidate(policy)))

    def candidate(self, policy: Policy) -> Candidate:
        """Compare a policy with the policy in force, on the last episodes of the latter.

        A learner stores these episodes only if its schedule looks at candidates. Later corrections
        do not change them.
        """
        paths = self._state.paths[-RECENT:]
        return Candidate(clock=self.clock, policy=policy, in_force=self.policy, paths=paths)

    def decline(self) -> None:
        """Record in the ledger that a candidate is declined; the policy in force stays."""
        self._state = self._state._replace(ledger=self.ledger.decline(self.episodes + 1))

    def succeed(self, other: "Learner") -> None:
        """Take over the deployments and the policy in force of a learner of the same episodes.

        Rewards may have another scale. Λ does not depend on rewards, so the growth since the last
        deployment stays the same.
        """
        ours, theirs = (self.episodes, self.task.dim), (other.episodes, other.task.dim)
        if ours != theirs:
            raise ValueError(
                f"other must have {ours[0]} episodes of dim {ours[1]}; got {theirs[0]} of "
                f"{theirs[1]}"
            )
        self._state = self._state._replace(ledger=other.ledger, policy=other.policy)

    def observe(self, episode: Episode) -> bool:
        """Absorb one episode, deploy if a switch is due, and return whether a policy was deployed.

        The call is atomic: if the schedule or the fit raises an error, the episode is not absorbed.
        """
        before = self._state
        if hasattr(self.schedule, "accepts"):
            _ = episode.offers  # raises an error if candidates cannot be compared on this episode
        try:
            self.absorb(episode)  # Alg. 2, line 5: Gram.add_episode
            if not self.due:  # line 7; Alg. 1, line 4
                return False  # line 16
            candidate = self.fit()  # lines 8–13
            accepted = self.accepts(candidate)
            if accepted:
                self.deploy(candidate)
            else:
                self.decline()
            return accepted
        except BaseException:
            self._state = before
            raise

    def amend(self, *, schedule: Schedule | None = None, episodes: int | None = None) -> None:
        """Change the schedule or the number of episodes, and keep the data."""
        task = self.task if episodes is None else replace(self.task, episodes=episodes)
        schedule = checked_schedule(self.schedule if schedule is None else schedule, task)
        paths = self._state.paths if hasattr(schedule, "accepts") else PersistentList()
        self._state = self._state._replace(task=task, schedule=schedule, paths=paths)

    def recommend(self) -> Policy:
        """Return the greedy policy of all data, without exploration, for use after learning."""
        no_bonus = Bonus(0.0, estimate=self._recipe.exploration.estimate)
        greedy = replace(self._recipe, exploration=no_bonus, ties="lowest", control=None, floor=0.0)
        self._state = self._folded()
        return fit(self._state.history, greedy, version=0)

    def health(self) -> Health:
        """Check that exploration is large enough and that learning continues.

        >>> from rareswitch import EveryEpisode
        >>> learner = Learner(Task(dim=1, horizon=1), EveryEpisode(), Recipe.paper(beta=0.01))
        >>> for _ in range(9):
        ...     _ = learner.observe(Episode(features=[[1.0]], rewards=[0.9], next_features=[]))
        >>> learner.health().warnings[0].partition(":")[0]
        'exploration is too small for the range of values'
        """
        state = self._state = self._folded()
        return health_of(state.history, self._recipe, state.ledger, self.episodes)

    def snapshot(self) -> bytes:
        """Return the whole state; a restored learner continues identically, byte for byte."""
        state = self._state = self._folded()
        return Snapshot(
            task=self.task,
            schedule=self.schedule,
            recipe=self._recipe,
            warm_episodes=self._warm_episodes,
            history=state.history,
            ledger=state.ledger,
            policy=state.policy,
            paths=state.paths[-RECENT:],
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
        yours: pass your own rule as `schedule`. It must have the class and the attributes of the
        stored rule.
        """
        saved = Snapshot.from_bytes(data, schedule=schedule, exploration=exploration)
        learner = cls.__new__(cls)
        learner._recipe, learner._warm_episodes = saved.recipe, saved.warm_episodes
        learner._state = _State(
            saved.task,
            saved.schedule,
            saved.history,
            saved.ledger,
            saved.policy,
            PersistentList(saved.paths),
        )
        return learner

    def _folded(self) -> _State:
        """Return the state with every episode in the sums."""
        return self._state._replace(history=self._state.history.fold())

    def __copy__(self) -> "Learner":
        """Return a learner that shares the immutable state."""
        twin = type(self).__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the whole state through a snapshot, without shared memory."""
        return _restored, (type(self), self.snapshot(), self.schedule, self._recipe.exploration)

    def __repr__(self) -> str:
        return (
            f"Learner({self.task!r}, {self.schedule!r}, episodes={self.episodes}, "
            f"version={len(self.ledger)})"
        )


def checked_recipe(recipe: Any) -> Recipe:
    """Return the recipe, or the default for None, or raise TypeError."""
    if recipe is None:
        return Recipe()
    if not isinstance(recipe, Recipe):
        raise TypeError(
            f"recipe must be a Recipe, such as Recipe.paper(beta=1.0); got {short_repr(recipe)}"
        )
    return recipe


def _require_room(task: Task, recipe: Recipe) -> None:
    """Raise an error if Λ and policies of the task exceed the machine's memory."""
    pools = task.pools.count + task.horizon * task.chooses_stages
    dim = 1 if task.wide else task.dim  # a wide table starts empty
    gram = pools * dim * (1 if task.one_hot else task.block_size)
    explores = recipe.exploration
    vectors = explores.members * (4.0 + explores.draws) * task.horizon * dim
    matrices = "" if task.one_hot else f"dim × {'dim' if task.blocks == 1 else task.block_size} "
    require_memory(
        8.0 * (2.0 * gram + vectors),
        f"{matrices}Λ of dim = {task.dim} and horizon = {task.horizon}, with policies of "
        f"{explores.members} members,",
    )


def _restored(
    cls: type[Learner], data: bytes, schedule: Schedule, exploration: Exploration
) -> Learner:
    return cls.restore(data, schedule=schedule, exploration=exploration)
