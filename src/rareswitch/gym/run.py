"""The folder of a training: its settings, its log, its state and its results.

    settings.json   the given settings, and the chosen setting
    log.jsonl       every episode, one a line, with propensities
    learner.bin     the learner's state, from time to time and at the end
    policies/       every deployed policy: 001.bin, 002.bin, …
    agent.bin       the recommended policy with its features; policy.bin if the features are code
    picture.png     return over episodes
    summary.json    the results; "finished" is true once all fresh episodes are played

The files do not depend on the time of day or on interruptions of the training.
"""

import errno
import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from rareswitch import __version__
from rareswitch.agent import Agent, ControlError
from rareswitch.core.clock import Schedule
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import Policy
from rareswitch.core.recipe import Recipe
from rareswitch.gym.setting import Setting
from rareswitch.learning.learner import Learner, checked_recipe
from rareswitch.support.archive import write_bytes
from rareswitch.trajectories import Rewards, Trajectory, read_log
from rareswitch.trajectories.json_lines import line_of

SETTINGS, SUMMARY = "settings.json", "summary.json"
# What a training may hold before the end of its first episode.
BEGUN = {SETTINGS, "log.jsonl", "learner.bin", "policies"}
# The state is written every SECONDS, or every TIMES the duration of a write if that is longer.
SECONDS = 2.0
TIMES = 20.0


def plain_settings(
    world: Any,
    *,
    arguments: Mapping[str, Any] | None,
    schedule: Any,
    recipe: Any,
    features: Any,
    rewards: Rewards | tuple[float, float] | None,
    actions: Any,
    warm_start: Iterable[Trajectory] | str | Path,
    seed: Any,
    **plain: Any,
) -> dict[str, Any]:
    """Return the arguments of a training as plain values, which identify its folder.

    The name stands for an object; the digest stands for the bytes of a log.
    """
    if isinstance(rewards, Rewards):
        rewards = rewards.low, rewards.high
    return plain | {
        "env_id": world if isinstance(world, str) else {"object": _name(world)},
        "env_args": dict(arguments or {}),
        "schedule": schedule if schedule is None or isinstance(schedule, str) else repr(schedule),
        "recipe": repr(checked_recipe(recipe)),
        "features": features
        if isinstance(features, str)
        else {"object": _name(features)}
        if features is not None
        else "default",
        "rewards": None if rewards is None else list(rewards),
        "actions": None if actions is None else list(map(repr, actions)),
        "warm_start": _described_log(warm_start),
        "seed": list(seed) if isinstance(seed, tuple) else seed,
    }


def _name(thing: Any) -> str:
    inner = getattr(thing, "unwrapped", thing)
    cls = inner if isinstance(inner, type) else type(inner)
    name = getattr(thing, "__qualname__", None) or cls.__qualname__
    return f"{getattr(thing, '__module__', cls.__module__)}:{name}"


def log_path(path: str | Path) -> Path:
    """Return the file of a log, given the file or the folder of a training."""
    path = Path(path)
    path = path / "log.jsonl" if path.is_dir() else path
    if not path.is_file():
        raise ValueError(f"warm_start must be a log of episodes; there is no file {path}")
    return path


def _described_log(log: Iterable[Trajectory] | str | Path) -> dict[str, Any] | None:
    if isinstance(log, str | Path):
        path = log_path(log)
        with open(path, "rb") as file:
            return {"log": str(path), "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    lines = [line_of(one) for one in log]
    if not lines:
        return None
    return {"log": None, "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}


class RunFolder:
    """The files of one training, in a folder of their own.

    A folder with other settings or other files is never changed, unless no episode was recorded.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def check(self, settings: dict[str, Any]) -> None:
        """Raise ValueError if the folder is neither empty nor has these settings.

        A range of rewards that contains the folder's range is valid; the training then uses it. A
        training that ended before its first episode is removed.
        """
        if not self.path.name:
            raise ValueError(f"folder must have a name; got {str(self.path)!r}")
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ValueError(f"folder must be a folder; {self.path} is a file")
        if self._nothing_recorded:
            self._empty()
        if not any(self.path.iterdir()):
            return
        stored = self.settings
        if stored is None:
            raise ValueError(
                f"folder must be empty or of a training; {self.path} holds other files"
            )
        if settings.get("recipe") == repr(Recipe()) and stored.get("recipe") is None:
            stored = stored | {"recipe": repr(Recipe())}  # earlier versions left out the default
        if self._widens(settings):
            settings = settings | {"rewards": stored.get("rewards")}
        if different := _differences(stored, settings):
            raise ValueError(
                f"folder must have the same settings; {self.path} has {different}: choose another"
            )

    @property
    def _nothing_recorded(self) -> bool:
        """Whether the folder holds only a training without an episode, which no process plays."""
        if self.settings is None or not {path.name for path in self.path.iterdir()} <= BEGUN:
            return False
        try:
            with open(self.log, "rb") as log:
                _claim(log, self)
                return not log.read(1)
        except (FileNotFoundError, FolderInUseError):  # another process starts or plays
            return False

    def _empty(self) -> None:
        """Remove the files of a training without an episode, its settings last."""
        shutil.rmtree(self.path / "policies", ignore_errors=True)
        for file in (self.state, self.log, self.path / SETTINGS):
            file.unlink(missing_ok=True)

    def told(self, count: int, episodes: int, error: BaseException, resumes: str) -> str:
        """Return a sentence about the kept episodes, and how to resume after this error."""
        if not count:
            return f"no episode is recorded in {self.path}"
        kept = f"{count} of {episodes} episodes are kept in {self.path}"
        if isinstance(error.__cause__, ControlError):
            return f"{kept}: choose another folder for another control"
        return f"{kept}; the same {resumes}"

    def _widens(self, settings: dict[str, Any]) -> bool:
        given, (low, high) = settings.get("rewards"), self.picked["rewards"]
        return given is not None and given[0] <= low and high <= given[1]

    def begin(self, settings: dict[str, Any], setting: Setting, episodes: int = 0) -> None:
        """Write the settings, or raise ValueError if the stored setting differs.

        A wider range of rewards holds after the first `episodes` episodes.
        """
        picked = described(setting)
        if self.settings is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self._write_settings(settings, picked, [])
            return
        if different := _differences(_values(self.picked), _values(picked)):
            raise ValueError(
                f"the environment and its features must not change after the start of {self.path}; "
                f"at the start they had {different}"
            )
        stored, picked, widened = self.settings, self.picked, self.widened
        given = settings.get("rewards") and list(settings["rewards"])
        known = [stored["rewards"], picked["rewards"], *(entry[1:] for entry in widened)]
        if given is not None and given not in known:
            self._write_settings(stored, picked, [*widened, [episodes, *given]])

    def _write_settings(
        self, settings: dict[str, Any], picked: dict[str, Any], widened: list[Any]
    ) -> None:
        values = {"settings": settings, "picked": picked, "rareswitch": __version__}
        self._write_json(SETTINGS, values | ({"widened": widened} if widened else {}))

    def _stored(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.path / SETTINGS).read_bytes())
        return found

    @property
    def settings(self) -> dict[str, Any] | None:
        """The given settings; None if this is not the folder of a training."""
        try:
            found = self._stored()["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def picked(self) -> dict[str, Any]:
        """The setting chosen at the start, in plain values."""
        picked: dict[str, Any] = self._stored()["picked"]
        return picked

    @property
    def widened(self) -> list[list[Any]]:
        """The later ranges of rewards, each as [episodes before it, low, high]."""
        found: list[list[Any]] = self._stored().get("widened", [])
        return found

    @property
    def summary(self) -> dict[str, Any] | None:
        """The results of a finished training; None before that."""
        try:
            found: dict[str, Any] = json.loads((self.path / SUMMARY).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{self.path / SUMMARY} cannot be read ({error})") from None
        return found if found.get("finished") else None

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def state(self) -> Path:
        return self.path / "learner.bin"

    def learner(
        self, *, schedule: Schedule | None = None, exploration: Exploration | None = None
    ) -> Learner | None:
        """Return the learner as last written, or None before the first write.

        A custom schedule or exploration must be given, as for `Learner.restore`.
        """
        try:
            data = self.state.read_bytes()
        except FileNotFoundError:
            return None
        try:
            return Learner.restore(data, schedule=schedule, exploration=exploration)
        except ValueError as error:
            raise ValueError(f"{self.state}: {error}") from None

    def episodes(self, count: int) -> Iterator[Trajectory]:
        """Yield the first `count` episodes of the log, or raise ValueError if it has fewer."""
        number = 0
        if count:
            for number, trajectory in enumerate(read_log(self.log, drop_torn=True), start=1):
                if trajectory.key != number:
                    raise ValueError(
                        f"{self.log}, line {number}: must be episode {number}; got "
                        f"{trajectory.key!r}"
                    )
                yield trajectory
                if number == count:
                    return
        if number < count:
            raise ValueError(
                f"{self.log} must hold the {count} episodes that {self.state.name} was learned "
                f"from; got {number}"
            )

    def policy_file(self, version: int) -> Path:
        return self.path / "policies" / f"{version:03d}.bin"

    def versions(self) -> list[int]:
        """Return the versions with a stored policy."""
        names = (path.stem for path in self.path.glob("policies/*.bin"))
        return sorted(int(name) for name in names if name.isdecimal())

    def write_policy(self, version: int, policy: Policy) -> None:
        """Write a deployed policy."""
        self.policy_file(version).parent.mkdir(exist_ok=True)
        write_bytes(self.policy_file(version), policy.to_bytes())

    def policy(self, version: int | None = None) -> Policy:
        """Return the policy of a version, or the recommended policy."""
        if version is not None:
            file = self.policy_file(version)
            if not file.is_file():
                there = self.versions()
                kept = f"{there[0]} to {there[-1]}" if there else "none"
                raise ValueError(
                    f"version must be stored in {self.path}, which has {kept}; got {version}"
                )
            return Policy.from_bytes(file.read_bytes())
        agent = self.agent()
        if agent is not None:
            return agent.policy
        file = self.path / "policy.bin"
        if not file.is_file():
            raise ValueError(f"{self.path} must be finished to recommend a policy")
        return Policy.from_bytes(file.read_bytes())

    def agent(self) -> Agent | None:
        """Return the recommended agent; None if features are code or the training is running."""
        file = self.path / "agent.bin"
        return Agent.load(file) if file.is_file() else None

    def write_agent(self, agent: Agent) -> None:
        """Write the recommended policy with its features, or without features that are code."""
        try:
            data = agent.to_bytes()
        except TypeError:
            write_bytes(self.path / "policy.bin", agent.policy.to_bytes())
        else:
            write_bytes(self.path / "agent.bin", data)

    def write_summary(self, summary: dict[str, Any]) -> None:
        """Write the results so far."""
        self._write_json(SUMMARY, summary)

    def _write_json(self, name: str, values: dict[str, Any]) -> None:
        text = json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False)
        write_bytes(self.path / name, f"{text}\n".encode())


def described(setting: Setting) -> dict[str, Any]:
    """Return a setting as plain values."""
    features = setting.features
    return {
        "features": features.name,
        "features_digest": features.digest,
        "dim": features.dim,
        "one_hot": features.one_hot,
        "feature_norm": features.norm if features.norm < float("inf") else None,
        "actions": features.actions,
        "horizon": setting.horizon,
        "rewards": [setting.rewards.low, setting.rewards.high],
        "stages": setting.stages,
        "reasons": setting.reasons,
    }


def _values(picked: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a setting without their reasons, which another release may reword."""
    return {name: value for name, value in picked.items() if name != "reasons"}


def _differences(stored: dict[str, Any], given: dict[str, Any]) -> str:
    """Return the stored values that differ from the given values, as text; "" if all agree.

    Features with equal digests agree, although another release may reword their name.
    """
    if "features_digest" in stored and stored["features_digest"] == given.get("features_digest"):
        given = given | {"features": stored.get("features")}
    plain = json.loads(json.dumps(given))
    names = [name for name in plain | stored if stored.get(name) != plain.get(name)]
    return ", ".join(f"{name} = {json.dumps(stored.get(name))}" for name in names)


class FolderInUseError(ValueError):
    """Another process writes to the folder."""


class Recording:
    """Writes the episodes of a learner into a folder, and its state at intervals.

    The line of an episode is always written before a state that includes the episode. A training
    that resumes drops the lines after the last state and plays these episodes again: episodes are
    seeded by their numbers, so they are the same. `policies=False` stores only the policy in force,
    within the state.
    """

    def __init__(self, folder: RunFolder, learner: Learner, *, policies: bool = True) -> None:
        self._folder, self._policies = folder, policies
        self._log = open(folder.log, "ab", buffering=0)  # noqa: SIM115
        try:
            _claim(self._log, folder)
            _cut(self._log, folder.log, learner.episodes)
        except BaseException:
            self._log.close()
            raise
        self.kept = learner.episodes
        for version in folder.versions():
            if version > len(learner.ledger):
                folder.policy_file(version).unlink()
        if policies and not folder.policy_file(len(learner.ledger)).is_file():
            folder.write_policy(len(learner.ledger), learner.policy)
        self._next = time.monotonic() + SECONDS

    def write(self, trajectory: Trajectory) -> None:
        """Write the last observed episode."""
        line = line_of(trajectory)
        if self._log.write(line) != len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._folder.log))

    def write_policy(self, learner: Learner) -> None:
        """Write the policy in force."""
        if self._policies:
            self._folder.write_policy(len(learner.ledger), learner.policy)

    def write_state(self, learner: Learner, *, at_once: bool = False) -> None:
        """Write the learner's state if it is due; the log must hold all its episodes."""
        if not at_once and time.monotonic() < self._next:
            return
        if self.kept == learner.episodes and self._folder.state.exists():
            return
        began = time.monotonic()
        os.fsync(self._log.fileno())
        write_bytes(self._folder.state, learner.snapshot())
        self.kept, ended = learner.episodes, time.monotonic()
        self._next = ended + max(SECONDS, TIMES * (ended - began))

    def close(self, learner: Learner) -> None:
        """Write the state for the last time, and release the folder."""
        try:
            _cut(self._log, self._folder.log, learner.episodes)
            self.write_state(learner, at_once=True)
        finally:
            self._log.close()


def _claim(log: Any, folder: RunFolder) -> None:
    """Raise FolderInUseError if another process writes to the folder; only POSIX can check this."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderInUseError(
            f"folder must not be in use; another process writes to {folder.path}"
        ) from None


def _cut(log: Any, path: Path, lines: int) -> None:
    """Drop all lines after the first `lines` lines."""
    with open(path, "rb") as file:
        for _ in range(lines):
            file.readline()
        log.truncate(file.tell())
