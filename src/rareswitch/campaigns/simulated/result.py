"""What a simulated campaign came to."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class SimulatedCampaign:
    """What a simulation came to, counted at the sites; the store must tell the same.

    `begun` to `overridden` count the episodes of this simulation, `refused` its reports. Of the
    whole campaign are `mean_return` (of what is recorded, as corrected), `deployments` (after the
    first), `rejections`, `decision_delays` (how many episodes were recorded between the row a
    version was fitted at and its deployment), and `differences`, where candidates are not those of
    a `Learner` on the same log: None where people amended, rolled back or proposed early, and there
    is nothing to compare with. `regret` is that of the episodes begun, under what was recommended;
    None where the world cannot tell. `links` are the last ones of the chains.
    """

    begun: int
    recorded: int
    missing: int
    late: int
    repeated: int
    refused: int
    corrected: int
    withdrawn: int
    overridden: int
    deaths: int
    mean_delay: float | None  # from the beginning of an episode to its record, in ticks
    mean_return: float | None
    regret: float | None
    deployments: int
    budget: int
    rejections: int
    waiting: int | None  # the candidate that somebody has to decide about
    decision_delays: tuple[int, ...]
    stopped: str | None
    differences: tuple[str, ...] | None
    links: dict[str, str]

    @property
    def agrees_with_learner(self) -> bool | None:
        """Whether every candidate is byte for byte that of a `Learner` fed with the same log."""
        return None if self.differences is None else not self.differences

    @property
    def ledger_link(self) -> str:
        """The last link of the ledger: equal ones are equal ledgers."""
        return self.links["ledger"]

    @property
    def plain(self) -> dict[str, Any]:
        """All of it as plain values, for JSON."""
        told = None if self.differences is None else list(self.differences)
        values = vars(self) | {"agrees_with_learner": self.agrees_with_learner}
        return values | {"decision_delays": list(self.decision_delays), "differences": told}
