"""What one learner has seen, in the form that a fit needs: a cache of the log.

The log of episodes is the truth; a history is folded from it, by `absorb` as episodes come or by
`from_log` all at once, and a corrected log is folded again. Neither the order of episodes nor the
policy that acted matters beyond rounding.
"""

import math
from collections.abc import Callable, Iterable

import numpy as np

from rareswitch.core import sums
from rareswitch.core.arguments import Floats, positive_ridge, real, whole
from rareswitch.core.codec import Arrays, Parts
from rareswitch.core.episode import Episode
from rareswitch.core.gram import Gram
from rareswitch.core.next_states import NextStates
from rareswitch.core.stage import Stage
from rareswitch.core.undo import Undo, all_or_nothing, take_back


class History:
    """The sufficient statistics of all episodes so far, for one learner.

    An episode with a feature longer than `feature_norm` is refused: beyond it float64 could not
    hold what the smaller features say.
    """

    def __init__(self, *, dim: int, horizon: int, ridge: float, feature_norm: float) -> None:
        self.dim = dim = whole("dim", dim, least=1, most=10**6)
        self.horizon = horizon = whole("horizon", horizon, least=1, most=10**6)
        self.feature_norm = real("feature_norm", feature_norm, above=0.0, most=1e100)
        self.episodes = 0
        self.ridge = positive_ridge(ridge)
        self.gram = Gram((horizon,), dim, self.ridge)
        self._totals, self._lost = sums.zeros(2, horizon, dim + 2)  # Σ(φ, 1, r) and Σ r·(φ, 1, r)
        self._next_states = [NextStates(dim) for _ in range(horizon - 1)]

    @classmethod
    def from_log(
        cls,
        log: Iterable[Episode],
        *,
        dim: int,
        horizon: int,
        ridge: float = 1.0,
        feature_norm: float = 1e6,
    ) -> "History":
        """Fold a log, in its order."""
        history = cls(dim=dim, horizon=horizon, ridge=ridge, feature_norm=feature_norm)
        for episode in log:
            history.absorb(episode)
        return history

    @property
    def whitener(self) -> Floats:
        return self.gram.whitener

    @property
    def stored_rows(self) -> int:
        """How many rows of distinct next states are kept, over all stages."""
        return sum(next_states.rows for next_states in self._next_states)

    @property
    def step_sums(self) -> Floats:
        return self._totals[0] + self._lost[0]

    @property
    def reward_sums(self) -> Floats:
        return self._totals[1] + self._lost[1]

    def next_value_sums(self, h: int, following: Stage) -> Floats:
        return self._next_states[h].value_sums(following)

    def absorb(self, episode: Episode, undo: Undo | None = None) -> None:
        """Add one episode, whole or not at all; `undo` learns how to take it back later."""
        self._check(episode)
        steps = np.zeros((2, self.horizon, self.dim + 2))
        rewards = episode.rewards[:, None]
        steps[0, : len(episode), : self.dim] = episode.features
        steps[0, : len(episode), self.dim] = 1.0
        steps[0, : len(episode), self.dim + 1 :] = rewards
        steps[1, : len(episode)] = rewards * steps[0, : len(episode)]
        with all_or_nothing() as steps_back:
            steps_back.append(self._return_to())
            self.gram.absorb(steps[0, :, : self.dim])
            sums.add(self._totals, self._lost, steps)
            reached = zip(self._next_states, steps[0], episode.next_features, strict=False)
            for next_states, step, rows in reached:
                next_states.absorb(step, rows, steps_back)
            self.episodes += 1
            if undo is not None:
                undo.append(lambda: take_back(steps_back))

    def _return_to(self) -> Callable[[], None]:
        """Return how to come back to all but the next states as they are now."""
        gram, episodes = self.gram, self.episodes
        before = gram.whitener, gram.logdet, gram.trace
        totals = self._totals.copy(), self._lost.copy()

        def come_back() -> None:
            gram.whitener, gram.logdet, gram.trace = before
            self._totals, self._lost = totals
            self.episodes = episodes

        return come_back

    def _check(self, episode: Episode) -> None:
        if not isinstance(episode, Episode):
            raise TypeError(f"episode must be an Episode; got {type(episode).__name__}")
        if len(episode) > self.horizon:
            raise ValueError(f"episode must have at most {self.horizon} steps; got {len(episode)}")
        if episode.dim != self.dim:
            raise ValueError(
                f"episode must have features of dimension {self.dim}; got {episode.dim}"
            )
        rows = (episode.features, *episode.next_features)
        longest = max(float(np.abs(part).max()) for part in rows)
        if longest * math.sqrt(self.dim) > self.feature_norm:  # only then is it worth a closer look
            scale = max(1.0, longest / 1e100)  # squares must not overflow
            norms = (float(np.linalg.norm(part / scale, axis=1).max()) for part in rows)
            longest = scale * max(norms)
        if longest > self.feature_norm * (1.0 + 1e-9):
            raise ValueError(
                f"episode must have features no longer than feature_norm = {self.feature_norm:g}; "
                f"got ‖φ‖ = {longest:.6g}"
            )

    def to_arrays(self) -> Arrays:
        arrays: Arrays = {
            "whitener": self.gram.whitener,
            "logdet": self.gram.logdet,
            "trace": self.gram.trace,
            "totals": self._totals,
            "totals_lost": self._lost,
        }
        for h, next_states in enumerate(self._next_states):
            arrays |= {f"next_states/{h}/{name}": a for name, a in next_states.to_arrays().items()}
        return arrays

    def fill(self, parts: Parts, *, episodes: int) -> None:
        """Take over what `to_arrays` returned, once it is known to be of these sizes."""
        horizon, dim, gram = self.horizon, self.dim, self.gram
        gram.whitener = parts.array("whitener", "<f8", (horizon, dim, dim))
        gram.logdet = parts.array("logdet", "<f8", (horizon,))
        gram.trace = parts.array("trace", "<f8", (horizon,))
        self._totals[:] = parts.array("totals", "<f8", (2, horizon, dim + 2))
        self._lost[:] = parts.array("totals_lost", "<f8", (2, horizon, dim + 2))
        for h, next_states in enumerate(self._next_states):
            where = f"next_states/{h}"
            lengths = parts.array(f"{where}/lengths", "<i8", ("J",))
            next_states.fill(
                parts.array(f"{where}/sums", "<f8", (len(lengths), dim + 2)),
                parts.array(f"{where}/lost", "<f8", (len(lengths), dim + 2)),
                lengths,
                parts.array(f"{where}/rows", "<f8", ("M", dim)),
            )
        self.episodes = episodes
