"""The learner: it keeps what it has seen, asks its schedule, and fits a new frozen policy."""

from dataclasses import asdict
from typing import Any

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import Floats, one_of, real, whole
from rareswitch.core.gram import Gram
from rareswitch.core.history import Episode, History
from rareswitch.core.lsvi import fit
from rareswitch.core.policy import Policy
from rareswitch.core.schedule import (
    Clock,
    DeterminantGrowth,
    EveryEpisode,
    Schedule,
    UniformGrid,
)
from rareswitch.core.streams import Seed, Stream, generator

TIES = ("direction", "lowest")
_NAMED_SCHEDULES = {kind.__name__: kind for kind in (EveryEpisode, UniformGrid, DeterminantGrowth)}


class Learner:
    """LSVI-UCB with a schedule: Alg. 1 with `UniformGrid`, Alg. 2 with `DeterminantGrowth`.

    The learner needs only features: states may be infinite and the feasible actions may differ at
    every step. `beta` is the confidence radius, `ridge` the regularisation λ. `ties="direction"`
    draws one random direction for each stage and fit, and of the tied actions takes the one
    furthest along it; `ties="lowest"` takes the lowest index. `clip=False` drops the clip to
    [0, H−h] (with H = 1 that is SBUCB or rarely switching OFUL).

    >>> learner = Learner(dim=2, horizon=1, schedule=DeterminantGrowth(eta=2.0))
    >>> arms = np.eye(2)
    >>> for _ in range(20):
    ...     arm = learner.policy.act(0, arms)
    ...     done = Episode(features=arms[[arm]], rewards=[float(arm)], next_features=[])
    ...     switched = learner.observe(done)
    >>> learner.episodes, learner.versions, learner.recommend().act(0, arms)
    (20, 5, 1)
    """

    def __init__(
        self,
        *,
        dim: int,
        horizon: int,
        schedule: Schedule,
        beta: float = 1.0,
        ridge: float = 1.0,
        ties: str = "direction",
        clip: bool = True,
        seed: Seed = 0,
    ) -> None:
        self.dim = whole("dim", dim, least=1)
        self.horizon = whole("horizon", horizon, least=1)
        self.beta = real("beta", beta, least=0.0)
        self.ridge = real("ridge", ridge, above=0.0)
        self.ties = one_of("ties", ties, TIES)
        self.clip = bool(clip)
        if not callable(getattr(schedule, "due", None)):
            raise TypeError(f"schedule must have a method due(clock) -> bool; got {schedule!r}")
        self.schedule = schedule
        self.episodes = 0
        self.versions = 0
        self._rng = generator(seed, Stream.TIES)
        self._gram = Gram((self.horizon,), self.dim, self.ridge)
        self._history = History(self.horizon, self.dim)
        self._deploy()  # before episode 1, on no data (Alg. 1, line 4 with t_1 = 1)

    @property
    def policy(self) -> Policy:
        """The policy in force for the next episode."""
        return self._policy

    @property
    def clock(self) -> Clock:
        """What the schedule sees before the next episode."""
        return Clock(
            episode=self.episodes + 1,
            logdet=self._gram.logdet.copy(),
            logdet_deployed=self._logdet_deployed.copy(),
        )

    def observe(self, episode: Episode) -> bool:
        """Absorb one finished episode; return whether a new policy is now in force."""
        features = self._padded(episode)
        self._gram.absorb(features)
        self._history.absorb(episode)
        self.episodes += 1
        due = bool(self.schedule.due(self.clock))
        if due:
            self._deploy()
        return due

    def recommend(self) -> Policy:
        """Return the greedy policy of all data without any bonus: what to use after learning."""
        return fit(self._gram, self._history, beta=0.0, clip=self.clip, version=0)

    def snapshot(self) -> bytes:
        """Return the whole state; a learner restored from it goes on byte for byte."""
        schedule: dict[str, Any] | None = None
        if isinstance(self.schedule, EveryEpisode | UniformGrid | DeterminantGrowth):
            schedule = {"kind": type(self.schedule).__name__, **asdict(self.schedule)}
        meta = {
            "dim": self.dim,
            "horizon": self.horizon,
            "beta": self.beta,
            "ridge": self.ridge,
            "ties": self.ties,
            "clip": self.clip,
            "schedule": schedule,
            "episodes": self.episodes,
            "versions": self.versions,
            "rng": self._rng.bit_generator.state,
        }
        arrays: codec.Arrays = {
            "whitener": self._gram.whitener,
            "logdet": self._gram.logdet,
            "logdet_deployed": self._logdet_deployed,
            "policy": np.frombuffer(self._policy.to_bytes(), np.uint8),
        }
        return codec.pack("learner", meta, arrays | self._history.to_arrays())

    @classmethod
    def restore(cls, data: bytes, schedule: Schedule | None = None) -> "Learner":
        """Return the learner of a snapshot.

        The schedules of this package are restored with it; a schedule of your own must be given.
        """
        meta, arrays = codec.unpack("learner", data)
        if schedule is None:
            if meta["schedule"] is None:
                raise ValueError(
                    "schedule must be given: the snapshot is of a learner with a schedule of "
                    "its user's own, which is not stored"
                )
            arguments = dict(meta["schedule"])
            schedule = _NAMED_SCHEDULES[arguments.pop("kind")](**arguments)
        learner = cls(
            schedule=schedule,
            **{name: meta[name] for name in ("dim", "horizon", "beta", "ridge", "ties", "clip")},
        )
        learner.episodes = meta["episodes"]
        learner.versions = meta["versions"]
        learner._rng.bit_generator.state = meta["rng"]
        learner._gram.whitener[:] = arrays["whitener"]
        learner._gram.logdet[:] = arrays["logdet"]
        learner._history = History.from_arrays(arrays)
        learner._logdet_deployed = arrays["logdet_deployed"]
        learner._policy = Policy.from_bytes(arrays["policy"].tobytes())
        return learner

    def _deploy(self) -> None:
        directions = None
        if self.ties == "direction":
            directions = self._rng.standard_normal((self.horizon, self.dim))
        self.versions += 1
        self._policy = fit(
            self._gram,
            self._history,
            beta=self.beta,
            clip=self.clip,
            directions=directions,
            version=self.versions,
        )
        self._logdet_deployed = self._gram.logdet.copy()

    def _padded(self, episode: Episode) -> Floats:
        """Return the episode's features (H, d), zero after its end, once it is known to fit."""
        if not isinstance(episode, Episode):
            raise TypeError(f"episode must be an Episode; got {type(episode).__name__}")
        steps, dim = episode.features.shape
        if steps > self.horizon:
            raise ValueError(f"episode must have at most {self.horizon} steps; got {steps}")
        if dim != self.dim:
            raise ValueError(f"episode must have features of dimension {self.dim}; got {dim}")
        features = np.zeros((self.horizon, dim))
        features[:steps] = episode.features
        return features
