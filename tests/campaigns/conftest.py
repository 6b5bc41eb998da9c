"""A PostgreSQL server for the tests that ask for one."""

import pytest

from postgres_server import running_postgres


@pytest.fixture(scope="session")
def postgres():
    """Run one server, or one in each of xdist's workers, from the first test that asks for it."""
    with running_postgres() as server:
        yield server
