"""The run of a training: play, write, widen the range of rewards, and evaluate."""

import html
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rareswitch.agent import Agent
from rareswitch.core.episode import Episode
from rareswitch.core.policy import Policy
from rareswitch.gym.episode import RangeError
from rareswitch.gym.evaluate import Returns, evaluate
from rareswitch.gym.exact import known_returns
from rareswitch.gym.judge import (
    Cohort,
    Judged,
    best_cohort,
    cohort_of,
    contradiction,
    gain_of,
    plain_sharing,
)
from rareswitch.gym.notes import FROM_ONE, Bounds, narrow_note, outside_note, span_of, widening_note
from rareswitch.gym.rollout import Played, play
from rareswitch.gym.run import Recording, RunFolder
from rareswitch.gym.setting import Setting, untaken, widened_range
from rareswitch.learning.health import Health
from rareswitch.learning.learner import Learner
from rareswitch.support.arguments import Floats, Ints
from rareswitch.support.streams import Seed
from rareswitch.support.words import plural
from rareswitch.trajectories import Rewards, Trajectory, episode_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Number of episodes absorbed together to rebuild a learner.
TOGETHER = 100
# Progress shows the mean return of this number of episodes.
RECENT = 100
# A note announces files of policies larger than this number of megabytes.
LARGE = 200.0
# Random play is a policy of zeros, H·d numbers; larger policies are not made for it.
MOST_BASELINE = 10**7


class Step(NamedTuple):
    """Progress of a training: the finished steps of a phase, and a text about the last step.

    The phases are "random play", "begun", "episodes" and "fresh episodes"; a "note" comes at once.
    """

    phase: str
    done: int
    total: int
    text: str = ""


Progress = Callable[[Step], bool | None]
Callback = Callable[[Played], bool | None]


class Training:
    """A learner in an environment, with its log and its results.

    `agent` is the recommended policy and `best` the best deployed version, both ready to act.
    `notes` are remarks, such as a widened range of rewards.
    """

    def __init__(
        self,
        setting: Setting,
        learner: Learner,
        world: Any = None,
        *,
        seed: Seed = 0,
        warm_start: Sequence[Trajectory] = (),
        folder: RunFolder | None = None,
        policies: bool = True,
        name: str = "",
    ) -> None:
        self.setting, self.learner, self.world, self.seed = setting, learner, world, seed
        self.folder, self.name = folder, name
        self._warm_start, self._policies = warm_start, policies
        self._totals: list[float] = []
        self._versions: list[int] = []
        self._spans: list[tuple[float, float]] = []  # the least and largest reward of each episode
        self._outside: list[tuple[int, int]] = []  # observations outside their bounds, and all
        self._bounds = Bounds(world, setting.features)
        self._log: list[Trajectory] = []
        self._scale = setting.rewards  # widened by the rewards of all episodes
        self._widened: list[tuple[int, str]] = []
        self._best: tuple[Cohort, Policy] | None = None
        self._recommended: tuple[Any, Agent] | None = None
        self._judged: Judged | None = None
        self._rival: Judged | None = None
        self._random: Returns | None = None

    @property
    def totals(self) -> Floats:
        """The return of every episode (K,), in the environment's own rewards."""
        return np.array(self._totals)

    @property
    def versions(self) -> Ints:
        """The version that acted in every episode (K,)."""
        return np.array(self._versions, np.int64)

    @property
    def log(self) -> Iterator[Trajectory]:
        """The episodes, in order."""
        if self.folder is None:
            return iter(self._log)
        return self.folder.episodes(len(self._totals))

    @property
    def switch_episodes(self) -> list[int]:
        """The episodes before which a new policy was deployed, without the first policy."""
        return [deployment.episode for deployment in self.learner.ledger[1:]]

    @property
    def agent(self) -> Agent:
        """The recommended policy, greedy on all data, ready to act."""
        now = self.learner.episodes, self.setting.rewards
        if self._recommended is None or self._recommended[0] != now:
            self._recommended = now, self._agent(self.learner.recommend())
        return self._recommended[1]

    @property
    def random_agent(self) -> Agent:
        """A baseline that draws each action uniformly from the feasible actions."""
        task = self.learner.task
        weights = np.zeros((task.horizon, task.dim))
        return self._agent(Policy(weights=weights, one_hot=task.one_hot, floor=1.0, allocation=0))

    @property
    def _random_return(self) -> float | None:
        if (known := self._judgement().known) is not None:
            return float(known.random)
        return None if self._random is None else self._random.mean

    @property
    def best(self) -> tuple[int, Agent] | None:
        """The number and the agent of the version with the largest lower bound of the return.

        Versions with fewer than 20 episodes do not count. None if no version remains, if its policy
        was not kept, or if nothing was deployed, as in a training on a log alone.
        """
        found = None if self.world is None else best_cohort(self.cohorts())
        if found is None:
            return None
        if found.version == len(self.learner.ledger):
            policy = self.learner.policy
        elif self.folder is not None:
            if not self.folder.policy_file(found.version).is_file():
                return None
            policy = self.folder.policy(found.version)
        elif self._best is not None and self._best[0].version == found.version:
            policy = self._best[1]
        else:
            return None
        return found.version, self._agent(policy)

    def _agent(self, policy: Policy) -> Agent:
        setting = self.setting
        return Agent(
            policy=policy,
            features=setting.features,
            rewards=setting.rewards,
            actions=setting.actions,
        )

    def cohorts(self) -> list[Cohort]:
        """Return the mean return of each version that acted, in order."""
        totals, versions = self.totals, self.versions
        return [cohort_of(version, totals, versions) for version in np.unique(versions).tolist()]

    def evaluate(
        self,
        episodes: int = 500,
        *,
        world: Any = None,
        seed: Seed | None = None,
        progress: Callable[[int], bool | None] = lambda done: None,
    ) -> Returns:
        """Play the recommended policy on fresh episodes of the environment, or of another.

        `summary` and `picture` show fresh episodes with the training's own seed and environment.
        """
        if world is None and self.world is None:
            raise ValueError("world must be given; this training has a log and no environment")
        with one_blas_thread():
            fresh = evaluate(
                self.agent,
                self.world if world is None else world,
                episodes=episodes,
                seed=self.seed if seed is None else seed,
                progress=progress,
            )
        if world is None and seed in (None, self.seed):
            self._judged = replace(self._judgement(), fresh=fresh)
        return fresh

    def _judgement(self) -> Judged:
        """Return the recommended policy with its exact return."""
        agent = self.agent
        if self._judged is None or self._judged.agent is not agent:
            self._judged = Judged(agent=agent, known=self._known(agent.policy))
            self._rival = None
        return self._judged

    def _known(self, policy: Policy) -> Any:
        if self.world is None:
            return None
        return known_returns(policy, self.world, self.setting.features, self.setting.actions)

    @property
    def summary(self) -> dict[str, Any]:
        """The results in plain values.

        Switches are deployments after the first, as budgets count them. `missed` is the expected
        return of the best policy minus the observed return, summed over all episodes.

        >>> from rareswitch.gym import train
        >>> summary = train("FrozenLake-v1", episodes=40, horizon=8).summary
        >>> summary["switches"], summary["deployment_limit"], summary["versions"][0]["episodes"]
        (2, 2, 14)
        """
        learner, totals, judged = self.learner, self.totals, self._judgement()
        limit = getattr(learner.schedule, "deployment_limit", None)
        if learner.task.episodes is None:  # learnt from a log alone
            limit = None
        known, rival, health = judged.known, self._rival, learner.health()
        return {
            "episodes": len(totals),
            "members": learner.policy.members,
            "switches": len(learner.ledger) - 1,
            "deployment_limit": limit and limit(learner.task, learner.recipe.ridge),
            "return": float(totals.mean()) if len(totals) else None,
            "rewards": [self.setting.rewards.low, self.setting.rewards.high],
            "versions": [asdict(cohort) for cohort in self.cohorts()],
            "recommended": judged.plain(),
            "best": rival
            and {"version": rival.version, "gain": gain_of(rival.fresh, judged.fresh)}
            | rival.plain(),
            "optimum": known and known.optimum,
            "random": self._random_return,
            "missed": known and float((known.optimum - totals).sum()),
            "sharing": plain_sharing(health.sharing),
            "notes": self._notes(health),
        }

    @property
    def notes(self) -> list[str]:
        """Remarks about the training."""
        return self._notes(self.learner.health())

    def _notes(self, health: Health) -> list[str]:
        found = [note for _, note in self._widened] + list(health.warnings)
        if spans := [*self._spans, *map(span_of, self._warm_start)]:
            low, high = min(low for low, _ in spans), max(high for _, high in spans)
            if (note := narrow_note(self.setting.rewards, low, high)) is not None:
                found.append(note)
        numbered = self.world is None and self.setting.actions is None
        if numbered and untaken(self._warm_start, self.setting.features.actions) == [0]:
            found.append(FROM_ONE)
        outside, seen = np.sum(self._outside, axis=0, dtype=int) if self._outside else (0, 0)
        if (note := outside_note(outside, seen)) is not None:
            found.append(note)
        for judged in (self._judged, self._rival):
            if judged is not None and (note := contradiction(judged)):
                found.append(note)
                break
        rival = self._rival
        if rival is not None and self._judged is not None:
            gain = gain_of(rival.fresh, self._judged.fresh)
            if gain is not None and gain["low"] is not None and gain["low"] > 0.0:
                found.append(
                    f"version {rival.version} earns {gain['mean']:.4g} [{gain['low']:.4g}, "
                    f"{gain['high']:.4g}] more per episode than the recommended policy on the same "
                    "fresh episodes: it is the better one"
                )
        return found

    def picture(self) -> "Figure":
        """Return the picture: return over episodes, switches, and the optimum if known."""
        from rareswitch.gym.picture import draw_training

        judged = self._judgement()
        title = ", ".join(filter(None, [self.name, self._switches]))
        return draw_training(
            self,
            title=title,
            known=judged.known,
            fresh=judged.fresh,
            random=self._random_return,
        )

    def run(
        self,
        episodes: int,
        *,
        progress: Progress = lambda step: None,
        callback: Callback = lambda game: None,
        widen: bool = True,
    ) -> bool:
        """Play up to this total number of episodes; return whether all were played.

        `progress` and `callback` stop the run by returning True. An error or Ctrl-C leaves the
        training and its folder as they were after the last whole episode, or round of a vector
        environment. A reward outside the range widens the range, or is an error if `widen` is
        False.
        """
        recording = None
        if self.folder is not None:
            recording = Recording(self.folder, self.learner, policies=self._policies)
        kept = copy(self.learner), self.setting  # the state after the last whole round
        try:
            progress(Step("begun", self.learner.episodes, episodes, self._cost(episodes)))
            while self.learner.episodes < episodes:
                try:
                    for state in self._rounds(episodes, recording, progress, callback):
                        kept = state
                    break
                except RangeError as error:
                    if not widen:
                        raise
                    self._widen(error, episodes, progress)
        except BaseException:
            self._go_back(*kept)
            if recording is not None:
                with suppress(OSError):  # raise the first error
                    recording.close(self.learner)
            raise
        self._go_back(*kept)
        if recording is not None:
            recording.close(self.learner)
        return self.learner.episodes == episodes

    def _go_back(self, learner: Learner, setting: Setting) -> None:
        """Return to the state after the last whole round."""
        self.learner, self.setting, self._scale = learner, setting, setting.rewards
        counted = self._totals, self._versions, self._spans, self._outside, self._log
        for values in counted:
            del values[learner.episodes :]
        self._widened = [(k, note) for k, note in self._widened if k <= learner.episodes]

    def _rounds(
        self,
        episodes: int,
        recording: Recording | None,
        progress: Progress,
        callback: Callback,
    ) -> Iterator[tuple[Learner, Setting]]:
        """Play and record each episode, and yield the state after each round of all copies."""
        setting, learner = self.setting, self.learner
        copies = int(getattr(self.world, "num_envs", 1))
        policy, stop = learner.policy, False
        games = play(
            learner,
            self.world,
            setting.features,
            episodes=episodes,
            rewards=setting.rewards,
            actions=setting.actions,
            seed=self.seed,
        )
        for game in games:
            trajectory = game.trajectory
            if recording is None:
                self._log.append(trajectory)
            else:
                recording.write(trajectory)
            self._count(trajectory)
            if game.switched:
                if recording is not None:
                    recording.write_policy(learner)
                self._keep_best(game.version, policy)
                policy = learner.policy
            recent = self._totals[-RECENT:]
            text = f"version {game.version}, return {sum(recent) / len(recent):.4g}"
            stop |= bool(progress(Step("episodes", game.number, episodes, text)))
            stop |= bool(callback(game))
            if game.number % copies == 0 or game.number == episodes:
                yield copy(learner), setting
                if recording is not None:
                    recording.write_state(learner)
                if stop:
                    return

    def _cost(self, episodes: int) -> str:
        """Return a text about the large files and the memory that the episodes may need."""
        learner, policy, task = self.learner, self.learner.policy, self.learner.task
        limit = getattr(learner.schedule, "deployment_limit", None)
        versions = 1 + (limit(task, learner.recipe.ridge) if limit else 0)
        columns = policy.weights.shape[-1]  # of a wide table: the positions visited so far
        size = policy.members * policy.horizon * columns * 8 * 2 / 1e6
        found = []
        if self.folder is not None and self._policies and versions * size >= LARGE:
            found.append(
                f"up to {versions} policies of about {size:.0f} MB each, {versions * size:.0f} MB "
                "in all, will be in the folder; policies=False (--no-policies) keeps none"
            )
        if not task.one_hot:
            kept = 2 if task.chooses_stages else 1  # own stages and shared ones
            gram = (task.pools.count + task.horizon * task.chooses_stages) * task.dim
            rows = 1 if task.blocks > 1 else self.setting.features.actions
            state = task.block_size * (rows + 1) + self.setting.features.actions
            most = 8 * (gram * task.block_size + kept * episodes * task.horizon * state) / 1e6
            if most >= LARGE:
                where = "memory" if self.folder is None else "memory and learner.bin"
                found.append(
                    f"the learner takes about {most:.0f} MB of {where} at most, if no state comes "
                    "twice"
                )
        return "; ".join(found)

    def _count(self, trajectory: Trajectory) -> None:
        """Add an episode to the returns and the range of rewards."""
        self._versions.append(trajectory.version or 1)
        self._totals.append(sum(trajectory.rewards.tolist()))
        self._spans.append(span_of(trajectory))
        self._outside.append(self._bounds.count(trajectory))
        for reward in self._spans[-1]:
            before, self._scale = self._scale, widened_range(self._scale, reward)
            if self._scale != before:
                number = len(self._totals)
                note = widening_note(before, self._scale, reward, number)
                self._widened.append((number, note))

    def _keep_best(self, version: int, policy: Policy) -> None:
        """Keep the policy of a finished version, if no earlier version was better."""
        if self.folder is not None:
            return  # the folder has all policies
        cohort = cohort_of(version, self.totals, self.versions)
        candidates = [cohort] if self._best is None else [self._best[0], cohort]
        if best_cohort(candidates) is cohort:
            self._best = cohort, policy

    def _widen(self, error: RangeError, episodes: int, progress: Progress) -> None:
        """Continue with a range that contains the reward."""
        before = self.setting.rewards
        rewards = widened_range(before, error.reward)
        note = widening_note(before, rewards, error.reward, error.episode)
        progress(Step("note", error.episode, episodes, note))
        self.rescale(rewards)

    def rescale(self, rewards: Rewards) -> None:
        """Learn from the log again with another range of rewards; keep the deployments."""
        setting = replace(self.setting, rewards=rewards)
        old = self.learner
        new = setting.learner(
            old.schedule,
            old.recipe,
            episodes=old.task.episodes,
            warm_start=(self._episode(one, setting) for one in self._warm_start),
        )
        some: list[Episode] = []
        for one in self.log:
            some.append(self._episode(one, setting))
            if len(some) == TOGETHER:
                new.absorb(*some)
                some = []
        new.absorb(*some)
        new.succeed(old)
        self.setting, self.learner = setting, new

    @staticmethod
    def _episode(one: Trajectory, setting: Setting) -> Episode:
        return episode_of(one, setting.features, setting.rewards, setting.horizon)

    def resume(self) -> None:
        """Load the log of the folder and its later ranges of rewards."""
        if self.folder is None:
            raise ValueError("folder must be given to resume from")
        given = self.folder.widened
        for one in self.folder.episodes(self.learner.episodes):
            self._widen_by(given)
            self._count(one)
        self.setting = replace(self.setting, rewards=self._scale)
        self._widen_by(given)
        if any(entry[0] == self.learner.episodes for entry in given):
            self.rescale(self._scale)  # the state may be older than the range

    def _widen_by(self, given: list[list[Any]]) -> None:
        """Widen the range by the later ranges, each given after a number of episodes."""
        for episodes, low, high in given:
            if episodes == len(self._totals):
                scale = self._scale
                self._scale = Rewards(min(low, scale.low), max(high, scale.high))

    def finish(
        self,
        *,
        fresh: int = 500,
        progress: Progress = lambda step: None,
    ) -> bool:
        """Evaluate the training on fresh episodes.

        The recommended policy and the best version play the same fresh episodes, and so does random
        play if the environment has no model. A folder gets agent, summary and picture before and
        after. `progress` stops the evaluation by returning True. Return whether it was completed.
        """
        judged = self._judgement()
        if fresh and self.world is not None:
            self._write(finished=False)
            rival = self.best
            agents = [judged.agent, *([] if rival is None else [rival[1]])]
            task = self.learner.task
            if judged.known is None and task.horizon * task.dim <= MOST_BASELINE:
                agents.append(self.random_agent)
            found = list[Returns]()
            for n, agent in enumerate(agents):
                played = self._play_fresh(agent, fresh, n, len(agents), progress)
                if played is None:
                    return False
                found.append(played)
            self._judged = replace(judged, fresh=found[0])
            self._random = found[-1] if len(found) > 1 + (rival is not None) else None
            if rival is not None:
                known = self._known(rival[1].policy)
                self._rival = Judged(agent=rival[1], version=rival[0], known=known, fresh=found[1])
        self._write(finished=True)
        return True

    def _play_fresh(
        self, agent: Agent, episodes: int, before: int, agents: int, progress: Progress
    ) -> Returns | None:
        """Return the returns of an agent, or None if `progress` stopped it."""
        done, total = before * episodes, agents * episodes
        found = evaluate(
            agent,
            self.world,
            episodes=episodes,
            seed=self.seed,
            progress=lambda n: progress(Step("fresh episodes", done + n, total)),
        )
        return found if len(found.totals) == episodes else None

    def _write(self, *, finished: bool) -> None:
        """Write agent, picture and summary into the folder, if there is one."""
        if self.folder is None:
            return
        self.folder.write_agent(self._judgement().agent)
        summary = self.summary
        self.folder.write_summary(summary | {"finished": False})
        from rareswitch.gym.picture import save_picture

        save_picture(self.picture(), self.folder.path / "picture.png")
        if finished:
            self.folder.write_summary(summary | {"finished": True})

    @property
    def _switches(self) -> str:
        return plural(len(self.learner.ledger) - 1, "switch", "switches")

    def __repr__(self) -> str:
        mean = f", return {self.totals.mean():.4g} per episode" if self._totals else ""
        kept = f", in {self.folder.path}" if self.folder is not None else ""
        return f"Training({len(self._totals)} episodes{mean}, {self._switches}{kept})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{one.version}</td><td>{one.first}</td><td>{one.episodes}</td>"
            f"<td>{one.mean:.4g}</td></tr>"
            for one in self.cohorts()
        )
        notes = "".join(f"<p>{html.escape(note)}</p>" for note in self.notes)
        return (
            f"<p>{html.escape(repr(self))}</p><table><tr><th>version</th><th>from episode</th>"
            f"<th>episodes</th><th>mean return</th></tr>{rows}</table>{notes}"
        )


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Let linear algebra use one thread, so that sums have the same bytes on every machine load.

    It has no effect without threadpoolctl, which the extra `gym` installs.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
