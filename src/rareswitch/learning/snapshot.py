"""The whole state of a learner as bytes: a restored learner goes on as if it had never stopped."""

from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from rareswitch.core.clock import Ledger, Schedule, checked_schedule
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.rules.words import describe, rebuild
from rareswitch.statistics import History, history_of
from rareswitch.support import codec
from rareswitch.support.arguments import frozen, whole

META = ("task", "schedule", "recipe", "episodes", "warm_episodes", "digests")
ARRAYS = ("deployed", "logdet_deployed", "trace_deployed", "policy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Snapshot:
    """The parts of a learner at one moment; the history is folded."""

    task: Task
    schedule: Schedule
    recipe: Recipe
    warm_episodes: int
    history: History
    ledger: Ledger
    policy: Policy

    def to_bytes(self) -> bytes:
        meta = {
            "task": asdict(self.task),
            "schedule": describe(self.schedule),
            "recipe": describe_recipe(self.recipe),
            "episodes": self.history.episodes,
            "warm_episodes": self.warm_episodes,
            "digests": [deployment.digest for deployment in self.ledger],
        }
        arrays: codec.Arrays = {
            "deployed": np.array([d.episode for d in self.ledger], np.int64),
            "logdet_deployed": np.array([d.logdet for d in self.ledger]),
            "trace_deployed": np.array([d.trace for d in self.ledger]),
            "policy": np.frombuffer(self.policy.to_bytes(), np.uint8),
        }
        return codec.pack("learner", meta, arrays | self.history.to_arrays())

    @classmethod
    def from_bytes(
        cls, data: bytes, *, schedule: Schedule | None, exploration: Exploration | None
    ) -> "Snapshot":
        """Read a snapshot; rules of the user's own are given and must be those stored."""
        parts = codec.unpack("learner", data)
        meta = parts.meta
        stored_recipe = meta.get("recipe")
        explores = stored_recipe.get("exploration") if isinstance(stored_recipe, dict) else None
        _check_own("schedule", schedule, meta.get("schedule"))
        _check_own("exploration", exploration, explores)
        with parts.reading():
            policy = Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes())
            task = Task(**_complete("task", Task, meta["task"]))
            if (policy.horizon, policy.dim) != (task.horizon, task.dim):  # before it takes memory
                raise ValueError(f"its policy does not fit its task, {task}")
            if policy.one_hot is not task.one_hot:
                raise ValueError("its policy must have one-hot features if its episodes have")
            pools, sums = task.pools.count, parts
            if task.chooses_stages:
                pools, sums = task.horizon, parts.inside("own")
            if len(sums.arrays) < pools:
                raise ValueError(f"its arrays are too few for horizon {task.horizon}")
            size = (pools, task.dim)
            if task.wide:
                sums.array("counts/places", "<i8", ("n",))
            elif task.one_hot:  # the largest array is there before memory is taken for its size
                sums.array("counts", "<f8", size)
            else:
                sums.array("whitener", "<f8", (*size, task.dim))
            own = {} if exploration is None else {"exploration": exploration}
            recipe = rebuild_recipe(stored_recipe, **own)
            history = history_of(task, recipe.ridge)
            parts.only(meta=META, arrays=(*ARRAYS, *history.to_arrays()))
            episodes = whole("episodes", meta["episodes"], least=0)
            warm = whole("warm_episodes", meta["warm_episodes"], least=0, most=episodes)
            history = history.restored(parts, episodes=episodes)
            rule = rebuild(meta["schedule"]) if schedule is None else schedule
            return cls(
                task=task,
                schedule=checked_schedule(rule, task),
                recipe=recipe,
                warm_episodes=warm,
                history=history,
                ledger=_ledger(parts, history, warm, policy.digest),
                policy=policy,
            )


def describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain values, for JSON."""
    seed = list(recipe.seed) if isinstance(recipe.seed, tuple) else recipe.seed
    return {
        "exploration": describe(recipe.exploration),
        "ridge": recipe.ridge,
        "ties": recipe.ties,
        "clip": recipe.clip,
        "seed": seed,
    }


def rebuild_recipe(plain: Any, **own: Any) -> Recipe:
    """Return the recipe that `describe_recipe` described; `own` replaces some of its fields."""
    fields_of = _complete("recipe", Recipe, plain) | own
    if "exploration" not in own:
        fields_of["exploration"] = rebuild(fields_of["exploration"])
    return Recipe(**fields_of)


def _complete(name: str, cls: type[Task | Recipe], plain: Any) -> dict[str, Any]:
    """Return the fields of a task or recipe, if all of them are there and nothing else."""
    names = {field.name for field in fields(cls)}
    if not isinstance(plain, dict) or plain.keys() != names:
        raise ValueError(f"its {name} must have the fields {', '.join(sorted(names))}")
    return dict(plain)


def _check_own(name: str, given: Any, stored: Any) -> None:
    """Refuse a rule that is not the one stored, and ask for one that bytes cannot make."""
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
        stored = stored.get("schedule")  # the rule inside a cap
    return None


def _ledger(parts: codec.Parts, history: History, warm: int, digest: str) -> Ledger:
    """Return the stored ledger, whose last entry must be of the policy in force."""
    episodes, digests = parts.array("deployed", "<i8", ("n",)), parts.meta["digests"]
    shape = (len(episodes), history.pools.count)
    # Copies: rows of the snapshot itself would keep all of it in memory.
    logdet, trace = (
        frozen(parts.array(f"{n}_deployed", "<f8", shape)) for n in ("logdet", "trace")
    )
    named = isinstance(digests, list) and all(isinstance(digest, str) for digest in digests)
    if not named or len(digests) != len(episodes) or digests[-1:] != [digest]:
        raise ValueError("its ledger must name a policy for each deployment, the last in force")
    ends = np.append(episodes, history.episodes - warm + 1)
    if ends[0] != 1 or (ends[1:] < ends[:-1]).any():
        raise ValueError("its deployments must begin before episode 1 and never go back")
    ledger = Ledger()
    for episode, *known, name in zip(episodes.tolist(), logdet, trace, digests, strict=True):
        ledger = ledger.deploy(episode=episode, logdet=known[0], trace=known[1], digest=name)
    return ledger
