"""The learner: it keeps what it has seen, asks its schedule, and deploys new frozen policies.

`absorb` takes in an episode, `due` asks the schedule, `fit` computes a candidate and `deploy` puts a
policy in force; `observe` is all of them, the loop of a single actor.
"""

import threading
from dataclasses import replace
from typing import Any

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import real, whole
from rareswitch.core.episode import Episode
from rareswitch.core.exploration import Bonus, Exploration
from rareswitch.core.history import History
from rareswitch.core.ledger import Deployment, Ledger
from rareswitch.core.lsvi import fit
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.rules import describe, rebuild
from rareswitch.core.schedule import Clock, Schedule, checked_schedule
from rareswitch.core.streams import Seed

LARGEST_FEATURE_NORM = 1e6


class Learner:
    """LSVI-UCB with a schedule: Alg. 1 with `UniformGrid`, Alg. 2 with `DeterminantGrowth`.

    The learner needs only features: states may be infinite and the feasible actions may differ at
    every step. `exploration` is a `Bonus` or a `Perturbation`, and `beta=b` is short for `Bonus(b)`;
    without either it is `Bonus(1.0)`. `ridge` is the regularisation λ. `ties="direction"` takes, of
    tied actions, the one furthest along a random direction drawn for each stage and version;
    `ties="lowest"` the lowest index. `clip=False` drops the clip to [0, H−h] (with H = 1 that is
    SBUCB or rarely switching OFUL). An episode with a feature longer than `feature_norm` is refused.
    After `planned_episodes`, where they are given, nothing is due any more.

    Calls from several threads take turns. Copies and pickles are new learners in the same state.

    >>> from rareswitch import DeterminantGrowth
    >>> learner = Learner(dim=2, horizon=1, schedule=DeterminantGrowth(eta=2.0))
    >>> arms = np.eye(2)
    >>> for _ in range(20):
    ...     arm = learner.policy.act(0, arms)
    ...     done = Episode(features=arms[[arm]], rewards=[float(arm)], next_features=[])
    ...     switched = learner.observe(done)
    >>> learner
    Learner(dim=2, horizon=1, schedule=DeterminantGrowth(eta=2.0), episodes=20, version=5)
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
        feature_norm: float = LARGEST_FEATURE_NORM,
        planned_episodes: int | None = None,
    ) -> None:
        self.recipe = Recipe.of(
            beta=beta, exploration=exploration, ridge=ridge, ties=ties, clip=clip, seed=seed
        )
        self.schedule = checked_schedule(schedule)
        self.planned_episodes = planned_episodes
        if planned_episodes is not None:
            self.planned_episodes = whole("planned_episodes", planned_episodes, least=1)
        self._history = History(
            dim=whole("dim", dim, least=1),
            horizon=whole("horizon", horizon, least=1),
            ridge=self.recipe.ridge,
            feature_norm=real("feature_norm", feature_norm, above=0.0, most=1e100),
        )
        self._lock = threading.RLock()
        self.ledger = Ledger()
        self.deploy(self.fit())  # before episode 1, on no data (Alg. 1, line 4 with t_1 = 1)

    @property
    def dim(self) -> int:
        return self._history.dim

    @property
    def horizon(self) -> int:
        return self._history.horizon

    @property
    def episodes(self) -> int:
        """How many episodes have been absorbed."""
        return self._history.episodes

    @property
    def policy(self) -> Policy:
        """The policy in force for the next episode."""
        return self._policy

    @property
    def clock(self) -> Clock:
        """What the schedule sees before the next episode."""
        with self._lock:
            return self.ledger.clock(episode=self.episodes + 1, logdet=self._history.gram.logdet)

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

    def fit(self) -> Policy:
        """Return the candidate for the next version. Nothing changes: asked again, it is the same."""
        with self._lock:
            return fit(self._history, self.recipe, version=len(self.ledger) + 1)

    def deploy(self, policy: Policy) -> Deployment:
        """Put a policy in force from the next episode on, and write it down."""
        if not isinstance(policy, Policy):
            raise TypeError(f"policy must be a Policy; got {type(policy).__name__}")
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
        with self._lock:
            take_back = self._history.absorb(episode)
            try:
                due = self.due
                candidate = self.fit() if due else None
            except BaseException:
                take_back()
                raise
            if candidate is not None:
                self.deploy(candidate)
            return due

    def recommend(self) -> Policy:
        """Return the greedy policy of all data without exploration: what to use after learning."""
        greedy = replace(self.recipe, exploration=Bonus(0.0), ties="lowest")
        with self._lock:
            return fit(self._history, greedy, version=0)

    def snapshot(self) -> bytes:
        """Return the whole state; a learner restored from it goes on byte for byte."""
        with self._lock:
            meta = {
                "dim": self.dim,
                "horizon": self.horizon,
                "feature_norm": self._history.feature_norm,
                "planned_episodes": self.planned_episodes,
                "schedule": describe(self.schedule),
                "exploration": describe(self.recipe.exploration),
                "ridge": self.recipe.ridge,
                "ties": self.recipe.ties,
                "clip": self.recipe.clip,
                "seed": self.recipe.seed,
                "episodes": self.episodes,
                "digests": [deployment.digest for deployment in self.ledger],
            }
            arrays: codec.Arrays = {
                "deployed": np.array([d.episode for d in self.ledger], np.int64),
                "logdet_deployed": np.array([d.logdet for d in self.ledger]),
                "trace_deployed": np.array([d.trace for d in self.ledger]),
                "policy": np.frombuffer(self._policy.to_bytes(), np.uint8),
            }
            return codec.pack("learner", meta, arrays | self._history.to_arrays())

    @classmethod
    def restore(
        cls,
        data: bytes,
        *,
        schedule: Schedule | None = None,
        exploration: Exploration | None = None,
    ) -> "Learner":
        """Return the learner of a snapshot.

        Rules and explorations of this package are restored with it. No code of yours is run by
        reading bytes: give a rule of your own as `schedule`, and it must be the one that was stored.
        """
        parts = codec.unpack("learner", data)
        meta = dict(parts.meta)
        own = {"schedule": schedule, "exploration": exploration}
        for name, given in own.items():
            _check_own(name, given, meta.get(name))
        with parts.reading():
            dim, horizon = meta["dim"], meta["horizon"]
            policy = Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes())
            if (policy.horizon, policy.dim) != (horizon, dim):  # before memory is taken for them
                raise ValueError(f"its policy has other sizes than its dim {dim}, horizon {horizon}")
            episodes = whole("episodes", meta.pop("episodes"), least=0)
            digests = meta.pop("digests")
            seed = meta.pop("seed")
            for name, given in own.items():
                meta[name] = rebuild(meta[name]) if given is None else given
            learner = cls(**meta, seed=tuple(seed) if isinstance(seed, list) else seed)
            history = learner._history
            learner._history = History.from_parts(
                parts,
                dim=dim,
                horizon=horizon,
                ridge=learner.recipe.ridge,
                feature_norm=history.feature_norm,
            )
            learner._history.episodes = episodes
            learner._policy = policy
            learner.ledger = _ledger(parts, digests, horizon)
            if learner.ledger[-1].digest != policy.digest:
                raise ValueError("its policy is not the one that its ledger names")
            known = {*history.to_arrays(), "deployed", "logdet_deployed", "trace_deployed", "policy"}
            if unknown := set(parts.arrays) - known:
                raise ValueError(f"it has an unknown {min(unknown)}")
        return learner

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle through a snapshot: nothing is shared, nothing is lost."""
        return _restored, (self.snapshot(), self.schedule, self.recipe.exploration)

    def __repr__(self) -> str:
        return (
            f"Learner(dim={self.dim}, horizon={self.horizon}, schedule={self.schedule!r}, "
            f"episodes={self.episodes}, version={len(self.ledger)})"
        )


def _check_own(name: str, given: Any, stored: Any) -> None:
    """Refuse a rule that is not the one stored, and ask for one that cannot be made from bytes."""
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if given is None and isinstance(kind, str) and ":" in kind:
        raise ValueError(f"{name} must be given: the snapshot holds {kind}, a {name} of your own")
    if given is not None and describe(given) != stored:
        raise ValueError(f"{name} must be the one stored, {stored}; got {describe(given)}")


def _ledger(parts: codec.Parts, digests: Any, horizon: int) -> Ledger:
    episodes = parts.array("deployed", "<i8", ("n",))
    count = len(episodes)
    logdet = parts.array("logdet_deployed", "<f8", (count, horizon))
    trace = parts.array("trace_deployed", "<f8", (count, horizon))
    named = isinstance(digests, list) and all(isinstance(digest, str) for digest in digests)
    if not named or len(digests) != count or not count:
        raise ValueError("its ledger must have one digest for each of its deployments")
    if episodes[0] != 1 or (np.diff(episodes) < 0).any():
        raise ValueError("its deployments must begin before episode 1 and never go back")
    ledger = Ledger()
    for episode, *rest, digest in zip(episodes, logdet, trace, digests, strict=True):
        ledger.deploy(episode=int(episode), logdet=rest[0], trace=rest[1], digest=digest)
    return ledger


def _restored(data: bytes, schedule: Schedule, exploration: Exploration) -> Learner:
    return Learner.restore(data, schedule=schedule, exploration=exploration)
