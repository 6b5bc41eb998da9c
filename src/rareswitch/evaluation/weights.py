"""Importance weights of episodes, which measure how well a log covers a policy."""

from dataclasses import dataclass

import numpy as np

from rareswitch.evaluation.agreement import average
from rareswitch.support.arguments import Floats

# With fewer effective episodes, intervals miss the truth too often.
LEAST_EFFECTIVE = 20.0
# If the mean weight could be this many times less certain than estimated, intervals are too narrow.
MOST_HIDDEN = 2.0
# A smaller uncertainty of the mean weight is harmless.
LEAST_ERROR = 0.01
# A smaller share of a policy's behaviour may be missing from a log.
MOST_MISSING = 0.05
# A smaller share of episodes with an action that the log never takes gets no warning.
LEAST_UNLOGGED = 0.005
# A larger probability counts as 1: no other action was possible.
CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Weights:
    """Importance weights of N episodes over H stages.

    `effective` (H,) is the effective number of episodes up to each stage, (Σw)²/Σw². `largest` is
    the largest weight of a whole episode, and `possible` the largest weight that an episode could
    have had, also with an action that was not taken, as far as the logged propensities show. `mean`
    is the mean weight with its standard `error`; it is near 1 if the log covers all of the policy's
    behaviour. `possible_error` is the error by the possible weights.

    Shares of the policy's behaviour: `impossible` could not happen in the log, because only one
    action was possible; `untried`, over members and stages, is in no episode from its first step.
    `unlogged` is the share of its episodes with an action that no episode of the log takes.
    """

    episodes: int
    effective: Floats
    largest: float
    possible: float
    mean: float
    error: float
    possible_error: float
    impossible: float
    untried: float
    unlogged: float = 0.0

    @property
    def reach(self) -> int:
        """The number of stages, from the first, with enough effective episodes."""
        few = self.effective < LEAST_EFFECTIVE
        return int(few.argmax()) if few.any() else len(few)

    @property
    def support(self) -> bool:
        """Whether the log shows enough of the policy's behaviour for an interval."""
        return self.reach == len(self.effective) and not self.missing

    @property
    def missing(self) -> float:
        """The share of the policy's behaviour that is not in the log; 0 if it is small.

        The mean weight shows it with noise; actions that the log never takes show it with less.
        """
        return max(self.shortfall, self.unlogged if self.unlogged > MOST_MISSING else 0.0)

    @property
    def shortfall(self) -> float:
        """1 minus the mean weight if that is certainly more than `MOST_MISSING`, else 0."""
        surely = self.mean + 2.0 * self.error < 1.0 - MOST_MISSING
        return 1.0 - self.mean if surely else 0.0

    @property
    def narrow(self) -> bool:
        """Whether intervals are too narrow, because actions with large weights hardly happened."""
        return self.possible_error > MOST_HIDDEN * max(self.error, LEAST_ERROR)

    def warnings(self, name: str) -> tuple[str, ...]:
        """Return warnings about these weights for the policy of that name."""
        said = []
        reach, stages = self.reach, len(self.effective)
        enough = reach == stages
        if not reach:
            said.append(
                f"the log cannot judge {name}: only {self.effective[0]:.1f} effective episodes of "
                f"{self.episodes} agree with it at stage 1 of {stages}, and "
                f"{LEAST_EFFECTIVE:g} are needed"
            )
        elif not enough:
            judged = "stage 1" if reach == 1 else f"stages 1 to {reach}"
            said.append(
                f"the log can judge {judged} of {stages}; after stage {reach} fewer than "
                f"{LEAST_EFFECTIVE:g} effective episodes agree with {name}"
            )
        if self.untried >= MOST_MISSING:
            said.append(
                f"at {self.untried:.0%} of the stages, on average over members, no logged episode "
                f"follows {name} from its first step on"
            )
        if self.unlogged > LEAST_UNLOGGED:
            said.append(
                f"{name} takes actions that the log never takes, in {self.unlogged:.1%} of its "
                "episodes"
            )
        if self.shortfall:
            share = f"{min(self.impossible / self.shortfall, 1.0):.0%}"
            part = "all" if share == "100%" else share
            reason = "because the log's policy could not take those actions"
            why = "" if share == "0%" else f"; {part} of it {reason}"
            said.append(
                f"the mean weight for {name} is {self.mean:.2f} and should be 1: "
                f"{self.shortfall:.0%} of its behaviour is not in the log{why}"
            )
        elif enough and self.narrow:
            said.append(
                f"{name} takes actions that are rare in the log and hardly happened, with weights "
                f"up to {self.possible:.3g}: the interval may be too narrow"
            )
        return tuple(said)


def describe_weights(
    paths: Floats,
    likelihood: Floats,
    shares: Floats | None = None,
    unlogged: Floats | None = None,
) -> Weights:
    """Return the weights for probabilities of actions under members (N, H, M) and the log (N, H).

    `unlogged` (N, H, M) are the members' probabilities of actions that the log never takes.
    At every step the policy's probability that is not on the logged action, mass − taken, lies on
    other actions. These had the probability before − likelihood in the log, so some of them has at
    least the ratio of both as its weight, and their squared weights average at least its square.
    """
    taken, episodes = average(paths, shares), len(paths)
    weights = taken / likelihood
    start = np.ones((episodes, 1))
    mass, before = np.hstack([start, taken[:, :-1]]), np.hstack([start, likelihood[:, :-1]])
    certain = likelihood >= CERTAIN * before
    left, room = np.maximum(mass - taken, 0.0), np.where(certain, 1.0, before - likelihood)
    other = np.where(certain, 0.0, left / room)
    # E w² of each stage, by both branches of its last step.
    moments = ((weights * taken + other * left) / before).mean(axis=0)
    last, beyond = weights[:, -1], 0.0
    if unlogged is not None:
        until = np.concatenate([np.ones_like(paths[:, :1]), paths[:, :-1]], axis=1)
        beyond = float((average(until * unlogged, shares) / before).sum(axis=1).mean())
    squares = np.square(weights).sum(axis=0)
    return Weights(
        episodes=episodes,
        effective=np.square(weights.sum(axis=0)) / np.where(squares > 0.0, squares, 1.0),
        largest=float(last.max()),
        possible=float(max(last.max(), other.max())),
        mean=float(last.mean()),
        error=float(last.std() / np.sqrt(episodes)),
        possible_error=float(np.sqrt(np.maximum(moments - 1.0, 0.0).max() / episodes)),
        impossible=float(np.where(certain, left / before, 0.0).sum(axis=1).mean().clip(0.0, 1.0)),
        untried=float(1.0 - average(np.any(paths > 0.0, axis=0).astype(float), shares).mean()),
        unlogged=min(beyond, 1.0),
    )
