"""The folder of a training, for `evaluate` and `compare`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rareswitch.cli.environments import made_world, setting_asked

if TYPE_CHECKING:
    from rareswitch.agent import Agent
    from rareswitch.gym.run import RunFolder


class Saved(NamedTuple):
    """The folder of a training and its settings."""

    folder: RunFolder
    settings: dict[str, Any]

    def agent(self, version: int | None, allow: Collection[str]) -> Agent:
        """Return the recommended policy, or a deployed one, with its features.

        Features that are code are made again from the settings and their environment; `allow` must
        have the modules of both.
        """
        from rareswitch.agent import Agent

        folder, settings = self
        policy, agent = folder.policy(version), folder.agent()
        if agent is not None:
            return replace(agent, policy=policy)
        if not isinstance(settings["features"], str) or not isinstance(settings["env_id"], str):
            raise ValueError(
                f"{folder.path} was trained in Python with features that are code: evaluate it in "
                "Python"
            )
        world = made_world(settings["env_id"], settings["env_args"], allow)
        setting = setting_asked(world, settings, allow)
        if setting.features.digest != folder.picked["features_digest"]:
            raise ValueError(
                f"features must be those of the training in {folder.path}; their digest has changed"
            )
        return Agent(
            policy=policy,
            features=setting.features,
            rewards=setting.rewards,
            actions=setting.actions,
        )


def opened(path: Path) -> Saved:
    """Open the folder of a training; raise for any other folder."""
    from rareswitch.gym.run import RunFolder

    folder = RunFolder(path)
    if (settings := folder.settings) is None:
        file = "; for the file of an agent, call rareswitch.evaluation.compare in Python"
        raise ValueError(
            f"{path} must be the folder of a training; it has no settings.json"
            f"{file if path.is_file() else ''}"
        )
    for name, kinds in (("env_id", str | dict), ("env_args", dict), ("features", str | dict)):
        if not isinstance(settings.get(name), kinds):
            raise ValueError(
                f"{path} must be the folder of a training; its settings.json has no {name}"
            )
    return Saved(folder, settings)
