"""The whole state of a learner as bytes, for a restart without any difference."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from rareswitch.core.clock import Ledger, Schedule, checked_schedule
from rareswitch.core.control import Control
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.core.task import Task
from rareswitch.rules.words import describe, rebuild
from rareswitch.statistics import History, history_of
from rareswitch.support import codec
from rareswitch.support.arguments import Ints, Rows, all_within, frozen, short_repr, whole

META = ("task", "schedule", "recipe", "episodes", "warm_episodes", "digests")
ARRAYS = ("deployed", "logdet_deployed", "trace_deployed", "policy")
# For a learner whose schedule looks at candidates.
MORE_ARRAYS = ("declined", "paths/rows", "paths/lengths", "paths/steps")


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
    paths: Sequence[tuple[Rows, ...]]

    def to_bytes(self) -> bytes:
        meta = {
            "task": self.task.plain,
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
        if hasattr(self.schedule, "accepts") or self.ledger.declined:
            states = [rows for path in self.paths for rows in path]
            arrays |= {
                "declined": np.array(self.ledger.declined, np.int64),
                "paths/rows": _joined(states, self.task),
                "paths/lengths": np.array(list(map(len, states)), np.int64),
                "paths/steps": np.array(list(map(len, self.paths)), np.int64),
            }
        return codec.pack("learner", meta, arrays | self.history.to_arrays())

    @classmethod
    def from_bytes(
        cls, data: bytes, *, schedule: Schedule | None, exploration: Exploration | None
    ) -> "Snapshot":
        """Read a snapshot; the user's own rules must be passed and must equal the stored rules."""
        parts = codec.unpack("learner", data)
        meta = parts.meta
        stored_recipe = meta.get("recipe")
        explores = stored_recipe.get("exploration") if isinstance(stored_recipe, dict) else None
        _check_own("schedule", schedule, meta.get("schedule"))
        _check_own("exploration", exploration, explores)
        with parts.reading():
            policy = Policy.from_bytes(parts.array("policy", "|u1", ("n",)).tobytes())
            task = Task(**_complete("task", Task, meta["task"]))
            if (policy.horizon, policy.dim) != (task.horizon, task.dim):  # saves memory
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
            elif task.one_hot:  # checks the largest array before it allocates memory
                sums.array("counts", "<f8", size)
            else:
                sums.array("whitener", "<f8", (*size, task.block_size))
            own = {} if exploration is None else {"exploration": exploration}
            recipe = rebuild_recipe(stored_recipe, **own)
            history = history_of(task, recipe.ridge)
            rule = rebuild(meta["schedule"]) if schedule is None else schedule
            looks = hasattr(rule, "accepts") or "declined" in parts.arrays
            more = MORE_ARRAYS if looks else ()
            parts.only(meta=META, arrays=(*ARRAYS, *more, *history.to_arrays()))
            episodes = whole("episodes", meta["episodes"], least=0)
            warm = whole("warm_episodes", meta["warm_episodes"], least=0, most=episodes)
            history = history.restored(parts, episodes=episodes)
            return cls(
                task=task,
                schedule=checked_schedule(rule, task),
                recipe=recipe,
                warm_episodes=warm,
                history=history,
                ledger=_ledger(parts, history, warm, policy.digest),
                policy=policy,
                paths=_paths(parts, task) if looks else (),
            )


def _joined(states: Sequence[Rows], task: Task) -> Rows:
    """Concatenate the rows of all states."""
    none: Rows = np.zeros(0, np.int64) if task.one_hot else np.zeros((0, task.dim))
    return np.concatenate([none, *states])


def _paths(parts: codec.Parts, task: Task) -> list[tuple[Rows, ...]]:
    """Return the stored paths, or raise an error if they are inconsistent."""
    shape: tuple[int | str, ...] = ("N",) if task.one_hot else ("N", task.dim)
    rows: Rows = frozen(parts.array("paths/rows", "<i8" if task.one_hot else "<f8", shape))
    lengths, steps = (parts.array(f"paths/{n}", "<i8", ("n",)) for n in ("lengths", "steps"))
    if not (_sums_to(lengths, len(rows)) and _sums_to(steps, len(lengths))):
        raise ValueError("its paths must have rows and states in agreement with their lengths")
    known = not task.one_hot or all_within(rows, 0, task.dim - 1)
    if not known or (len(steps) and steps.max() > task.horizon):
        raise ValueError("its paths must be of the task")
    states = np.split(rows, np.cumsum(lengths)[:-1]) if len(lengths) else []
    ends = np.cumsum(steps).tolist()
    return [tuple(states[e - n : e]) for e, n in zip(ends, steps.tolist(), strict=True)]


def _sums_to(counts: Ints, total: int) -> bool:
    """Return whether positive counts add up to a total."""
    return all_within(counts, 1, max(total, 1)) and int(counts.sum()) == total


def describe_recipe(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as plain values, for JSON."""
    seed = list(recipe.seed) if isinstance(recipe.seed, tuple) else recipe.seed
    plain: dict[str, Any] = {
        "exploration": describe(recipe.exploration),
        "ridge": recipe.ridge,
        "ties": recipe.ties,
        "clip": recipe.clip,
        "seed": seed,
    }
    if (control := recipe.control) is not None:
        plays = control.plays if isinstance(control.plays, int) else control.plays.hex()
        plain["control"] = {"plays": plays, "share": control.share}
    if recipe.floor:
        plain["floor"] = recipe.floor
    if recipe.burn_in:
        plain["burn_in"] = True
    return plain


def rebuild_recipe(plain: Any, **own: Any) -> Recipe:
    """Return the recipe from `describe_recipe`, with some fields replaced by `own`."""
    fields_of = _complete("recipe", Recipe, plain) | own
    if "exploration" not in own:
        fields_of["exploration"] = rebuild(fields_of["exploration"])
    if "control" in fields_of:
        fields_of["control"] = rebuild_control(fields_of["control"])
    return Recipe(**fields_of)


def rebuild_control(plain: Any) -> Control:
    """Return the control of a recipe's plain values."""
    if not isinstance(plain, dict) or plain.keys() != {"plays", "share"}:
        raise ValueError(f"control must have plays and share; got {short_repr(plain)}")
    plays = plain["plays"]
    if isinstance(plays, str):
        try:
            data = bytes.fromhex(plays)
        except ValueError:
            data = b""
        if not data.startswith(codec.MAGIC):
            raise ValueError(
                "plays must be the name or the position of an action, or the bytes of a policy in "
                f"hexadecimal; got {short_repr(plays)}"
            )
        plays = data
    return Control(plays, plain["share"])


# Fields that are left out if they have their defaults.
OPTIONAL = {"blocks", "control", "floor", "burn_in"}


def _complete(name: str, cls: type[Task | Recipe], plain: Any) -> dict[str, Any]:
    """Return the fields of a task or recipe, or raise an error if any is missing or extra."""
    names = {field.name for field in fields(cls)}
    if not isinstance(plain, dict) or plain.keys() | OPTIONAL & names != names:
        raise ValueError(f"its {name} must have the fields {', '.join(sorted(names))}")
    return dict(plain)


def _check_own(name: str, given: Any, stored: Any) -> None:
    """Raise an error if the given rule differs from the stored rule, or if it is missing."""
    if given is None and (kind := _own_kind(stored)):
        raise ValueError(f"{name} must be given: the snapshot has {kind}, which is your own {name}")
    if given is not None and describe(given) != stored:
        raise ValueError(f"{name} must equal the stored {name}, {stored}; got {describe(given)}")


def _own_kind(stored: Any) -> str | None:
    """Return the name of the first rule of the user's own in a description, if there is one."""
    while isinstance(stored, dict):
        kind = stored.get("kind")
        if isinstance(kind, str) and ":" in kind:
            return kind
        stored = stored.get("schedule")  # the rule inside a cap
    return None


def _ledger(parts: codec.Parts, history: History, warm: int, digest: str) -> Ledger:
    """Return the stored ledger, whose last entry must be the policy in force."""
    episodes, digests = parts.array("deployed", "<i8", ("n",)), parts.meta["digests"]
    shape = (len(episodes), history.pools.count)
    # Copies, because views would keep the whole snapshot in memory.
    logdet, trace = (
        frozen(parts.array(f"{n}_deployed", "<f8", shape)) for n in ("logdet", "trace")
    )
    named = isinstance(digests, list) and all(isinstance(digest, str) for digest in digests)
    if not named or len(digests) != len(episodes) or digests[-1:] != [digest]:
        raise ValueError("its ledger must have a policy for each deployment, the last in force")
    ends = np.append(episodes, history.episodes - warm + 1)
    if ends[0] != 1 or (ends[1:] < ends[:-1]).any():
        raise ValueError("its deployments must begin before episode 1 and be in order")
    ledger = Ledger()
    for episode, *known, name in zip(episodes.tolist(), logdet, trace, digests, strict=True):
        ledger = ledger.deploy(episode=episode, logdet=known[0], trace=known[1], digest=name)
    if "declined" in parts.arrays:
        for episode in parts.array("declined", "<i8", ("n",)).tolist():
            ledger = ledger.decline(whole("declined", episode, least=2, most=int(ends[-1])))
    return ledger
