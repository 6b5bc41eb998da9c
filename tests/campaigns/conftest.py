"""A fresh store of each kind, and access to it."""

import pytest
from argon2 import PasswordHasher, Type

from access_builders import with_administrator
from rareswitch.campaigns import open_store
from rareswitch.campaigns.access import passwords


@pytest.fixture
def store(store_url):
    """Open a fresh store."""
    with open_store(store_url) as opened:
        yield opened


@pytest.fixture
def cheap_passwords(monkeypatch):
    """Hash passwords with little work; what is hashed and compared stays the same."""
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1, type=Type.ID)
    monkeypatch.setattr(passwords, "_hasher", lambda: hasher)
    passwords._decoy.cache_clear()
    yield hasher
    passwords._decoy.cache_clear()


@pytest.fixture
def access(store, cheap_passwords):
    """Return the access to a fresh store in which Ana is administrator; its clock stands still."""
    return with_administrator(store)


@pytest.fixture
def file_access(tmp_path, cheap_passwords):
    """Return the same in a file, for tests whose outcome does not depend on the kind of store."""
    with open_store(tmp_path / "store.db", create=True) as opened:
        yield with_administrator(opened)
