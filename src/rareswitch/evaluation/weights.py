"""How much a log says about a policy: the weights of its episodes, in figures and in words."""

from dataclasses import dataclass

import numpy as np

from rareswitch.support.arguments import Bools, Floats

# Fewer effective episodes than these, and intervals miss the truth too often to be believed.
LEAST_EFFECTIVE = 20.0
# A smaller share of a policy's behaviour than this may be missing from a log.
MOST_MISSING = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Importance weights of N episodes over H stages.

    `effective` (H,) is the effective number of episodes up to each stage, (Σw)²/Σw², and `largest`
    the largest weight of a whole episode. `mean` is their mean with its standard `error`: near 1
    where the log could have done all that the policy does, and below 1 by the share that it could
    not. `untried` is the share of the policy's behaviour, over members and stages, that no episode
    of the log shows from its first step on.
    """

    episodes: int
    effective: Floats
    largest: float
    mean: float
    error: float
    untried: float

    @property
    def reach(self) -> int:
        """The number of stages, from the first, up to which enough episodes count."""
        few = self.effective < LEAST_EFFECTIVE
        return int(few.argmax()) if few.any() else len(few)

    @property
    def missing(self) -> float:
        """The share of the policy's behaviour that could not happen in the log; 0 if it is small.

        It is 1 less the mean, where that is surely more than `MOST_MISSING`.
        """
        surely = self.mean + 2.0 * self.error < 1.0 - MOST_MISSING
        return 1.0 - self.mean if surely else 0.0

    def warnings(self, name: str) -> tuple[str, ...]:
        """Return in words what is wrong with the weights of the policy of that name."""
        said = []
        if self.reach < len(self.effective):
            said.append(
                f"of {self.episodes} episodes {self.effective[-1]:.1f} count for {name}; at least "
                f"{LEAST_EFFECTIVE:g} do up to stage {self.reach} of {len(self.effective)}"
            )
        if self.untried >= MOST_MISSING:
            said.append(f"no episode of the log shows {self.untried:.0%} of what {name} does")
        if self.missing:
            said.append(
                f"the weights for {name} average {self.mean:.2f} and not 1: {self.missing:.0%} of "
                "what it does could not happen in the log"
            )
        return tuple(said)


def weights_of(agrees: Bools, likelihood: Floats) -> Floats:
    """Return the weight of each episode up to each stage, (N, H): P(policy) / P(log)."""
    return agrees.mean(axis=-1) / likelihood


def described(weights: Floats, agrees: Bools) -> Weights:
    """Return what weights (N, H) and the agreement of members (N, H, M) amount to."""
    squares = np.square(weights).sum(axis=0)
    last = weights[:, -1]
    return Weights(
        episodes=len(weights),
        effective=np.square(weights.sum(axis=0)) / np.where(squares > 0.0, squares, 1.0),
        largest=float(last.max()),
        mean=float(last.mean()),
        error=float(last.std() / np.sqrt(len(last))),
        untried=float(1.0 - agrees.any(axis=0).mean()),
    )
