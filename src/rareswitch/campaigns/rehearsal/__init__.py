"""Simulated campaigns in a world, with the mishaps of real sites."""
