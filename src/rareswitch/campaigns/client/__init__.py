"""The client of a campaign at a service, for sites, devices and recommenders.

It needs NumPy and httpx: `pip install '.[client]'`. It acts by the last verified policy,
keeps episodes and reports on disk, and works offline for days. docs/service/client.md shows how.
"""

from rareswitch.campaigns.client.assignments import Assignment
from rareswitch.campaigns.client.async_client import AsyncClient, AsyncEpisode
from rareswitch.campaigns.client.client import Client
from rareswitch.campaigns.client.episode import Episode
from rareswitch.campaigns.client.exchange import DeniedError, NoCampaignError, OfflineError
from rareswitch.campaigns.client.line import Timing
from rareswitch.campaigns.client.outbox import Refused
from rareswitch.campaigns.client.sending import Flushed
from rareswitch.campaigns.client.site import ClientStatus

__all__ = [
    "Assignment", "AsyncClient", "AsyncEpisode", "Client", "ClientStatus", "DeniedError", "Episode",
    "Flushed", "NoCampaignError", "OfflineError", "Refused", "Timing",
]  # fmt: skip
