"""Say what a size would take before taking it."""

import os


def require_memory(needed: float, what: str) -> None:
    """Raise a MemoryError with both numbers where more bytes are needed than the machine has."""
    try:
        there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not told on this system
        return
    if needed > there:
        raise MemoryError(
            f"{what} need about {needed / 1e9:,.0f} GB; this machine has {there / 1e9:,.0f} GB"
        )
