"""What was deployed when, and what a schedule may know of it."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from rareswitch.core.arguments import Floats
from rareswitch.core.schedule import Clock


class Deployment(NamedTuple):
    """A policy put in force: its version, the first episode it acts in, and what was known then.

    Versions count from 1, the first on no data. `logdet` and `trace` are log det Λ_h and tr Λ_h
    (H,) at the deployment: growth is counted from there, so a budget holds whatever is deployed.
    `digest` is the policy's; a simulation, which makes no bytes, leaves it empty.
    """

    version: int
    episode: int
    logdet: Floats
    trace: Floats
    digest: str = ""

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Deployment)
            and (self.version, self.episode, self.digest)
            == (other.version, other.episode, other.digest)
            and np.array_equal(self.logdet, other.logdet)
            and np.array_equal(self.trace, other.trace)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash((self.version, self.episode, self.digest))


class Ledger(Sequence[Deployment]):
    """The deployments of one learner, in order."""

    def __init__(self) -> None:
        self._deployments: list[Deployment] = []

    def deploy(
        self, *, episode: int, logdet: Floats, trace: Floats, digest: str = ""
    ) -> Deployment:
        """Write down the next version, in force from that episode on."""
        deployment = Deployment(len(self._deployments) + 1, episode, logdet, trace, digest)
        self._deployments.append(deployment)
        return deployment

    def forget(self, count: int) -> None:
        """Take back what was written after so many deployments: one that was not finished."""
        del self._deployments[count:]

    def clock(self, *, episode: int, logdet: Floats, steps: Floats | float = 1.0) -> Clock:
        """Return what a schedule sees before that episode, given log det Λ_h (H,) now.

        `steps` is how many an episode adds to each Λ at the most.
        """
        in_force = self._deployments[-1]
        return Clock(
            episode=episode,
            logdet=logdet,
            deployed=in_force.episode,
            deployments=len(self),
            logdet_deployed=in_force.logdet,
            trace_deployed=in_force.trace,
            steps=steps,
        )

    def __len__(self) -> int:
        return len(self._deployments)

    def __getitem__(self, position: Any) -> Any:
        return self._deployments[position]

    def __iter__(self) -> Iterator[Deployment]:
        return iter(self._deployments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ledger) and self._deployments == other._deployments

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Ledger({len(self)} deployments, before episodes {[d.episode for d in self]})"
