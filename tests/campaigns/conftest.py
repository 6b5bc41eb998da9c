"""A PostgreSQL server for the tests that ask for one, and a fresh store of each kind."""

import pytest

from postgres_server import running_postgres
from rareswitch.campaigns import open_store


@pytest.fixture(scope="session")
def postgres():
    """Run one server, or one in each of xdist's workers, from the first test that asks for it."""
    with running_postgres() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request, tmp_path):
    """Return the address of a store that is not there yet: a file, or an empty database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.db'}"
    return request.getfixturevalue("postgres").create_database()


@pytest.fixture
def store(store_url):
    """Open a fresh store."""
    with open_store(store_url, create=True) as opened:
        yield opened
