"""The expected date of the next version, from the triggers and the rate of episodes."""

import math
from datetime import datetime, timedelta
from typing import NamedTuple

from rareswitch.campaigns.proof.export.words import is_trigger, one_line
from rareswitch.campaigns.status import Status
from rareswitch.service.pages.rendering import figure, plural

EPISODE = "episode"  # the quantity of a trigger at a fixed episode
FARTHEST = 3650  # days; later dates are not shown


class Forecast(NamedTuple):
    """The progress of a trigger, the expected episodes left, the day, and the explanation."""

    quantity: str
    value: float
    threshold: float
    episodes: int | None
    day: datetime | None
    how: str

    @property
    def label(self) -> str:
        """The label of the quantity; growth of a log-determinant is new information."""
        if "log-determinant" in self.quantity:
            return f"New information since the last version ({self.quantity})"
        return self.quantity.capitalize()

    @property
    def share(self) -> float:
        """The progress from 0 to 1."""
        return min(1.0, max(0.0, self.value / self.threshold)) if self.threshold > 0 else 1.0


def forecasts(found: Status, rate: float | None, now: datetime) -> list[Forecast]:
    """Return the progress of each trigger of the schedule, the nearest first.

    A trigger at a fixed episode gives the exact number of episodes left. A growth is extrapolated
    at its mean rate since the last fit; growth slows down, so the forecast is rather too early.
    """
    told = [_forecast(found, trigger, rate, now) for trigger in found.triggers
            if is_trigger(trigger)]  # fmt: skip
    return sorted(told, key=lambda one: math.inf if one.episodes is None else one.episodes)


def _forecast(
    found: Status, trigger: dict[str, float | str], rate: float | None, now: datetime
) -> Forecast:
    quantity = one_line(str(trigger["quantity"]))
    value, threshold = float(trigger["value"]), float(trigger["threshold"])
    since = found.folded - found.versions[-1].since
    left: int | None = None
    if quantity == EPISODE:
        left = max(0, math.ceil(threshold - value))
        how = f"It is reached after {plural(left, 'more episode')}."
    elif value >= threshold:
        left, how = 0, "It is reached."
    elif since > 0 and value > 0:
        pace = value / since
        left = math.ceil((threshold - value) / pace)
        how = (
            f"It grew by {figure(pace)} per episode since version {found.version} came into force. "
            f"At this pace it takes about {plural(left, 'more episode')}; growth slows down, so "
            "the date may be later."
        )
    else:
        how = "It has not grown yet, so no date is expected."
    return Forecast(quantity, value, threshold, left, day_after(left, rate, now), how)


def day_after(episodes: int | None, rate: float | None, now: datetime) -> datetime | None:
    """Return the day on which `episodes` more are recorded, at `rate` per day."""
    if episodes is None or not rate or episodes / rate > FARTHEST:
        return None
    return now + timedelta(days=episodes / rate)
