"""How much a log can tell about a policy: the weights of its episodes, in figures and in words."""

from dataclasses import dataclass

import numpy as np

from rareswitch.support.arguments import Floats

# With fewer effective episodes, intervals miss the truth too often to be believed.
LEAST_EFFECTIVE = 20.0
# An episode of a larger weight than 1 in so many decides too much by itself.
LEAST_HEAVY = 10.0
# A smaller share of a policy's behaviour than this may be missing from a log.
MOST_MISSING = 0.05
# A probability above this is 1: no other action could have been taken.
CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Importance weights of N episodes over H stages.

    `effective` (H,) is the effective number of episodes up to each stage, (Σw)²/Σw². `largest` is
    the largest weight of a whole episode, and `possible` the largest weight that an episode could
    have had: for each step also that of the actions that were not taken, as far as the logged
    propensities tell. `mean` is the mean weight with its standard `error`. It is near 1 where the
    log shows everything that the policy does.

    Shares of the policy's behaviour: `impossible` could not happen in the log, where only one
    action could be taken; `rare` could happen, but one such episode would count for more than 1 in
    `LEAST_HEAVY`; `untried`, over members and stages, is in no episode from its first step on.
    """

    episodes: int
    effective: Floats
    largest: float
    possible: float
    mean: float
    error: float
    impossible: float
    rare: float
    untried: float

    @property
    def reach(self) -> int:
        """The number of stages, from the first, up to which enough episodes count."""
        few = self.effective < LEAST_EFFECTIVE
        return int(few.argmax()) if few.any() else len(few)

    @property
    def missing(self) -> float:
        """The share of the policy's behaviour that is not in the log; 0 if it is small.

        It is 1 less the mean, where that is surely more than `MOST_MISSING`.
        """
        surely = self.mean + 2.0 * self.error < 1.0 - MOST_MISSING
        return 1.0 - self.mean if surely else 0.0

    @property
    def too_rare(self) -> float:
        """The share of behaviour that is too rare for an interval; 0 if it is small."""
        return self.rare if self.rare >= MOST_MISSING else 0.0

    def warnings(self, name: str) -> tuple[str, ...]:
        """Return in words the limits of these weights for the policy of that name."""
        said = []
        enough = self.reach == len(self.effective)
        if not enough:
            said.append(
                f"of {self.episodes} episodes {self.effective[-1]:.1f} count for {name}; at least "
                f"{LEAST_EFFECTIVE:g} do up to stage {self.reach} of {len(self.effective)}"
            )
        if self.untried >= MOST_MISSING:
            said.append(f"no episode of the log shows {self.untried:.0%} of what {name} does")
        if self.missing:
            could_not = min(self.impossible, self.missing)
            said.append(
                f"the weights for {name} average {self.mean:.2f} and not 1: {could_not:.0%} of "
                f"what it does could not happen in the log, {self.missing - could_not:.0%} could "
                "and did not"
            )
        elif enough and self.too_rare:
            said.append(
                f"{self.too_rare:.0%} of what {name} does is so rare in the log that one episode "
                f"can weigh {self.possible:.3g} of {self.episodes}: the interval may be too narrow"
            )
        return tuple(said)


def describe_weights(paths: Floats, likelihood: Floats) -> Weights:
    """Return the weights for probabilities of actions under members (N, H, M) and the log (N, H).

    At every step the policy's probability that is not on the logged action, mass − taken, lies on
    other actions. These had the probability before − likelihood in the log, so their weight is at
    least the ratio of both.
    """
    taken, episodes = paths.mean(axis=-1), len(paths)
    weights = taken / likelihood
    start = np.ones((episodes, 1))
    mass, before = np.hstack([start, taken[:, :-1]]), np.hstack([start, likelihood[:, :-1]])
    left, room = np.maximum(mass - taken, 0.0), before - likelihood
    certain = likelihood >= CERTAIN * before
    other = np.divide(left, room, out=np.zeros_like(left), where=~certain)
    heavy = weights > episodes / LEAST_HEAVY
    fresh = np.hstack([start > 0.0, ~np.logical_or.accumulate(heavy, axis=1)[:, :-1]])
    share = left / before  # of the policy's behaviour, as each episode shows it
    unseen = np.where((other > episodes / LEAST_HEAVY) & ~certain, share, 0.0)
    rare = (fresh * np.where(heavy, weights, unseen)).sum(axis=1)
    last = weights[:, -1]
    squares = np.square(weights).sum(axis=0)
    return Weights(
        episodes=episodes,
        effective=np.square(weights.sum(axis=0)) / np.where(squares > 0.0, squares, 1.0),
        largest=float(last.max()),
        possible=float(max(last.max(), other.max())),
        mean=float(last.mean()),
        error=float(last.std() / np.sqrt(episodes)),
        impossible=float(np.where(certain, share, 0.0).sum(axis=1).mean().clip(0.0, 1.0)),
        rare=float(rare.mean().clip(0.0, 1.0)),
        untried=float(1.0 - (paths > 0.0).any(axis=0).mean()),
    )
