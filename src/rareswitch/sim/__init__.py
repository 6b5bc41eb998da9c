"""Worlds that are known exactly, and learners played on them."""
