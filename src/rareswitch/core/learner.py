"""The learner: it keeps what it has seen, asks its schedule, and fits a new frozen policy."""

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import Floats, one_of, real, whole
from rareswitch.core.gram import Gram
from rareswitch.core.history import Episode, History
from rareswitch.core.lsvi import fit
from rareswitch.core.optimism import Bonus, Optimism, Perturbation
from rareswitch.core.plain import from_plain, to_plain
from rareswitch.core.policy import Policy
from rareswitch.core.schedule import Clock, Schedule
from rareswitch.core.streams import Seed, Stream, generator

TIES = ("direction", "lowest")


class Learner:
    """LSVI-UCB with a schedule: Alg. 1 with `UniformGrid`, Alg. 2 with `DeterminantGrowth`.

    The learner needs only features: states may be infinite and the feasible actions may differ at
    every step. `beta` is the confidence radius, `ridge` the regularisation λ; `optimism`, a `Bonus`
    or a `Perturbation`, takes the place of `beta`. `ties="direction"` draws one random direction
    for each stage and fit, and of the tied actions takes the one furthest along it; `ties="lowest"`
    takes the lowest index. `clip=False` drops the clip to [0, H−h] (with H = 1 that is SBUCB or
    rarely switching OFUL).

    >>> from rareswitch import DeterminantGrowth
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
        optimism: Optimism | None = None,
        seed: Seed = 0,
    ) -> None:
        self.dim = whole("dim", dim, least=1)
        self.horizon = whole("horizon", horizon, least=1)
        self.optimism: Optimism = Bonus(beta) if optimism is None else optimism
        if not isinstance(self.optimism, Bonus | Perturbation):
            raise TypeError(f"optimism must be a Bonus or a Perturbation; got {optimism!r}")
        self.ridge = real("ridge", ridge, above=0.0)
        self.ties = one_of("ties", ties, TIES)
        self.clip = bool(clip)
        if not callable(getattr(schedule, "due", None)):
            raise TypeError(f"schedule must have a method due(clock) -> bool; got {schedule!r}")
        self.schedule = schedule
        self.episodes = 0
        self.versions = 0
        self._ties_rng = generator(seed, Stream.TIES)
        self._perturbation_rng = generator(seed, Stream.PERTURBATION)
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
            deployed=self._deployed,
            updates=self.versions,
            trace_deployed=self._trace_deployed.copy(),
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
        meta = {
            "dim": self.dim,
            "horizon": self.horizon,
            "ridge": self.ridge,
            "ties": self.ties,
            "clip": self.clip,
            "schedule": to_plain(self.schedule),
            "optimism": to_plain(self.optimism),
            "episodes": self.episodes,
            "versions": self.versions,
            "deployed": self._deployed,
            "rng": [rng.bit_generator.state for rng in self._generators],
        }
        arrays: codec.Arrays = {
            "whitener": self._gram.whitener,
            "logdet": self._gram.logdet,
            "trace": self._gram.trace,
            "logdet_deployed": self._logdet_deployed,
            "trace_deployed": self._trace_deployed,
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
            schedule = from_plain(meta["schedule"])
        learner = cls(
            schedule=schedule,
            optimism=from_plain(meta["optimism"]),
            **{name: meta[name] for name in ("dim", "horizon", "ridge", "ties", "clip")},
        )
        learner.episodes = meta["episodes"]
        learner.versions = meta["versions"]
        for rng, state in zip(learner._generators, meta["rng"], strict=True):
            rng.bit_generator.state = state
        learner._gram.whitener[:] = arrays["whitener"]
        learner._gram.logdet[:] = arrays["logdet"]
        learner._gram.trace[:] = arrays["trace"]
        learner._history = History.from_arrays(arrays)
        learner._deployed = meta["deployed"]
        learner._logdet_deployed = arrays["logdet_deployed"]
        learner._trace_deployed = arrays["trace_deployed"]
        learner._policy = Policy.from_bytes(arrays["policy"].tobytes())
        return learner

    def _deploy(self) -> None:
        directions = None
        if self.ties == "direction":
            directions = self._ties_rng.standard_normal((self.horizon, self.dim))
        self.versions += 1
        self._policy = fit(
            self._gram,
            self._history,
            beta=self.optimism.beta,
            offsets=self.optimism.offsets(self._perturbation_rng, self._gram.whitener),
            clip=self.clip,
            directions=directions,
            version=self.versions,
        )
        self._deployed = self.episodes + 1
        self._logdet_deployed = self._gram.logdet.copy()
        self._trace_deployed = self._gram.trace.copy()

    @property
    def _generators(self) -> tuple[np.random.Generator, ...]:
        return self._ties_rng, self._perturbation_rng

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
