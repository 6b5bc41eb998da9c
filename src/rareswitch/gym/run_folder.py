"""The folder of a training: what was asked for, what happened, and what came of it.

    settings.json   what was asked for, and what was picked
    log.jsonl       every episode, one a line, with propensities
    learner.bin     the learner's state, from time to time and at the end
    policies/       every policy deployed: 001.bin, 002.bin, …
    agent.bin       the recommended policy with its features; policy.bin where these are code
    picture.png     return over episodes
    summary.json    what came of it: once it is there, the training is finished

Nothing in it depends on the time of day or on how often the training was stopped.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rareswitch import __version__
from rareswitch.core.clock import Schedule
from rareswitch.core.exploration import Exploration
from rareswitch.core.policy import Policy
from rareswitch.gym.agent import Agent
from rareswitch.gym.setting import Setting
from rareswitch.learning.learner import Learner
from rareswitch.support.archive import write_bytes
from rareswitch.trajectories import Trajectory, read_log

SETTINGS, SUMMARY = "settings.json", "summary.json"


class RunFolder:
    """The files of one training, in a folder that holds nothing else.

    `settings` are plain values that say what was asked for. A folder of other settings, or of
    something else, is never written to.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def check(self, settings: dict[str, Any]) -> None:
        """Refuse a folder that is not empty and not one of these settings."""
        if not self.path.name:
            raise ValueError(f"folder must have a name; got {str(self.path)!r}")
        if not self.path.exists():
            return
        if not self.path.is_dir():
            raise ValueError(f"folder must be a folder; {self.path} is a file")
        if not any(self.path.iterdir()):
            return
        stored = self.settings
        if stored is None:
            raise ValueError(f"folder must be empty or a training's; {self.path} holds other files")
        if different := _differences(stored, settings):
            raise ValueError(
                f"folder must be one of the same settings; {self.path} has {different}: choose "
                "another"
            )

    def begin(self, settings: dict[str, Any], setting: Setting) -> None:
        """Write down what was asked for and picked; picked otherwise than before is an error."""
        picked = described(setting)
        if self.settings is not None:
            before = self.picked
            if different := _differences(before, picked):
                raise ValueError(
                    f"the environment and its features must be what they were when {self.path} was "
                    f"begun; then it was {different}"
                )
            return
        self.path.mkdir(parents=True, exist_ok=True)
        self._write_json(
            SETTINGS, {"settings": settings, "picked": picked, "rareswitch": __version__}
        )

    @property
    def settings(self) -> dict[str, Any] | None:
        """What was asked for; None if this is no training's folder."""
        try:
            found = json.loads((self.path / SETTINGS).read_bytes())["settings"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, dict) else None

    @property
    def picked(self) -> dict[str, Any]:
        """What was picked for the world, in plain values."""
        picked: dict[str, Any] = json.loads((self.path / SETTINGS).read_bytes())["picked"]
        return picked

    @property
    def summary(self) -> dict[str, Any] | None:
        """What came of a finished training; None while it is not finished."""
        try:
            found: dict[str, Any] = json.loads((self.path / SUMMARY).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ValueError(f"{self.path / SUMMARY} cannot be read ({error})") from None
        return found

    @property
    def log(self) -> Path:
        return self.path / "log.jsonl"

    @property
    def state(self) -> Path:
        return self.path / "learner.bin"

    def learner(
        self, *, schedule: Schedule | None = None, exploration: Exploration | None = None
    ) -> Learner | None:
        """Return the learner as it was kept last; None if it never was.

        A schedule or an exploration of your own is to be given, as for `Learner.restore`.
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
        """Yield the first so many episodes of the log, which must be there."""
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
                f"{self.log} must hold the {count} episodes that {self.state.name} has learnt "
                f"from; got {number}"
            )

    def policy_file(self, version: int) -> Path:
        return self.path / "policies" / f"{version:03d}.bin"

    def versions(self) -> list[int]:
        """Return the versions whose policies are there."""
        names = (path.stem for path in self.path.glob("policies/*.bin"))
        return sorted(int(name) for name in names if name.isdecimal())

    def write_policy(self, version: int, policy: Policy) -> None:
        """Keep a policy that was deployed."""
        self.policy_file(version).parent.mkdir(exist_ok=True)
        write_bytes(self.policy_file(version), policy.to_bytes())

    def policy(self, version: int | None = None) -> Policy:
        """Return the policy of a version, or the recommended one."""
        if version is not None:
            file = self.policy_file(version)
            if not file.is_file():
                there = self.versions()
                kept = f"{there[0]} to {there[-1]}" if there else "none"
                raise ValueError(
                    f"version must be one that {self.path} keeps, {kept}; got {version}"
                )
            return Policy.from_bytes(file.read_bytes())
        agent = self.agent()
        if agent is not None:
            return agent.policy
        file = self.path / "policy.bin"
        if not file.is_file():
            raise ValueError(f"{self.path} must be finished: it recommends no policy yet")
        return Policy.from_bytes(file.read_bytes())

    def agent(self) -> Agent | None:
        """Return the recommended agent; None where features are code, or nothing is finished."""
        file = self.path / "agent.bin"
        return Agent.from_bytes(file.read_bytes()) if file.is_file() else None

    def write_agent(self, agent: Agent) -> None:
        """Keep the recommended policy: with its features, or alone where these are code."""
        try:
            data = agent.to_bytes()
        except TypeError:
            write_bytes(self.path / "policy.bin", agent.policy.to_bytes())
        else:
            write_bytes(self.path / "agent.bin", data)

    def finish(self, summary: dict[str, Any]) -> None:
        """Write what came of the training, the last of its files."""
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


def _differences(stored: dict[str, Any], given: dict[str, Any]) -> str:
    """Return in words what is stored otherwise than given; nothing if all is the same."""
    plain = json.loads(json.dumps(given))
    names = [name for name in plain | stored if stored.get(name) != plain.get(name)]
    return ", ".join(f"{name} = {json.dumps(stored.get(name))}" for name in names)
