"""Read observations and infos of a vector environment copy by copy, and reset its copies.

After its episode a copy resets itself at the next step (NEXT_STEP) or at once (SAME_STEP), or it is
reset on request (DISABLED). All copies step together, so copies without an episode get an arbitrary
action.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rareswitch.gym.episode import Answer, five, pair
from rareswitch.support.arguments import Bools


class VectorWorld:
    """A vector environment whose copies can always step, even after the end of an episode."""

    def __init__(self, world: Any) -> None:
        self._world, self.copies = world, int(world.num_envs)
        metadata = getattr(world, "metadata", None) or {}
        mode = metadata.get("autoreset_mode")
        self._by_hand = getattr(mode, "name", mode) == "DISABLED"
        self._over: Bools = np.zeros(self.copies, bool)  # copies that need a reset

    def reset(self, seeds: Sequence[int]) -> Any:
        """Begin an episode in every copy, each with its seed."""
        self._over = np.zeros(self.copies, bool)
        try:
            return self._world.reset(seed=list(seeds))
        except Exception as error:
            inner = getattr(self._world, "unwrapped", self._world)
            if hasattr(inner, "env_fns") or "seed" not in str(error).lower():
                raise  # Gymnasium's own vector environments seed each copy
            raise ValueError(
                f"world must take a list of seeds, one for each copy; {type(inner).__name__} has "
                f"one seed for all copies ({error}). Make every copy an environment: "
                'gymnasium.make_vec(…, vectorization_mode="sync")'
            ) from error

    def begin_anew(self) -> None:
        """Reset finished copies that do not reset themselves."""
        if self._over.any():
            self._anew = self._world.reset(options={"reset_mask": self._over.copy()})

    def step(self, actions: Sequence[Any]) -> Any:
        """Step every copy with its action, after `begin_anew`."""
        return self._world.step(stacked(actions))

    def began(self, answer: Any) -> None:
        """Store the answer of `reset`."""
        self._shown = pair(answer)

    def stepped(self, answer: Any) -> Answer:
        """Store the answer of `step`."""
        observations, _, terminated, truncated, infos = told = five(answer)
        self._shown = observations, infos
        if self._by_hand:
            self._over = np.logical_or(terminated, truncated)
        return told

    def now(self, i: int) -> tuple[Any, dict[str, Any]]:
        """Return observation and info of copy i before its next step."""
        observations, infos = self._anew if self._over[i] else self._shown
        return of_copy(observations, i), info_of_copy(infos, i)


def stacked(actions: Sequence[Any]) -> Any:
    """Return the actions of all copies in the format of a vector environment.

    >>> stacked([(0, [0.5]), (1, [0.25])])
    (array([0, 1]), array([[0.5 ], [0.25]]))
    """
    first = actions[0]
    if isinstance(first, tuple):
        return tuple(stacked(parts) for parts in zip(*actions, strict=True))
    if isinstance(first, Mapping):
        return {key: stacked([action[key] for action in actions]) for key in first}
    return np.array(actions)


def of_copy(observations: Any, i: int) -> Any:
    """Return the observation of copy i."""
    if isinstance(observations, tuple):
        return tuple(of_copy(part, i) for part in observations)
    if isinstance(observations, Mapping):
        return {key: of_copy(part, i) for key, part in observations.items()}
    return observations[i]


def info_of_copy(infos: Mapping[str, Any], i: int) -> dict[str, Any]:
    """Return the info of copy i; `_name` marks the copies with a value of `name`."""
    names = [name for name in infos if f"_{name}" in infos and infos[f"_{name}"][i]]
    return {
        name: info_of_copy(infos[name], i) if isinstance(infos[name], Mapping) else infos[name][i]
        for name in names
    }


def answer_of_copy(answer: Answer, i: int) -> Answer:
    """Return the answer of copy i, with the final observation if it was reset at once."""
    observations, rewards, terminated, truncated, infos = answer
    if "final_obs" in infos and "_final_obs" not in infos:
        raise ValueError(
            "infos['final_obs'] must come with the mask infos['_final_obs'], as in Gymnasium: "
            "without it the last observation of an episode is unknown"
        )
    info = info_of_copy(infos, i)
    if "final_obs" in info:
        last = info["final_obs"], info.get("final_info", {})
    else:
        last = of_copy(observations, i), info
    return last[0], rewards[i], terminated[i], truncated[i], last[1]
