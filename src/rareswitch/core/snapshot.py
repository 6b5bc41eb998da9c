"""The whole state of a learner as bytes: resumed, it goes on as if it had never stopped."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from rareswitch.core import codec
from rareswitch.core.arguments import flag, whole
from rareswitch.core.exploration import Exploration
from rareswitch.core.history import History
from rareswitch.core.ledger import Ledger
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.rules import describe, rebuild
from rareswitch.core.schedule import Schedule, checked_schedule

META = (
    "dim", "horizon", "feature_norm", "stages", "one_hot", "end_reward", "episodes",
    "warm_episodes", "planned_episodes", "schedule", "exploration", "ridge", "ties", "clip", "seed",
    "digests",
)  # fmt: skip
ARRAYS = ("deployed", "logdet_deployed", "trace_deployed", "policy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """What a learner is made of, at one moment."""

    recipe: Recipe
    schedule: Schedule
    planned_episodes: int | None
    warm_episodes: int
    history: History
    ledger: Ledger
    policy: Policy

    def to_bytes(self) -> bytes:
        recipe, history = self.recipe, self.history
        meta = {
            "dim": history.dim,
            "horizon": history.horizon,
            "feature_norm": history.feature_norm,
            "stages": history.pools.stages,
            "one_hot": history.one_hot,
            "end_reward": history.end_reward,
            "warm_episodes": self.warm_episodes,
            "episodes": history.episodes,
            "planned_episodes": self.planned_episodes,
            "schedule": describe(self.schedule),
            "exploration": describe(recipe.exploration),
            "ridge": recipe.ridge,
            "ties": recipe.ties,
            "clip": recipe.clip,
            "seed": recipe.seed,
            "digests": [deployment.digest for deployment in self.ledger],
        }
        arrays: codec.Arrays = {
            "deployed": np.array([d.episode for d in self.ledger], np.int64),
            "logdet_deployed": np.array([d.logdet for d in self.ledger]),
            "trace_deployed": np.array([d.trace for d in self.ledger]),
            "policy": np.frombuffer(self.policy.to_bytes(), np.uint8),
        }
        return codec.pack("learner", meta, arrays | history.to_arrays())

    @classmethod
    def from_bytes(
        cls, data: bytes, *, schedule: Schedule | None, exploration: Exploration | None
    ) -> "Snapshot":
        """Read a snapshot; rules of the user's own are given and must be those stored."""
        parts = codec.unpack("learner", data)
        meta = parts.meta
        _check_own("schedule", schedule, meta.get("schedule"))
        _check_own("exploration", exploration, meta.get("exploration"))
        with parts.reading():
            policy = Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes())
            dim, horizon = (whole(name, meta[name], least=1) for name in ("dim", "horizon"))
            if (policy.horizon, policy.dim) != (horizon, dim):  # before memory is taken for them
                raise ValueError(f"its policy does not have its dim {dim} and horizon {horizon}")
            if policy.one_hot is not flag("one_hot", meta["one_hot"]):
                raise ValueError("its policy must be of one-hot features if its episodes are")
            if meta["stages"] == "own" and len(parts.arrays) < horizon:
                raise ValueError(f"its arrays are too few for horizon {horizon}")
            planned = meta["planned_episodes"]
            if planned is not None:
                planned = whole("planned_episodes", planned, least=1)
            recipe = Recipe(
                exploration=rebuild(meta["exploration"]) if exploration is None else exploration,
                ridge=meta["ridge"],
                ties=meta["ties"],
                clip=meta["clip"],
                seed=meta["seed"],
            )
            history = History(
                dim=dim,
                horizon=horizon,
                ridge=recipe.ridge,
                feature_norm=meta["feature_norm"],
                stages=meta["stages"],
                one_hot=meta["one_hot"],
                end_reward=meta["end_reward"],
            )
            parts.only(meta=META, arrays=(*ARRAYS, *history.to_arrays()))
            episodes = whole("episodes", meta["episodes"], least=0)
            history.fill(parts, episodes=episodes)
            warm = whole("warm_episodes", meta["warm_episodes"], least=0, most=episodes)
            return cls(
                recipe=recipe,
                schedule=checked_schedule(
                    rebuild(meta["schedule"]) if schedule is None else schedule
                ),
                planned_episodes=planned,
                warm_episodes=warm,
                history=history,
                ledger=_ledger(parts, history, warm, policy.digest),
                policy=policy,
            )


def _check_own(name: str, given: Any, stored: Any) -> None:
    """Refuse a rule that is not the one stored, and ask for one that cannot be made from bytes."""
    if given is None and (kind := _own_kind(stored)):
        raise ValueError(f"{name} must be given: the snapshot holds {kind}, a {name} of your own")
    if given is not None and describe(given) != stored:
        raise ValueError(f"{name} must be the one stored, {stored}; got {describe(given)}")


def _own_kind(stored: Any) -> str | None:
    """Return the name of the first rule of the user's own in a description, if there is one."""
    while isinstance(stored, dict):
        kind = stored.get("kind")
        if isinstance(kind, str) and ":" in kind:
            return kind
        stored = stored.get("schedule")  # what a cap is around
    return None


def _ledger(parts: codec.Parts, history: History, warm: int, digest: str) -> Ledger:
    """Return the stored ledger, whose last entry must be of the policy in force."""
    episodes, digests = parts.array("deployed", "<i8", ("n",)), parts.meta["digests"]
    logdet = parts.array("logdet_deployed", "<f8", (len(episodes), history.pools.count))
    trace = parts.array("trace_deployed", "<f8", (len(episodes), history.pools.count))
    named = isinstance(digests, list) and all(isinstance(digest, str) for digest in digests)
    if not named or len(digests) != len(episodes) or digests[-1:] != [digest]:
        raise ValueError("its ledger must name a policy for each deployment, the last in force")
    ends = np.append(episodes, history.episodes - warm + 1)
    if ends[0] != 1 or (ends[1:] < ends[:-1]).any():
        raise ValueError("its deployments must begin before episode 1 and never go back")
    ledger = Ledger()
    for episode, *known, name in zip(episodes.tolist(), logdet, trace, digests, strict=True):
        ledger.deploy(episode=episode, logdet=known[0], trace=known[1], digest=name)
    return ledger
