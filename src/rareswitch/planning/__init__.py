"""From a switch budget to a schedule: candidates, guarantees, what to expect, what to choose."""
