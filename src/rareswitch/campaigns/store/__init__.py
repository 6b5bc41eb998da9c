"""The store of campaigns: an SQLite file, or PostgreSQL."""

from rareswitch.campaigns.store.opening import migrate, open_store
from rareswitch.campaigns.store.store import Store

__all__ = ["Store", "migrate", "open_store"]
