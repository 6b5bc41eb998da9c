"""The worlds of rehearsals and scenarios: simulators, instances and environments."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from rareswitch.cli.experiments import need
from rareswitch.cli.worlds import INSTANCES, build_world

if TYPE_CHECKING:
    from rareswitch.campaigns import Protocol, World
    from rareswitch.campaigns.rehearsal.study import Scenario, Study

INSTANCE_ARGUMENTS = {
    "delta": 0.35,
    "reading": "completed",
    "zeta": 0.1,
    "states": 10,
    "actions": 4,
}


def finite_world(protocol: Protocol, settings: dict[str, Any], seed: int) -> World:
    """Return the instance of the settings, with the protocol's sizes."""
    from rareswitch.campaigns import FiniteWorld

    task = protocol.task
    mdp = build_world(settings | {"horizon": task.horizon, "dim": task.dim}, seed)
    # State 0; in the lower-bound family x_1, because x_0 has no regret.
    start = 1 if settings["instance"] == "lower-bound" else 0
    return FiniteWorld(mdp, seed=seed, initial_state=start)


def environment_world(
    protocol: Protocol,
    environment: Any,
    seed: int,
    allow: Collection[str],
    *,
    features: str | None = None,
    rewards: tuple[float, float] | None = None,
) -> World:
    """Return a Gymnasium environment as a world with the protocol's sizes."""
    from rareswitch.cli.campaign_environment import EnvironmentWorld, check_setting
    from rareswitch.gym.setting import setting_of

    setting = setting_of(
        environment,
        features=features,
        horizon=protocol.task.horizon,
        rewards=rewards,
        stages=protocol.task.stages,
        allow=allow,
    )
    check_setting(setting, protocol)
    return EnvironmentWorld(environment, setting, seed=seed)


def scenario_world(scenario: Scenario, protocol: Protocol, seed: int, study: Study) -> World:
    """Return the world of a scenario in one round."""
    from rareswitch.campaigns.rehearsal.study import make_world

    if scenario.kind == "simulator":
        return make_world(scenario, protocol, seed, study)
    if scenario.kind == "env":
        need("gym")
        from rareswitch.gym.setting import made

        environment = made(scenario.world, scenario.arguments, allow=study.allow)
        return environment_world(protocol, environment, seed, study.allow)
    if scenario.world not in INSTANCES:
        raise ValueError(f"instance must be one of {', '.join(INSTANCES)}; got {scenario.world!r}")
    if unknown := [name for name in scenario.arguments if name not in INSTANCE_ARGUMENTS]:
        known = ", ".join(INSTANCE_ARGUMENTS)
        raise ValueError(f"arguments of an instance must be among {known}; got {unknown[0]!r}")
    settings = INSTANCE_ARGUMENTS | scenario.arguments | {"instance": scenario.world}
    return finite_world(protocol, settings, seed)
