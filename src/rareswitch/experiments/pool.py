"""Worker processes for pieces: those of this machine."""

from rareswitch.processes import local_pool

__all__ = ["local_pool"]
