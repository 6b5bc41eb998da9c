"""The learner of a simulated campaign, whose process dies now and then."""

from collections.abc import Callable
from typing import Any

from rareswitch.campaigns.campaign import Campaign
from rareswitch.campaigns.learn.learning import Learning
from rareswitch.campaigns.state import Candidate
from rareswitch.campaigns.store import Store


class ProcessDied(BaseException):
    """The learner's process is gone; nothing in it may catch this."""


class MortalCampaign(Campaign):
    """A campaign as the learner's process has it open: it may die right before an entry."""

    dies = False

    def propose(self, *args: Any, **named: Any) -> Candidate:
        if self.dies:
            raise ProcessDied
        return super().propose(*args, **named)


class LearnerProcess:
    """One learner after the other; what dies leaves behind only what is in the store."""

    def __init__(self, store: Store, campaign: str, clock: Callable[[], str]) -> None:
        self._store, self._name, self._clock = store, campaign, clock
        self._learning: Learning | None = None
        self._down_until = 0
        self.deaths = 0

    def look(self, tick: int, death: tuple[str, int] | None) -> None:
        """Propose all that is due, unless the process is down, or dies of it."""
        if tick < self._down_until:
            return
        moment, outage = death or ("", 0)
        try:
            if self._learning is None:
                campaign = MortalCampaign(self._store, self._name, clock=self._clock)
                self._learning = Learning(campaign).__enter__()
            if moment == "before the fit":
                raise ProcessDied
            campaign_of(self._learning).dies = moment == "before the entry"
            while self._learning.step() is not None:
                pass
            if moment:
                raise ProcessDied
        except ProcessDied:
            self.deaths += 1
            self._down_until = tick + outage
            self.end()
            self.look(tick, None)  # where there is no outage, another looks at once

    def take_over(self) -> None:
        """End an outage."""
        self._down_until = 0

    def end(self) -> None:
        """Let go of everything that a process holds."""
        if self._learning is not None:
            self._learning.__exit__()
            self._learning = None


def campaign_of(learning: Learning) -> MortalCampaign:
    """Return the campaign as the process of a learner has it open."""
    assert isinstance(learning.campaign, MortalCampaign)
    return learning.campaign
