"""Where campaigns are kept: an SQLite file, or PostgreSQL."""

from rareswitch.campaigns.store.store import Store, open_store

__all__ = ["Store", "open_store"]
