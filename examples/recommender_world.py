"""A recommender: the items that people see move their interests.

Interests and items are directions in a space of topics. The closer the two, the more likely is a
click. A lasting item draws people who like it nearer, and drives the others further away (Dean and
Morgenstern, *Preference Dynamics Under Personalized Recommendations*, 2022). A tiring item gets
more clicks at first, and people lose their interest in it. So the best item of today is not the
best in the long run.
"""

from typing import Any

import gymnasium
import numpy as np

TOPICS, ITEMS, VISIT = 5, 8, 10
STEEPNESS = 3.0
LASTING, TIRING = -1.0, 0.0  # the log odds of a click by an indifferent person


class Recommender(gymnasium.Env[Any, Any]):
    """A visit of ten items, one of eight at a time, and a reward of 1 for each click.

    An observation is the person's interests (5,), drawn anew for everyone who comes. The catalogue
    is drawn by its own number.
    """

    def __init__(self, catalogue: int = 2) -> None:
        rng = np.random.default_rng(catalogue)
        self.items = directions(rng.standard_normal((ITEMS, TOPICS)))
        self.lasts = rng.permutation(ITEMS) < ITEMS // 2
        self.observation_space = gymnasium.spaces.Box(-1.0, 1.0, (TOPICS,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(ITEMS)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._interests = directions(self.np_random.standard_normal(TOPICS))
        return self._interests, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        click = self.np_random.random() < self.chances(self._interests)[action]
        self._interests = self.moved(self._interests)[action]
        return self._interests, float(click), False, False, {}

    def chances(self, interests: Any) -> Any:
        """Return the chance of a click on each item: interests (…, 5) to (…, 8)."""
        appeal = np.where(self.lasts, LASTING, TIRING)
        return 1.0 / (1.0 + np.exp(-STEEPNESS * interests @ self.items.T - appeal))

    def moved(self, interests: Any) -> Any:
        """Return the interests after each item: (…, 5) to (…, 8, 5)."""
        pull = np.where(self.lasts, 1.0, -1.0) * (interests @ self.items.T)
        return directions(interests[..., None, :] + pull[..., None] * self.items)


def directions(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)


gymnasium.register("Recommender-v0", entry_point=Recommender, max_episode_steps=VISIT)
