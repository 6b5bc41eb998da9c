"""One hypothesis profile for the whole suite, and experiments cut into small pieces."""

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, database=None, max_examples=40, print_blob=True)
settings.load_profile("suite")


@pytest.fixture(autouse=True)
def pieces_of_ten_rounds(monkeypatch):
    """Cut experiments finer than usual, so that small ones have several pieces."""
    monkeypatch.setattr("rareswitch.experiments.store.ROUNDS_PER_PIECE", 10)
